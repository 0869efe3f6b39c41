"""What Nsight Compute counted, read from the CSV that ``ncu --csv`` prints or ``ncu --import FILE.ncu-rep --csv``.

Two layouts exist: ``--page raw`` has a row for each launch, a column for each metric and a second line with the units;
the default page has a row for each metric. Lines before the header (``==PROF== …``, the program's own output) are passed
over. Values may carry thousands separators and scaled units. Values by instance stand behind the total in brackets
(``--print-metric-instances details``): ``NAME.INSTANCE`` is the metric of one.
"""

from __future__ import annotations

import csv
import io
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmodel.errors import InputError

ID_COLUMN = "ID"
KERNEL_COLUMN = "Kernel Name"
METRIC_SIGN = "__"
"""Every metric's name has a double underscore (``dram__bytes_read.sum``), no other column has."""
LONG_COLUMNS = ("Metric Name", "Metric Unit", "Metric Value")

UNIT_FACTORS: Mapping[str, float] = {
    "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12,
    "nsecond": 1e-9, "usecond": 1e-6, "msecond": 1e-3, "ns": 1e-9, "us": 1e-6, "ms": 1e-3,
    "Khz": 1e3, "Mhz": 1e6, "Ghz": 1e9, "cycle/nsecond": 1e9, "cycle/usecond": 1e6,
    "Kbyte/second": 1e3, "Mbyte/second": 1e6, "Gbyte/second": 1e9, "Tbyte/second": 1e12,
}  # fmt: skip
"""Scaled units; every other unit (inst, sector, request, cycle, %, byte, second) stands for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledLaunch:
    """One launch: its number in the order of launches, the kernel, and its metrics in base units (bytes, seconds, hertz)."""

    launch_id: int
    kernel: str
    metrics: Mapping[str, float]


def parse_nsight_csv(path: Path, text: str) -> tuple[ProfiledLaunch, ...]:
    """The profiled launches in order; text metrics are left out.

    Raises:
        InputError: No header, no launch, or a row of another width; file and line are named.
    """
    lines = text.splitlines(keepends=True)
    start = next((n for n, line in enumerate(lines) if line.startswith((f'"{ID_COLUMN}",', f"{ID_COLUMN},"))), None)
    if start is None:
        raise InputError(f"{path}: no line starts with the column {ID_COLUMN!r}; expected the output of ncu --csv")
    limit = csv.field_size_limit(max(len(text), 1))  # values by instance of long machine code fill one cell
    try:
        rows = list(csv.reader(io.StringIO("".join(lines[start:]))))
    except csv.Error as error:
        raise InputError(f"{path}: line {start + 1} and after it are no table: {error}") from error
    finally:
        csv.field_size_limit(limit)
    header = rows[0]
    if KERNEL_COLUMN not in header:
        raise InputError(f"{path}: line {start + 1}: column {KERNEL_COLUMN!r} is missing")
    is_long = set(LONG_COLUMNS) <= set(header)
    needed = 1 + max(header.index(name) for name in LONG_COLUMNS) if is_long else len(header)
    table = [row for row in rows[1:] if row and not row[0].startswith("==")]
    for row in table:
        if len(row) < needed:
            raise InputError(f"{path}: row {','.join(row)[:60]!r}: {len(row)} cells, {needed} are needed")
    launches = _long(path, header, table) if is_long else _wide(path, header, table)
    if not launches:
        raise InputError(f"{path}: no profiled launch follows the header in line {start + 1}")
    return launches


def _long(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[ProfiledLaunch, ...]:
    position = {name: header.index(name) for name in (ID_COLUMN, KERNEL_COLUMN, *LONG_COLUMNS)}
    kernels: dict[int, str] = {}
    metrics: dict[int, dict[str, float]] = {}
    for row in rows:
        launch_id = _launch_id(path, row[position[ID_COLUMN]])
        kernels[launch_id] = row[position[KERNEL_COLUMN]]
        found = metrics.setdefault(launch_id, {})
        name, unit, text = (row[position[column]] for column in LONG_COLUMNS)
        value = metric_value(text, unit)
        if name and value is not None:
            found |= {name: value, **_instances(name, text)}
    return tuple(
        ProfiledLaunch(launch_id=launch_id, kernel=kernels[launch_id], metrics=metrics[launch_id])
        for launch_id in kernels
    )


def _wide(path: Path, header: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[ProfiledLaunch, ...]:
    if not rows or rows[0][header.index(ID_COLUMN)]:
        raise InputError(f"{path}: no line of units follows the header, as ncu --page raw prints it")
    units = rows[0]
    first = header.index(KERNEL_COLUMN) + 1
    launches = []
    for row in rows[1:]:
        named = [n for n in range(first, len(header)) if METRIC_SIGN in header[n]]
        cells = {header[n]: metric_value(row[n], units[n]) for n in named}
        instances = [_instances(header[n], row[n]) for n in named]
        launches.append(
            ProfiledLaunch(
                launch_id=_launch_id(path, row[header.index(ID_COLUMN)]),
                kernel=row[header.index(KERNEL_COLUMN)],
                metrics=dict(ChainMap({name: value for name, value in cells.items() if value is not None}, *instances)),
            )
        )
    return tuple(launches)


def _launch_id(path: Path, text: str) -> int:
    if not text.isdecimal():
        raise InputError(f"{path}: {text!r} in column {ID_COLUMN!r} is no number of a launch")
    return int(text)


def metric_value(text: str, unit: str) -> float | None:
    """A metric in base units, or None where the text is no number.

    >>> metric_value("1,048.5", "Kbyte"), metric_value("7", "sector"), metric_value("n/a", "")
    (1048500.0, 7.0, None)
    """
    text = text.partition(" (")[0]
    try:
        return float(text.replace(",", "")) * UNIT_FACTORS.get(unit, 1.0)
    except ValueError:
        return None


def _instances(name: str, text: str) -> dict[str, float]:
    """Values by instance of a metric, ``1,234 (FFMA: 1,000; BRA: 234)``; none where it has none."""
    inside = text.partition(" (")[2].removesuffix(")")
    found = (part.rpartition(": ") for part in inside.split("; ") if part)
    values = {instance: metric_value(value, "") for instance, _, value in found}
    return {f"{name}.{instance}": value for instance, value in values.items() if instance and value is not None}
