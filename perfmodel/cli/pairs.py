"""Pairs of ``--gpu`` and ``--measurements``, as several commands take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from ..errors import InputError
from .output import progress_bar

if TYPE_CHECKING:
    from ..calibration.measured_runs import MeasuredRuns
    from ..families.base import Family
    from ..prediction.scenario import Scenario
    from ..profiles.kernel_profile import Fidelity
    from ..records.measurements import Measurements

GpusOption = Annotated[
    list[str], typer.Option("--gpu", metavar="ID|FILE.toml|auto", help="GPU of a file; once for each file.")
]
FilesOption = Annotated[
    list[Path],
    typer.Option("--measurements", metavar="FILE", help="CSV, Kernel Tuner cache or own records; once for each --gpu."),
]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        "--where",
        metavar="EXPR",
        help="Rows to take: comparisons and arithmetic of columns, as pandas queries.",
    ),
]
FiltersOption = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        "--where",
        metavar="EXPR",
        help="Rows to take: comparisons and arithmetic of columns, as pandas queries; once, or for each --gpu (or '').",
    ),
]


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """A GPU with the rows that were measured on it."""

    family: Family[Any, Any]
    scenario: Scenario
    rows: Measurements


def for_each(option: str, given: Sequence[T], count: int, of: str = "--gpu") -> list[T]:
    """What was given once or once for each of another option, for each of that.

    >>> for_each("--filter", ["a > 1"], 2)
    ['a > 1', 'a > 1']
    """
    if len(given) not in (1, count):
        raise InputError(f"{len(given)} times {option} for {count} times {of}: one, or one for each is needed")
    return list(given) * (count if len(given) == 1 else 1)


def read_pairs(
    families: Sequence[Family[Any, Any]],
    gpus: Sequence[str],
    files: Sequence[Path],
    filters: Sequence[str],
    sample: int | None,
    seed: int,
    l2: str = "cold",
) -> list[Pair]:
    """The chosen rows of every file, with the GPU, the family and the query that stand at the same place, or the only ones."""
    from ..prediction.scenario import scenario_of
    from ..records.measurements import read_measurements

    if len(gpus) != len(files):
        raise InputError(f"{len(gpus)} times --gpu and {len(files)} times --measurements: one for each is needed")
    chosen = list(families) * (len(gpus) if len(families) == 1 else 1)
    if len(chosen) != len(gpus):
        raise InputError(f"{len(families)} families for {len(gpus)} times --gpu: one, or one for each is needed")
    queries = for_each("--filter", list(filters) or [""], len(gpus))
    pairs = []
    for family, name, path, query in zip(chosen, gpus, files, queries, strict=True):
        scenario = scenario_of(name, l2=l2)
        rows = read_measurements(path, family, scenario.l2).drawn(query or None, sample, seed)
        pairs.append(Pair(family=family, scenario=scenario, rows=rows))
    return pairs


def runs_of(pairs: Sequence[Pair], depth: Fidelity) -> list[MeasuredRuns]:
    """The data sets with the profile of every run."""
    from ..calibration.measured_runs import dataset_name, measured_runs

    data = []
    for number, pair in enumerate(pairs, start=1):
        gpu = pair.scenario.gpu
        with progress_bar(f"{depth.value} profiles, {gpu.id}", len(pair.rows)) as advance:
            name = dataset_name(gpu, number)
            data.append(measured_runs(name, pair.family, pair.rows, pair.scenario, depth, advance))
    return data
