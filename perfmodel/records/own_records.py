"""Own records of a family as a table of measurements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from .columns import MeasurementSchema, check_columns
from .schema import L2State, Record, RecordKind
from .store import parse_records
from .table import RawTable, only_gpu

MS_PER_SECOND = 1e3


def parse_own_records(path: Path, text: str, schema: MeasurementSchema, l2: L2State) -> RawTable:
    """The runs of the family's kernels among the records; time is the median with that state of the L2 cache.

    A failed run, or one without such a timing, has time NaN. Resources and counters are columns under their own names.

    Raises:
        InputError: A damaged line, no run of the family, runs on several GPUs, or a missing field.
    """
    chosen = [
        (line, record)
        for line, record in parse_records(path, text)
        if record.kind is RecordKind.KERNEL and record.name == schema.family_name
    ]
    if not chosen:
        raise InputError(f"{path}: no record of a kernel of {schema.family_name}")
    rows, places, times = [], [], []
    for line, record in chosen:
        place = f"line {line}"
        check_columns(path, [*record.problem, *record.configuration], schema, place)
        timing = record.timing(l2) if record.failure is None else None
        times.append(timing.median_s if timing else math.nan)
        rows.append(_row(record))
        places.append(place)
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns: dict[str, Sequence[Any]] = {name: [row.get(name) for row in rows] for name in names}
    columns["time_ms"] = [time * MS_PER_SECOND for time in times]
    return RawTable(
        path=path,
        gpu=only_gpu(path, [record.gpu for _, record in chosen]),
        columns=columns,
        places=places,
        time_s=np.array(times),
    )


def _row(record: Record) -> dict[str, Any]:
    resources = record.resources
    row: dict[str, Any] = {"gpu": record.gpu, **record.problem, **record.configuration, **record.counters}
    row["failure"] = record.failure.kind.value if record.failure else None
    if resources:
        row["registers_per_thread"] = resources.registers_per_thread
        row["shared_bytes_per_block"] = resources.static_shared_bytes + resources.dynamic_shared_bytes
        row["local_bytes_per_thread"] = resources.stack_bytes_per_thread
    return row
