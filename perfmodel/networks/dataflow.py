"""From a framework's graph of operations to layers: operations without work vanish, their results pass through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .graph import Network, assemble
from .layer import Layer


@dataclass(slots=True)
class Dataflow:
    """Collects layers in the framework's order; ``sources`` maps each value to the layers that its contents come from."""

    layers: list[tuple[Layer, tuple[str, ...]]] = field(default_factory=list)
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def _from(self, values: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for value in values for name in self.sources.get(value, ())))

    def pass_through(self, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """An operation that moves no data: its outputs come from where its inputs come from."""
        found = self._from(inputs)
        self.sources.update(dict.fromkeys(outputs, found))

    def add(self, layer: Layer, inputs: Iterable[str], outputs: Iterable[str]) -> None:
        """A layer that reads values and makes values."""
        self.layers.append((layer, self._from(inputs)))
        self.sources.update(dict.fromkeys(outputs, (layer.name,)))

    def network(self, name: str, title: str, batch: int) -> Network:
        """The graph of all layers."""
        return assemble(name, title, batch, self.layers)
