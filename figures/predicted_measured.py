"""Predicted against measured time of every published configuration, one panel for each GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.accuracy import Accuracy

from .published import Comparison, all_compared
from .registry import Request
from .style import CYCLE, GUIDE, PAGE_INCHES, figure, number_ticks, round_numbers, save, short_name

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
    with figure(PAGE_INCHES, 3.1, ncols=len(comparisons), squeeze=False) as (drawn, axes):
        for axis, found, colour in zip(axes[0], comparisons, CYCLE, strict=False):
            _panel(axis, found, colour)
        axes[0][0].set_ylabel("predicted time in ms, after one factor")
        axes[0][len(comparisons) // 2].set_xlabel(f"measured time in ms (tiled_conv2d 15×15, {fidelity} counts)")
        return save(drawn, folder, name)


def _panel(axis: Any, found: Comparison, colour: str) -> None:
    agreement = found.accuracy
    measured, predicted = found.measured_s * 1e3, found.scaled_s * 1e3
    low, high = min(measured.min(), predicted.min()) / 1.15, max(measured.max(), predicted.max()) * 1.15
    line = np.array([low, high])
    known = found.under.calibration.log_error_90
    factor = 1 + GUIDE_ERROR if known is None else math.exp(known)
    label = f"± {GUIDE_ERROR * 100:.0f} %" if known is None else "90 % interval"
    axis.fill_between(line, line / factor, line * factor, color=GUIDE, alpha=0.3, lw=0, label=label)
    axis.plot(line, line, color=GUIDE, lw=0.8)
    spilled = found.spilled
    dots: dict[str, Any] = {"alpha": 0.5, "mew": 0, "rasterized": True}
    axis.plot(measured[~spilled], predicted[~spilled], ".", color=colour, ms=2.5, **dots)
    if spilled.any():
        axis.plot(
            measured[spilled], predicted[spilled], "x", color="black", ms=2, mew=0.4, label="spilled when measured"
        )
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    ticks = round_numbers(low, high)
    number_ticks(axis.xaxis, ticks)
    number_ticks(axis.yaxis, ticks)
    lines = [
        f"{short_name(found.under.gpu)}, times {agreement.scale:.2f}",
        f"{found.covered}: {_words(agreement)}",
        "" if (rest := found.accuracy_unspilled) is None else f"without spills: {_words(rest)}",
    ]
    axis.set_title("\n".join(lines), fontsize=6.5)
    axis.legend(loc="upper left", handletextpad=0.4, borderaxespad=0.1)


def _words(agreement: Accuracy) -> str:
    return f"{agreement.mape_scaled * 100:.1f} %, tau {agreement.kendall_tau:.3f}"
