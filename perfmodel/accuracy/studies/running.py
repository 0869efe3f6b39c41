"""The studies by name, run over data sets, and what they found together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from ...calibration.fit import FOLDS
from ...calibration.measured_runs import MeasuredRuns
from ...profiles.facts import Advance, no_progress
from ...records.measurements import Measurements
from . import ablation, learning_curve
from .ablation import Ablated
from .held_out import HeldOut, architectures_out, fits_to_run, gpus_out, shapes_out
from .learning_curve import DRAWS, Design, Learned
from .repeats import Repeat, repeats


class Study(Enum):
    """A question about the accuracy of the model on data sets."""

    LOGO = "logo"
    """How far off are launches of shapes that were not fitted to?"""
    GPU_OUT = "leave-gpu-out"
    """How far off is a GPU that was not fitted to?"""
    ARCHITECTURE_OUT = "leave-architecture-out"
    """How far off is an architecture that was not fitted to?"""
    ABLATION = "ablation"
    """What is each part of the model worth?"""
    LEARNING_CURVE = "learning-curve"
    """How many runs does the fit need?"""
    REPEATS = "repeats"
    """How well do two measurements of one GPU agree?"""


RESIDUAL_STUDIES = tuple((design, residual) for design in Design for residual in (False, True))
"""How runs are chosen, and whether a residual is learned from them: all that ``residual_runs`` compares."""
HELD_OUT = (Study.LOGO, Study.GPU_OUT, Study.ARCHITECTURE_OUT)
"""Studies that tell every run by a fit that did not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What the studies found; an entry is empty where its study was not asked for."""

    kernel: str
    fidelity: str
    where: str | None
    data: tuple[MeasuredRuns, ...]
    held_out: dict[Study, list[HeldOut]]
    ablated: list[Ablated]
    learned: list[Learned]
    residuals: list[Learned]
    repeats: list[Repeat]

    def to_json(self) -> dict[str, Any]:
        """One object: the data sets, then each study by its name."""
        studies: dict[str, Any] = {
            study.value: [one.to_json() for one in told] for study, told in self.held_out.items()
        }
        if self.ablated:
            studies[Study.ABLATION.value] = [one.to_json(self.data) for one in self.ablated]
        for name, found in (
            (Study.LEARNING_CURVE.value, self.learned),
            ("residual", self.residuals),
            (Study.REPEATS.value, self.repeats),
        ):
            if found:
                studies[name] = [one.to_json() for one in found]
        datasets = [
            {
                "name": one.runs.name,
                "gpu": one.runs.gpu.id,
                "n": len(one),
                "groups": len(np.unique(one.groups)),
                "sha256": one.sha256,
            }
            for one in self.data
        ]
        head = {"kernel": self.kernel, "fidelity": self.fidelity, "where": self.where}
        return head | {"datasets": datasets, "studies": studies}


def steps(studies: Collection[Study], data: Sequence[MeasuredRuns], residual_runs: int | None) -> int:
    """How many times ``run_studies`` advances."""
    kinds = {
        Study.LOGO: fits_to_run(FOLDS),
        Study.GPU_OUT: len({one.runs.gpu.id for one in data}),
        Study.ARCHITECTURE_OUT: len({one.runs.gpu.architecture.name for one in data}),
        Study.ABLATION: ablation.steps(),
        Study.LEARNING_CURVE: learning_curve.steps(data, residual_runs is not None),
        Study.REPEATS: 0,
    }
    return sum(kinds[study] for study in studies) + (
        len(RESIDUAL_STUDIES) * len(data) if residual_runs is not None else 0
    )


def run_studies(
    studies: Collection[Study],
    data: Sequence[MeasuredRuns],
    files: Sequence[tuple[str, Measurements]],
    *,
    kernel: str,
    fidelity: str,
    where: str | None = None,
    residual_runs: int | None = None,
    seed: int = 0,
    advance: Advance = no_progress,
) -> Findings:
    """Run the studies; with ``residual_runs`` also the residual learner, trained on so many runs of each data set.

    ``files`` are the measurements with their GPU's id, for repeats; ``data`` may be empty where nothing else is asked.
    """
    told: dict[Study, list[HeldOut]] = {}
    if Study.LOGO in studies:
        told[Study.LOGO] = shapes_out(data, seed=seed, advance=advance)
    if Study.GPU_OUT in studies:
        told[Study.GPU_OUT] = gpus_out(data, advance=advance)
    if Study.ARCHITECTURE_OUT in studies:
        told[Study.ARCHITECTURE_OUT] = architectures_out(data, advance=advance)
    return Findings(
        kernel=kernel,
        fidelity=fidelity,
        where=where,
        data=tuple(data),
        held_out=told,
        ablated=ablation.ablation(data, seed, advance) if Study.ABLATION in studies else [],
        learned=(
            learning_curve.learning_curve(data, seed, residual_runs is not None, advance)
            if Study.LEARNING_CURVE in studies
            else []
        ),
        residuals=[] if residual_runs is None else _residuals(data, residual_runs, seed, advance),
        repeats=repeats(files) if Study.REPEATS in studies else [],
    )


def _residuals(data: Sequence[MeasuredRuns], runs: int, seed: int, advance: Advance) -> list[Learned]:
    found = []
    for one in data:
        for design, residual in RESIDUAL_STUDIES:
            found.append(learning_curve.learned(one, runs, range(seed, seed + DRAWS), residual, design))
            advance()
    return found
