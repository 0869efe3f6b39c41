"""One look for all figures: legible at column width, colour-blind safe, SVG and PNG side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COLUMN_INCHES = 3.5
PAGE_INCHES = 7.2
SEQUENTIAL = "viridis"
DIVERGING = "PuOr"
CYCLE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
"""Colours that remain distinct under the common colour-vision deficiencies (Okabe and Ito 2008)."""


@contextmanager
def figure(width_inches: float, height_inches: float, **grid: Any) -> Iterator[tuple[Any, Any]]:
    """A figure with its axes (arguments of ``plt.subplots``), closed afterwards; no display is needed."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    settings: dict[Any, Any] = {
        "font.size": 8,
        "axes.prop_cycle": mpl.cycler(color=CYCLE),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 8,
        "legend.frameon": False,
        "legend.fontsize": 7,
        "svg.hashsalt": "perfmodel",
        "svg.fonttype": "none",
        "savefig.dpi": 200,
    }
    with mpl.rc_context(settings):
        drawn, axes = plt.subplots(figsize=(width_inches, height_inches), layout="constrained", **grid)
        try:
            yield drawn, axes
        finally:
            plt.close(drawn)


def save(drawn: Any, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``name.svg`` and ``name.png``; the same input gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    drawn.savefig(svg, metadata={"Date": None})
    drawn.savefig(png, metadata={"Software": None})
    return svg, png
