"""Fit the time model to files of measurements, as ``perfmodel fit``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from ..core.choices import one_of
from ..core.progress import Advance, no_progress
from ..core.value_types import require_type
from ..errors import InputError
from ..families.base import Family
from ..families.profiling import fidelity_of
from ..families.user.family import source_family
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.scenario import Scenario, scenario_of
from ..profiles.kernel_profile import Fidelity
from ..records.measurements import Measurements, read_measurements
from .fit import Calibrated, calibrate
from .measured_runs import MeasuredRuns, dataset_name, measured_runs

Bar = Callable[[str, int], AbstractContextManager[Advance]]
"""Shows how far so many steps are; it is given their name and number."""


@contextmanager
def _no_bar(what: str, total: int) -> Iterator[Advance]:
    yield no_progress


def fit(
    family_name: str | Sequence[str],
    *,
    gpu: str | Gpu | Sequence[str | Gpu],
    measurements: str | Path | Sequence[str | Path],
    space: str | Path | None = None,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    where: str | None = None,
    sample: int | None = None,
    held_out: Sequence[str] = (),
    l2: L2State | str = L2State.COLD,
    seed: int = 0,
    advance: Advance = no_progress,
) -> Calibrated:
    """Coefficients of the time model fitted to measurements; ``fit(...).write("own.toml")`` makes a file for ``calibration=``.

    Args:
        family_name: a family, a CUDA file with its ``space``, or a Kernel Tuner script; one for all files, or one for each.
        gpu: GPU of a file; one for each.
        measurements: CSV, Kernel Tuner cache or own records; several files are fitted together.
        space: the tuning space of a CUDA file.
        fidelity: where counts and registers come from.
        where: a query on the columns, for all files.
        sample: how many rows of each file to draw; all where None.
        held_out: GPUs that are not fitted to, whose runs say how far GPUs are off that were not measured.
        l2: what the L2 held when the kernels started.
        seed: of everything that is drawn.
        advance: called as each fit ends.

    Raises:
        InputError: an argument does not fit; the message names it.

    >>> found = fit("direct_conv2d", gpu="h200", measurements="examples/h200.jsonl.gz", fidelity="analytic")
    >>> sum(map(len, found.data)), found.notes, found.log_error_90 < 0.5
    (72, (), True)
    """
    gpus = [gpu] if isinstance(gpu, str | Gpu) else list(gpu)
    files = [measurements] if isinstance(measurements, str | PathLike) else list(measurements)
    names = [family_name] if isinstance(family_name, str) else list(family_name)
    for file in files:
        require_type((str, PathLike), "the path of a file", measurements=file)
    if len(gpus) != len(files):
        raise InputError(f"{len(gpus)} times gpu and {len(files)} times measurements: one for each is needed")
    if len(names) not in (1, len(files)):
        raise InputError(f"{len(names)} families for {len(files)} files: one, or one for each is needed")
    families = [source_family(name, space) for name in names] * (len(files) if len(names) == 1 else 1)
    pairs = [
        measured_file(Path(file), family, scenario_of(one, l2=l2), where, sample, seed)
        for family, one, file in zip(families, gpus, files, strict=True)
    ]
    data = runs_of(pairs, one_of(Fidelity, "fidelity", fidelity))
    return calibrate(data, seed=seed, held_out=held_out, advance=advance)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredFile:
    """The chosen rows of a file, the family that they are of, and the scenario that they were measured in."""

    family: Family[Any, Any]
    scenario: Scenario
    rows: Measurements


def measured_file(
    file: Path, family: Family[Any, Any], scenario: Scenario, where: str | None, sample: int | None, seed: int
) -> MeasuredFile:
    """A file with the rows that a query keeps, and of these as many as are to be drawn.

    Raises:
        InputError: the file or the query is wrong, or no row is left.
    """
    rows = read_measurements(file, family, scenario.l2).drawn(where or None, sample, seed)
    return MeasuredFile(family=family, scenario=scenario, rows=rows)


def runs_of(pairs: Sequence[MeasuredFile], asked: Fidelity, bar: Bar = _no_bar) -> list[MeasuredRuns]:
    """The data sets with the profile of every run; ``bar`` shows how far those of one file are.

    Raises:
        InputError: families that are looked at in different depths, or too few runs of a file are left.
    """
    depths = {fidelity_of(one.family, asked): one.family.name for one in pairs}
    if len(depths) > 1:
        raise InputError(f"{', '.join(depths.values())} would get different fidelities; give --fidelity simulated")
    (depth,) = depths
    data = []
    for number, one in enumerate(pairs, start=1):
        gpu = one.scenario.gpu
        with bar(f"{depth.value} profiles, {gpu.id}", int(one.rows.ran.sum())) as advance:
            name = dataset_name(gpu, number)
            data.append(measured_runs(name, one.family, one.rows, one.scenario, depth, advance))
    return data
