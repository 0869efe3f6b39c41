"""Measurements as CSV: one row for each run, a column for each field of problem and configuration, ``time_ms``."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

import numpy as np

from ..errors import InputError
from .columns import MEASURABLE_MS, MeasurementSchema, RawTable, check_columns, measurable, only_gpu

TIME_COLUMN = "time_ms"
GPU_COLUMN = "gpu"
SECONDS_PER_MS = 1e-3


def parse_csv(path: Path, text: str, schema: MeasurementSchema) -> RawTable:
    """The rows of a CSV text; an empty ``time_ms`` is a run that failed and becomes NaN.

    Raises:
        InputError: No header, no rows, a missing or repeated column, a row of another width, a time that is no positive
            number; file and line are named.
    """
    lines, rows = _rows(path, text)
    if not rows:
        raise InputError(f"{path}: empty file; a header line and at least one measurement are needed")
    header = [name.strip() for name in rows[0]]
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"{path}: line {lines[0]}: column {name!r} stands twice")
    check_columns(path, header, schema, f"line {lines[0]}")
    if TIME_COLUMN not in header:
        raise InputError(f"{path}: line {lines[0]}: column {TIME_COLUMN!r} is missing")
    if len(rows) == 1:
        raise InputError(f"{path}: line {lines[0]}: no measurement follows the header")
    for line, row in zip(lines, rows, strict=True):
        if len(row) != len(header):
            raise InputError(f"{path}: line {line}: {len(row)} cells where the header has {len(header)} columns")
    columns = {name: [row[position] for row in rows[1:]] for position, name in enumerate(header)}
    places = [f"line {line}" for line in lines[1:]]
    times = [_time_ms(path, place, cell) for place, cell in zip(places, columns[TIME_COLUMN], strict=True)]
    return RawTable(
        path=path,
        gpu=only_gpu(path, columns.get(GPU_COLUMN, [])),
        columns=columns,
        places=places,
        time_s=np.array(times) * SECONDS_PER_MS,
    )


def _rows(path: Path, text: str) -> tuple[list[int], list[list[str]]]:
    reader = csv.reader(io.StringIO(text), strict=True)
    lines, rows = [], []
    try:
        for row in reader:
            if row:
                lines.append(reader.line_num)
                rows.append(row)
    except csv.Error as error:
        raise InputError(f"{path}: line {reader.line_num}: not CSV: {error}") from error
    return lines, rows


def _time_ms(path: Path, place: str, cell: str) -> float:
    if not cell.strip():
        return math.nan
    try:
        time_ms = float(cell)
    except ValueError:
        time_ms = math.nan
    if not measurable(time_ms):
        least, most = MEASURABLE_MS
        raise InputError(
            f"{path}: {place}: column {TIME_COLUMN!r}: {cell!r} is not a positive number of milliseconds "
            f"({least:g} … {most:g})"
        )
    return time_ms
