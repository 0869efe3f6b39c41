"""Measured runs with the profile of each: what fits and the accuracy table take."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.batched import joined, mapped
from ..core.progress import Advance, no_progress
from ..errors import InputError, PerfmodelError
from ..families.base import Batch, Family
from ..families.profiling import gather_profiles, stored_profiles
from ..gpus.gpu import Gpu
from ..prediction.evaluation import Evaluation, evaluate_batch
from ..prediction.scenario import Scenario
from ..profiles.counts_store import CountsStore, load_stores
from ..profiles.kernel_profile import Fidelity, KernelProfile
from ..records.measurements import Measurements
from .fitting import FitSet

RECORDED = "registers_per_thread"
"""Column with the registers of the program that was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedRows:
    """Rows (indices) of a file that solve one of its problems, and their evaluation; what has no profile is left out."""

    problem_index: int
    rows: NDArray[np.intp]
    batch: Batch[Any]
    evaluation: Evaluation


def evaluated_rows(
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance = no_progress,
    *,
    stored_only: bool = False,
    stores: tuple[CountsStore, ...] | None = None,
    failed: Callable[[PerfmodelError], None] = lambda error: None,
) -> Iterator[EvaluatedRows]:
    """The rows of a file that have a time, problem by problem.

    Args:
        family: what was measured.
        measurements: the file.
        scenario: GPU and the rest.
        fidelity: where the counts of each configuration come from.
        advance: called once for each row that is looked up, compiled or executed.
        stored_only: compile nothing.
        stores: where to look counts up; those of `stores_for` where None.
        failed: called with the reason for each row that does not compile or is not executed, and is left out.

    Raises:
        PerfmodelError: no row of the only problem compiles and runs; it is the reason of the first.
    """
    if stores is None:
        stores = stores_for(family, measurements, scenario.gpu) if fidelity is Fidelity.COMPILED else ()
    for index, problem in enumerate(measurements.problems):
        rows = np.flatnonzero(measurements.ran & (measurements.problem_index == index))
        batch, executed = measurements.batch.take(rows), None
        if len(rows) and fidelity is not Fidelity.ANALYTIC:
            outcomes = gather_profiles(
                family,
                problem,
                batch,
                scenario.gpu,
                fidelity=fidelity,
                equivalents=True,
                stored_only=stored_only,
                stores=stores,
                advance=advance,
            )
            known = np.array([isinstance(outcome, KernelProfile) for outcome in outcomes])
            for outcome in outcomes:
                if isinstance(outcome, PerfmodelError):
                    failed(outcome)
            if not (known.any() or stored_only) and len(measurements.problems) == 1:
                raise next(outcome for outcome in outcomes if not isinstance(outcome, KernelProfile))
            executed = [outcome for outcome in outcomes if isinstance(outcome, KernelProfile)]
            rows, batch = rows[known], batch.take(known)
        if len(rows):
            evaluation = evaluate_batch(family, problem, batch, scenario, executed)
            yield EvaluatedRows(problem_index=index, rows=rows, batch=batch, evaluation=evaluation)


