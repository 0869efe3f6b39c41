"""Predictions below the roofs of a GPU's memories."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfmodel.gpus.gpu import Gpu
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.throughput import Level, levels, operations

from ..roofline import LEVEL_MARKERS
from ..style import CYCLE, log_ticks, number_ticks
from .parts import Drawing
from .svg import canvas, markup

WIDTH_INCHES = 4.6
_DASHES = ("-", "--", ":")


def roofline(shown: Mapping[str, Prediction], gpu: Gpu, what: str) -> Drawing | None:
    """Predictions by their labels; None where none does FP32 work that a roof could limit.

    Args:
        shown: one or several.
        gpu: whose roofs are drawn.
        what: which these are, for those who do not see the figure.
    """
    shown = {label: found for label, found in shown.items() if operations(found) > 0}
    if not shown:
        return None
    places = [intensity for found in shown.values() for intensity in _intensities(found, gpu).values()]
    peak = 2 * gpu.fp32_lanes_per_sm * gpu.sm_count * gpu.boost_clock_hz
    peaks = levels(next(iter(shown.values())), gpu)
    ridges = [peak / level.roof_bytes_per_s for level in peaks]
    span = np.geomspace(min(*places, *ridges) / 4, max(*places, *ridges) * 4, 200)
    with canvas(WIDTH_INCHES, 3.6) as (drawn, axes):
        for level, dash in zip(peaks, _DASHES, strict=True):
            axes.plot(
                span,
                np.minimum(span * level.roof_bytes_per_s, peak) / 1e12,
                dash,
                color="0.45",
                lw=1,
                label=f"roof of {level.name}",
            )
        axes.annotate(f"{peak / 1e12:.1f} TFLOP/s", (span[-1], peak / 1e12), ha="right", va="bottom", fontsize=7)
        for (label, found), colour in zip(shown.items(), CYCLE, strict=False):
            reached = operations(found) / found.time.predicted_s / 1e12
            marks = _intensities(found, gpu)
            axes.plot(list(marks.values()), [reached] * len(marks), color=colour, lw=0.8, label=label)
            for name, intensity in marks.items():
                axes.plot(intensity, reached, LEVEL_MARKERS[name], color=colour, ms=6)
        for name, marker in LEVEL_MARKERS.items():
            axes.plot([], [], marker, color="0.4", ls="none", label=name)
        axes.set(xscale="log", yscale="log", xlim=(span[0], span[-1]))
        axes.set_xlabel("FP32 operations per byte that passes the level")
        axes.set_ylabel("TFLOP/s")
        number_ticks(axes.xaxis, log_ticks(*axes.get_xlim(), decades=True))
        number_ticks(axes.yaxis, log_ticks(*axes.get_ylim(), decades=True))
        drawn.legend(loc="outside lower center", ncols=3)
        svg = markup(drawn, "figure-roofline")
    return Drawing(
        name="figure-roofline",
        svg=svg,
        says=f"roofline of the GPU with {what}",
        caption="One launch is one height with a mark for each level of the memory: the nearer a mark to the roof of "
        "its level, the less there is to gain there.",
    )


def _intensities(found: Prediction, gpu: Gpu) -> dict[str, float]:
    """Operations for each byte that passes a level; levels that nothing passes are left out."""
    passed: list[Level] = [level for level in levels(found, gpu) if level.moved_bytes > 0]
    return {level.name: operations(found) / level.moved_bytes for level in passed}
