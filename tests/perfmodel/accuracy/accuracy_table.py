"""The accuracy table: its cases, and their figures computed anew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import Accuracy, accuracy, regrets_by_problem, tau_of_pairs_apart
from perfmodel.accuracy.studies.held_out import HeldOut, architectures_out, shapes_out
from perfmodel.accuracy.studies.learning_curve import DRAWS, Design, learned
from perfmodel.accuracy.studies.sensitivity import sign_rates
from perfmodel.calibration.fitting import fit
from perfmodel.calibration.measured_runs import MeasuredRuns, dataset_name, measured_runs
from perfmodel.families.registry import family
from perfmodel.prediction.prediction import Fidelity
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.coefficients import COEFFICIENT_NAMES, Coefficients
from perfmodel.time_model.combine import launch_seconds

ROOT = Path(__file__).parents[3]
FAMILY = "tiled_conv2d"
FILES = {
    "rtx-2080-ti": "rtx-2080-ti.counters.csv",
    "rtx-3090": "rtx-3090.csv",
    "a100-pcie-40gb": "a100-pcie-40gb.csv",
}
OWN_RECORDS = {
    "h200": ROOT / "validation" / "data" / "h200.jsonl.gz",
    "h100-sxm-80gb": ROOT / "validation" / "data" / "h100.jsonl.gz",
}
MEASURED = tuple(f"h200, {name}" for name in ("direct_conv2d", "pointwise_conv2d", "conv1d", "ssim"))
"""GPU and family of the project's own measurements."""
TILED = "h200, tiled_conv2d"
"""Own measurements of the family that was published; the shipped coefficients were fitted to the small tiles of them."""
RELATIVE = tuple(name.replace("h200", "h100-sxm-80gb") for name in (*MEASURED, TILED))
"""The same families on another GPU of that architecture."""
WITH_LOCAL_BYTES = ("rtx-2080-ti", "rtx-3090")
UNSPILLED = "tile_size_x * tile_size_y < 24 and local_bytes_per_thread == 0"
SMALL_TILES = "tile_size_x * tile_size_y < 14"

OWN = (*MEASURED, TILED, *RELATIVE)

APART = 1.05
"""Factor between two times from which on their order is asked for."""

Figures = dict[str, float | None]
"""Figures by name; None where the case has no such figure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question of the table: which runs, and how they are told."""

    name: str
    title: str
    gpus: tuple[str, ...]
    where: str | None
    tell: Callable[[Sequence[MeasuredRuns]], dict[str, Figures]]


def data_of(folder: Path, gpus: Sequence[str], where: str | None) -> list[MeasuredRuns]:
    """The published runs of some GPUs with their facts; own ones of the families of ``MEASURED``."""
    return [_own_runs(gpu) if gpu in OWN else _runs(folder, gpu, where) for gpu in gpus]


@functools.cache
def _own_runs(name: str) -> MeasuredRuns:
    gpu, family_name = name.split(", ")
    chosen, scenario = family(family_name), scenario_of(gpu)
    return measured_runs(name, chosen, read_measurements(OWN_RECORDS[gpu], chosen), scenario, Fidelity.COMPILED)


@functools.cache
def _runs(folder: Path, gpu: str, where: str | None) -> MeasuredRuns:
    chosen, scenario = family(FAMILY), scenario_of(gpu)
    rows = read_measurements(folder / FAMILY / FILES[gpu], chosen).drawn(where, None, 0)
    return measured_runs(dataset_name(scenario.gpu, 1), chosen, rows, scenario, Fidelity.COMPILED)


def figures_of(found: Accuracy) -> Figures:
    """Those figures of an accuracy that the table shows."""
    names = ("n", "mape", "mape_scaled", "kendall_tau", "regret_top1", "regret_top5")
    return {name: float(getattr(found, name)) for name in names}


def _told(data: MeasuredRuns, predicted_s: NDArray[np.float64]) -> Figures:
    """What any prediction of a data set is judged by; of several problems also what each one's own choice costs."""
    seconds = data.runs.seconds
    signs = sign_rates(data.batch, data.problem_index, predicted_s, seconds)
    found = figures_of(accuracy(predicted_s, seconds)) | {"what_if": signs.all.rate}
    if len(np.unique(data.problem_index)) > 1:
        choices = regrets_by_problem(predicted_s, seconds, data.problem_index, 1)
        found["choice"] = float(np.exp(np.log(choices).mean()))
        found["worst_choice"] = float(choices.max())
        found["tau_apart"] = tau_of_pairs_apart(predicted_s, seconds, APART)
    return found


def _held_out(told: Sequence[HeldOut]) -> dict[str, Figures]:
    return {
        _row(one.data): _told(one.data, one.predicted_s)
        | {"coverage": None if one.coverage is None else one.coverage.fraction}
        for one in told
    }


