"""The tuning space of the tiled convolution as heat maps: predicted time and, where there are runs, measured and error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.conditions import Conditions
from perfmodel.families.base import Batch
from perfmodel.families.registry import family
from perfmodel.predicting import evaluate_under

from .style import DIVERGING, PAGE_INCHES, SEQUENTIAL, figure, save

Floats = NDArray[np.float64]


def best_by_shape(batch: Batch[Any], seconds: Floats) -> tuple[Floats, list[str], list[str]]:
    """Fastest time of every pair of block and tile shape: a matrix (NaN where nothing runs) with its row and column names."""
    blocks = np.stack([batch["block_size_x"], batch["block_size_y"]], axis=1)
    tiles = np.stack([batch["tile_size_x"], batch["tile_size_y"]], axis=1)
    order = np.lexsort((blocks[:, 0], blocks[:, 0] * blocks[:, 1]))
    rows, row = np.unique(blocks[order], axis=0, return_inverse=True)
    columns, column = np.unique(tiles[order], axis=0, return_inverse=True)
    by_size = np.argsort(columns[:, 0] * columns[:, 1], kind="stable")
    rank_of = np.empty(len(columns), np.int64)
    rank_of[by_size] = np.arange(len(columns))
    matrix = np.full((len(rows), len(columns)), np.inf)
    np.minimum.at(matrix, (row.ravel(), rank_of[column.ravel()]), seconds[order])
    matrix[~np.isfinite(matrix)] = np.nan
    names = [f"{x}×{y}" for x, y in rows.tolist()]
    return matrix, names, [f"{x}×{y}" for x, y in columns[by_size].tolist()]


def draw_design_space(folder: Path, problem: Any, under: Conditions, name: str = "design_space") -> tuple[Path, Path]:
    """Predicted time over block and tile shapes at analytic fidelity; gives the SVG and the PNG."""
    chosen = family("tiled_conv2d")
    parts, times = [], []
    for chunk in chosen.space(problem, under.gpu).chunks():
        found = evaluate_under(chosen, problem, chunk, under)
        parts.append(chunk)
        times.append(found.seconds)
    batch = Batch(
        chosen.configuration_type,
        {field: np.concatenate([part[field] for part in parts]) for field in parts[0].columns},
    )
    matrix, rows, columns = best_by_shape(batch, np.concatenate(times))
    with figure(PAGE_INCHES, 6.4) as (drawn, axes):
        image = axes.imshow(matrix * 1e3, aspect="auto", cmap=SEQUENTIAL + "_r", norm="log")
        _label(axes, rows, columns)
        axes.set_title(
            f"tiled_conv2d {problem.filter_height}×{problem.filter_width} on {problem.image_width}×{problem.image_height}, "
            f"{under.gpu.id}: predicted time of the best configuration of each shape"
        )
        drawn.colorbar(image, ax=axes, label="ms (log scale)", shrink=0.8)
        return save(drawn, folder, name)


def draw_comparison(
    folder: Path, batch: Batch[Any], predicted: Floats, measured: Floats, gpu: str, name: str = "design_space_compared"
) -> tuple[Path, Path]:
    """Predicted, measured and relative error side by side, after one scale factor; arrays of shape ``(n,)`` in seconds."""
    scaled = predicted * float(np.median(measured / predicted))
    maps = [best_by_shape(batch, times) for times in (scaled, measured)]
    (left, rows, columns), (middle, *_) = maps
    shared: dict[str, Any] = {"aspect": "auto", "cmap": SEQUENTIAL + "_r"}
    limits = {"vmin": np.nanmin(middle) * 1e3, "vmax": np.nanquantile(middle, 0.95) * 1e3}
    with figure(PAGE_INCHES * 1.6, 6.4, ncols=3, sharey=True) as (drawn, axes):
        for axis, matrix, title in zip(axes, (left, middle), ("predicted, scaled", "measured"), strict=False):
            image = axis.imshow(matrix * 1e3, **shared, **limits)
            axis.set_title(f"{gpu}: {title}")
        drawn.colorbar(image, ax=list(axes[:2]), label="ms", shrink=0.6)
        error = axes[2].imshow((left / middle - 1) * 100, aspect="auto", cmap=DIVERGING, vmin=-20, vmax=20)
        axes[2].set_title("error")
        drawn.colorbar(error, ax=axes[2], label="%", shrink=0.6)
        for axis in axes:
            _label(axis, rows, columns)
        return save(drawn, folder, name)


def _label(axes: Any, rows: list[str], columns: list[str]) -> None:
    axes.set_yticks(range(0, len(rows), 2), rows[::2], fontsize=5)
    axes.set_xticks(range(0, len(columns), 2), columns[::2], fontsize=5, rotation=90)
    axes.set_ylabel("block (x×y threads)")
    axes.set_xlabel("tile (x×y outputs a thread)")
