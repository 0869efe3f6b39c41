"""Predicted against measured time of every published configuration, one panel for each GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import accuracy

from .published import Comparison, all_compared
from .registry import Request
from .style import CYCLE, GUIDE, PAGE_INCHES, figure, log_ticks, number_ticks, save, short_name

Floats = NDArray[np.float64]

MANY = 1000
"""Runs beyond which dots are drawn small."""
GUIDE_ERROR = 0.10
"""Band drawn where the calibration has no interval for a GPU."""


def draw(request: Request) -> tuple[Path, Path]:
    """All published GPUs."""
    found = all_compared(request.require_measurements(), request.fidelity)
    return draw_predicted_measured(request.folder, found, request.fidelity.value)


def draw_predicted_measured(
    folder: Path, comparisons: Sequence[Comparison], fidelity: str, name: str = "predicted_measured"
) -> tuple[Path, Path]:
    """One panel for each comparison, both axes logarithmic; the band is the 90 % interval where the calibration has one."""
    with figure(PAGE_INCHES, 3.2, ncols=len(comparisons), squeeze=False) as (drawn, axes):
        for axis, found, colour in zip(axes[0], comparisons, CYCLE, strict=False):
            _panel(axis, found, colour)
        axes[0][0].set_ylabel("predicted time in ms, after one factor")
        axes[0][len(comparisons) // 2].set_xlabel(f"measured time in ms (tiled_conv2d 15×15, {fidelity} counts)")
        return save(drawn, folder, name)


def _panel(axis: Any, found: Comparison, colour: str) -> None:
    draw_panel(axis, found, found.scaled_s, colour, unit_s=1e-3)
    lines = [
        short_name(found.scenario.gpu),
        f"{found.covered}, times {found.accuracy.scale:.2f}",
        in_words_of(found, found.scaled_s),
        "" if (rest := found.unspilled) is None else f"no spills: {in_words_of(rest, rest.scaled_s)}",
    ]
    axis.set_title("\n".join(lines), fontsize=6.5)


def half_width(found: Comparison) -> float:
    """Half the width of the band, as a factor."""
    known = found.log_error_90
    return 1 + GUIDE_ERROR if known is None else math.exp(known)


def in_words_of(found: Comparison, predicted_s: Floats) -> str:
    """Mean error, rank correlation and the part of the runs in the band."""
    agreement = accuracy(predicted_s, found.measured_s)
    inside = np.abs(np.log(predicted_s / found.measured_s)) <= math.log(half_width(found))
    return f"{agreement.mape * 100:.1f} %, tau {agreement.kendall_tau:.3f}, {inside.mean() * 100:.0f} % in band"


def draw_panel(axis: Any, found: Comparison, predicted_s: Floats, colour: str, *, unit_s: float) -> None:
    """A dot for each run, the line of agreement, and the 90 % interval where the calibration has one."""
    measured, predicted = found.measured_s / unit_s, predicted_s / unit_s
    low, high = min(measured.min(), predicted.min()) / 1.15, max(measured.max(), predicted.max()) * 1.15
    line, factor = np.array([low, high]), half_width(found)
    interval = found.log_error_90 is not None
    label = "90 % interval" if interval else f"± {GUIDE_ERROR * 100:.0f} %"
    axis.fill_between(line, line / factor, line * factor, color=GUIDE, alpha=0.3, lw=0, label=label)
    axis.plot(line, line, color=GUIDE, lw=0.8)
    spilled = found.spilled
    dots: dict[str, Any] = {"alpha": 0.5, "mew": 0, "rasterized": True}
    size = 2.5 if len(measured) > MANY else 5
    axis.plot(measured[~spilled], predicted[~spilled], ".", color=colour, ms=size, **dots)
    if spilled.any():
        axis.plot(
            measured[spilled], predicted[spilled], "x", color="black", ms=2, mew=0.4, label="spilled when measured"
        )
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    for line_axis in (axis.xaxis, axis.yaxis):
        number_ticks(line_axis, log_ticks(low, high, decades=True))
    axis.legend(loc="upper left", handletextpad=0.4, borderaxespad=0.1)
