"""Published runs as the fit takes them, and the error of a model that was fitted anew."""

from __future__ import annotations

import functools
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.calibrating import MeasuredRuns, measured_runs
from perfmodel.families.registry import family
from perfmodel.prediction import Fidelity
from perfmodel.time.combine import launch_seconds
from perfmodel.time.fitting import Fit, FitSet

from .published import FAMILY, LOCAL_BYTES, UNROLLED, compared

Floats = NDArray[np.float64]

GPUS = ("rtx-2080-ti", "rtx-3090")
"""GPUs whose files say which runs spilled."""


@functools.cache
def unspilled_runs(folder: Path, gpu: str, fidelity: Fidelity) -> MeasuredRuns:
    """Runs of one GPU that did not spill, with unrolled tiles: what today's compiler compiles as it was then."""
    found = compared(folder, gpu, fidelity)
    kept = found.measurements.where(f"{LOCAL_BYTES} == 0 and {UNROLLED}")
    return measured_runs(gpu, family(FAMILY), kept, found.under, fidelity)


def taken(runs: FitSet, rows: NDArray[np.intp]) -> FitSet:
    """The runs at the given indices."""
    work = runs.work
    own = [name for name in work.__dataclass_fields__ if name not in ("launch", "counts")]
    launch = replace(
        work.launch, **{name: getattr(work.launch, name)[rows] for name in work.launch.__dataclass_fields__}
    )
    counts = replace(work.counts, **{name: value[rows] for name, value in work.counts.items()})
    part = replace(work, launch=launch, counts=counts, **{name: getattr(work, name)[rows] for name in own})
    return replace(runs, work=part, blocks_per_sm=runs.blocks_per_sm[rows], seconds=runs.seconds[rows])


def predicted_s(runs: FitSet, fitted: Fit) -> Floats:
    """Seconds by the fitted coefficients, times the factor that the fit found for this GPU's runs."""
    seconds, _ = launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, fitted.coefficients)
    return np.asarray(seconds * fitted.scales[runs.name])


def mean_error(runs: FitSet, fitted: Fit) -> float:
    """Mean of |predicted / measured − 1|."""
    return float(np.abs(predicted_s(runs, fitted) / runs.seconds - 1).mean())
