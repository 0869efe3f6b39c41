"""The studies of ``perfmodel validate --study`` by name, and their results together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np

from ..calibration.measured_runs import MeasuredRuns
from ..core.progress import Advance, no_progress
from ..records.measurements import Measurements
from .held_out import HeldOut, architectures_out, gpus_out, shapes_out
from .learning_curve import Learned, design_comparison, learning_curve
from .repeats import Repeat, repeats


class Study(Enum):
    """A question about the accuracy of the model on data sets."""

    LOGO = "logo"
    """How far off are launches of shapes that were not fitted to?"""
    GPU_OUT = "leave-gpu-out"
    """How far off is a GPU that was not fitted to?"""
    ARCHITECTURE_OUT = "leave-architecture-out"
    """How far off is an architecture that was not fitted to?"""
    LEARNING_CURVE = "learning-curve"
    """How many runs does the fit need?"""
    REPEATS = "repeats"
    """How well do two measurements of one GPU agree?"""


HELD_OUT: dict[Study, Callable[..., list[HeldOut]]] = {
    Study.LOGO: shapes_out,
    Study.GPU_OUT: gpus_out,
    Study.ARCHITECTURE_OUT: architectures_out,
}
"""Studies that predict every run by a fit that did not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResults:
    """Results by study; an entry is empty where its study was not asked for. ``where`` is the query that chose the rows."""

    kernel: str
    fidelity: str
    where: str | None
    data: tuple[MeasuredRuns, ...]
    held_out: dict[Study, list[HeldOut]] = field(default_factory=dict)
    learned: list[Learned] = field(default_factory=list)
    residuals: list[Learned] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """One object: the data sets, then each study by its name."""
        studies = {study.value: [one.to_json() for one in results] for study, results in self.held_out.items()}
        studies |= {
            Study.LEARNING_CURVE.value: [one.to_json() for one in self.learned],
            "residual": [one.to_json() for one in self.residuals],
            Study.REPEATS.value: [one.to_json() for one in self.repeats],
        }
        datasets = [
            {"name": one.runs.name, "gpu": one.runs.gpu.id, "n": len(one)}
            | {"groups": len(np.unique(one.groups)), "sha256": one.sha256}
            for one in self.data
        ]
        head = {"kernel": self.kernel, "fidelity": self.fidelity, "where": self.where, "datasets": datasets}
        return head | {"studies": {name: results for name, results in studies.items() if results}}


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
) -> StudyResults:
    """Run the studies; with ``residual_runs`` also the residual learner, trained on so many runs of each data set.

    ``files`` are the measurements with their GPU's id, for repeats; ``data`` may be empty where nothing else is asked.
    ``advance`` is called as fits are done.
    """
    held_out = {}
    for study in (study for study in HELD_OUT if study in studies):
        options = {"seed": seed} if study is Study.LOGO else {}
        held_out[study] = HELD_OUT[study](data, advance=advance, **options)
    curve = Study.LEARNING_CURVE in studies
    return StudyResults(
        kernel=kernel,
        fidelity=fidelity,
        where=where,
        data=tuple(data),
        held_out=held_out,
        learned=learning_curve(data, seed, residual_runs is not None, advance) if curve else [],
        residuals=[] if residual_runs is None else design_comparison(data, residual_runs, seed, advance),
        repeats=repeats(files) if Study.REPEATS in studies else [],
    )
