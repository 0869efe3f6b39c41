"""Budgets of a simulation, so that no kernel runs for ever."""

from __future__ import annotations

import time
from dataclasses import dataclass

from ..errors import SimulationError


@dataclass(slots=True)
class Limits:
    """Budgets of one simulation, and what has been used."""

    warp_instructions: int
    seconds: float
    used: int = 0
    started: float = 0.0

    def spend(self, warp_instructions: int) -> None:
        """Account for executed instructions; SimulationError when a budget is used up."""
        self.used += warp_instructions
        if self.used > self.warp_instructions:
            raise SimulationError(f"more than {self.warp_instructions} warp instructions: instruction budget used up")
        if time.monotonic() - self.started > self.seconds:
            raise SimulationError(f"more than {self.seconds} s: time budget used up")
