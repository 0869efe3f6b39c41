"""The cases of the accuracy table: which runs, predicted by which fit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmodel.calibration.fitting import fit
from perfmodel.calibration.measured_runs import MeasuredRuns, dataset_name, measured_runs
from perfmodel.families.registry import family
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.coefficients import COEFFICIENT_NAMES
from perfmodel.time_model.combine import launch_seconds

from .figures import Figure, Figures, figures_of, mean, part
from .held_out import Coverage, HeldOut, architectures_out, raw_seconds, shapes_out

PUBLISHED = {
    "rtx-2080-ti": "tiled_conv2d/rtx-2080-ti.counters.csv",
    "rtx-3090": "tiled_conv2d/rtx-3090.csv",
    "a100-pcie-40gb": "tiled_conv2d/a100-pcie-40gb.csv",
}
"""Files of the published measurements by GPU; the folder is the family."""
OWN = {"h200": "h200.jsonl.gz", "h100-sxm-80gb": "h100.jsonl.gz"}
"""Files of the project's own records by GPU."""
FAMILIES = ("direct_conv2d", "pointwise_conv2d", "conv1d", "ssim")
TILED = "h200, tiled_conv2d"
"""The family that was published, too; the shipped coefficients were fitted to the small tiles of these runs."""
H200 = tuple(f"h200, {name}" for name in FAMILIES)
H100 = tuple(f"h100-sxm-80gb, {name}" for name in (*FAMILIES, "tiled_conv2d"))
WITH_LOCAL_BYTES = ("rtx-2080-ti", "rtx-3090")
"""GPUs whose files say which runs spilled registers."""
UNSPILLED = "tile_size_x * tile_size_y < 24 and local_bytes_per_thread == 0"
SMALL_TILES = "tile_size_x * tile_size_y < 14"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question of the table: which runs of which data sets, and how they are predicted."""

    name: str
    title: str
    datasets: tuple[str, ...]
    where: str | None
    figures: Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]


def figures_of_case(case: Case, published: Path, own: Path) -> dict[str, Figures]:
    """The figures of a case by data set, computed anew from the folders of published measurements and own records."""
    return case.figures([_runs(published, own, name, case.where) for name in case.datasets])


@functools.cache
def _runs(published: Path, own: Path, name: str, where: str | None) -> MeasuredRuns:
    """A data set with stored counts of every run, nothing is compiled; ``where`` chooses among published runs alone."""
    gpu, _, family_name = name.partition(", ")
    scenario = scenario_of(gpu)
    if family_name:
        chosen = family(family_name)
        rows = read_measurements(own / OWN[gpu], chosen)
        return measured_runs(name, chosen, rows, scenario, Fidelity.COMPILED, stored_only=True)
    path = published / PUBLISHED[gpu]
    chosen = family(path.parent.name)
    rows = read_measurements(path, chosen).drawn(where, None, 0)
    return measured_runs(dataset_name(scenario.gpu, 1), chosen, rows, scenario, Fidelity.COMPILED, stored_only=True)


def _name(data: MeasuredRuns) -> str:
    return data.runs.name if ", " in data.runs.name else data.runs.gpu.id


def _held_out(results: Sequence[HeldOut]) -> dict[str, Figures]:
    by_name = {}
    for one in results:
        covered = {} if one.coverage is None else {"coverage": _coverage(one.coverage)}
        by_name[_name(one.data)] = figures_of(one.data, one.predicted_s) | covered
    return by_name


def _coverage(found: Coverage) -> Figure:
    """The mean over problems; of a single one the part of its runs."""
    parts = found.of_problems
    return part(found.covered, found.n) if parts is None or len(parts) < 2 else mean(parts)


def _only(*names: str) -> Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]:
    """The named data sets with problems held out, by fits to all data sets."""
    return lambda data: _held_out([one for one in shapes_out(data) if _name(one.data) in names])


def _shipped(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """What a user gets who fits nothing: the coefficients that ship."""
    by_name = {}
    for one in data:
        runs, coefficients = one.runs, scenario_of(one.runs.gpu).calibration.coefficients
        by_name[_name(one)] = figures_of(
            one, launch_seconds(runs.profile, runs.blocks_per_sm, runs.gpu, coefficients)[0]
        )
    return by_name


def _from_others(*names: str) -> Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]:
    """The named data sets predicted by one fit to all others."""

    def figures(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
        trained = fit([one.runs for one in data if _name(one) not in names], COEFFICIENT_NAMES)
        return {_name(one): figures_of(one, raw_seconds(one, trained)) for one in data if _name(one) in names}

    return figures


CASES = (
    Case(
        name="shapes",
        title="published runs; launch shapes held out; no spills, < 24 outputs per thread",
        datasets=WITH_LOCAL_BYTES,
        where=UNSPILLED,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="shapes-all",
        title="published runs; launch shapes held out",
        datasets=WITH_LOCAL_BYTES,
        where=None,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="architecture-of-three",
        title="published runs; GPU held out, only its data sheet known; < 14 outputs per thread",
        datasets=tuple(PUBLISHED),
        where=SMALL_TILES,
        figures=lambda data: _held_out(architectures_out(data)),
    ),
    Case(
        name="shipped-all",
        title="published runs; nothing held out: shipped coefficients",
        datasets=tuple(PUBLISHED),
        where=None,
        figures=_shipped,
    ),
    Case(
        name="own",
        title="own runs; problems held out (ssim: launch shapes)",
        datasets=H200,
        where=None,
        figures=lambda data: _held_out(shapes_out(data)),
    ),
    Case(
        name="own-tiled",
        title="own runs; problems held out",
        datasets=(*H200, TILED),
        where=None,
        figures=_only(TILED),
    ),
    Case(
        name="unseen-kernels",
        title="own runs; GPU and family held out: fitted to the published runs",
        datasets=(*PUBLISHED, *H200),
        where=SMALL_TILES,
        figures=_from_others(*H200),
    ),
    Case(
        name="unfitted",
        title="own runs; this family on this GPU held out: fitted to its published runs and to other families here",
        datasets=(*PUBLISHED, *H200, TILED),
        where=SMALL_TILES,
        figures=_from_others(TILED),
    ),
    Case(
        name="relative",
        title="own runs; GPU held out: fitted to the H200, of the same architecture, and to the published runs",
        datasets=(*PUBLISHED, *H200, TILED, *H100),
        where=SMALL_TILES,
        figures=_from_others(*H100),
    ),
    Case(
        name="own-shipped",
        title="own runs; shipped coefficients, fitted to all but the larger tiles",
        datasets=(*H200, TILED),
        where=None,
        figures=_shipped,
    ),
)
