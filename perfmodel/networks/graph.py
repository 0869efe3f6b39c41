"""Layers, networks as directed acyclic graphs of them, and the collection of layers from a framework's graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from typing import Any

import networkx as nx

from ..core.constants import FLOAT_BYTES
from ..errors import InputError

Shape = tuple[int, ...]


class LayerKind(Enum):
    """What a layer does."""

    CONVOLUTION = "convolution"
    MATRIX_PRODUCT = "matrix product"
    ELEMENT_WISE = "element-wise"
    POOLING = "pooling"
    """Windows or whole axes reduced to one element each."""
    SOFTMAX = "softmax"
    NORMALISATION = "normalisation"
    COPY = "copy"
    """Elements put elsewhere: concatenation, padding, transposition, interpolation."""
    OTHER = "other"

    @property
    def is_streaming(self) -> bool:
        """Whether DRAM bandwidth is what limits the layer, so that it has a bandwidth floor."""
        return self in _STREAMING


_STREAMING = frozenset(
    (LayerKind.ELEMENT_WISE, LayerKind.POOLING, LayerKind.SOFTMAX, LayerKind.NORMALISATION, LayerKind.COPY)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Bytes of a layer's tensors, each moved once in FP32, and operations: a multiply-add is two."""

    dram_bytes: int
    flops: int


def streaming_demand(kind: LayerKind, inputs: Iterable[Shape], outputs: Iterable[Shape]) -> Demand:
    """Demand of a layer that reads its inputs and writes its outputs once, one operation for each element of the larger side.

    A copy reads no more than it writes: a slice leaves the rest where it is. It computes nothing.

    >>> streaming_demand(LayerKind.POOLING, [(1, 8, 4, 4)], [(1, 8, 2, 2)])  # 128 elements in, 32 out
    Demand(dram_bytes=640, flops=128)
    >>> streaming_demand(LayerKind.COPY, [(100, 64)], [(2, 64)])
    Demand(dram_bytes=1024, flops=0)
    """
    read, written = sum(map(prod, inputs)), sum(map(prod, outputs))
    if kind is LayerKind.COPY:
        return Demand(dram_bytes=FLOAT_BYTES * (min(read, written) + written), flops=0)
    return Demand(dram_bytes=FLOAT_BYTES * (read + written), flops=max(read, written))


def product_demand(left: Sequence[int], right: Sequence[int]) -> Demand:
    """Demand of a product of matrices, or of stacks of them, by the shapes of its factors.

    >>> product_demand((8, 16, 32), (8, 32, 4))  # 8 products of 16 x 32 with 32 x 4
    Demand(dram_bytes=22528, flops=32768)
    """
    rows, inner, columns = left[-2], left[-1], right[-1]
    stacks = max(prod(left[:-2]), prod(right[:-2]))
    outputs = stacks * rows * columns
    return Demand(dram_bytes=FLOAT_BYTES * (prod(left) + prod(right) + outputs), flops=2 * outputs * inner)


_END = object()
"""A node behind every layer, so that a path's length includes its last layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A node of a network: a frozen ``problem`` of some family, or in ``uncovered`` why no family computes the layer.

    ``demand`` is what it moves and computes, None where that follows from the problem, or is not known.
    """

    name: str
    operation: str
    problem: Any | None = None
    uncovered: str | None = None
    kind: LayerKind = LayerKind.OTHER
    demand: Demand | None = None

    def __post_init__(self) -> None:
        if (self.problem is None) == (self.uncovered is None):
            raise ValueError(f"layer {self.name!r} needs either a problem or the reason why it has none")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Layers that depend on one another; node names are layer names, the node attribute ``layer`` is the record."""

    name: str
    title: str
    batch: int
    graph: nx.DiGraph[str]

    @property
    def layers(self) -> tuple[Layer, ...]:
        """Layers in an order in which each stands behind all that it depends on; ties as they were given."""
        order = {name: place for place, name in enumerate(self.graph)}
        names = nx.lexicographical_topological_sort(self.graph, key=order.__getitem__)
        return tuple(self.graph.nodes[name]["layer"] for name in names)

    def critical_path(self, seconds: Mapping[str, float]) -> tuple[str, ...]:
        """Names of the layers on the path that takes longest, in order; layers without a time count as zero.

        >>> def layer(name):
        ...     return Layer(name=name, operation="?", uncovered="example")
        >>> network = assemble(
        ...     "fork", "a fork", 1, [(layer("a"), ()), (layer("b"), ("a",)), (layer("c"), ("a",)), (layer("d"), ("b", "c"))]
        ... )
        >>> network.critical_path({"a": 1.0, "b": 2.0, "c": 3.0, "d": 1.0})
        ('a', 'c', 'd')
        """
        weighted: nx.DiGraph[object] = nx.DiGraph()
        for name in self.graph:
            for successor in (*self.graph.successors(name), _END):
                weighted.add_edge(name, successor, weight=seconds.get(name, 0.0))
        return tuple(str(name) for name in nx.dag_longest_path(weighted) if name is not _END)


def assemble(name: str, title: str, batch: int, layers: Iterable[tuple[Layer, Iterable[str]]]) -> Network:
    """A network of layers, each with the names of the layers whose results it takes.

    Raises ``InputError`` for a name that stands twice, an unknown predecessor or a cycle.
    """
    graph: nx.DiGraph[str] = nx.DiGraph()
    dependencies: list[tuple[str, str]] = []
    for layer, after in layers:
        if layer.name in graph:
            raise InputError(f"network {name!r}: layer {layer.name!r} stands twice")
        graph.add_node(layer.name, layer=layer)
        dependencies += [(predecessor, layer.name) for predecessor in after]
    for predecessor, successor in dependencies:
        if predecessor not in graph:
            raise InputError(f"network {name!r}: layer {successor!r} comes after {predecessor!r}, which does not exist")
        graph.add_edge(predecessor, successor)
    if not graph:
        raise InputError(f"network {name!r} has no layers")
    if not nx.is_directed_acyclic_graph(graph):
        cycle = " → ".join(str(edge[0]) for edge in nx.find_cycle(graph))
        raise InputError(f"network {name!r}: layers {cycle} depend on one another in a cycle")
    return Network(name=name, title=title, batch=batch, graph=graph)


@dataclass(slots=True)
class Dataflow:
    """Layers in a framework's order; ``origins`` maps each value to the layers that its contents come from.

    Operations without work add no layer, their results come from where their inputs come from.
    """

    layers: list[tuple[Layer, tuple[str, ...]]] = field(default_factory=list)
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def _of(self, values: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for value in values for name in self.origins.get(value, ())))

    def pass_through(self, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """An operation without work."""
        self.origins.update(dict.fromkeys(outputs, self._of(inputs)))

    def add(self, layer: Layer, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """A layer that reads values and makes values."""
        self.layers.append((layer, self._of(inputs)))
        self.origins.update(dict.fromkeys(outputs, (layer.name,)))
