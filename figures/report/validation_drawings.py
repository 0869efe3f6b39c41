"""Figures of one validation: predicted against measured, error by limiter, what choosing by prediction costs."""

from __future__ import annotations

import math

import numpy as np

from ..error_by_limiter import draw_error_by_limiter, errors_by_limiter
from ..published import Comparison
from ..regret_curve import LARGEST_K, random_curve, regret_curve
from ..style import CYCLE, GUIDE, number_ticks
from .axis_ticks import log_ticks
from .parts import Drawing
from .svg import canvas, markup, markup_of_file

WIDTH_INCHES = 4.2
MARGIN = 1.15
MANY = 500
"""Runs beyond which dots are drawn small."""


def measured_drawing(found: Comparison) -> Drawing:
    """Both axes logarithmic; the band is the interval of the calibration where it has one."""
    measured, predicted = found.measured_s * 1e3, found.scaled_s * 1e3
    low = min(measured.min(), predicted.min()) / MARGIN
    high = max(measured.max(), predicted.max()) * MARGIN
    line = np.array([low, high])
    known = found.log_error_90
    with canvas(WIDTH_INCHES, 3.9) as (drawn, axes):
        if known is not None:
            factor = math.exp(known)
            axes.fill_between(line, line / factor, line * factor, color=GUIDE, alpha=0.3, lw=0, label="90 % interval")
        axes.plot(line, line, color=GUIDE, lw=0.8, label="predicted = measured")
        size = 3 if len(measured) > MANY else 6
        axes.plot(measured, predicted, ".", color=CYCLE[0], ms=size, alpha=0.5, mew=0, rasterized=True)
        axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
        ticks = log_ticks(low, high)
        number_ticks(axes.xaxis, ticks)
        number_ticks(axes.yaxis, ticks)
        axes.set_xlabel("measured time in ms")
        axes.set_ylabel(f"predicted time in ms, times {found.accuracy.scale:.3f}")
        axes.legend(loc="upper left")
        svg = markup(drawn, "figure-measured")
    return Drawing(
        name="figure-measured",
        svg=svg,
        says="predicted against measured time of every run, both axes logarithmic",
        caption="Every run that was compared. Predictions are multiplied by one factor, the median of measured / predicted, "
        "because a file may not record the clock.",
    )


def limiter_drawing(found: Comparison, fidelity: str) -> Drawing | None:
    """Boxes of the signed error by limiter; None where no limiter has runs enough for quantiles."""
    if not errors_by_limiter(found):
        return None
    return Drawing(
        name="figure-limiter",
        svg=markup_of_file(lambda folder: draw_error_by_limiter(folder, [found], fidelity), "figure-limiter"),
        says="boxes of the error by what limits the configuration",
        caption="Error after that factor by what the model holds to be the limiter: a box away from zero names the term to "
        "look at.",
        wide=True,
    )


def regret_drawing(found: Comparison) -> Drawing:
    """Slowdown of the best of the K predicted fastest, by K, beside K drawn at random."""
    curve = regret_curve(found.predicted_s, found.measured_s, LARGEST_K)
    chance = random_curve(found.measured_s, len(curve))
    steps = np.arange(1, len(curve) + 1)
    with canvas(WIDTH_INCHES, 3.0) as (drawn, axes):
        axes.step(steps, (curve - 1) * 100, where="post", color=CYCLE[0], label="the predicted fastest")
        axes.plot(steps, (chance - 1) * 100, ":", color=GUIDE, label="as many drawn at random, on average")
        axes.set(xscale="log", xlabel="configurations run", ylabel="slower than the best in %")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=-0.05)
        number_ticks(axes.xaxis, [step for step in (1, 2, 5, 10, 20, 50, 100) if step <= max(len(curve), 2)])
        number_ticks(axes.yaxis, [tick for tick in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= _top(axes)])
        axes.legend(loc="upper right")
        svg = markup(drawn, "figure-regret")
    return Drawing(
        name="figure-regret",
        svg=svg,
        says="slowdown of the best of the K predicted fastest, by K, beside K drawn at random",
        caption="What is lost by running only the configurations that are predicted fastest, against running all of the file.",
    )


def _top(axes: object) -> float:
    high: float = axes.get_ylim()[1]  # type: ignore[attr-defined]
    return max(high, 1.0)
