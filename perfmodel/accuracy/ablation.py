"""What each part of the time model buys: its error on held-out launches when it is left out and all else is fitted again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from ..calibration.fit import out_of_fold
from ..calibration.fitting import fit
from ..calibration.measured_runs import MeasuredRuns
from ..calibration.prior import prior
from ..core.progress import Advance, no_progress
from ..time_model.coefficients import COEFFICIENT_NAMES
from ..time_model.combine import LIMITER_NAMES
from .metrics import Accuracy, accuracy

FOLDS = 3
"""Enough to hold launches out; each part costs as many fits."""

_HARD = 30.0
"""Exponent from which a p-norm is a maximum."""
MECHANISMS: Mapping[str, Mapping[str, float]] = {
    "smooth maximum of throughput and latency": {"latency_norm": _HARD},
    "contention of blocks": {"contention": 0.0},
    "waiting of warps for one another": {"trip_warp_cycles": 0.0},
}
"""Parts of the model that are no term of their own: the coefficients that say there is nothing of the kind."""


class Kind(Enum):
    """How a part is taken out."""

    WHOLE = "whole"
    TERM = "term left out"
    MECHANISM = "mechanism taken out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """The model without one part, over one pooled out-of-fold ranking of each data set; ``part`` is None for all of it."""

    kind: Kind
    part: str | None
    accuracies: tuple[Accuracy, ...]

    def to_json(self, data: Sequence[MeasuredRuns]) -> dict[str, Any]:
        """The result by the name of the data set."""
        datasets = {one.runs.name: of.to_json() for one, of in zip(data, self.accuracies, strict=True)}
        return {"kind": self.kind.value, "part": self.part, "datasets": datasets}


def ablation(
    data: Sequence[MeasuredRuns],
    seed: int = 0,
    advance: Advance = no_progress,
    terms: Collection[str] = LIMITER_NAMES,
) -> list[Ablated]:
    """The whole model, then the model without each of the ``terms`` and without each mechanism.

    ``advance`` is called after each.
    """
    parts: list[tuple[Kind, str | None, Mapping[str, float], Collection[str]]] = [(Kind.WHOLE, None, {}, ())]
    parts += [(Kind.TERM, name, {}, (name,)) for name in terms]
    parts += [(Kind.MECHANISM, name, held, ()) for name, held in MECHANISMS.items()]
    whole = fit([one.runs for one in data], COEFFICIENT_NAMES)  # where the searches begin
    ablated = []
    for kind, part, held, without in parts:
        free = [name for name in COEFFICIENT_NAMES if name not in held]
        ratios = out_of_fold(data, free, FOLDS, seed, without, replace(prior().coefficients, **held), near=whole)
        accuracies = []
        for one, of in zip(data, ratios, strict=True):
            usable = np.isfinite(of)
            measured = one.runs.seconds[usable]
            accuracies.append(accuracy(measured * np.exp(-of[usable]), measured))
        ablated.append(Ablated(kind=kind, part=part, accuracies=tuple(accuracies)))
        advance()
    return ablated
