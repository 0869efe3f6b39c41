"""The rows of a task's result: what runs on a worker. One row for each candidate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import Enum
from socket import gethostname
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..compiler import disk_cache
from ..compiler.resources import Resources
from ..core.counts import COUNT_NAMES
from ..errors import InfeasibleError, PerfmodelError
from ..families.base import NONE_CODE, Batch, Family, enum_of
from ..families.profiling import gather_profiles
from ..families.registry import family_of
from ..prediction.evaluation import Evaluation, evaluate_batch
from ..prediction.feasibility import FITS, feasibility
from ..prediction.grid_occupancy import waves_per_sm
from ..prediction.predicting import backing_of
from ..prediction.ranking import rank_problem
from ..profiles.kernel_profile import Fidelity, KernelProfile
from ..time_model.combine import LIMITER_NAMES, TERM_NAMES, limiters
from .plan import CONFIGURATION_PREFIX, PROBLEM_PREFIX
from .tasks import SweepTask, candidates_of, code_version

_RESOURCES = tuple(field.name for field in fields(Resources))
LEADING = {
    "kernel": pa.string(),
    "gpu": pa.string(),
    "fidelity": pa.string(),
    "l2": pa.string(),
    "sm_clock_hz": pa.float64(),
    "place": pa.int64(),
}
"""Columns before those of problem and configuration."""
TRAILING = {
    "rejected": pa.string(),
    "predicted_s": pa.float64(),
    "interval_low_s": pa.float64(),
    "interval_high_s": pa.float64(),
    "time_limiter": pa.string(),
    "calibration_status": pa.string(),
    "exact": pa.bool_(),
    **dict.fromkeys(_RESOURCES, pa.int64()),
    "blocks_per_sm": pa.int64(),
    "warps_per_sm": pa.int64(),
    "occupancy": pa.float64(),
    "occupancy_limiter": pa.string(),
    "waves_per_sm": pa.float64(),
    **dict.fromkeys((f"{name}_s" for name in TERM_NAMES), pa.float64()),
    **dict.fromkeys(COUNT_NAMES, pa.float64()),
}
"""Columns behind them; the names are those of `perfmodel.frame`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The rows of a task, and why the worker could not keep something in the disk cache, empty where it could."""

    table: pa.Table
    trouble: str


def run_task(task: SweepTask) -> TaskResult:
    """Predict the candidates of a task, in this process.

    Raises:
        PerfmodelError: the worker runs other code than whoever made the task, or has no compiler.
    """
    if task.code != code_version():
        raise PerfmodelError(
            f"the worker on {gethostname()} runs other code of perfmodel; install the same version there"
        )
    table = _ranking_table(task) if task.ranking else _space_table(task, candidates_of(task))
    return TaskResult(table=table, trouble=disk_cache.trouble())


def _table(
    task: SweepTask, configurations: dict[str, Any], results: dict[str, Any], count: int, places: Sequence[int] | None
) -> pa.Table:
    scenario = task.scenario
    given = {
        "kernel": family_of(task.problem).name,
        "gpu": scenario.gpu.id,
        "fidelity": task.fidelity.value,
        "l2": scenario.l2.value,
        "sm_clock_hz": scenario.gpu.boost_clock_hz,
        "place": None,
    }
    leading = {name: pa.array([given[name]] * count, kind) for name, kind in LEADING.items()}
    if places is not None:
        leading["place"] = pa.array(places, pa.int64())
    problem = {
        f"{PROBLEM_PREFIX}{field.name}": pa.array([_value(getattr(task.problem, field.name))] * count)
        for field in fields(task.problem)
        if field.metadata.get("shown", True)
    }
    return pa.table(leading | problem | configurations | results)


def _value(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _configuration_columns(batch: Batch[Any]) -> dict[str, Any]:
    return {f"{CONFIGURATION_PREFIX}{name}": _column(batch, name, codes) for name, codes in batch.columns.items()}


def _column(batch: Batch[Any], name: str, codes: NDArray[np.int32]) -> Any:
    """Values of a configuration's field; null where it has no effect."""
    kind = enum_of(batch.configuration_type, name)
    lacking = codes == NONE_CODE
    if kind is None:
        return pa.array(codes.astype(np.int64), mask=lacking)
    values = [member.value for member in kind]
    if not all(isinstance(value, int | float) for value in values):
        values = [str(value) for value in values]
    return pa.array(values).take(pa.array(np.where(lacking, 0, codes), mask=lacking))


def _space_table(task: SweepTask, batch: Batch[Any]) -> pa.Table:
    """Every candidate of a batch, those that cannot run with the reason."""
    family, count = family_of(task.problem), len(batch)
    reasons: list[str | None] = [None] * count
    kept, found = list(range(count)), None
    if task.fidelity is Fidelity.ANALYTIC:
        found = evaluate_batch(family, task.problem, batch, task.scenario) if count else None
    elif count:
        kept, profiles = _executed(family, task, batch, reasons)
        if kept:
            found = evaluate_batch(family, task.problem, batch.take(kept), task.scenario, profiles)
    results = {name: pa.nulls(count, kind) for name, kind in TRAILING.items()}
    if found is not None:
        codes = found.feasibility.reason_codes
        for place, code in zip(kept, codes.tolist(), strict=True):
            if code != FITS:
                reasons[place] = found.feasibility.reasons[code]
        places = np.full(count, -1)
        places[np.array(kept)[codes == FITS]] = np.flatnonzero(codes == FITS)
        order = pa.array(places, mask=places < 0)
        results |= {name: column.take(order) for name, column in _result_columns(found, task).items()}
    results["rejected"] = pa.array(reasons, pa.string())
    return _table(task, _configuration_columns(batch), results, count, None)


