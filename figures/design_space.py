"""The tuning space of the tiled convolution as a heat map of predicted times, on a GPU that nobody need own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.core.units import MILLISECONDS
from perfmodel.families.base import Batch
from perfmodel.families.registry import family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of

from .style import PAGE_INCHES, SEQUENTIAL, figure, number_ticks, round_numbers, save, short_name

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeMap:
    """Fastest time of every pair of shapes, shape ``(blocks, tiles)``, NaN where nothing runs; shapes are (x, y) pairs."""

    seconds: Floats
    blocks: tuple[tuple[int, int], ...]
    tiles: tuple[tuple[int, int], ...]


def best_by_shape(batch: Batch[Any], seconds: Floats) -> ShapeMap:
    """Fastest of all configurations of each block and tile shape; both in the order of their areas.

    >>> from perfmodel.families.tiled_conv2d import TiledConv2dConfiguration as Configuration
    >>> batch = Batch.of([Configuration(tile_size_y=1), Configuration(tile_size_y=1, read_only=1), Configuration()])
    >>> found = best_by_shape(batch, np.array([3.0, 2.0, 5.0]))
    >>> found.blocks, found.tiles, found.seconds.tolist()
    (((32, 4),), ((2, 1), (2, 2)), [[2.0, 5.0]])
    """
    blocks, row = _shapes(batch["block_size_x"], batch["block_size_y"])
    tiles, column = _shapes(batch["tile_size_x"], batch["tile_size_y"])
    matrix = np.full((len(blocks), len(tiles)), np.inf)
    np.minimum.at(matrix, (row, column), seconds)
    matrix[~np.isfinite(matrix)] = np.nan
    return ShapeMap(seconds=matrix, blocks=blocks, tiles=tiles)


def _shapes(x: Any, y: Any) -> tuple[tuple[tuple[int, int], ...], NDArray[np.intp]]:
    """Distinct shapes by area and width, and which one each candidate has."""
    found, index = np.unique(np.stack([x.astype(np.int64) * y, x, y], axis=1), axis=0, return_inverse=True)
    return tuple((width, height) for _, width, height in found.tolist()), index.ravel()


def label_shapes(axes: Any, found: ShapeMap) -> None:
    """Name every second row and every third column."""
    _name(axes.yaxis, found.blocks, 2)
    axes.set_ylabel("block: threads in x × y")
    _name(axes.xaxis, found.tiles, 3)
    axes.tick_params(axis="x", labelrotation=90)
    axes.tick_params(labelsize=6, length=2)
    axes.set_xlabel("tile: outputs of a thread in x × y")
    axes.set_facecolor("0.85")


def _name(axis: Any, shapes: tuple[tuple[int, int], ...], step: int) -> None:
    axis.set_ticks(range(0, len(shapes), step), [f"{x}×{y}" for x, y in shapes[::step]])


GPU = "h200"


def draw(folder: Path) -> tuple[Path, Path]:
    """The default problem on the H200."""
    return draw_design_space(folder, family("tiled_conv2d").default_problem(), scenario_of(GPU))


def draw_design_space(folder: Path, problem: Any, scenario: Scenario, name: str = "design_space") -> tuple[Path, Path]:
    """Predicted time over block and tile shapes at analytic fidelity; gives the SVG and the PNG."""
    batch, seconds = _evaluated(problem, scenario)
    runs = np.isfinite(seconds)
    found = best_by_shape(batch.take(runs), seconds[runs])
    with figure(PAGE_INCHES, 5.4) as (drawn, axes):
        times_ms = found.seconds * MILLISECONDS
        image = axes.imshow(times_ms, aspect="auto", cmap=SEQUENTIAL, norm="log")
        label_shapes(axes, found)
        best = np.unravel_index(np.nanargmin(found.seconds), found.seconds.shape)
        axes.plot(best[1], best[0], marker="o", mfc="none", mec="#D55E00", ms=9, mew=1.6)
        axes.set_title(
            f"tiled_conv2d {problem.filter_height}×{problem.filter_width} on {problem.width}×{problem.height}, "
            f"{short_name(scenario.gpu)}, closed forms: fastest of each shape\n"
            f"circle: the fastest of all, {np.nanmin(times_ms):.2f} ms; grey: cannot run"
        )
        bar = drawn.colorbar(image, ax=axes, label="predicted time in ms", shrink=0.8, pad=0.01)
        number_ticks(
            bar.ax.yaxis,
            round_numbers(np.nanmin(times_ms), np.nanmax(times_ms)),
        )
        return save(drawn, folder, name)


def _evaluated(problem: Any, scenario: Scenario) -> tuple[Batch[Any], Floats]:
    """All candidates of the space and their times, infinite where they cannot run."""
    chosen = family("tiled_conv2d")
    batch = chosen.space(problem, scenario.gpu).batch()
    return batch, evaluate_batch(chosen, problem, batch, scenario).seconds