def stores_for(family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> tuple[CountsStore, ...]:
    """Where to look profiles of these runs up, one store after the other; the last is that of the extra ``compile``.

    Compilers differ in the registers that they give a kernel, by a few or by a hundred, and with them in how many blocks
    share an SM. Where a file records registers, the store whose registers are the recorded ones in most runs comes first.
    """
    usual, *others = load_stores(family.name)
    if not others or RECORDED not in measurements.columns:
        return (usual,)
    best = max((usual, *others), key=lambda store: _agreement(store, family, measurements, gpu))
    return (usual,) if best is usual else (best, usual)


def _agreement(store: CountsStore, family: Family[Any, Any], measurements: Measurements, gpu: Gpu) -> int:
    """Runs whose stored registers are the recorded ones."""
    recorded = measurements.columns[RECORDED].to_numpy()
    equal = 0
    for index, problem in enumerate(measurements.problems):
        rows = (measurements.ran & (measurements.problem_index == index)).nonzero()[0].tolist()
        stored = stored_profiles(family, problem, [measurements.batch.configuration(i) for i in rows], gpu, store)
        equal += sum(
            profile is not None and profile.resources.registers_per_thread == recorded[i]
            for i, profile in zip(rows, stored, strict=True)
        )
    return equal


LEAST_RUNS = 10
"""Runs below which a data set says too little to be fitted to."""
LEAST_PROBLEMS = 5
"""Problems from which on whole ones are held out of a fit."""

Floats = NDArray[np.float64]

GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
"""Fields of a launch that are its shape. Runs of one shape are twins, whatever else differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """A data set as the fit takes it, with what else is known of its n runs and the hash of the file that it came from.

    Runs of one group are held out together, so that no run is predicted from its twins: they have the same launch geometry
    (``geometry``, shape ``(n, 6)``), or the same problem where there are many. ``batch`` and ``problem_index`` are the
    configurations and which of ``problems`` they solve.
    """

    kernel: str
    runs: FitSet
    groups: NDArray[np.intp]
    geometry: NDArray[np.int64]
    batch: Batch[Any]
    problems: tuple[Any, ...]
    problem_index: NDArray[np.intp]
    sha256: str
    closed: FitSet | None = None
    """The same runs as closed forms alone see them; None where those are ``runs``, or where there are none."""
    doubt: str | None = None
    """What to say where the file names another GPU than the one that its times are taken for."""

    def __len__(self) -> int:
        return len(self.groups)


def measured_runs(
    name: str,
    family: Family[Any, Any],
    measurements: Measurements,
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance = no_progress,
    *,
    stored_only: bool = False,
) -> MeasuredRuns:
    """The runs of a file that gave a time and that the model can evaluate; with ``stored_only`` nothing is compiled.

    Raises:
        InputError: Fewer than ``LEAST_RUNS`` are left.
    """
    parts = list(evaluated_rows(family, measurements, scenario, fidelity, advance, stored_only=stored_only))
    fits = [np.flatnonzero(np.isfinite(part.evaluation.seconds)) for part in parts]
    count = sum(map(len, fits))
    if count < LEAST_RUNS:
        raise InputError(f"{measurements.path}: {count} runs can be fitted to; at least {LEAST_RUNS} are needed")
    runs = _fit_set(name, parts, fits, scenario, measurements)
    closed = None
    if family.closed_forms and fidelity is not Fidelity.ANALYTIC:
        evaluated = [
            replace(
                part,
                evaluation=evaluate_batch(family, measurements.problems[part.problem_index], part.batch, scenario),
            )
            for part in parts
        ]
        closed = _fit_set(name, evaluated, fits, scenario, measurements)
    profile = runs.profile
    rows = np.concatenate([part.rows[kept] for part, kept in zip(parts, fits, strict=True)])
    geometry = np.stack([np.asarray(getattr(profile.launch, key), np.int64) for key in GEOMETRY], axis=1)
    problem_index = np.asarray(measurements.problem_index[rows], np.intp)
    return MeasuredRuns(
        kernel=family.name,
        runs=runs,
        groups=problem_index if held_by_problem(measurements.problems) else shape_groups([geometry])[0],
        geometry=geometry,
        batch=measurements.batch.take(rows),
        problems=measurements.problems,
        problem_index=problem_index,
        sha256=hashlib.sha256(measurements.path.read_bytes()).hexdigest(),
        closed=closed,
        doubt=measurements.doubt_about(scenario.gpu),
    )


def _fit_set(
    name: str,
    parts: Sequence[EvaluatedRows],
    fits: Sequence[NDArray[np.intp]],
    scenario: Scenario,
    measurements: Measurements,
) -> FitSet:
    """Those rows of each part that fit the GPU; one that fits by its compiled registers alone counts as one block an SM."""
    pairs = list(zip(parts, fits, strict=True))
    resident = [np.broadcast_to(part.evaluation.occupancy.blocks_per_sm, len(part.rows))[kept] for part, kept in pairs]
    return FitSet(
        name=name,
        gpu=scenario.gpu,
        profile=joined(*(taken_profile(part.evaluation.profile, kept, len(part.rows)) for part, kept in pairs)),
        blocks_per_sm=np.maximum(np.concatenate(resident), 1),
        seconds=measurements.time_s[np.concatenate([part.rows[kept] for part, kept in pairs])],
        free_scale=not measurements.clock_recorded,
    )


def held_by_problem(problems: Sequence[Any]) -> bool:
    """Whether a data set has problems enough to hold whole ones out.

    >>> held_by_problem(["one"]), held_by_problem(range(9))
    (False, True)
    """
    return len(problems) >= LEAST_PROBLEMS


def shape_groups(geometries: Sequence[NDArray[np.int64]]) -> list[NDArray[np.intp]]:
    """The group of every run, numbered alike in all data sets: runs of one launch geometry are of one group.

    >>> first, second = np.array([[4, 32], [2, 64], [4, 32]]), np.array([[4, 32]])
    >>> [groups.tolist() for groups in shape_groups([first, second])]
    [[1, 0, 1], [1]]
    """
    inverse = np.unique(np.concatenate(geometries), axis=0, return_inverse=True)[1]
    ends = np.cumsum([len(one) for one in geometries])[:-1]
    return [np.asarray(part, np.intp) for part in np.split(inverse.reshape(-1), ends)]


def taken_profile(profile: KernelProfile, rows: NDArray[Any], count: int) -> KernelProfile:
    """The profiles of some of ``count`` candidates, every number spread to an array."""

    def take(values: Any) -> NDArray[Any]:
        return np.asarray(np.broadcast_to(np.asarray(values), count)[rows])

    return mapped(take, profile)


def taken_runs(runs: FitSet, rows: NDArray[Any]) -> FitSet:
    """The runs at the given indices or under the given mask."""
    return replace(
        runs,
        profile=taken_profile(runs.profile, rows, len(runs.seconds)),
        blocks_per_sm=np.asarray(runs.blocks_per_sm)[rows],
        seconds=runs.seconds[rows],
    )


def taken(data: MeasuredRuns, rows: NDArray[Any]) -> MeasuredRuns:
    """The data set with the runs at the given indices or under the given mask alone."""
    return replace(
        data,
        runs=taken_runs(data.runs, rows),
        closed=None if data.closed is None else taken_runs(data.closed, rows),
        groups=data.groups[rows],
        geometry=data.geometry[rows],
        batch=data.batch.take(rows),
        problem_index=data.problem_index[rows],
    )


def dataset_name(gpu: Gpu, number: int) -> str:
    """A name for a data set that TOML takes as a bare key.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> dataset_name(load_gpu("h200"), 2)
    'h200-2'
    """
    bare = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in gpu.id)
    return f"{bare}-{number}"
