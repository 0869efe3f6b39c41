"""Kernel Tuner's cache file, read into a table.

Format as written by Kernel Tuner's ``util.store_cache``: one JSON object with ``device_name``, ``kernel_name``,
``problem_size``, ``tune_params_keys``, ``tune_params``, ``objective`` and ``cache``, which maps the joined values of a
configuration to its parameters and its ``time`` in milliseconds, or to the name of the failure. A run that was broken
off leaves the last two braces unwritten; Kernel Tuner reads such a file all the same, and so does this module.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import parse_json
from ..core.units import SECONDS_PER_MS
from ..errors import InputError
from .columns import MeasurementSchema, RawTable, check_columns, measurable

REQUIRED_KEYS = ("device_name", "problem_size", "tune_params", "cache")
ERROR_KEY = "__error__"
"""Where Kernel Tuner 1.0 and newer may put the name of a failure."""
UNWRITTEN_END = "}\n}"
FAILURE_TIME_MS = 1e20
"""What old versions stored as the time of a configuration that could not run."""


def parse_kernel_tuner_cache(
    path: Path, text: str, schema: MeasurementSchema, problem_size_fields: tuple[str, ...]
) -> RawTable:
    """The entries of a cache; failed configurations have time NaN and their failure in the column ``failure``.

    ``problem_size_fields`` are the fields of the family's problem that ``problem_size`` gives, x first.

    Raises:
        InputError: Damaged JSON (line and column named), another kind of file, no entries, an entry without its fields.
    """
    document = cache_document(path, text)
    entries = document["cache"]
    if not entries:
        raise InputError(f"{path}: the Kernel Tuner cache holds no configuration")
    sizes = _problem_sizes(path, document["problem_size"], problem_size_fields)
    names = [*sizes, *document["tune_params"]]
    rows, places, times = [], [], []
    for key, entry in entries.items():
        place = f"entry {key!r}"
        if not isinstance(entry, dict) or not {"time", ERROR_KEY} & set(entry):
            raise InputError(f"{path}: {place}: no object with a time")
        check_columns(path, [*sizes, *entry], schema, place)
        rows.append({**sizes, **entry})
        places.append(place)
        times.append(_time_ms(path, place, time_or_failure(entry)))
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in names}
    columns["time_ms"] = times
    outcomes = [time_or_failure(row) for row in rows]
    columns["failure"] = [outcome if isinstance(outcome, str) else None for outcome in outcomes]
    return RawTable(
        path=path,
        gpu=str(document["device_name"]),
        columns=columns,
        places=places,
        time_s=np.array(times) * SECONDS_PER_MS,
    )


def cache_document(path: Path, text: str) -> Mapping[str, Any]:
    """A cache file's JSON object with the keys that every one has; that of a run broken off is closed first.

    Raises:
        InputError: Damaged JSON (line and column named), or another kind of file.
    """
    stripped = text.strip()
    try:
        document = parse_json(path, stripped)
    except InputError as damage:
        try:
            document = parse_json(path, stripped.removesuffix(",") + UNWRITTEN_END)
        except InputError:
            raise damage from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: not a Kernel Tuner cache file: the outermost value is no object")
    for key in REQUIRED_KEYS:
        if key not in document:
            raise InputError(f"{path}: not a Kernel Tuner cache file: key {key!r} is missing")
    for key in ("tune_params", "cache"):
        if not isinstance(document[key], dict):
            raise InputError(f"{path}: {key!r} is no object")
    return document


def _problem_sizes(path: Path, sizes: Any, names: tuple[str, ...]) -> dict[str, Any]:
    given = sizes if isinstance(sizes, list) else [sizes]
    if len(given) < len(names):
        raise InputError(f"{path}: 'problem_size' {given} has fewer than the {len(names)} sizes {', '.join(names)}")
    return dict(zip(names, given, strict=False))


def time_or_failure(entry: Mapping[str, Any]) -> Any:
    """What an entry holds: a time in milliseconds, or the name of a failure."""
    error = entry.get(ERROR_KEY)
    return str(error) if error is not None else entry["time"]


def _time_ms(path: Path, place: str, time: Any) -> float:
    if isinstance(time, str):
        return math.nan
    if time is None or (isinstance(time, float) and math.isnan(time)):
        return math.nan
    if not isinstance(time, bool) and isinstance(time, int | float):
        if FAILURE_TIME_MS <= time < math.inf:
            return math.nan
        if measurable(time):
            return float(time)
    raise InputError(f"{path}: {place}: 'time' {time!r} is neither a positive number nor the name of a failure")
