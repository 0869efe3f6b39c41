"""Published runs as the fit takes them, and the error of a model that was fitted anew."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.families.registry import family
from perfmodel.measured_runs import MeasuredRuns, measured_runs
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


def predicted_s(runs: FitSet, fitted: Fit) -> Floats:
    """Seconds by the fitted coefficients, times the factor that the fit found for this GPU's runs."""
    seconds, _ = launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, fitted.coefficients_for(runs.gpu))
    return np.asarray(seconds * fitted.scales[runs.name])


def mean_error(runs: FitSet, fitted: Fit) -> float:
    """Mean of |predicted / measured − 1|."""
    return float(np.abs(predicted_s(runs, fitted) / runs.seconds - 1).mean())
