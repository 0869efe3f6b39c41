"""Own records as JSON lines, appended so that a kill loses at most the run in flight, and as a table of measurements."""

from __future__ import annotations

import fcntl
import functools
import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from ..core.documents import converted, to_builtins
from ..core.files import parse_json, read_text
from ..core.json_aliases import by_field
from ..core.kept import note_kept
from ..core.units import MILLISECONDS
from ..errors import InputError
from ..families.registry import family, family_names
from ..launch.launch import L2State
from .columns import MeasurementSchema, RawTable, check_columns, only_gpu
from .schema import SCHEMA_VERSION, Record, RecordKind, RunKey

NEW_LINE = b"\n"


def record_line(record: msgspec.Struct) -> str:
    """The record as one line of JSON, without the line end."""
    return json.dumps(to_builtins(record), allow_nan=False, separators=(",", ":"))


def append_record(path: Path, record: Record) -> None:
    """Add one record to the end of the file, created where it is missing, and wait until the disk has it.

    A last line that an earlier kill left unfinished is cut off first: it was no record. Writers exclude one another.
    """
    line = record_line(record).encode() + NEW_LINE
    with path.open("a+b") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        _cut_unfinished_line(stream)
        stream.write(line)
        stream.flush()
        os.fsync(stream.fileno())
    note_kept()


def _cut_unfinished_line(stream: Any) -> None:
    size = stream.seek(0, os.SEEK_END)
    if size == 0:
        return
    stream.seek(size - 1)
    if stream.read(1) == NEW_LINE:
        return
    stream.seek(0)
    end = stream.read().rfind(NEW_LINE) + 1
    stream.truncate(end)
    stream.seek(0, os.SEEK_END)


def parse_records(path: Path, text: str) -> Iterator[tuple[int, Record]]:
    """Line number and record, in order; an unfinished last line, which a kill leaves behind, is passed over.

    Raises:
        InputError: A finished line is not a record of this schema; file, line and field are named.
    """
    lines = text.split("\n")
    unfinished = lines.pop()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield number, _record(path, number, line)
    if unfinished.strip() and _is_complete(unfinished):
        yield len(lines) + 1, _record(path, len(lines) + 1, unfinished)


def _is_complete(line: str) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _record(path: Path, number: int, line: str) -> Record:
    try:
        record = msgspec.json.decode(line, type=Record)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        record = _refused(path, number, line)
    if record.schema != SCHEMA_VERSION:
        record = _refused(path, number, line)
    if record.name not in family_names():
        return record
    return replace(record, problem=by_field(family(record.name).problem_type, record.problem))


def _refused(path: Path, number: int, line: str) -> Record:
    """Raise what is wrong with a line: damaged JSON, another schema, a key or a value."""
    place = f"{path}: line {number}"
    value = parse_json(path, line, number)
    version = value.get("schema") if isinstance(value, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(f"{place}: schema {version!r} is not known; this version reads schema {SCHEMA_VERSION}")
    return converted(Record, value, place)


def read_records(path: Path) -> tuple[Record, ...]:
    """All records of a file, plain or gzip.

    Raises:
        InputError: The file cannot be read or holds a line that is no record.
    """
    return tuple(record for _, record in parse_records(path, read_text(path)))


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
    columns["time_ms"] = [time * MILLISECONDS for time in times]
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
            row["cubin_sha256"] = resources.cubin_sha256
    return row
