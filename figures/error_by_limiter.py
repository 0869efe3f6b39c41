"""Error of the predictions by what the model holds to be the limiter, one panel for each GPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.time_model.combine import LIMITER_NAMES

from .published import Comparison, all_compared
from .registry import Request
from .style import CYCLE, GUIDE, PAGE_INCHES, figure, in_words, save, short_name

Floats = NDArray[np.float64]

RANGE_PERCENT = (-60, 60)
"""Ends of the axis; whiskers that reach beyond have their end as a number."""
WHISKERS = (5, 95)
"""Percentiles."""
FEWEST = 5
"""Limiters of fewer runs are left out: too few for quantiles."""


def draw(request: Request) -> tuple[Path, Path]:
    """All published GPUs."""
    found = all_compared(request.require_measurements(), request.fidelity)
    return draw_error_by_limiter(request.folder, found, request.fidelity.value)


def errors_by_limiter(found: Comparison) -> dict[str, Floats]:
    """Signed relative errors after one factor by limiter, in percent, the limiter of most runs first."""
    errors = (found.scaled_s / found.measured_s - 1) * 100
    groups = {name: errors[found.limiters == code] for code, name in enumerate(LIMITER_NAMES)}
    kept = {name: values for name, values in groups.items() if len(values) >= FEWEST}
    return dict(sorted(kept.items(), key=lambda pair: -len(pair[1])))


def draw_error_by_limiter(
    folder: Path, comparisons: Sequence[Comparison], fidelity: str, name: str = "error_by_limiter"
) -> tuple[Path, Path]:
    """Boxes from quartile to quartile, whiskers from the 5th to the 95th percentile."""
    with figure(PAGE_INCHES, 2.4, ncols=len(comparisons), sharex=True, squeeze=False) as (drawn, axes):
        groups = [errors_by_limiter(found) for found in comparisons]
        rows = max(len(group) for group in groups)
        for axis, found, group, colour in zip(axes[0], comparisons, groups, CYCLE, strict=False):
            _panel(axis, found, group, rows, colour)
        middle = axes[0][len(comparisons) // 2]
        middle.set_xlabel(
            f"predicted / measured − 1 in %, {fidelity} counts; box: quartiles, whiskers: 5th and 95th percentile"
        )
        return save(drawn, folder, name)


def _panel(axis: Any, found: Comparison, groups: dict[str, Floats], rows: int, colour: str) -> None:
    axis.axvline(0, color=GUIDE, lw=0.8)
    axis.boxplot(
        list(groups.values()),
        orientation="horizontal",
        whis=WHISKERS,
        showfliers=False,
        widths=0.55,
        patch_artist=True,
        boxprops={"facecolor": "white", "edgecolor": colour},
        whiskerprops={"color": colour},
        capprops={"color": colour},
        medianprops={"color": colour, "linewidth": 2},
    )
    places = range(1, len(groups) + 1)
    axis.set_yticks(places, [f"{in_words(name)}\n{len(values):,} runs" for name, values in groups.items()])
    axis.tick_params(axis="y", labelsize=6.5, length=0)
    axis.set_xlim(*RANGE_PERCENT)
    axis.set_xticks(range(RANGE_PERCENT[0], RANGE_PERCENT[1] + 1, 30))
    for place, values in zip(places, groups.values(), strict=True):
        _label_ends(axis, place, values)
    axis.set_ylim(rows + 0.6, 0.4)
    axis.set_title(short_name(found.scenario.gpu))


def _label_ends(axis: Any, place: int, values: Floats) -> None:
    """Where a whisker leaves the axis, how far it reaches."""
    low, high = np.percentile(values, WHISKERS)
    for reach, end, side in ((low, RANGE_PERCENT[0], "left"), (high, RANGE_PERCENT[1], "right")):
        if abs(reach) > abs(end):
            text = f"◂ {reach:+.0f} %" if side == "left" else f"{reach:+.0f} % ▸"
            axis.text(end, place - 0.3, text.replace("-", "−"), ha=side, va="bottom", fontsize=6)
