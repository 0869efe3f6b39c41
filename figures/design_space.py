"""The tuning space of the tiled convolution as a heat map of predicted times, on a GPU that nobody need own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.registry import family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of

from .registry import Request
from .shape_maps import Floats, best_by_shape, label_shapes
from .style import PAGE_INCHES, SEQUENTIAL, figure, number_ticks, round_numbers, save, short_name

GPU = "h200"


def draw(request: Request) -> tuple[Path, Path]:
    """The default problem on the H200."""
    return draw_design_space(request.folder, family("tiled_conv2d").default_problem(), scenario_of(GPU))


def draw_design_space(folder: Path, problem: Any, scenario: Scenario, name: str = "design_space") -> tuple[Path, Path]:
    """Predicted time over block and tile shapes at analytic fidelity; gives the SVG and the PNG."""
    batch, seconds = _evaluated(problem, scenario)
    runs = np.isfinite(seconds)
    found = best_by_shape(batch.take(runs), seconds[runs])
    with figure(PAGE_INCHES, 5.4) as (drawn, axes):
        image = axes.imshow(found.seconds * 1e3, aspect="auto", cmap=SEQUENTIAL, norm="log")
        label_shapes(axes, found)
        best = np.unravel_index(np.nanargmin(found.seconds), found.seconds.shape)
        axes.plot(best[1], best[0], marker="o", mfc="none", mec="#D55E00", ms=9, mew=1.6)
        axes.set_title(
            f"tiled_conv2d {problem.filter_height}×{problem.filter_width} on {problem.width}×{problem.height}, "
            f"{short_name(scenario.gpu)}, closed forms: fastest of each shape\n"
            f"circle: the fastest of all, {np.nanmin(found.seconds) * 1e3:.2f} ms; grey: cannot run"
        )
        bar = drawn.colorbar(image, ax=axes, label="predicted time in ms", shrink=0.8, pad=0.01)
        number_ticks(bar.ax.yaxis, round_numbers(np.nanmin(found.seconds) * 1e3, np.nanmax(found.seconds) * 1e3))
        return save(drawn, folder, name)


def _evaluated(problem: Any, scenario: Scenario) -> tuple[Batch[Any], Floats]:
    """All candidates of the space and their times, infinite where they cannot run."""
    chosen = family("tiled_conv2d")
    batch = chosen.space(problem, scenario.gpu).batch()
    return batch, evaluate_batch(chosen, problem, batch, scenario).seconds