def _executed(
    family: Family[Any, Any], task: SweepTask, batch: Batch[Any], reasons: list[str | None]
) -> tuple[list[int], list[KernelProfile]]:
    """Which candidates have a profile, and these; why the others have none is put into ``reasons``."""
    problem, gpu = task.problem, task.scenario.gpu
    # before anything is compiled: the compiler may need fewer registers than the estimate
    few, checks = np.ones(len(batch), np.int32), family.checks(problem, batch, gpu)
    first = feasibility(family.launch(problem, batch, gpu), few, gpu, checks)
    fitting = np.flatnonzero(first.reason_codes == FITS).tolist()
    for index in np.flatnonzero(first.reason_codes != FITS).tolist():
        reasons[index] = first.reasons[int(first.reason_codes[index])]
    outcomes = gather_profiles(family, problem, batch.take(fitting), gpu, fidelity=task.fidelity, stores=())
    kept, profiles = [], []
    for index, outcome in zip(fitting, outcomes, strict=True):
        if isinstance(outcome, KernelProfile):
            kept.append(index)
            profiles.append(outcome)
        else:
            reasons[index] = str(outcome)
    return kept, profiles


def _result_columns(found: Evaluation, task: SweepTask) -> dict[str, Any]:
    """Columns of an evaluation, as `Prediction.to_row` has them."""
    count, gpu = len(found), task.scenario.gpu

    def every(values: Any) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(values), count)

    columns: dict[str, Any] = {"predicted_s": found.seconds}
    low, high = np.full(count, np.nan), np.full(count, np.nan)
    statuses = np.full(count, "", object)
    kernel = family_of(task.problem).name
    for followed in np.unique(found.followed).tolist():
        backing = backing_of(kernel, task.scenario, task.fidelity, followed=followed)
        those = found.followed == followed
        statuses[those] = backing.status
        low[those], high[those] = backing.interval_s(found.seconds[those]) or (np.nan, np.nan)
    columns |= {"interval_low_s": low, "interval_high_s": high, "calibration_status": statuses}
    columns["time_limiter"] = np.array(LIMITER_NAMES, object)[every(limiters(found.terms))]
    columns["exact"] = every(found.profile.exact)
    columns |= {name: every(getattr(found.profile.resources, name)) for name in _RESOURCES}
    occupancy = found.occupancy
    _, first, same = np.unique(every(occupancy.limiter_bits), return_index=True, return_inverse=True)
    texts = np.array([_limiter_text(found, index) for index in first.tolist()], object)
    columns |= {
        "blocks_per_sm": every(occupancy.blocks_per_sm),
        "warps_per_sm": every(occupancy.warps_per_sm),
        "occupancy": every(occupancy.fraction),
        "occupancy_limiter": every(texts[same]),
        "waves_per_sm": every(waves_per_sm(found.profile.launch.blocks, occupancy.blocks_per_sm, gpu)),
    }
    columns |= {f"{name}_s": every(values) for name, values in found.terms.items()}
    columns |= {name: every(values) for name, values in found.counts.items()}
    return {name: _array(values, TRAILING[name]) for name, values in columns.items()}


def _limiter_text(found: Evaluation, index: int) -> str:
    return ", ".join(limiter.value for limiter in found.occupancy.limiters(index))


def _array(values: NDArray[Any], kind: Any) -> Any:
    """A column, null where a number is not known."""
    mask = ~np.isfinite(values) if values.dtype.kind == "f" else None
    if pa.types.is_integer(kind):
        values = np.where(mask, 0, values) if mask is not None else values
        return pa.array(values.astype(np.int64), kind, mask=mask)
    return pa.array(values, kind, mask=mask)


def _ranking_table(task: SweepTask) -> pa.Table:
    """The best of the whole space; one row with the reason where none can run."""
    try:
        ranking = rank_problem(task.problem, task.scenario, task.fidelity, task.best or 1)
    except InfeasibleError as error:
        results = {name: pa.nulls(1, kind) for name, kind in TRAILING.items()}
        return _table(task, {}, results | {"rejected": pa.array([str(error)])}, 1, None)
    rows = [prediction.to_row() for prediction in ranking.top]
    results = {
        name: pa.nulls(len(rows), kind) if name == "rejected" else pa.array([row[name] for row in rows], kind)
        for name, kind in TRAILING.items()
    }
    configurations = _configuration_columns(Batch.of([prediction.configuration for prediction in ranking.top]))
    return _table(task, configurations, results, len(rows), range(1, len(rows) + 1))
