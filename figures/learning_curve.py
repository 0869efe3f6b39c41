"""How many runs on a GPU the model needs: error on launches that it was not fitted to, by the number of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.measured_runs import MeasuredRuns, taken_runs
from perfmodel.time.coefficients import COEFFICIENT_NAMES
from perfmodel.time.fitting import fit

from .refits import GPUS, Floats, mean_error, unspilled_runs
from .registry import Request
from .style import COLUMN_INCHES, CYCLE, MARKERS, figure, number_ticks, save, short_name

NUMBERS = (5, 10, 20, 40, 80, 160, 320)
DRAWS = 3


def draw(request: Request) -> tuple[Path, Path]:
    """The GPUs whose files say which runs spilled."""
    folder = request.require_measurements()
    sets = [unspilled_runs(folder, gpu, request.fidelity) for gpu in GPUS]
    enough = min(len(data.groups) for data in sets) // 2
    numbers = [number for number in NUMBERS if number <= enough]
    return draw_learning_curve(request.folder, sets, numbers, request.fidelity.value)


def split(groups: NDArray[np.intp], number: int, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Indices of ``number`` runs to fit to and of all runs of groups that none of these is of.

    >>> train, test = split(np.array([0, 0, 1, 1, 2, 2]), 2, seed=1)
    >>> len(train), len(test)
    (2, 2)
    """
    chosen = np.random.default_rng(seed).permutation(len(groups))[:number]
    return np.sort(chosen), np.flatnonzero(~np.isin(groups, groups[chosen]))


def learned(data: MeasuredRuns, numbers: Sequence[int], draws: int = DRAWS) -> Floats:
    """Errors on held-out launches, shape ``(draws, len(numbers))``."""

    def error(number: int, seed: int) -> float:
        train, test = split(data.groups, number, seed)
        return mean_error(taken_runs(data.runs, test), fit([taken_runs(data.runs, train)], COEFFICIENT_NAMES))

    return np.array([[error(number, seed) for number in numbers] for seed in range(draws)])


def draw_learning_curve(
    folder: Path, sets: Sequence[MeasuredRuns], numbers: Sequence[int], fidelity: str, name: str = "learning_curve"
) -> tuple[Path, Path]:
    """Median of the draws with the range from best to worst."""
    with figure(COLUMN_INCHES, 2.8) as (drawn, axes):
        for data, colour, marker in zip(sets, CYCLE, MARKERS, strict=False):
            found = learned(data, numbers) * 100
            axes.fill_between(numbers, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2, lw=0)
            axes.plot(numbers, np.median(found, axis=0), marker=marker, color=colour, label=short_name(data.runs.gpu))
        axes.set(xscale="log", ylim=(0, None))
        number_ticks(axes.xaxis, numbers)
        axes.set_xlabel("runs on the GPU that the model is fitted to")
        axes.set_ylabel("mean error in % on other launches")
        axes.set_title(f"tiled_conv2d 15×15 without spills, {fidelity} counts;\nmedian and range of {DRAWS} draws")
        axes.legend()
        return save(drawn, folder, name)
