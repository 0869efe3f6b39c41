"""Where the compiler wheels lie and which version they are; nothing is imported before it is needed."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

from ..errors import CompilerMissingError

_MESSAGE = (
    "the CUDA compiler is not installed (no {what}): install the extra with `pip install 'perfmodel[compile]'`, "
    "or use --fidelity analytic"
)

_OTHER = (
    "NVRTC {version} of the system was loaded in place of the wheel nvidia-cuda-nvrtc-cu12 {wheel}: install the extra with "
    "`pip install 'perfmodel[compile]'` into an environment of its own, or use --fidelity analytic"
)


@cache
def nvrtc() -> ModuleType:
    """NVIDIA's NVRTC binding; raises ``CompilerMissingError`` where it is absent, or has found another NVRTC than the wheel's.

    The binding takes what the system has before the wheel in some environments; what it compiles would then be kept under
    the wheel's version.
    """
    try:
        from cuda.bindings import nvrtc as module

        _, *loaded = module.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise CompilerMissingError(_MESSAGE.format(what="NVRTC")) from error
    wheel = _wheel_version("nvrtc")
    if wheel.split(".")[:2] != [str(number) for number in loaded]:
        version = ".".join(str(number) for number in loaded)
        raise CompilerMissingError(_OTHER.format(version=version, wheel=wheel))
    found: ModuleType = module
    return found


@cache
def wheel_directory(package: str) -> Path:
    """Directory of one of NVIDIA's component wheels, such as ``cuda_nvcc``."""
    try:
        spec = importlib.util.find_spec(f"nvidia.{package}")
    except ModuleNotFoundError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise CompilerMissingError(_MESSAGE.format(what=f"wheel nvidia-{package.replace('_', '-')}-cu12"))
    return Path(next(iter(spec.submodule_search_locations)))


@cache
def ptxas_path() -> Path:
    """The assembler's executable."""
    path = wheel_directory("cuda_nvcc") / "bin" / "ptxas"
    if not path.is_file():
        raise CompilerMissingError(_MESSAGE.format(what="ptxas"))
    return path


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
