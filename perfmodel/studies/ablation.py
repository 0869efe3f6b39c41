"""What each part of the time model buys: its error on held-out launches when it is left out and all else is fitted again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..accuracy import Accuracy, accuracy
from ..calibrating import out_of_fold
from ..facts import Advance, no_progress
from ..measured_runs import MeasuredRuns
from ..time.coefficients import COEFFICIENT_NAMES
from ..time.combine import LIMITER_NAMES

FOLDS = 3
"""Enough to hold launches out; each part costs as many fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """The model without one part, over one pooled out-of-fold ranking of each data set; ``part`` is None for all of it."""

    kind: str
    part: str | None
    accuracies: tuple[Accuracy, ...]

    def to_json(self, data: Sequence[MeasuredRuns]) -> dict[str, Any]:
        """The result by the name of the data set."""
        told = {one.runs.name: found.to_json() for one, found in zip(data, self.accuracies, strict=True)}
        return {"kind": self.kind, "part": self.part, "datasets": told}


def steps() -> int:
    """How many parts ``ablation`` takes out, the empty one included."""
    return 1 + len(LIMITER_NAMES) + len(COEFFICIENT_NAMES)


def ablation(data: Sequence[MeasuredRuns], seed: int = 0, advance: Advance = no_progress) -> list[Ablated]:
    """The whole model, the model without each term, the model with each coefficient left at its prior."""
    parts: list[tuple[str, str | None, Sequence[str], Collection[str]]] = [("whole", None, COEFFICIENT_NAMES, ())]
    parts += [("term left out", name, COEFFICIENT_NAMES, (name,)) for name in LIMITER_NAMES]
    parts += [
        ("coefficient not fitted", name, [other for other in COEFFICIENT_NAMES if other != name], ())
        for name in COEFFICIENT_NAMES
    ]
    found = []
    for kind, part, free, without in parts:
        ratios = out_of_fold(data, free, FOLDS, seed, without)
        accuracies = []
        for one, of in zip(data, ratios, strict=True):
            usable = np.isfinite(of)
            measured = one.runs.seconds[usable]
            accuracies.append(accuracy(measured * np.exp(-of[usable]), measured))
        found.append(Ablated(kind=kind, part=part, accuracies=tuple(accuracies)))
        advance()
    return found
