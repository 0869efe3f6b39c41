"""Measured times of a family's configurations on one GPU, from any file that holds such."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.files import read_text
from ..errors import InputError
from ..families.base import Batch, Family
from ..launch.launch import L2State
from .columns import RawTable, batch_of, problems_of, schema_of, with_both_names
from .kernel_tuner import parse_kernel_tuner_cache
from .own_records import parse_own_records
from .published_csv import parse_csv
from .row_query import flags_of

if TYPE_CHECKING:
    import pandas as pd


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
        """The rows that a query keeps, if one is given, and of these as many as are to be drawn, in the file's order."""
        rows = self if query is None else self.where(query)
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
