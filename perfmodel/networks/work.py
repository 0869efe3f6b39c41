"""What a layer has to compute and to move, whatever the kernel; which kinds of layers only move data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

from ..core.constants import FLOAT_BYTES

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
