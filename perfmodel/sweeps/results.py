"""Where a sweep's rows are kept: a file for each finished task, then one Parquet file in the order of the tasks."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..core.files import replacing
from ..core.kept import note_kept
from ..errors import InputError, PerfmodelError
from .plan import CONFIGURATION_PREFIX, PROBLEM_PREFIX
from .rows import LEADING, TRAILING
from .tasks import SweepTask

SCHEMA_VERSION = 1
GROUP_ROWS = 65_536
"""Rows of a row group; always the same, so that equal rows are equal files."""
_TASKS, _VERSION = b"perfmodel.sweep.tasks", b"perfmodel.sweep.schema"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultFile:
    """The Parquet file of a sweep, and the folder beside it with the rows of tasks that are not yet in it."""

    path: Path

    @property
    def parts(self) -> Path:
        """The folder; it is there while a sweep is unfinished."""
        return self.path.with_name(f"{self.path.name}.parts")

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other sweeps away from the file for as long as the block runs.

        Raises:
            InputError: another sweep writes it, or the folder cannot be made.
        """
        try:
            self.parts.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.parts, os.O_RDONLY)
        except OSError as error:
            raise InputError(f"output {self.path}: {error.strerror or error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InputError(f"output {self.path}: another sweep is writing it; wait for it, or name another") from None
        else:
            yield
        finally:
            os.close(handle)
            if self.parts.is_dir() and not any(self.parts.iterdir()):
                self.parts.rmdir()  # nothing was kept

    def joined_rows(self) -> dict[str, int]:
        """How many rows of each task are in the file, in order; nothing where there is none.

        Raises:
            InputError: the file is no result of a sweep.
        """
        if not self.path.exists():
            return {}
        try:
            metadata: Mapping[bytes, bytes] = pq.read_metadata(self.path).metadata or {}
        except (OSError, pa.ArrowInvalid) as error:
            raise InputError(f"output {self.path}: no Parquet file that can be read: {error}") from error
        if metadata.get(_VERSION) != str(SCHEMA_VERSION).encode():
            raise InputError(f"output {self.path}: is no result of this version's sweeps; name another file")
        return {key: int(rows) for key, rows in json.loads(metadata[_TASKS])}

    def part_keys(self) -> set[str]:
        """Keys of the tasks whose rows lie in the folder."""
        return {path.stem for path in self.parts.glob("*.parquet") if not path.name.startswith(".")}

    def keep(self, key: str, table: pa.Table) -> None:
        """Keep the rows of a finished task; when this returns they outlive the process, however it ends.

        Raises:
            PerfmodelError: they cannot be written; a full disk, say.
        """
        packed = pa.BufferOutputStream()
        pq.write_table(table, packed, compression="zstd")
        try:
            with replacing(self._part(key)) as stream:
                stream.write(packed.getvalue())
            note_kept()
        except OSError as error:
            raise PerfmodelError(f"{self._part(key)}: {error.strerror or error}; what was kept before stays") from error

    def drop(self, key: str) -> None:
        """Remove the rows of a task from the folder."""
        self._part(key).unlink()

    def _part(self, key: str) -> Path:
        return self.parts / f"{key}.parquet"

    def join(self, tasks: Sequence[SweepTask], best: int | None) -> int:
        """Make the file of the rows of these tasks, in their order, and remove the folder; the number of rows.

        Every task has its rows in the folder or in the file that is there.

        Raises:
            PerfmodelError: the file cannot be written; a full disk, say.
        """
        self._unpack({task.key for task in tasks} - self.part_keys())
        schema = _schema(pq.read_schema(self._part(task.key)) for task in tasks)
        counts: list[tuple[str, int]] = []
        tables = self._tables(tasks, best, schema, counts)
        rows = 0
        try:
            with replacing(self.path) as stream, pq.ParquetWriter(stream, schema, compression="zstd") as writer:
                for group in _groups(tables, schema):
                    writer.write_table(group, row_group_size=GROUP_ROWS)
                    rows += len(group)
                writer.add_key_value_metadata({_TASKS: json.dumps(counts), _VERSION: str(SCHEMA_VERSION)})
        except OSError as error:
            raise PerfmodelError(
                f"{self.path}: {error.strerror or error}; finished tasks stay in {self.parts}"
            ) from error
        self.clear()
        return rows

    def clear(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.parts)

    def _unpack(self, keys: set[str]) -> None:
        """Put the rows of tasks that are in the file into the folder."""
        if not keys:
            return
        counts = self.joined_rows()
        with pq.ParquetFile(self.path) as file:
            groups = (pa.Table.from_batches([batch]) for batch in file.iter_batches(GROUP_ROWS))
            for key, table in _cut(groups, counts, file.schema_arrow):
                if key in keys:
                    self.keep(key, table)

    def _tables(
        self, tasks: Sequence[SweepTask], best: int | None, schema: pa.Schema, counts: list[tuple[str, int]]
    ) -> Iterator[pa.Table]:
        """Tables of the tasks in order; the rows that each has are put into ``counts``."""
        for _, group in itertools.groupby(tasks, lambda task: (task.problem, task.scenario)):
            members = list(group)
            tables = (_conformed(pq.read_table(self._part(task.key)), schema) for task in members)
            if best is None or members[0].ranking:
                for task, table in zip(members, tables, strict=True):
                    counts.append((task.key, len(table)))
                    yield table
            else:
                kept = _best(pa.concat_tables(tables), best)
                counts += [(task.key, len(kept) if task is members[0] else 0) for task in members]
                yield kept


def _schema(parts: Iterable[pa.Schema]) -> pa.Schema:
    """The columns of all parts: those that all have, with fields of problems, then of configurations, between them."""
    own: dict[str, Any] = {}
    for part in parts:
        for field in part:
            known = own.get(field.name, field.type)
            own[field.name] = _common(known, field.type)
    middle = [name for name in own if name.startswith(PROBLEM_PREFIX)] + [
        n for n in own if n.startswith(CONFIGURATION_PREFIX)
    ]
    return pa.schema([*LEADING.items(), *((name, own[name]) for name in middle), *TRAILING.items()])


def _common(one: Any, other: Any) -> Any:
    """A type that holds the values of both."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other))
    return pa.float64() if numbers else pa.string()


def _conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    lacking = pa.nulls(len(table))
    return pa.table(
        [(table[field.name] if field.name in table.column_names else lacking).cast(field.type) for field in schema],
        schema=schema,
    )


def _best(table: pa.Table, best: int) -> pa.Table:
    """The fastest rows, the first at place 1; where none can run the first row, which says why."""
    running = table.filter(pc.is_valid(table["predicted_s"]))
    if not len(running):
        return table.slice(0, 1)
    order = sorted(range(len(running)), key=running["predicted_s"].to_pylist().__getitem__)[:best]
    kept = running.take(order)
    index = kept.column_names.index("place")
    return kept.set_column(index, "place", pa.array(range(1, len(kept) + 1), pa.int64()))


def _groups(tables: Iterable[pa.Table], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in tables of ``GROUP_ROWS``, the last of fewer."""
    held = schema.empty_table()
    for table in tables:
        held = pa.concat_tables([held, table])
        while len(held) >= GROUP_ROWS:
            yield held.slice(0, GROUP_ROWS)
            held = held.slice(GROUP_ROWS)
    if len(held):
        yield held


def _cut(tables: Iterable[pa.Table], counts: Mapping[str, int], schema: pa.Schema) -> Iterator[tuple[str, pa.Table]]:
    """The same rows in one table for each key, of as many rows as it has."""
    held, more = schema.empty_table(), iter(tables)
    for key, rows in counts.items():
        while len(held) < rows:
            held = pa.concat_tables([held, next(more)])
        yield key, held.slice(0, rows)
        held = held.slice(rows)
