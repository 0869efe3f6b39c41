"""One layer of a network: what it computes, as a problem of a family, or why no family covers it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """A node of a network. Exactly one of ``problem`` and ``uncovered`` is set.

    ``problem`` is a frozen problem record of some family; ``uncovered`` says in one line why no family computes the layer.
    """

    name: str
    operation: str
    problem: Any | None = None
    uncovered: str | None = None

    def __post_init__(self) -> None:
        if (self.problem is None) == (self.uncovered is None):
            raise ValueError(f"layer {self.name!r} needs either a problem or the reason why it has none")
