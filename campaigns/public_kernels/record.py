"""One launch of a public kernel: where its source is, how it is launched, what execution counted, what a GPU measured.

A file has one launch a line, as JSON, mostly compressed. Sources of third parties are named by repository, commit, path and hash
and not kept; the executed profile is, so that a prediction can be compared with the time without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from perfmodel.core.files import read_text, write_text
from perfmodel.errors import InputError
from perfmodel.launch.arguments import KernelParameter, Signature
from perfmodel.launch.launch import L2State
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.profiles.profile_cache import decoded_profile
from perfmodel.profiles.user_launch import LaunchConfiguration
from perfmodel.records.own_records import record_line
from perfmodel.records.schema import Environment, Failure, KernelResources, Timing, TimingMethod

SCHEMA_VERSION = 1
OWN_REPOSITORY = ""
"""The repository of the kernels of this package, whose path is below ``kernels/``."""

Sizes = tuple[int, int, int]


class PublicLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A launch as ``perfmodel analyze`` takes it.

    ``program`` is what launches of one code base have in common: a fit that leaves a program out leaves out all of them.
    ``restore``: the kernel does something else when it finds its own results, so buffers are restored before each run.
    ``cooperative``: its blocks wait for one another (``grid.sync()``), so that all must run at once.
    ``args``, ``constants`` and ``include`` are options of ``analyze``; arrays named ``@….npy`` are made by `inputs`, folders of
    headers are below the repository.
    """

    id: str
    program: str
    repository: str
    commit: str
    path: str
    sha256: str
    kernel: str
    grid: Sizes
    block: Sizes
    shared: int | None = None
    args: tuple[str, ...] = ()
    constants: Mapping[str, str] = {}
    defines: Mapping[str, str | int] = {}
    include: tuple[str, ...] = ()
    restore: bool = False
    cooperative: bool = False

    @property
    def configuration(self) -> LaunchConfiguration:
        """Grid, block, shared memory and macros."""
        return LaunchConfiguration(
            grid=self.grid, block=self.block, shared=self.shared or 0, defines=dict(self.defines)
        )


class Parameter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A parameter of the compiled kernel, as ``KernelParameter``."""

    name: str
    ptx_type: str
    size_bytes: int
    cpp_type: str = ""


class PublicRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is known of one launch: compiled without a GPU, completed by a GPU's ``timings`` and ``counters`` and by execution.

    ``profile`` holds the fields of `KernelProfile`, ``traces`` those of its warps as bytes (`WarpTraces.to_bytes`); ``counters``
    are Nsight Compute metrics by name. ``code_sha256`` is the hash of machine code and constants (`code_digest`); older records
    have none.
    """

    launch: PublicLaunch
    kernel_name: str
    parameters: tuple[Parameter, ...]
    resources: KernelResources
    code_sha256: str = ""
    compiler_version: str = ""
    profile: Mapping[str, Any] = {}
    traces: bytes = b""
    blocks_executed: int = 0
    l1_hit_rate: float | None = None
    gpu: str = ""
    environment: Environment | None = None
    measured_at: str = ""
    timings: tuple[Timing, ...] = ()
    counters: Mapping[str, float] = {}
    failure: Failure | None = None
    schema: int = SCHEMA_VERSION

    @property
    def signature(self) -> Signature:
        """The kernel's parameters, as arguments are checked against."""
        parameters = tuple(
            KernelParameter(name=one.name, ptx_type=one.ptx_type, size_bytes=one.size_bytes, cpp_type=one.cpp_type)
            for one in self.parameters
        )
        return Signature(name=self.launch.kernel, parameters=parameters)

    def kernel_profile(self) -> KernelProfile:
        """The executed profile."""
        return decoded_profile(self.profile, self.traces)

    def timing(self, l2: L2State) -> Timing | None:
        """The timing that says most of one launch: by a graph where it is short, else by events."""
        found = {one.method: one for one in self.timings if one.l2 is l2}
        return found.get(TimingMethod.GRAPH) or found.get(TimingMethod.EVENTS)


def read_public_records(path: Path) -> tuple[PublicRecord, ...]:
    """All launches of a file, plain or compressed, in order; of lines with one id the last counts.

    Raises:
        InputError: a line is no such record; file and line are named.
    """
    found: dict[str, PublicRecord] = {}
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            record = _decoded(path, number, line, PublicRecord)
            found[record.launch.id] = record
    return tuple(found.values())


def read_launches(path: Path) -> tuple[PublicLaunch, ...]:
    """The launches of a list that has not been prepared, or of a file of records."""
    found = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            prepared = '"kernel_name"' in line
            whole = _decoded(path, number, line, PublicRecord if prepared else PublicLaunch)
            found.append(whole.launch if prepared else whole)
    return tuple(found)


def write_public_records(path: Path, records: Iterable[PublicRecord]) -> None:
    """Replace a file by these records, compressed where its name ends with ``.gz``."""
    write_text(path, "".join(record_line(record) + "\n" for record in records))


def _decoded(path: Path, number: int, line: str, kind: Any) -> Any:
    try:
        record = msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: line {number}: {error}") from None
    if getattr(record, "schema", SCHEMA_VERSION) != SCHEMA_VERSION:
        raise InputError(f"{path}: line {number}: schema {record.schema} is not known; {SCHEMA_VERSION} is")
    return record
