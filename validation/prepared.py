"""Kernels compiled beforehand: a folder with a plan and its cubins that can travel to a machine without the compiler."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.core.documents import converted, to_builtins
from perfmodel.core.files import parse_json, read_text, write_text
from perfmodel.errors import InputError
from perfmodel.records.schema import Failure, KernelResources, Predicted, RecordKind, RunKey, Scalar, run_key

PLAN_NAME = "plan.jsonl"
CUBIN_FOLDER = "cubins"


class Purpose(Enum):
    """What a prepared kernel is run for."""

    CHECK = "check"
    """Its result against the reference, on a random small problem."""
    TIME = "time"
    COUNT = "count"
    """Hardware counters."""
    MICRO = "micro-benchmark"
    FLUSH = "flush"
    """Empties L2 before cold samples."""


class PreparedKernel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kernel of the plan: what it is, what it is for, and its code, or why there is none."""

    kind: RecordKind
    name: str
    problem: Mapping[str, Scalar]
    configuration: Mapping[str, Scalar]
    purposes: tuple[Purpose, ...]
    gpu: str
    """Id of the GPU that it was compiled for."""
    architecture: str
    compiler_version: str
    commit: str = ""
    """The commit that it was prepared at."""
    kernel_name: str = ""
    resources: KernelResources | None = None
    predicted: Predicted | None = None
    problem_name: str = ""
    failure: Failure | None = None

    @property
    def key(self) -> RunKey:
        """What makes two runs the same."""
        return run_key(self.kind, self.name, self.problem, self.configuration)


@dataclass(frozen=True, slots=True)
class PreparedFolder:
    """Reads and writes a folder of prepared kernels; cubins lie under the hash of their content, packed."""

    path: Path

    def kernels(self) -> tuple[PreparedKernel, ...]:
        """The plan.

        Raises:
            InputError: There is no plan, or a line of it is damaged.
        """
        plan = self.path / PLAN_NAME
        lines = read_text(plan).splitlines()
        return tuple(
            converted(PreparedKernel, parse_json(plan, line, number), f"{plan}: line {number}")
            for number, line in enumerate(lines, start=1)
            if line.strip()
        )

    def write_plan(self, kernels: Iterable[PreparedKernel]) -> None:
        """Replace the plan."""
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.path / PLAN_NAME, "".join(json.dumps(to_builtins(kernel)) + "\n" for kernel in kernels))

    def keep_cubin(self, cubin: bytes) -> str:
        """Store the code, once for each content; gives the hash."""
        digest = hashlib.sha256(cubin).hexdigest()
        target = self._packed(digest)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_suffix(".partial")
            partial.write_bytes(gzip.compress(cubin, mtime=0))
            partial.replace(target)
        return digest

    def cubin(self, digest: str) -> bytes:
        """The code with this hash.

        Raises:
            InputError: It is missing or damaged.
        """
        path = self._packed(digest)
        try:
            cubin = gzip.decompress(path.read_bytes())
        except (OSError, EOFError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from error
        if hashlib.sha256(cubin).hexdigest() != digest:
            raise InputError(f"{path}: damaged: its content has another hash than its name")
        return cubin

    def _packed(self, digest: str) -> Path:
        return self.path / CUBIN_FOLDER / f"{digest}.gz"


def kernel_resources(compiled: CompiledKernel, dynamic_shared_bytes: int, digest: str) -> KernelResources:
    """What the compiler gave a kernel, as records say it."""
    resources = compiled.resources
    return KernelResources(
        registers_per_thread=resources.registers_per_thread,
        static_shared_bytes=resources.static_shared_bytes,
        dynamic_shared_bytes=dynamic_shared_bytes,
        stack_bytes_per_thread=resources.stack_bytes_per_thread,
        code_bytes=resources.code_bytes,
        cubin_sha256=digest,
    )


@lru_cache(maxsize=1)
def _unpacked_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="perfmodel-cubins-")


def unpacked_cubin(folder: PreparedFolder, digest: str) -> Path:
    """A file with the code, as the driver wants it; it lives as long as this process."""
    target = Path(_unpacked_folder().name) / f"{digest}.cubin"
    if not target.exists():
        target.write_bytes(folder.cubin(digest))
    return target
