"""Filling the counts store from files of measurements (``make counts``).

Takes hours where nothing is in the compile cache; can be interrupted, because every finished part is written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.calibration.measured_runs import RECORDED
from perfmodel.compiler.pool import run_many
from perfmodel.compiler.toolchain import compiler_version
from perfmodel.core.progress import Advance, no_progress
from perfmodel.errors import PerfmodelError
from perfmodel.families.profiling import Depth, configuration_profile
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.counts_store import CountsStore, empty_store, read_store, store_key, with_profiles, write_store
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.records.measurements import read_measurements

PART = 64
"""Rows between two writes of the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One configuration to count, on one or more GPUs: what a worker process needs to know."""

    family_name: str
    problem: Any
    configuration: Any
    gpu_ids: tuple[str, ...]


def count_row(row: Row) -> list[KernelProfile]:
    """Profiles of one row for each of its GPUs."""
    chosen = family(row.family_name)
    return [
        configuration_profile(chosen, row.problem, row.configuration, load_gpu(gpu_id), Depth.WHOLE)
        for gpu_id in row.gpu_ids
    ]


def rows_of(family_name: str, paths: Sequence[Path], *, recorded: bool = False) -> list[Row]:
    """The distinct configurations of files of measurements, each with the GPUs that it was measured on.

    ``recorded``: only of files that record registers.
    """
    chosen = family(family_name)
    gpus: dict[tuple[Any, Any], list[str]] = {}
    for path in paths:
        measured = read_measurements(path, chosen)
        if recorded and RECORDED not in measured.columns:
            continue
        for i in np.flatnonzero(measured.ran).tolist():
            case = (measured.problems[measured.problem_index[i]], measured.batch.configuration(i))
            found = gpus.setdefault(case, [])
            if measured.gpu not in found:
                found.append(measured.gpu)
    return [
        Row(family_name=family_name, problem=problem, configuration=configuration, gpu_ids=tuple(found))
        for (problem, configuration), found in gpus.items()
    ]


def _keys(row: Row, compiler: str) -> list[str]:
    """The row's key in the store for each of its GPUs."""
    chosen = family(row.family_name)
    request = chosen.compile_request(row.problem, row.configuration, load_gpu(row.gpu_ids[0]))
    return [store_key(request, row.problem, load_gpu(gpu_id).architecture.name, compiler) for gpu_id in row.gpu_ids]


def _pending(rows: Sequence[Row], store: CountsStore, again: bool) -> list[tuple[list[str], Row]]:
    """Rows that the store lacks, or ``again`` those that it has, with their keys; equal programs have equal keys."""
    seen, found = set[str](), []
    for row in rows:
        keys = _keys(row, store.compiler)
        if not seen.issuperset(keys) and again == (store.rows.keys() >= set(keys)):
            seen.update(keys)
            found.append((keys, row))
    return found


def fill(
    path: Path,
    rows: Sequence[Row],
    time_limit_s: float,
    workers: int,
    advance: Advance = no_progress,
    *,
    again: bool = False,
) -> list[str]:
    """Count all rows that the store at ``path`` lacks and write it part by part; gives the reason of each failure.

    A store of another compiler is filled anew. ``again``: count the rows that it has instead, and replace them.
    """
    version = compiler_version()
    store = read_store(path.read_bytes(), path.name) if path.is_file() else empty_store(version)
    if store.compiler != version:
        store = empty_store(version)
    pending, failures = _pending(rows, store, again), list[str]()
    for start in range(0, len(pending), PART):
        part = pending[start : start + PART]
        outcomes = run_many(
            count_row,
            [(row,) for _, row in part],
            describe=lambda row: row.family_name,
            workers=workers,
            time_limit_s=time_limit_s,
            advance=advance,
        )
        failures += [str(outcome) for outcome in outcomes if isinstance(outcome, PerfmodelError)]
        counted = {
            key: profile
            for (keys, _), outcome in zip(part, outcomes, strict=True)
            if not isinstance(outcome, PerfmodelError)
            for key, profile in zip(keys, outcome, strict=True)
        }
        store = with_profiles(store, counted)
        write_store(store, path)
    return failures
