"""One look for all figures: legible at column width, colour-blind safe, SVG and PNG side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from perfmodel.errors import PerfmodelError
from perfmodel.gpus.gpu import Gpu

COLUMN_INCHES = 3.5
PAGE_INCHES = 7.2
SEQUENTIAL = "viridis_r"
"""Small is bright: what is fast stands out."""
CYCLE = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#F0E442")
"""Colours that remain distinct under the common colour-vision deficiencies (Okabe and Ito 2008)."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
"""A shape beside each colour, so that no figure depends on colour alone."""
FEWEST_TICKS = 2
"""An axis with fewer numbers says nothing."""
GUIDE = "#8c8c8c"
"""Lines that help to read a figure and are no data."""

_SETTINGS: dict[Any, Any] = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 8,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 7,
    "legend.handlelength": 1.6,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "svg.hashsalt": "perfmodel",
    "svg.fonttype": "none",
    "savefig.dpi": 200,
}


def require_matplotlib() -> None:
    """Nothing where matplotlib is installed; else ``PerfmodelError`` with the extra that brings it."""
    if find_spec("matplotlib") is None:
        raise PerfmodelError("figures need matplotlib: pip install 'perfmodel[figures]'")


@contextmanager
def figure(width_inches: float, height_inches: float, **grid: Any) -> Iterator[tuple[Any, Any]]:
    """A figure with its axes (arguments of ``Figure.subplots``); no display is needed and no global state is left behind."""
    require_matplotlib()
    import matplotlib as mpl
    from cycler import cycler
    from matplotlib.figure import Figure

    with mpl.rc_context(_SETTINGS | {"axes.prop_cycle": cycler(color=CYCLE)}):
        drawn = Figure(figsize=(width_inches, height_inches), layout="constrained")
        yield drawn, drawn.subplots(**grid)


def save(drawn: Any, folder: Path, name: str) -> tuple[Path, Path]:
    """Write ``name.svg`` and ``name.png``; the same input gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    drawn.savefig(svg, metadata={"Date": None})
    drawn.savefig(png, metadata={"Software": None}, pil_kwargs={"optimize": True})
    return svg, png


def number_ticks(axis: Any, values: Sequence[float]) -> None:
    """Ticks at the given values, written as plain numbers, on an axis of any scale; ``axis`` is ``axes.xaxis`` or ``.yaxis``."""
    axis.set_ticks(values, [f"{value:g}" for value in values])
    axis.set_ticks([], minor=True)


def round_numbers(low: float, high: float) -> list[float]:
    """The numbers 1, 2 and 5 times powers of ten within ``low`` … ``high`` (both positive), for a logarithmic axis.

    >>> round_numbers(0.3, 6.0)
    [0.5, 1.0, 2.0, 5.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = [float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5)]
    return [number for number in numbers if low <= number <= high]


def log_ticks(low: float, high: float, *, decades: bool = False) -> list[float]:
    """Round numbers within a logarithmic axis, with ``decades`` powers of ten alone where there are enough; else three others.

    >>> log_ticks(0.3, 6.0), log_ticks(0.3, 60.0, decades=True)
    ([0.5, 1.0, 2.0, 5.0], [1.0, 10.0])
    >>> log_ticks(1.1, 1.9)
    [1.2, 1.45, 1.73]
    """
    numbers = round_numbers(low, high)
    tens = [value for value in numbers if math.log10(value).is_integer()]
    if decades and len(tens) >= FEWEST_TICKS:
        return tens
    if len(numbers) >= FEWEST_TICKS:
        return numbers
    return [float(f"{low * (high / low) ** part:.3g}") for part in (1 / 6, 1 / 2, 5 / 6)]


def in_words(name: str) -> str:
    """A term, coefficient or configuration field as people write it.

    >>> in_words("exposed_memory_latency"), in_words("l2"), in_words("fma_issue_intervals")
    ('exposed memory latency', 'L2', 'FMA issue intervals')
    """
    return " ".join(_SPELT.get(word, word) for word in name.split("_"))


_SPELT = {"l2": "L2", "dram": "DRAM", "fma": "FMA", "lsu": "LSU", "sfu": "SFU", "fp64": "FP64", "fp16": "FP16"}


def short_name(gpu: Gpu) -> str:
    """The GPU's name without the words that all names share.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> short_name(load_gpu("rtx-2080-ti"))
    'RTX 2080 Ti'
    """
    return gpu.name.removeprefix("NVIDIA ").removeprefix("GeForce ")
