"""The tuning space of the tiled convolution three times: predicted, measured, and the error of the prediction."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .published import Comparison, compared
from .registry import Request
from .shape_maps import best_by_shape, label_shapes
from .style import DIVERGING, PAGE_INCHES, SEQUENTIAL, figure, number_ticks, round_numbers, save, short_name

GPU = "rtx-3090"
ERROR_LIMIT_PERCENT = 25


def draw(request: Request) -> tuple[Path, Path]:
    """The published runs of the RTX 3090."""
    found = compared(request.require_measurements(), GPU, request.fidelity)
    return draw_comparison(request.folder, found, request.fidelity.value)


def draw_comparison(
    folder: Path, found: Comparison, fidelity: str, name: str = "design_space_compared"
) -> tuple[Path, Path]:
    """Predicted (after one scale factor), measured and relative error of the fastest configuration of each shape."""
    predicted = best_by_shape(found.batch, found.scaled_s)
    measured = best_by_shape(found.batch, found.measured_s)
    limits = {"vmin": np.nanmin(measured.seconds) * 1e3, "vmax": np.nanmax(measured.seconds) * 1e3}
    with figure(PAGE_INCHES, 5.0, ncols=3, sharey=True) as (drawn, axes):
        for axis, shape_map, title in zip(axes, (predicted, measured), ("predicted", "measured"), strict=False):
            image = axis.imshow(shape_map.seconds * 1e3, aspect="auto", cmap=SEQUENTIAL, norm=_log(limits))
            axis.set_title(title)
        bar = drawn.colorbar(image, ax=list(axes[:2]), label="time in ms", location="bottom", shrink=0.6, pad=0.01)
        number_ticks(bar.ax.xaxis, round_numbers(limits["vmin"], limits["vmax"]))
        error = axes[2].imshow(
            (predicted.seconds / measured.seconds - 1) * 100,
            aspect="auto",
            cmap=DIVERGING,
            vmin=-ERROR_LIMIT_PERCENT,
            vmax=ERROR_LIMIT_PERCENT,
        )
        axes[2].set_title("error: predicted / measured − 1")
        drawn.colorbar(error, ax=axes[2], label="%", location="bottom", extend="both", shrink=0.9, pad=0.01)
        for column, axis in enumerate(axes):
            label_shapes(axis, measured, rows=column == 0)
        spilled = best_by_shape(found.batch, np.where(found.spilled, np.inf, found.measured_s))
        rows, columns = np.nonzero(np.isnan(spilled.seconds) & np.isfinite(measured.seconds))
        axes[2].plot(columns, rows, ".", color="black", ms=2, mew=0)
        drawn.suptitle(
            f"tiled_conv2d 15×15 on {short_name(found.scenario.gpu)}, fastest of each shape; {found.covered}, {fidelity} counts, "
            f"predictions times {found.accuracy.scale:.2f}\n"
            "grey: no run; dot: the compiler of the measured runs spilled registers",
            fontsize=8,
            x=0.01,
            ha="left",
        )
        return save(drawn, folder, name)


def _log(limits: dict[str, Any]) -> Any:
    from matplotlib.colors import LogNorm

    return LogNorm(**limits)
