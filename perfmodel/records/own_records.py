"""Own records of a family as a table of measurements."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import MeasurementSchema, check_columns
from .schema import L2State, Record, RecordKind, RunKey
from .store import parse_records
from .table import RawTable, only_gpu

MS_PER_SECOND = 1e3


def parse_own_records(path: Path, text: str, schema: MeasurementSchema, l2: L2State) -> RawTable:
    """The family's configurations among the records, a row for each; time is the median with that state of the L2 cache.

    Time and counters of one configuration may stand in several records. A configuration that failed, or has no such
    timing, has time NaN. Resources and counters are columns under their own names.

    Raises:
        InputError: A damaged line, no run of the family, runs on several GPUs, or a missing field.
    """
    chosen = [
        (line, record)
        for line, record in _all_records(path, text)
        if record.kind is RecordKind.KERNEL and record.name == schema.family_name
    ]
    if not chosen:
        raise InputError(f"{path}: no record of a kernel of {schema.family_name}")
    runs: dict[RunKey, list[Record]] = {}
    places: dict[RunKey, str] = {}
    for line, record in chosen:
        places.setdefault(record.key, f"line {line}")
        check_columns(path, [*record.problem, *record.configuration], schema, places[record.key])
        runs.setdefault(record.key, []).append(record)
    times = [_time_s(records, l2) for records in runs.values()]
    rows = [_row(records) for records in runs.values()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, Sequence[Any]] = {name: [row.get(name) for row in rows] for name in names}
    columns["time_ms"] = [time * MS_PER_SECOND for time in times]
    return RawTable(
        path=path,
        gpu=only_gpu(path, [record.gpu for _, record in chosen]),
        columns=columns,
        places=list(places.values()),
        time_s=np.array(times),
        clock_recorded=True,
    )


@functools.lru_cache(maxsize=1)
def _all_records(path: Path, text: str) -> tuple[tuple[int, Record], ...]:
    """Those of a file, read once where one family after the other is asked for."""
    return tuple(parse_records(path, text))


def _time_s(records: Sequence[Record], l2: L2State) -> float:
    """Median of the last successful timing, NaN where there is none."""
    timings = [timing for record in records if record.failure is None and (timing := record.timing(l2)) is not None]
    return timings[-1].median_s if timings else math.nan


def _row(records: Sequence[Record]) -> dict[str, Any]:
    """Problem, configuration, resources, counters and failure of one configuration; a later record replaces an earlier."""
    row: dict[str, Any] = {"failure": None}
    for record in records:
        row |= {"gpu": record.gpu, **record.problem, **record.configuration, **record.counters}
        if record.failure is not None:
            row["failure"] = record.failure.kind.value
        if record.resources is not None:
            resources = record.resources
            row["registers_per_thread"] = resources.registers_per_thread
            row["shared_bytes_per_block"] = resources.static_shared_bytes + resources.dynamic_shared_bytes
            row["local_bytes_per_thread"] = resources.stack_bytes_per_thread
    return row