def _row(data: MeasuredRuns) -> str:
    return data.runs.name if data.runs.name in OWN else data.runs.gpu.id


def _shapes(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    return _held_out(shapes_out(data))


def _architectures(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    return _held_out(architectures_out(data))


def _residual(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """Medians over the draws; ``n`` is the number of runs that were seen."""
    found: dict[str, Figures] = {}
    for one in data:
        points = learned(one, 160, range(DRAWS), residual=True, design=Design.SPREAD)
        names = ("mape", "mape_scaled", "kendall_tau", "regret_top1", "regret_top5")
        medians = {name: points.median(name) for name in names}
        found[one.runs.gpu.id] = {"n": 160.0, **medians}
    return found


def _shipped(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """What a user gets who fits nothing: the coefficients that ship."""
    return {_row(one): _told_by(one, scenario_of(one.runs.gpu).calibration.coefficients) for one in data}


def _told_by(data: MeasuredRuns, coefficients: Coefficients) -> Figures:
    runs = data.runs
    return _told(data, launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, coefficients)[0])


def _tiled(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """The family that is not of ``MEASURED``, problems held out, by a fit to all of them."""
    return _held_out([one for one in shapes_out(data) if one.data.runs.name == TILED])


def _other_families(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """The same by a fit that saw the family on other GPUs and other families on this one."""
    return _told_by_others(data, (TILED,))


def _relative(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """Own measurements told by a fit that saw the same families on another GPU of the architecture."""
    return _told_by_others(data, RELATIVE)


def _unseen_kernels(data: Sequence[MeasuredRuns]) -> dict[str, Figures]:
    """Own measurements told by a fit to the published runs alone: other GPUs, another family."""
    return _told_by_others(data, MEASURED)


def _told_by_others(data: Sequence[MeasuredRuns], names: Sequence[str]) -> dict[str, Figures]:
    """The named data sets told by a fit to all others."""
    trained = fit([one.runs for one in data if one.runs.name not in names], COEFFICIENT_NAMES)
    return {_row(one): _told_by(one, trained.coefficients_for(one.runs.gpu)) for one in data if one.runs.name in names}


CASES = (
    Case(
        name="shapes",
        title="launch shapes held out, nothing spilled, < 24 outputs a thread",
        gpus=WITH_LOCAL_BYTES,
        where=UNSPILLED,
        tell=_shapes,
    ),
    Case(name="shapes-all", title="launch shapes held out, all runs", gpus=WITH_LOCAL_BYTES, where=None, tell=_shapes),
    Case(
        name="architecture",
        title="fitted on the other of the two, data sheet only; nothing spilled, < 24 outputs",
        gpus=WITH_LOCAL_BYTES,
        where=UNSPILLED,
        tell=_architectures,
    ),
    Case(
        name="architecture-of-three",
        title="fitted on the other two, data sheet only; < 14 outputs",
        gpus=tuple(FILES),
        where=SMALL_TILES,
        tell=_architectures,
    ),
    Case(
        name="residual",
        title="160 runs spread, residual learned, other shapes told; nothing spilled, < 24 outputs",
        gpus=WITH_LOCAL_BYTES,
        where=UNSPILLED,
        tell=_residual,
    ),
    Case(
        name="shipped", title="shipped coefficients, < 14 outputs", gpus=tuple(FILES), where=SMALL_TILES, tell=_shipped
    ),
    Case(name="shipped-all", title="shipped coefficients, all runs", gpus=tuple(FILES), where=None, tell=_shipped),
    Case(
        name="own",
        title="own measurements, cold L2: problems held out (ssim: launch shapes)",
        gpus=MEASURED,
        where=None,
        tell=_shapes,
    ),
    Case(
        name="unseen_kernels",
        title="own measurements, cold L2, fitted on the published runs alone: other GPUs, another family",
        gpus=(*FILES, *MEASURED),
        where=SMALL_TILES,
        tell=_unseen_kernels,
    ),
    Case(
        name="own-tiled",
        title="own measurements, cold L2, of the published family too: problems held out",
        gpus=(*MEASURED, TILED),
        where=None,
        tell=_tiled,
    ),
    Case(
        name="unfitted",
        title="own measurements, cold L2, fitted on the family's published runs and on other families here",
        gpus=(*FILES, *MEASURED, TILED),
        where=SMALL_TILES,
        tell=_other_families,
    ),
    Case(
        name="relative",
        title="own measurements, cold L2, fitted on the H200 and the published runs: another GPU of a fitted architecture",
        gpus=(*FILES, *MEASURED, TILED, *RELATIVE),
        where=SMALL_TILES,
        tell=_relative,
    ),
    Case(
        name="own-shipped",
        title="own measurements, cold L2: shipped coefficients, which have seen all but the larger tiles",
        gpus=(*MEASURED, TILED),
        where=None,
        tell=_shipped,
    ),
)
