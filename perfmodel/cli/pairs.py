"""Pairs of ``--gpu`` and ``--measurements``, as several commands take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from .output import progress_bar

if TYPE_CHECKING:
    from ..conditions import Conditions
    from ..families.base import Family
    from ..measured_runs import MeasuredRuns
    from ..prediction import Fidelity
    from ..records import Measurements

GpusOption = Annotated[
    list[str], typer.Option("--gpu", metavar="ID|FILE.toml|auto", help="GPU of a file; once for each file.")
]
FilesOption = Annotated[
    list[Path],
    typer.Option("--measurements", metavar="FILE", help="CSV, Kernel Tuner cache or own records; once for each --gpu."),
]
WhereOption = Annotated[
    str | None, typer.Option("--where", metavar="EXPR", help="Rows to take: a pandas query on the columns.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A GPU with the rows that were measured on it."""

    under: Conditions
    rows: Measurements


def read_pairs(
    family: Family[Any, Any],
    gpus: Sequence[str],
    files: Sequence[Path],
    where: str | None,
    sample: int | None,
    seed: int,
    l2: str = "cold",
) -> list[Pair]:
    """The chosen rows of every file, with the GPU that stands at the same place."""
    from ..conditions import conditions
    from ..records import read_measurements

    if len(gpus) != len(files):
        raise InputError(f"{len(gpus)} times --gpu and {len(files)} times --measurements: one for each is needed")
    pairs = []
    for name, path in zip(gpus, files, strict=True):
        under = conditions(name, l2=l2)
        pairs.append(Pair(under=under, rows=read_measurements(path, family, under.l2).drawn(where, sample, seed)))
    return pairs


def runs_of(family: Family[Any, Any], pairs: Sequence[Pair], depth: Fidelity) -> list[MeasuredRuns]:
    """The data sets with the facts of every run."""
    from ..measured_runs import dataset_name, measured_runs

    data = []
    for number, pair in enumerate(pairs, start=1):
        gpu = pair.under.gpu
        with progress_bar(f"{depth.value} facts, {gpu.id}", len(pair.rows)) as advance:
            data.append(measured_runs(dataset_name(gpu, number), family, pair.rows, pair.under, depth, advance))
    return data
