"""What a sweep predicts: problems and GPUs, as a record or as a TOML file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from ..core.choices import one_of
from ..core.documents import converted, located, named_file, parse_toml
from ..core.files import read_text
from ..core.value_types import require_type
from ..errors import InputError
from ..families.problem_list import problem_of_fields
from ..families.profiling import fidelity_of
from ..families.registry import family, family_of
from ..families.user.family import script_problem, user_problem
from ..gpus.catalogue import load_gpu
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.scenario import Scenario, scenario_of
from ..profiles.kernel_profile import Fidelity

PROBLEM_PREFIX, CONFIGURATION_PREFIX = "problem_", "configuration_"
"""What names of columns with fields of a problem and of a configuration begin with."""
Value = int | float | bool | str
Size = Annotated[int, Meta(ge=1)]
Name = Annotated[str, Meta(min_length=1)]


class KernelTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Problems of a family, or one kernel of a user's own: a ``.cu`` file with its ``space``, or a Kernel Tuner script.

    In ``problem`` a list stands for each of its values; several lists for every combination.
    """

    family: Name | None = None
    problem: dict[str, Value | list[Value]] = {}
    file: Name | None = None
    space: Name | None = None


class SweepTables(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file for `perfmodel sweep`: kernels, GPUs, fidelity; ``best`` leaves the best of each problem and GPU."""

    kernel: Annotated[list[KernelTable], Meta(min_length=1)]
    gpus: Annotated[list[Name], Meta(min_length=1)]
    fidelity: Fidelity = Fidelity.COMPILED
    best: Size | None = None
    l2: L2State = L2State.COLD
    sm_clock_mhz: Annotated[float, Meta(gt=0)] | None = None
    calibration: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """Every problem on every GPU.

    Attributes:
        problems: problems such as ``Conv2d``, or ``user_problem(file, space)``.
        gpus: ids of ``gpu_ids()``, paths of TOML files, or records.
        fidelity: where counts come from: ``analytic``, ``compiled`` or ``simulated``; kernels without closed forms are simulated.
        best: only that many, as ``rank(top=best)`` finds them; every candidate of the space where None.
        l2: ``cold`` or ``warm``, what the L2 holds when a kernel starts.
        sm_clock_mhz: SM clock; each GPU's boost clock where None.
        calibration: a calibration file of your own.
    """

    problems: tuple[Any, ...]
    gpus: tuple[str | Gpu, ...]
    fidelity: Fidelity | str = Fidelity.COMPILED
    best: int | None = None
    l2: L2State | str = L2State.COLD
    sm_clock_mhz: float | None = None
    calibration: str | None = None

    def __post_init__(self) -> None:
        require_type((tuple, list), "a tuple or list", problems=self.problems, gpus=self.gpus)
        if not self.problems or not self.gpus:
            raise InputError("a sweep needs at least one problem and one GPU")
        require_type((int, type(None)), "an integer, or None for every candidate", best=self.best)
        if self.best is not None and self.best < 1:
            raise InputError(f"best={self.best} must be at least 1")

    def scenarios(self) -> tuple[Scenario, ...]:
        """One scenario for each GPU, in order."""
        return tuple(
            scenario_of(gpu, sm_clock_mhz=self.sm_clock_mhz, l2=self.l2, calibration=self.calibration)
            for gpu in self.gpus
        )

    def fidelity_for(self, problem: Any) -> Fidelity:
        """The fidelity of the candidates of a problem."""
        return fidelity_of(family_of(problem), one_of(Fidelity, "fidelity", self.fidelity))


def read_sweep_file(path: Path) -> SweepPlan:
    """The plan that a TOML file states; paths in it begin at its folder.

    Raises:
        InputError: the file cannot be read, or has a key or value that is not accepted.
    """
    tables = converted(SweepTables, parse_toml(read_text(path), str(path)), str(path))
    folder = path.parent
    gpus = tuple(dict.fromkeys(str(folder / gpu) if gpu.endswith(".toml") else gpu for gpu in tables.gpus))
    for gpu in gpus:
        located(f"{path}: gpus", load_gpu, gpu)
    problems = [
        problem
        for number, kernel in enumerate(tables.kernel)
        for problem in _problems(f"{path}: kernel[{number}]", kernel, folder)
    ]
    return SweepPlan(
        problems=tuple(dict.fromkeys(problems)),
        gpus=gpus,
        fidelity=tables.fidelity,
        best=tables.best,
        l2=tables.l2,
        sm_clock_mhz=tables.sm_clock_mhz,
        calibration=None if tables.calibration is None else str(folder / tables.calibration),
    )


def _problems(place: str, kernel: KernelTable, folder: Path) -> Iterator[Any]:
    if (kernel.family is None) == (kernel.file is None):
        raise InputError(f"{place}: needs either family or file")
    if kernel.family is not None:
        if kernel.space is not None:
            raise InputError(f"{place}: space = {kernel.space!r} goes with file, not with family")
        yield from _family_problems(place, kernel.family, kernel.problem)
        return
    file = str(kernel.file)
    source = named_file(place, folder, file)
    if kernel.problem:
        raise InputError(f"{place}: problem goes with family; the sizes of {file} are in its space")
    if file.endswith(".py"):
        if kernel.space is not None:
            raise InputError(f"{place}: space = {kernel.space!r} is not accepted: {file} has its own space")
        yield script_problem(source)
    elif kernel.space is None:
        raise InputError(f"{place}: {file} needs space, the file of its tuning space")
    else:
        yield user_problem(source, named_file(place, folder, kernel.space))


def _family_problems(place: str, name: str, values: Mapping[str, Value | list[Value]]) -> Iterator[Any]:
    chosen = located(place, family, name)
    lists = [given if isinstance(given, list) else [given] for given in values.values()]
    for combination in itertools.product(*lists):
        yield located(place, problem_of_fields, chosen, dict(zip(values, combination, strict=True)))
