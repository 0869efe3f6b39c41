"""Measured times of a family's configurations on one GPU, from any file that holds such."""

from __future__ import annotations

import ast
import csv
import io
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.files import read_text
from ..core.units import SECONDS_PER_MS
from ..errors import InputError
from ..families.base import Batch, Family
from ..gpus.catalogue import is_another_gpu
from ..gpus.gpu import Gpu
from ..launch.expression import parse_expression
from ..launch.launch import L2State
from .columns import (
    MEASURABLE_MS,
    MeasurementSchema,
    RawTable,
    batch_of,
    check_columns,
    measurable,
    only_gpu,
    problems_of,
    schema_of,
    with_both_names,
)
from .kernel_tuner import parse_kernel_tuner_cache
from .own_records import parse_own_records

if TYPE_CHECKING:
    import pandas as pd

_QUOTED = re.compile(r"`[^`]*`")
"""A column whose name is no identifier, as pandas writes it."""
_ALLOWED = (
    ast.Expression, ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.List, ast.Tuple,
    ast.Load, ast.boolop, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


_REFUSED_BY_PANDAS = (
    SyntaxError,
    TypeError,  # texts and numbers compared
    ValueError,
    LookupError,
    AttributeError,  # an operator that pandas has not, such as <<
    NotImplementedError,  # numbers alone joined by ``or``, or ``is``
)


def flags_of(columns: pd.DataFrame, query: str) -> NDArray[np.bool_]:
    """Whether a query holds for each row.

    Raises:
        InputError: The query is no plain expression on these columns, or gives no truth value for each row.

    >>> import pandas
    >>> flags_of(pandas.DataFrame({"a": [1, 2, 3]}), "a % 2 == 1").tolist()
    [True, False, True]
    """
    require_plain(query)
    try:
        mask = columns.eval(query, engine="python", local_dict={}, global_dict={})
    except NameError as error:
        known = ", ".join(map(str, columns.columns))
        raise InputError(f"--filter {_short(query)!r}: {error}; columns: {known}") from error
    except _REFUSED_BY_PANDAS as error:
        raise InputError(f"--filter {query!r}: {' '.join(str(error).split())}") from error
    flags = np.asarray(mask)
    if flags.dtype != np.bool_ or flags.shape != (len(columns),):
        raise InputError(f"--filter {query!r}: is not true or false for each row")
    return flags


def require_plain(query: str) -> None:
    """That a query has numbers, texts, names of columns, arithmetic and comparisons alone.

    Calls, attributes and indices would reach whatever pandas can do, such as writing files. What is computed of constants alone
    has the bounds of `parse_expression`.

    Raises:
        InputError: It has anything else, or is no expression.

    >>> require_plain("tile_size_x * `tile size y` < 14 and read_only == 0")
    >>> require_plain("x.sum() > 3")
    Traceback (most recent call last):
    perfmodel.errors.InputError: --filter 'x.sum() > 3': has a Call; accepted: columns, numbers, arithmetic, comparisons
    """
    try:
        tree = ast.parse(_QUOTED.sub("quoted", query).strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise InputError(
            f"--filter {_short(query)!r}: is no expression of columns, such as 'tile_size_x < 4'"
        ) from None
    for node in ast.walk(tree):
        if not isinstance(node, _ALLOWED):
            accepted = "accepted: columns, numbers, arithmetic, comparisons"
            raise InputError(f"--filter {_short(query)!r}: has a {type(node).__name__}; {accepted}")
        if isinstance(node, ast.BinOp | ast.UnaryOp) and not any(isinstance(part, ast.Name) for part in ast.walk(node)):
            _require_bounded(query, node)


def _require_bounded(query: str, node: ast.expr) -> None:
    """That what is computed of constants alone is a number of the usual size."""
    try:
        parse_expression(ast.unparse(node)).value({})
    except InputError as error:
        raise InputError(f"--filter {_short(query)!r}: {error}") from None


def _short(query: str) -> str:
    return query if len(query) <= 80 else f"{query[:80]}…"


TIME_COLUMN = "time_ms"
GPU_COLUMN = "gpu"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """n measured runs of one family on one GPU; arrays have shape ``(n,)``.

    ``problems`` are the distinct problems, ``problem_index`` says which one a row measured, ``batch`` holds the
    configurations; ``time_s`` is NaN where the run failed. ``columns`` are the rows as the file gave them, for queries,
    counters and resources; ``gpu`` is the GPU as the file names it (empty where it does not). ``clock_recorded``: the GPU
    ran at a clock that the file records.
    """

    path: Path
    family_name: str
    gpu: str
    problems: tuple[Any, ...]
    problem_index: NDArray[np.intp]
    batch: Batch[Any]
    time_s: NDArray[np.float64]
    columns: pd.DataFrame
    clock_recorded: bool = False

    def __len__(self) -> int:
        return len(self.time_s)

    @property
    def ran(self) -> NDArray[np.bool_]:
        """Where the run gave a time."""
        return np.isfinite(self.time_s)

    def doubt_about(self, gpu: Gpu) -> str | None:
        """What to say where the file names another GPU than the one that its times are taken for."""
        return f"{self.path}: was measured on {self.gpu}, not on {gpu.id}" if is_another_gpu(self.gpu, gpu) else None

    def take(self, rows: NDArray[Any]) -> Measurements:
        """The rows with the given indices or under the given mask, with the problems that they measured."""
        kept, index = np.unique(self.problem_index[rows], return_inverse=True)
        return replace(
            self,
            problems=tuple(self.problems[position] for position in kept),
            problem_index=index,
            batch=self.batch.take(rows),
            time_s=self.time_s[rows],
            columns=self.columns.loc[rows].reset_index(drop=True),
        )

    def drawn(self, query: str | None, sample: int | None, seed: int) -> Measurements:
        """The rows that a query keeps, if one is given, and of these as many as are to be drawn, in the file's order.

        Raises:
            InputError: The query is wrong, or keeps no row.
        """
        rows = self if query is None else self.where(query)
        if query is not None and not len(rows):
            raise InputError(f"--filter {query!r}: holds for none of the {len(self)} rows of {self.path}")
        if sample is None or sample >= len(rows):
            return rows
        return rows.take(np.sort(np.random.default_rng(seed).choice(len(rows), size=sample, replace=False)))

    def where(self, query: str) -> Measurements:
        """The rows for which a pandas query on the columns holds, such as ``tile_size_x * tile_size_y < 14``.

        Raises:
            InputError: The query is no expression on these columns, or gives no truth value for each row.
        """
        return self.take(np.flatnonzero(flags_of(self.columns, query)))


def read_measurements(path: Path, family: Family[Any, Any], l2: L2State = L2State.COLD) -> Measurements:
    """Measurements from a CSV, a Kernel Tuner cache or own records, each plain or gzip, told apart by their content.

    ``l2`` chooses among the timings of own records; other files do not say.

    Raises:
        InputError: The file cannot be read, is damaged, or does not hold measurements of this family; the one line
            names file and place.
    """
    schema = schema_of(family)
    text = read_text(path)
    start = text.lstrip()
    if not start:
        raise InputError(f"{path}: empty file; expected measurements of {family.name}")
    if not start.startswith(("{", "[")):
        table = parse_csv(path, text, schema)
    elif start.split("\n", 1)[0].rstrip().endswith("}") and '"schema"' in start.split("\n", 1)[0]:
        table = parse_own_records(path, text, schema, l2)
    else:
        table = parse_kernel_tuner_cache(path, text, schema, family.kernel_tuner_problem_size)
    table = with_both_names(table, schema)
    problems, problem_index = problems_of(table, schema)
    return Measurements(
        path=path,
        family_name=family.name,
        gpu=table.gpu,
        problems=problems,
        problem_index=problem_index,
        batch=batch_of(table, schema),
        time_s=table.time_s,
        columns=_frame(table),
        clock_recorded=table.clock_recorded,
    )


def _frame(table: RawTable) -> pd.DataFrame:
    import pandas as pd

    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in table.columns.items()})
    for name in frame.columns:
        numbers = pd.to_numeric(frame[name], errors="coerce")
        if bool((numbers.notna() | frame[name].isna()).all()) and bool(numbers.notna().any()):
            frame[name] = numbers
    return frame
