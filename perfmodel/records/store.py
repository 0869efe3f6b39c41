"""Records as JSON lines: appended one at a time, so that a kill at any moment loses at most the run in flight."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..core.files import parse_json, read_text, write_text
from ..core.second_names import by_field
from ..errors import InputError
from ..families.registry import family, family_names
from .codec import record_from_json, to_json
from .schema import SCHEMA_VERSION, Record

NEW_LINE = b"\n"


def record_line(record: Record) -> str:
    """The record as one line of JSON, without the line end."""
    return json.dumps(to_json(record), allow_nan=False, separators=(",", ":"))


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
    place = f"{path}: line {number}"
    value = parse_json(path, line, number)
    version = value.get("schema") if isinstance(value, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(f"{place}: schema {version!r} is not known; this version reads schema {SCHEMA_VERSION}")
    record = record_from_json(Record, value, place)
    if record.name not in family_names():
        return record
    return replace(record, problem=by_field(family(record.name).problem_type, record.problem))


def read_records(path: Path) -> tuple[Record, ...]:
    """All records of a file, plain or gzip.

    Raises:
        InputError: The file cannot be read or holds a line that is no record.
    """
    return tuple(record for _, record in parse_records(path, read_text(path)))


def write_records(path: Path, records: Iterable[Record]) -> None:
    """Replace a file by these records; meant for what is committed, while campaigns append."""
    write_text(path, "".join(record_line(record) + "\n" for record in records))
