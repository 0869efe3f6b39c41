"""Hierarchical roofline: the best configuration of every family under the roofs of L1, L2 and DRAM."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.families.registry import family, family_names
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import rank_problem
from perfmodel.prediction.scenario import scenario_of
from perfmodel.prediction.throughput import Level, levels, operations
from perfmodel.profiles.kernel_profile import Fidelity

from .style import CYCLE, PAGE_INCHES, figure, number_ticks, round_numbers, save, short_name

GPU = "h200"
INTENSITIES = (0.1, 300.0)
CROWDED = 1.3
"""Rates nearer than this factor: the lower one's name goes below its line."""
LEVEL_MARKERS = {"L1 and shared memory": "o", "L2": "s", "DRAM": "^"}
_DASHES = ("-", "--", ":")


def draw(folder: Path) -> tuple[Path, Path]:
    """The predicted best configuration of each family's default problem."""
    scenario = scenario_of(GPU)
    best = [
        rank_problem(family(name).default_problem(), scenario, Fidelity.ANALYTIC, top=1).best for name in family_names()
    ]
    return draw_roofline(folder, best, load_gpu(GPU))


def draw_roofline(
    folder: Path, predictions: Sequence[Prediction], gpu: Gpu, name: str = "roofline"
) -> tuple[Path, Path]:
    """Each prediction is three marks at one height: its operations for each byte that passes each level."""
    with figure(PAGE_INCHES, 3.8) as (drawn, axes):
        _draw_roofs(axes, levels(predictions[0], gpu), gpu)
        for level, marker in LEVEL_MARKERS.items():
            axes.plot([], [], marker, color="0.4", ls="none", label=level)
        rates = [operations(prediction) / prediction.time.predicted_s / 1e12 for prediction in predictions]
        for prediction, rate, colour in zip(predictions, rates, CYCLE, strict=False):
            crowded = any(rate < other < rate * CROWDED for other in rates)
            _draw_prediction(axes, prediction, gpu, colour, name_below=crowded)
        axes.set(xscale="log", yscale="log", xlim=INTENSITIES)
        axes.set_ylabel("TFLOP/s, fp32")
        axes.set_xlabel("operations per byte that passes the level")
        number_ticks(axes.xaxis, [value for value in round_numbers(*INTENSITIES) if math.log10(value).is_integer()])
        number_ticks(axes.yaxis, round_numbers(*axes.get_ylim()))
        axes.set_title(
            f"{short_name(gpu)}: predicted best configuration of every family's default problem, closed forms"
        )
        drawn.legend(loc="outside lower center", ncols=2)
        return save(drawn, folder, name)


def _draw_roofs(axes: Any, hierarchy: Sequence[Level], gpu: Gpu) -> None:
    peak = 2 * gpu.fp32_lanes_per_sm * gpu.sm_count * gpu.boost_clock_hz
    intensity = np.geomspace(*INTENSITIES, 200)
    for level, dash in zip(hierarchy, _DASHES, strict=True):
        roof = np.minimum(intensity * level.roof_bytes_per_s, peak)
        axes.plot(intensity, roof / 1e12, dash, color="0.45", lw=1, label=f"roof of {level.name}")
    axes.annotate(f"{peak / 1e12:.0f} TFLOP/s", (INTENSITIES[1], peak / 1e12), ha="right", va="bottom", fontsize=7)


def _draw_prediction(axes: Any, prediction: Prediction, gpu: Gpu, colour: str, *, name_below: bool) -> None:
    reached = operations(prediction) / prediction.time.predicted_s / 1e12
    places = [operations(prediction) / level.moved_bytes for level in levels(prediction, gpu)]
    axes.plot(places, [reached] * len(places), color=colour, lw=0.8)
    axes.annotate(
        prediction.kernel,
        (max(places), reached),
        xytext=(6, -4 if name_below else 1),
        textcoords="offset points",
        va="top" if name_below else "bottom",
        fontsize=7,
        color=colour,
    )
    for place, marker in zip(places, LEVEL_MARKERS.values(), strict=True):
        axes.plot(place, reached, marker, color=colour, ms=6)
