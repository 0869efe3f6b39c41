"""What running the K predicted fastest loses against running everything, by K, beside K drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import regret

from .published import Comparison, all_compared
from .registry import Request
from .style import COLUMN_INCHES, CYCLE, GUIDE, MARKERS, figure, number_ticks, save, short_name

Floats = NDArray[np.float64]

LARGEST_K = 100
STEPS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers at which a curve is marked."""


def draw(request: Request) -> tuple[Path, Path]:
    """All published GPUs."""
    found = all_compared(request.require_measurements(), request.fidelity)
    return draw_regret_curve(request.folder, found, request.fidelity.value)


def regret_curve(predicted: Floats, measured: Floats, largest: int) -> Floats:
    """Fastest measured of the K predicted fastest over the fastest of all, for K = 1 … ``largest`` (at most n).

    >>> regret_curve(np.array([1.0, 2.0, 3.0]), np.array([20.0, 30.0, 10.0]), 3).tolist()
    [2.0, 2.0, 1.0]
    """
    tops = range(1, min(largest, len(predicted)) + 1)
    return np.array([regret(predicted, measured, top) for top in tops])


def random_curve(measured: Floats, largest: int) -> Floats:
    """Expected fastest of K runs drawn without replacement over the fastest of all, for K = 1 … ``largest``.

    The i-th fastest of n is the fastest of K drawn with probability C(n − i, K − 1) / C(n, K).

    >>> random_curve(np.array([10.0, 20.0, 30.0]), 3).round(6).tolist()  # K = 2: (10·2 + 20·1) / 3 / 10
    [2.0, 1.333333, 1.0]
    """
    ordered = np.sort(measured)
    count = len(ordered)
    chance = np.full(count, 1.0 / count)
    remaining = count - 1.0 - np.arange(count)
    expected = []
    for drawn in range(1, min(largest, count) + 1):
        expected.append(float(chance @ ordered) / ordered[0])
        if drawn < count:
            chance = chance * np.maximum(remaining - (drawn - 1), 0.0) / drawn * (drawn + 1) / (count - drawn)
    return np.array(expected)


def draw_regret_curve(
    folder: Path, comparisons: Sequence[Comparison], fidelity: str, name: str = "regret_curve"
) -> tuple[Path, Path]:
    """Slowdown in percent by K; solid lines follow the prediction, dotted ones draw at random."""
    with figure(COLUMN_INCHES, 3.5) as (drawn, axes):
        draw_curves(axes, comparisons)
        axes.set_title(f"tiled_conv2d 15×15, {fidelity} counts")
        drawn.legend(loc="outside lower left")
        return save(drawn, folder, name)


def draw_curves(axes: Any, comparisons: Sequence[Comparison]) -> None:
    """The curves of some GPUs, with labels for a legend."""
    longest = 2
    for runs, colour, marker in zip(comparisons, CYCLE, MARKERS, strict=False):
        curve = regret_curve(runs.predicted_s, runs.measured_s, LARGEST_K)
        chance = random_curve(runs.measured_s, len(curve))
        longest = max(longest, len(curve))
        steps = np.arange(1, len(curve) + 1)
        axes.step(
            steps,
            (curve - 1) * 100,
            where="post",
            color=colour,
            marker=marker,
            markevery=[step - 1 for step in STEPS if step <= len(curve)],
            clip_on=False,
            label=f"{short_name(runs.scenario.gpu)}, {runs.covered}",
        )
        axes.plot(steps, (chance - 1) * 100, ":", color=colour, lw=1)
    axes.plot([], [], ":", color=GUIDE, lw=1, label="as many drawn at random, on average")
    axes.set(xscale="log", xlabel="configurations run, the predicted fastest first", ylabel="slower than the best in %")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=-0.05)
    number_ticks(axes.xaxis, [step for step in STEPS if step <= longest])
    top = max(axes.get_ylim()[1], 1.0)
    number_ticks(axes.yaxis, [tick for tick in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= top])
