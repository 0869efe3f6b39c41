"""Measured runs with the work that each of them does: what fits, studies and the residual learner take."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.batched import joined, mapped
from ..errors import InputError
from ..families.base import Batch, Family
from ..gpus.gpu import Gpu
from ..prediction.predicting import evaluate_scenario
from ..prediction.prediction import Fidelity
from ..prediction.scenario import Scenario
from ..profiles.facts import Advance, Facts, no_progress
from ..profiles.gather import Outcome, gather_facts
from ..profiles.work import Work
from ..records.measurements import Measurements
from ..records.schema import L2State
from .fitting import FitSet
from .store_choice import stores_for

LEAST_RUNS = 10
"""Runs below which a data set says too little to be fitted to."""
LEAST_PROBLEMS = 5
"""Problems from which on whole ones are held out of a fit."""

Floats = NDArray[np.float64]

GEOMETRY = ("grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z")
"""Fields of a launch that tell its shape; runs that have them alike are twins, whatever else differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """A data set as the fit takes it, with what else is known of its n runs and the hash of the file that it came from.

    Runs of one group are held out together, so that no run is predicted from its twins: they have the same launch geometry
    (``geometry``, shape ``(n, 6)``), or the same problem where there are many. ``batch`` and ``problem_index`` are the
    configurations and which of ``problems`` they solve. ``kernel``, ``l2`` and ``fidelity`` say what was run, in what state of
    the L2, and how deep the work of each run was looked at.
    """

    kernel: str
    l2: L2State
    fidelity: Fidelity
    runs: FitSet
    groups: NDArray[np.intp]
    geometry: NDArray[np.int64]
    batch: Batch[Any]
    problems: tuple[Any, ...]
    problem_index: NDArray[np.intp]
    registers: NDArray[np.int64]
    code_bytes: NDArray[np.int64]
    sha256: str

    def __len__(self) -> int:
        return len(self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The runs of one problem."""

    work: Work
    batch: Batch[Any]
    columns: dict[str, NDArray[Any]]


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
    """The runs of a file that gave a time and that the model has facts for; with ``stored_only`` nothing is compiled.

    Raises:
        InputError: Fewer than ``LEAST_RUNS`` are left.
    """
    gathered = None
    if fidelity is not Fidelity.ANALYTIC:
        gathered = partial(
            gather_facts,
            fidelity=fidelity,
            equivalents=True,
            stored_only=stored_only,
            stores=stores_for(family, measurements, scenario.gpu) if fidelity is Fidelity.COMPILED else (),
            advance=advance,
        )
    found = [_part(family, measurements, index, scenario, gathered) for index in range(len(measurements.problems))]
    parts = [part for part in found if part is not None]
    count = sum(len(part.batch) for part in parts)
    if count < LEAST_RUNS:
        raise InputError(f"{measurements.path}: {count} runs can be fitted to; at least {LEAST_RUNS} are needed")
    work = joined(*(part.work for part in parts))
    columns = {key: np.concatenate([part.columns[key] for part in parts]) for key in parts[0].columns}
    geometry = np.stack([np.asarray(getattr(work.launch, key), np.int64) for key in GEOMETRY], axis=1)
    return MeasuredRuns(
        kernel=family.name,
        l2=scenario.l2,
        fidelity=fidelity,
        runs=FitSet(
            name=name,
            gpu=scenario.gpu,
            work=work,
            blocks_per_sm=columns["blocks_per_sm"],
            seconds=columns["seconds"],
            free_scale=not measurements.clock_recorded,
        ),
        groups=columns["problem_index"] if held_by_problem(measurements.problems) else shape_groups([geometry])[0],
        geometry=geometry,
        batch=Batch.joined([part.batch for part in parts]),
        problems=measurements.problems,
        problem_index=columns["problem_index"],
        registers=columns["registers"],
        code_bytes=columns["code_bytes"],
        sha256=hashlib.sha256(measurements.path.read_bytes()).hexdigest(),
    )


def _part(
    family: Family[Any, Any],
    measurements: Measurements,
    index: int,
    scenario: Scenario,
    gathered: Callable[..., list[Outcome]] | None,
) -> _Part | None:
    """The usable runs of one problem, None where there are none; ``gathered`` gives facts, None for closed forms alone."""
    problem = measurements.problems[index]
    rows = np.flatnonzero((measurements.problem_index == index) & measurements.ran)
    batch, facts = measurements.batch.take(rows), None
    if len(rows) and gathered is not None:
        outcomes = gathered(family, problem, batch, scenario.gpu)
        known = np.array([isinstance(outcome, Facts) for outcome in outcomes])
        facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
        rows, batch = rows[known], batch.take(known)
    if not len(rows):
        return None
    found = evaluate_scenario(family, problem, batch, scenario, facts)
    fits = np.flatnonzero(np.isfinite(found.seconds))
    code = (
        np.zeros(len(rows), np.int64) if facts is None else np.array([f.resources.code_bytes for f in facts], np.int64)
    )
    columns = {
        "blocks_per_sm": np.broadcast_to(found.occupancy.blocks_per_sm, len(rows)),
        "seconds": measurements.time_s[rows],
        "problem_index": np.full(len(rows), index, np.intp),
        "registers": np.broadcast_to(np.asarray(found.registers, np.int64), len(rows)),
        "code_bytes": code,
    }
    return _Part(
        work=taken_work(found.work, fits, len(rows)),
        batch=batch.take(fits),
        columns={key: column[fits] for key, column in columns.items()},
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


def taken_work(work: Work, rows: NDArray[Any], count: int) -> Work:
    """The work of some of ``count`` candidates, every number spread to an array."""

    def take(values: Any) -> NDArray[Any]:
        return np.asarray(np.broadcast_to(np.asarray(values), count)[rows])

    return mapped(take, work)


def taken_runs(runs: FitSet, rows: NDArray[Any]) -> FitSet:
    """The runs at the given indices or under the given mask."""
    return replace(
        runs,
        work=taken_work(runs.work, rows, len(runs.seconds)),
        blocks_per_sm=np.asarray(runs.blocks_per_sm)[rows],
        seconds=runs.seconds[rows],
    )


def taken(data: MeasuredRuns, rows: NDArray[Any]) -> MeasuredRuns:
    """The data set with the runs at the given indices or under the given mask alone."""
    return replace(
        data,
        runs=taken_runs(data.runs, rows),
        groups=data.groups[rows],
        geometry=data.geometry[rows],
        batch=data.batch.take(rows),
        problem_index=data.problem_index[rows],
        registers=data.registers[rows],
        code_bytes=data.code_bytes[rows],
    )


def dataset_name(gpu: Gpu, number: int) -> str:
    """A name for a data set that TOML takes as a bare key.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> dataset_name(load_gpu("h200"), 2)
    'h200-2'
    """
    bare = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in gpu.id)
    return f"{bare}-{number}"
