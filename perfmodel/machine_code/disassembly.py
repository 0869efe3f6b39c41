"""nvdisasm: the instructions of every function of a cubin, kept on disk by the cubin's content."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import resource
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from elftools.common.exceptions import ELFError

from ..compiler import disk_cache
from ..errors import CompilerMissingError, InputError, PerfmodelError, SimulationError
from .joined_cubin import joined_cubin, lone_function

_MESSAGE = (
    "the disassembler nvdisasm is not installed: install the extra with `pip install 'perfmodel[compile]'` "
    "(wheel nvidia-cuda-nvdisasm)"
)
_FOLDERS = ("cu13", "cuda_nvdisasm", "cu12")
"""Where the wheels of CUDA 13 and 12 put it, below the package ``nvidia``."""
_TIME_LIMIT_S, _TIME_LIMIT_S_PER_MIB = 20.0, 60.0
"""Processor time that the disassembler may take: with a malformed cubin it may not end."""
_PATIENCE = 20
"""Times of that limit that it may take on a busy machine."""
_PIPE = subprocess.PIPE
_FLAGS = slice(48, 52)
"""Where the ELF header (64 bits) has its flags; the low byte is the architecture's number, up to CUDA 12."""
_VOLTA, _TURING = (70, 72), 75


@dataclass(frozen=True, slots=True)
class PrintedInstruction:
    """One instruction as nvdisasm prints it."""

    opcode: str
    operands: str
    predicate: str


@cache
def nvdisasm_path() -> Path:
    """The disassembler's executable."""
    spec = importlib.util.find_spec("nvidia")
    roots = [] if spec is None or spec.submodule_search_locations is None else list(spec.submodule_search_locations)
    for root in roots:
        for folder in _FOLDERS:
            path = Path(root) / folder / "bin" / "nvdisasm"
            if path.is_file():
                return path
    raise CompilerMissingError(_MESSAGE)


def readable(cubin: bytes) -> bytes:
    """The cubin as nvdisasm takes it: that of Volta with Turing's number, as their instructions are encoded alike."""
    flags = int.from_bytes(cubin[_FLAGS], "little")
    if flags & 0xFF not in _VOLTA:
        return cubin
    return cubin[: _FLAGS.start] + (flags & ~0xFF | _TURING).to_bytes(4, "little") + cubin[_FLAGS.stop :]


def _printed(cubin: bytes) -> str:
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(readable(cubin))
        command = [str(nvdisasm_path()), "-json", str(path)]
        limit = math.ceil(_TIME_LIMIT_S + _TIME_LIMIT_S_PER_MIB * len(cubin) / 2**20)
        with subprocess.Popen(command, stdout=_PIPE, stderr=_PIPE, text=True, errors="replace") as run:
            try:
                _limit_processor_time(run.pid, limit)
                printed, said = run.communicate(timeout=_PATIENCE * limit)
            except BaseException as error:
                run.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise SimulationError(f"nvdisasm needed more than {_PATIENCE * limit} s") from error
                raise
    if run.returncode == -signal.SIGXCPU:
        raise SimulationError(f"nvdisasm needed more than {limit} s of processor time")
    if run.returncode != 0:
        reason = " ".join(said.split()) or f"it ends with status {run.returncode}"
        raise InputError(f"nvdisasm refuses the cubin: {reason}")
    return printed


def _limit_processor_time(pid: int, seconds: int) -> None:
    """End a process that takes longer, where the system can: how busy the machine is changes nothing then."""
    if hasattr(resource, "prlimit"):
        with suppress(ProcessLookupError):
            _, own = resource.prlimit(
                pid, resource.RLIMIT_CPU
            )  # a user's own limit, as of `ulimit -t`, cannot be raised
            limits = (seconds, seconds + 1)
            bounded = limits if own == resource.RLIM_INFINITY else (min(limits[0], own), min(limits[1], own))
            resource.prlimit(pid, resource.RLIMIT_CPU, bounded)


def _key(cubin: bytes) -> str:
    stat = nvdisasm_path().stat()
    return "nvdisasm-" + hashlib.sha256(cubin + f"{stat.st_size} {stat.st_mtime_ns}".encode()).hexdigest()


def _text(cubin: bytes) -> str:
    key = _key(cubin)
    stored = disk_cache.fetch(key)
    if stored is not None:
        return stored.decode()
    text = _printed(cubin)
    disk_cache.keep(key, text.encode())
    return text


def disassemble_together(cubins: Sequence[bytes]) -> None:
    """Disassemble cubins of one architecture at once and keep what is printed on disk, where `disassembly` finds it.

    Cubins of several functions are left to it, and so is all that goes wrong.
    """
    try:
        lacking = {key: cubin for cubin in cubins if disk_cache.fetch(key := _key(cubin)) is None}
        alone = {key: lone_function(readable(cubin)) for key, cubin in lacking.items()}
        functions = {key: function for key, function in alone.items() if function is not None}
        if len(functions) < 2:
            return
        header, found = json.loads(_printed(joined_cubin(list(functions.values()))))
        printed = {one["function-name"]: one for one in found}
        for name, (key, function) in enumerate(functions.items()):
            own = printed[str(name)] | {"function-name": function.name}
            disk_cache.keep(key, json.dumps([header, [own]]).encode())
    except (PerfmodelError, ELFError, KeyError, TypeError, ValueError):
        return


def disassembly(cubin: bytes) -> Mapping[str, tuple[PrintedInstruction, ...]]:
    """Instructions by name of the function; each takes 16 bytes.

    Raises:
        InputError: nvdisasm does not read the cubin (before sm_70, or malformed).
        CompilerMissingError: nvdisasm is not installed.
    """
    try:
        functions: list[dict[str, Any]] = json.loads(_text(cubin))[1]
        return {
            function["function-name"]: tuple(
                PrintedInstruction(i["opcode"], i.get("operands", ""), i.get("predicate", ""))
                for i in function["sass-instructions"]
            )
            for function in functions
        }
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise InputError("what nvdisasm prints of the cubin is not understood: is the cubin whole?") from error
