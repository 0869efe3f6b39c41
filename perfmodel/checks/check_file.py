"""``perf.toml``: which launches of a repository are checked, on which GPUs, and what fails."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from ..core.documents import converted, located, named_file, parse_toml
from ..core.files import read_text
from ..errors import InputError
from ..launch.launch import L2State
from .limits import DEFAULT_LIMITS, Limit, parse_limits

Size = Annotated[int, Meta(ge=1)]
Sizes = Size | Annotated[list[Size], Meta(min_length=1, max_length=3)]
Name = Annotated[str, Meta(min_length=1)]


class LaunchTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One launch of one kernel: its file (paths begin at perf.toml), grid, block, arguments, and how it is compiled.

    What it shares with others stands above the launches: folders, options and macros are added to those there, the rest replaces
    it. ``name`` is what reports call it; the kernel's name where it is left out.
    """

    file: Name
    arguments: list[str | int | float]
    kernel: Name | None = None
    name: Name | None = None
    grid: Sizes | None = None
    block: Sizes | None = None
    cluster: Sizes | None = None
    shared_bytes: Annotated[int, Meta(ge=0)] | None = None
    contents: dict[str, str] = {}
    defines: dict[str, str | int] = {}
    include: list[str] = []
    options: list[str] = []
    compile_commands: str | None = None
    gpus: Annotated[list[Name], Meta(min_length=1)] | None = None
    l2: L2State | None = None
    sm_clock_mhz: Annotated[float, Meta(gt=0)] | None = None
    fail_on: str | None = None
    all_blocks: bool = False
    seed: Annotated[int, Meta(ge=0)] = 0


class CheckTables(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file for `perfmodel check`: the launches, and what they share; ``baseline`` is the file of earlier results."""

    launch: Annotated[list[LaunchTable], Meta(min_length=1)]
    gpus: list[Name] = []
    fail_on: str = DEFAULT_LIMITS
    baseline: str | None = None
    defines: dict[str, str | int] = {}
    include: list[str] = []
    options: list[str] = []
    compile_commands: str | None = None
    calibration: str | None = None
    l2: L2State = L2State.COLD
    sm_clock_mhz: Annotated[float, Meta(gt=0)] | None = None
    max_seconds: Annotated[float, Meta(gt=0)] = 300.0
    max_memory_mib: Size = 2048
    max_instructions: Size = 10**11


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedLaunch:
    """One launch on one GPU, everything that is shared filled in; paths are absolute but ``shown_file``, for reports."""

    name: str
    gpu: str
    shown_gpu: str
    file: Path
    shown_file: str
    kernel: str | None
    arguments: tuple[str | int | float, ...]
    grid: tuple[int, ...] | None
    block: tuple[int, ...] | None
    cluster: tuple[int, ...] | None
    shared_bytes: int | None
    contents: tuple[tuple[str, str], ...]
    defines: tuple[tuple[str, str | int], ...]
    include: tuple[Path, ...]
    options: tuple[str, ...]
    compile_commands: Path | None
    calibration: Path | None
    l2: L2State
    sm_clock_mhz: float | None
    limits: tuple[Limit, ...]
    all_blocks: bool
    seed: int
    max_seconds: float
    max_memory_mib: int
    max_instructions: int

    @property
    def title(self) -> str:
        """Launch and GPU, as messages name them."""
        return f"{self.name} on {self.shown_gpu}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFile:
    """A perf.toml that was read: every launch on every GPU, and where its baseline lies."""

    path: Path
    baseline: Path
    launches: tuple[CheckedLaunch, ...]


def read_check_file(path: Path, fail_on: str | None = None) -> CheckFile:
    """The launches of a file; ``fail_on`` takes the place of what the file says, everywhere.

    Raises:
        InputError: the file cannot be read, has a key or value that is not accepted, or names two launches alike.
    """
    tables = converted(CheckTables, parse_toml(read_text(path), str(path)), str(path))
    names = [one.name or one.kernel or Path(one.file).stem for one in tables.launch]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"{path}: {names.count(twice[0])} launches are called {twice[0]!r}; give each a 'name' of its own"
        )
    launches = []
    for number, (name, one) in enumerate(zip(names, tables.launch, strict=True)):
        launches += _on_each_gpu(path, f"{path}: launch[{number}]", name, one, tables, fail_on)
    baseline = path.parent / (tables.baseline or f"{path.stem}.baseline.json")
    return CheckFile(path=path, baseline=baseline, launches=tuple(launches))


def _on_each_gpu(
    path: Path, place: str, name: str, one: LaunchTable, shared: CheckTables, fail_on: str | None
) -> list[CheckedLaunch]:
    from ..gpus.catalogue import load_gpu

    folder = path.absolute().parent
    gpus = one.gpus or shared.gpus
    if not gpus:
        raise InputError(f'{place}: gpus is missing; give it here or above the launches, as gpus = ["h200"]')
    file = named_file(place, folder, one.file)
    limits = (
        parse_limits(fail_on)
        if fail_on is not None
        else parse_limits(one.fail_on or shared.fail_on, f"{place}: fail_on")
    )
    commands = one.compile_commands or shared.compile_commands
    found = []
    for given in gpus:
        gpu = str(folder / given) if given.endswith(".toml") else given
        found.append(
            CheckedLaunch(
                name=name,
                gpu=gpu,
                shown_gpu=located(place, load_gpu, gpu).id,
                file=file,
                shown_file=os.path.relpath(file),
                kernel=one.kernel,
                arguments=tuple(_argument(argument, folder) for argument in one.arguments),
                grid=_sizes(one.grid),
                block=_sizes(one.block),
                cluster=_sizes(one.cluster),
                shared_bytes=one.shared_bytes,
                contents=tuple((key, str(_argument(text, folder))) for key, text in one.contents.items()),
                defines=tuple({**shared.defines, **one.defines}.items()),
                include=tuple(folder / part for part in (*shared.include, *one.include)),
                options=(*shared.options, *one.options),
                compile_commands=None if commands is None else folder / commands,
                calibration=None if shared.calibration is None else folder / shared.calibration,
                l2=one.l2 or shared.l2,
                sm_clock_mhz=one.sm_clock_mhz or shared.sm_clock_mhz,
                limits=limits,
                all_blocks=one.all_blocks,
                seed=one.seed,
                max_seconds=shared.max_seconds,
                max_memory_mib=shared.max_memory_mib,
                max_instructions=shared.max_instructions,
            )
        )
    return found


def _argument(spec: str | int | float, folder: Path) -> str | int | float:
    """An argument whose array files begin at the folder."""
    return re.sub(r"=@(?!/)", f"=@{folder}/", spec) if isinstance(spec, str) else spec


def _sizes(given: int | list[int] | None) -> tuple[int, ...] | None:
    return None if given is None else (given,) if isinstance(given, int) else tuple(given)
