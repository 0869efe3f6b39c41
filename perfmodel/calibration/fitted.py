"""Fit the time model to files of measurements, as ``perfmodel fit``."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from ..core.choices import one_of
from ..core.progress import Advance, no_progress
from ..core.value_types import require_type
from ..errors import InputError
from ..families.profiling import fidelity_of
from ..families.user.family import source_family
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.scenario import scenario_of
from ..profiles.kernel_profile import Fidelity
from ..records.measurements import read_measurements
from .fit import Calibrated, calibrate
from .measured_runs import dataset_name, measured_runs


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
    asked = one_of(Fidelity, "fidelity", fidelity)
    data = []
    for number, (family, one, file) in enumerate(zip(families, gpus, files, strict=True), start=1):
        scenario = scenario_of(one, l2=l2)
        rows = read_measurements(Path(file), family, scenario.l2).drawn(where, sample, seed)
        name = dataset_name(scenario.gpu, number)
        data.append(measured_runs(name, family, rows, scenario, fidelity_of(family, asked)))
    return calibrate(data, seed=seed, held_out=held_out, advance=advance)
