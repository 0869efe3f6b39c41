"""All figures by name: what each shows, whether it needs published measurements, and how it is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from perfmodel.errors import InputError

if TYPE_CHECKING:
    from perfmodel.profiles.kernel_profile import Fidelity

PUBLISHED_AT = (
    "github.com/AutoTuningAssociation/benchmark_hub (RTX 2080 Ti, RTX 3090) and "
    "github.com/schoonhovenrichard/GPU_benchmarking_paper (A100)"
)
"""Where the measurements are published that some figures compare with."""
MEASUREMENTS_HINT = (
    f"--measurements or PERFMODEL_DATA must name the folder of the measurements published at {PUBLISHED_AT}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Where a figure goes, where published measurements lie (None: not at hand), how they are predicted.

    ``fidelity`` is ``analytic`` or ``compiled``; the latter takes counts from the shipped store and compiles nothing.
    """

    folder: Path
    fidelity: Fidelity
    measurements: Path | None = None

    def require_measurements(self) -> Path:
        """The folder of published measurements; ``InputError`` says where they are published."""
        if self.measurements is None:
            raise InputError(f"this figure compares with measurements: {MEASUREMENTS_HINT}")
        return self.measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureEntry:
    """One figure; ``name`` is also its module and its file's name."""

    name: str
    shows: str
    needs_measurements: bool = False

    def draw(self, request: Request) -> tuple[Path, Path]:
        """Draw it; gives the SVG and the PNG."""
        if self.needs_measurements:
            request.require_measurements()
        drawn: tuple[Path, Path] = import_module(f".{self.name}", __package__).draw(request)
        return drawn


FIGURES: tuple[FigureEntry, ...] = (
    FigureEntry(
        name="design_space",
        shows="tuning space of tiled_conv2d on the H200: predicted time by block and tile shape",
    ),
    FigureEntry(
        name="predicted_measured",
        shows="predicted against measured time of every published configuration, by GPU",
        needs_measurements=True,
    ),
    FigureEntry(name="time_terms", shows="time of every resource for the best and the worst configurations"),
    FigureEntry(name="occupancy_cliffs", shows="occupancy by registers per thread, for several blocks and GPUs"),
    FigureEntry(
        name="regret_curve",
        shows="slowdown of the best of the K predicted fastest, by GPU, beside K drawn at random",
        needs_measurements=True,
    ),
    FigureEntry(name="roofline", shows="hierarchical roofline of one GPU with the best configuration of every family"),
    FigureEntry(
        name="error_by_limiter",
        shows="error of the predictions by what limits the configuration, by GPU",
        needs_measurements=True,
    ),
)


def figure_entry(name: str) -> FigureEntry:
    """The figure of a name; ``InputError`` suggests the nearest where there is none.

    >>> figure_entry("roofline").needs_measurements
    False
    """
    known = {entry.name: entry for entry in FIGURES}
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise InputError(f"unknown figure {name!r}{hint} (known: all, {', '.join(known)})")
    return known[name]
