"""Where the compiler wheels lie and which version they are; nothing is imported before it is needed."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from ..errors import CompilerMissingError, InputError

_CUDA13 = "cu13"
"""The folder that all component wheels of CUDA 13 share."""

_MESSAGE = (
    "the CUDA compiler is not installed (no {what}): install the extra with `pip install 'perfmodel[compile]'`, "
    "or use --fidelity analytic"
)

_OTHER = (
    "NVRTC {version} of the system was loaded in place of the wheel nvidia-cuda-nvrtc-cu12 {wheel}: install the extra with "
    "`pip install 'perfmodel[compile]'` into an environment of its own, or use --fidelity analytic"
)

_HOST_OPTIONS = ("-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options")
"""Options of nvcc whose words reach the shell without quotes."""


@cache
def nvrtc() -> ModuleType:
    """NVIDIA's NVRTC binding; raises ``CompilerMissingError`` where it is absent, or has found another NVRTC than the wheel's.

    The wheel's library is loaded first, and the binding takes what is loaded; it would find the system's before the wheel's in
    some environments, and what that compiles would be kept under the wheel's version.
    """
    library = wheel_directory("cuda_nvrtc") / "lib" / "libnvrtc.so.12"
    try:
        if library.is_file():
            ctypes.CDLL(str(library))
        from cuda.bindings import nvrtc as module

        _, *loaded = module.nvrtcVersion()
    except (ImportError, RuntimeError, OSError) as error:
        raise CompilerMissingError(_MESSAGE.format(what="NVRTC")) from error
    wheel = _wheel_version("nvrtc")
    if wheel.split(".")[:2] != [str(number) for number in loaded]:
        version = ".".join(str(number) for number in loaded)
        raise CompilerMissingError(_OTHER.format(version=version, wheel=wheel))
    found: ModuleType = module
    return found


@cache
def wheel_directory(package: str) -> Path:
    """Directory of one of NVIDIA's component wheels of CUDA 12, such as ``cuda_nvcc``, or ``cu13`` of all those of CUDA 13."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{package}")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        wheel = "nvidia-cuda-nvcc" if package == _CUDA13 else f"nvidia-{package.replace('_', '-')}-cu12"
        raise CompilerMissingError(_MESSAGE.format(what=f"wheel {wheel}"))
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def cuda13_program(name: str) -> Path:
    """A program of the CUDA 13 wheels: ``nvcc``, ``ptxas`` or ``cuobjdump``."""
    path = wheel_directory(_CUDA13) / "bin" / name
    if not path.is_file():
        raise CompilerMissingError(_MESSAGE.format(what=name))
    return path


@cache
def ptxas_path(*, newest: bool = False) -> Path:
    """The assembler of CUDA 12.9, which serves every architecture, or the newest one, for PTX that 12.9 does not read."""
    if newest:
        return cuda13_program("ptxas")
    path = wheel_directory("cuda_nvcc") / "bin" / "ptxas"
    if not path.is_file():
        raise CompilerMissingError(_MESSAGE.format(what="ptxas"))
    return path


def nvcc_available() -> bool:
    """Whether whole C++ files can be compiled: nvcc is installed and finds a C++ compiler for the host's part.

    ``NVCC_CCBIN`` names the C++ compiler, as for nvcc itself; else it is the ``g++`` of the path.
    """
    return _has_cuda13() and shutil.which(os.environ.get("NVCC_CCBIN") or "g++") is not None


@cache
def header_directories() -> tuple[Path, ...]:
    """Include directories of the CUDA headers (``cuda_fp16.h``, ``cooperative_groups.h``, ``cub/…``)."""
    wheels = ("cuda_runtime", "cuda_cccl", "cuda_nvcc")  # the last holds crt/, which mma.h includes
    roots = tuple(wheel_directory(wheel) / "include" for wheel in wheels)
    return (*roots, *(r / "cccl" for r in roots if (r / "cccl").is_dir()))


@cache
def compiler_version() -> str:
    """Version of front end and assembler, part of every cache key; ``CompilerMissingError`` where they are not installed.

    >>> compiler_version().startswith("nvrtc-12.")
    True
    """
    return f"nvrtc-{_wheel_version('nvrtc')} ptxas-{_wheel_version('nvcc')}"


@cache
def nvcc_version() -> str:
    """Versions of nvcc and of the assemblers, part of the cache keys of whole files and PTX."""
    newest = metadata.version("nvidia-cuda-nvcc") if _has_cuda13() else "none"
    return f"nvcc-{newest} ptxas-{_wheel_version('nvcc')}"


def _has_cuda13() -> bool:
    try:
        return cuda13_program("nvcc").is_file()
    except CompilerMissingError:
        return False


def _wheel_version(part: str) -> str:
    try:
        return metadata.version(f"nvidia-cuda-{part}-cu12")
    except metadata.PackageNotFoundError as error:
        raise CompilerMissingError(_MESSAGE.format(what=f"wheel {error.name}")) from error


def compiler_available() -> bool:
    """Whether CUDA source can be compiled here."""
    try:
        nvrtc()
        ptxas_path()
    except CompilerMissingError:
        return False
    return True


def read_by_a_shell(path: Path) -> bool:
    r"""Whether nvcc, which has a shell start its parts, would hand on another name than a file has.

    >>> read_by_a_shell(Path("a$(b).cu")), read_by_a_shell(Path("my file.cu"))
    (True, False)
    """
    return re.search(r'[$`"\\,\n]', str(path)) is not None


def _require_plain(words: Sequence[str]) -> None:
    """That a shell replaces nothing in the words that nvcc is called with; ``InputError`` names the one."""
    of_host = False
    for word in words:
        of_host = of_host or word.startswith(tuple(f"{option}=" for option in _HOST_OPTIONS))
        meaning = re.search(
            r"[$`\n;&|<>()]" if of_host else r"[$`\n]", "" if word.startswith("-I") and not of_host else word
        )
        if meaning is not None:
            raise InputError(
                f"{word}: nvcc would let a shell read the {meaning[0]!r} in it: leave it out, or give another name to the file"
            )
        of_host = word in _HOST_OPTIONS


def run_compiler(command: Sequence[str], folder: Path, time_limit_s: float | None = None) -> tuple[int, str]:
    """Exit status and messages of a compiler that keeps its temporary files in a folder; all that it started ends with it.

    Raises:
        InputError: a word has what a shell would replace.
        subprocess.TimeoutExpired: it was not ready in time.
    """
    _require_plain(command[1:])
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env={**os.environ, "TMPDIR": str(folder), "LC_ALL": "C"},
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=time_limit_s)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode, output
