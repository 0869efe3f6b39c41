"""Pointwise convolution: does the tile with the largest arithmetic intensity M_A have the shortest time?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConv2d
from perfmodel.families.pointwise_conv2d.launch import candidates
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of

from .registry import Request
from .style import CYCLE, MARKERS, PAGE_INCHES, figure, number_ticks, round_numbers, save, short_name

GPU = "rtx-2080-ti"
LAYERS = (
    PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112),
    PointwiseConv2d(in_channels=512, out_channels=512, height=14, width=14),
)
"""An early and a late layer of MobileNetV1, batch 1."""
NEAR_TIE = 0.05
"""M_A within this fraction of the largest counts as equal."""
LARGEST_INTENSITY, FEWEST_REGISTERS, SHORTEST_TIME = (
    "largest M_A, then fewest blocks",
    "fewest registers",
    "shortest predicted time",
)
CHOICE_MARKERS = {LARGEST_INTENSITY: "o", FEWEST_REGISTERS: "s", SHORTEST_TIME: "D"}


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """The candidates of a layer that can run, arrays of shape ``(n,)``, and the index of what each rule chooses."""

    blocks_per_sm: NDArray[np.int64]
    intensity: NDArray[np.float64]
    predicted_s: NDArray[np.float64]
    chosen: Mapping[str, int]


def times_of(problem: PointwiseConv2d, scenario: Scenario) -> LayerTimes:
    """Intensity and predicted time of every candidate of a layer that can run.

    M_A, the multiplications of a thread for each word that it fetches, is the harmonic mean of the warp tile's extents.
    """
    batch = FAMILY.space(problem, scenario.gpu).batch()
    seconds = evaluate_batch(FAMILY, problem, batch, scenario).seconds
    runs = np.isfinite(seconds)
    derived = candidates(problem, batch, scenario.gpu)
    height, width = derived.tile.warp_height, derived.tile.thread_width * derived.tile.element_lanes
    intensity = (2 * height * width / (height + width))[runs]
    near = np.flatnonzero(intensity >= intensity.max() * (1 - NEAR_TIE))
    blocks = derived.tile.blocks(problem)[runs]
    return LayerTimes(
        blocks_per_sm=derived.tile.blocks_per_sm[runs],
        intensity=intensity,
        predicted_s=seconds[runs],
        chosen={
            LARGEST_INTENSITY: int(near[np.lexsort((-intensity[near], blocks[near]))[0]]),
            FEWEST_REGISTERS: int(derived.registers[runs].argmin()),
            SHORTEST_TIME: int(seconds[runs].argmin()),
        },
    )


def draw(request: Request) -> tuple[Path, Path]:
    """Two layers on the GPU of the method's authors."""
    return draw_intensity_time(request.folder, LAYERS, scenario_of(GPU))


def draw_intensity_time(
    folder: Path, layers: Sequence[PointwiseConv2d], scenario: Scenario, name: str = "intensity_time"
) -> tuple[Path, Path]:
    """One panel for each layer; large open marks show what each of three rules chooses."""
    with figure(PAGE_INCHES, 3.3, ncols=len(layers), squeeze=False) as (drawn, axes):
        for axis, problem in zip(axes[0], layers, strict=True):
            _panel(axis, times_of(problem, scenario))
            axis.set_title(
                f"{problem.in_channels} → {problem.out_channels} channels, {problem.height}×{problem.width}, "
                f"{short_name(scenario.gpu)}"
            )
        axes[0][0].set_ylabel("predicted time in µs")
        handles, labels = axes[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=3)
        return save(drawn, folder, name)


def _panel(axis: Any, layer: LayerTimes) -> None:
    microseconds = layer.predicted_s * 1e6
    for index, resident in enumerate(np.unique(layer.blocks_per_sm)):
        some = layer.blocks_per_sm == resident
        label = f"planned for {resident} blocks per SM"
        style = {"color": CYCLE[index], "ms": 3.5, "mew": 0, "label": label}
        axis.plot(layer.intensity[some], microseconds[some], MARKERS[index + 2], **style)
    for rule, place in layer.chosen.items():
        style = {"mfc": "none", "mec": "black", "ms": 9, "mew": 1.2, "ls": "none", "label": rule}
        axis.plot(layer.intensity[place], microseconds[place], CHOICE_MARKERS[rule], **style)
    axis.set(xscale="log", yscale="log", xlabel="arithmetic intensity M_A, multiplications per word")
    number_ticks(axis.xaxis, round_numbers(*axis.get_xlim()))
    number_ticks(axis.yaxis, round_numbers(*axis.get_ylim()))
