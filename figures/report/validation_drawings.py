"""Figures of one validation: predicted against measured, error by limiter, what choosing by prediction costs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import regret
from perfmodel.core.units import MILLISECONDS
from perfmodel.time_model.combine import LIMITER_NAMES

from ..style import CYCLE, GUIDE, MARKERS, PAGE_INCHES, in_words, log_ticks, number_ticks, short_name
from .measured_runs import Comparison
from .parts import Drawing
from .svg import canvas, markup

Floats = NDArray[np.float64]

WIDTH_INCHES = 4.2
MANY = 1000
"""Runs beyond which dots are drawn small."""
GUIDE_ERROR = 0.10
"""Band drawn where the calibration has no interval for a GPU."""
LARGEST_K = 100
STEPS = (1, 2, 5, 10, 20, 50, 100)
"""Numbers at which a curve is marked."""
ERROR_PERCENT = (-60, 60)
"""Ends of the axis; whiskers that reach beyond have their end as a number."""
WHISKERS = (5, 95)
"""Percentiles."""
FEWEST = 5
"""Limiters of fewer runs are left out: too few for quantiles."""


def measured_drawing(runs: Comparison) -> Drawing:
    """Both axes logarithmic; the band is the interval of the calibration where it has one."""
    with canvas(WIDTH_INCHES, 3.9) as (drawn, axes):
        _draw_runs(axes, runs)
        axes.set_xlabel("measured time in ms")
        axes.set_ylabel(f"predicted time in ms, times {runs.accuracy.scale:.3f}")
        svg = markup(drawn, "figure-measured")
    return Drawing(
        name="figure-measured",
        svg=svg,
        says="predicted against measured time of every run, both axes logarithmic",
        caption="Every run that was compared. Predictions are multiplied by one factor, the median of measured / predicted, "
        "because a file may not record the clock.",
    )


def _draw_runs(axis: Any, found: Comparison) -> None:
    """A dot for each run, the line of agreement, and the 90 % interval where the calibration has one."""
    measured, predicted = found.measured_s * MILLISECONDS, found.scaled_s * MILLISECONDS
    low, high = min(measured.min(), predicted.min()) / 1.15, max(measured.max(), predicted.max()) * 1.15
    known = found.log_error_90
    line, factor = np.array([low, high]), 1 + GUIDE_ERROR if known is None else math.exp(known)
    label = f"± {GUIDE_ERROR * 100:.0f} %" if known is None else "90 % interval"
    axis.fill_between(line, line / factor, line * factor, color=GUIDE, alpha=0.3, lw=0, label=label)
    axis.plot(line, line, color=GUIDE, lw=0.8)
    spilled = found.spilled
    dots: dict[str, Any] = {"alpha": 0.5, "mew": 0, "rasterized": True}
    size = 2.5 if len(measured) > MANY else 5
    axis.plot(measured[~spilled], predicted[~spilled], ".", color=CYCLE[0], ms=size, **dots)
    if spilled.any():
        axis.plot(
            measured[spilled], predicted[spilled], "x", color="black", ms=2, mew=0.4, label="spilled when measured"
        )
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    for line_axis in (axis.xaxis, axis.yaxis):
        number_ticks(line_axis, log_ticks(low, high, decades=True))
    axis.legend(loc="upper left", handletextpad=0.4, borderaxespad=0.1)


def limiter_drawing(runs: Comparison) -> Drawing | None:
    """Boxes of the signed error by limiter; None where no limiter has runs enough for quantiles."""
    groups = errors_by_limiter(runs)
    if not groups:
        return None
    with canvas(PAGE_INCHES, 1.2 + 0.4 * len(groups)) as (drawn, axes):
        _draw_boxes(axes, groups)
        svg = markup(drawn, "figure-limiter")
    return Drawing(
        name="figure-limiter",
        svg=svg,
        says="boxes of the error by what limits the configuration",
        caption="Error after that factor by what the model holds to be the limiter: a box away from zero names the term to "
        "look at. Boxes reach from quartile to quartile, whiskers from the 5th to the 95th percentile.",
        wide=True,
    )


def errors_by_limiter(found: Comparison) -> dict[str, Floats]:
    """Signed relative errors after one factor by limiter, in percent, the limiter of most runs first."""
    errors = (found.scaled_s / found.measured_s - 1) * 100
    groups = {name: errors[found.limiters == code] for code, name in enumerate(LIMITER_NAMES)}
    kept = {name: values for name, values in groups.items() if len(values) >= FEWEST}
    return dict(sorted(kept.items(), key=lambda pair: -len(pair[1])))


def _draw_boxes(axis: Any, groups: dict[str, Floats]) -> None:
    axis.axvline(0, color=GUIDE, lw=0.8)
    axis.boxplot(
        list(groups.values()),
        orientation="horizontal",
        whis=WHISKERS,
        showfliers=False,
        widths=0.55,
        patch_artist=True,
        boxprops={"facecolor": "white", "edgecolor": CYCLE[0]},
        whiskerprops={"color": CYCLE[0]},
        capprops={"color": CYCLE[0]},
        medianprops={"color": CYCLE[0], "linewidth": 2},
    )
    places = range(1, len(groups) + 1)
    axis.set_yticks(places, [f"{in_words(name)}\n{len(values):,} runs" for name, values in groups.items()])
    axis.tick_params(axis="y", labelsize=6.5, length=0)
    axis.set_xlim(*ERROR_PERCENT)
    axis.set_xticks(range(ERROR_PERCENT[0], ERROR_PERCENT[1] + 1, 30))
    for place, values in zip(places, groups.values(), strict=True):
        _label_ends(axis, place, values)
    axis.set_ylim(len(groups) + 0.6, 0.4)
    axis.set_xlabel("predicted / measured − 1 in %")


def _label_ends(axis: Any, place: int, values: Floats) -> None:
    """Where a whisker leaves the axis, how far it reaches."""
    low, high = np.percentile(values, WHISKERS)
    for reach, end, side in ((low, ERROR_PERCENT[0], "left"), (high, ERROR_PERCENT[1], "right")):
        if abs(reach) > abs(end):
            text = f"◂ {reach:+.0f} %" if side == "left" else f"{reach:+.0f} % ▸"
            axis.text(end, place - 0.3, text.replace("-", "−"), ha=side, va="bottom", fontsize=6)


def regret_drawing(runs: Comparison) -> Drawing:
    """Slowdown of the best of the K predicted fastest, by K, beside K drawn at random."""
    with canvas(WIDTH_INCHES, 3.0) as (drawn, axes):
        _draw_regret(axes, runs)
        axes.legend(loc="upper right")
        svg = markup(drawn, "figure-regret")
    return Drawing(
        name="figure-regret",
        svg=svg,
        says="slowdown of the best of the K predicted fastest, by K, beside K drawn at random",
        caption="What is lost by running only the configurations that are predicted fastest, against running all of the file.",
    )


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


def _draw_regret(axes: Any, runs: Comparison) -> None:
    curve = regret_curve(runs.predicted_s, runs.measured_s, LARGEST_K)
    steps = np.arange(1, len(curve) + 1)
    axes.step(
        steps,
        (curve - 1) * 100,
        where="post",
        color=CYCLE[0],
        marker=MARKERS[0],
        markevery=[step - 1 for step in STEPS if step <= len(curve)],
        clip_on=False,
        label=f"{short_name(runs.scenario.gpu)}, {runs.covered}",
    )
    chance = random_curve(runs.measured_s, len(curve))
    axes.plot(steps, (chance - 1) * 100, ":", color=GUIDE, lw=1, label="as many drawn at random, on average")
    axes.set(xscale="log", xlabel="configurations run, the predicted fastest first", ylabel="slower than the best in %")
    axes.set_yscale("symlog", linthresh=1.0)
    axes.set_ylim(bottom=-0.05)
    number_ticks(axes.xaxis, [step for step in STEPS if step <= max(len(curve), 2)])
    top = max(axes.get_ylim()[1], 1.0)
    number_ticks(axes.yaxis, [tick for tick in (0, 1, 2, 5, 10, 20, 50, 100, 200, 500) if tick <= top])
