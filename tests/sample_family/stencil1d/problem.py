"""The problem: what is computed. Its fields are the options of the command line."""

from __future__ import annotations

from dataclasses import dataclass

from perfmodel.families.sizes import require_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Stencil1d:
    """``length`` outputs, each the mean of ``2 * radius + 1`` inputs."""

    length: int = 1_000_000
    radius: int = 3

    def __post_init__(self) -> None:
        require_integers(1, length=self.length)
        require_integers(0, radius=self.radius)

    @property
    def taps(self) -> int:
        """Inputs of an output."""
        return 2 * self.radius + 1

    @property
    def input_length(self) -> int:
        """Inputs, with the neighbours of the first and the last output."""
        return self.length + 2 * self.radius
