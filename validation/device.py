"""The GPU of this machine: whether there is one that works, what it is, and under which software."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from perfmodel.errors import InputError, PerfmodelError
from perfmodel.gpus.catalogue import gpu_id_of_device
from perfmodel.records.schema import Environment

INSTALL_HINT = "pip install 'perfmodel[gpu]' (or 'perfmodel[gpu-cuda13]' for a driver of CUDA 13)"
GIT_LIMIT_S = 10.0


class GpuMissingError(PerfmodelError):
    """No GPU that can be used was found; the text says what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """What the driver says of the GPU that is used (the first visible one)."""

    name: str
    gpu_id: str
    """The id of this GPU in the package's data, or the driver's name where it is not known there."""
    compute_capability: tuple[int, int]
    sm_count: int
    l2_bytes: int
    driver_version: str
    cuda_version: str

    @property
    def architecture(self) -> str:
        """Target of the compiler, such as ``sm_90``."""
        return f"sm_{self.compute_capability[0]}{self.compute_capability[1]}"


def import_cupy() -> Any:
    """The CuPy module.

    Raises:
        GpuMissingError: CuPy is not installed, or a library it needs is not.
    """
    try:
        return import_module("cupy")
    except ImportError as error:
        raise GpuMissingError(f"no GPU was found: CuPy cannot be imported ({error}); {INSTALL_HINT}") from error


def require_device() -> Device:
    """The GPU of this machine.

    Raises:
        GpuMissingError: There is none, or no driver for it, or no CuPy; in one line.
    """
    cupy = import_cupy()
    runtime = cupy.cuda.runtime
    try:
        count = int(runtime.getDeviceCount())
        if count == 0:
            raise GpuMissingError("no GPU was found: the driver lists none")
        properties = runtime.getDeviceProperties(0)
        driver = int(runtime.driverGetVersion())
    except runtime.CUDARuntimeError as error:
        raise GpuMissingError(f"no GPU was found: {error}") from error
    name = properties["name"].decode()
    return Device(
        name=name,
        gpu_id=known_gpu_id(name),
        compute_capability=(int(properties["major"]), int(properties["minor"])),
        sm_count=int(properties["multiProcessorCount"]),
        l2_bytes=int(properties["l2CacheSize"]),
        driver_version=_driver_version(),
        cuda_version=f"{driver // 1000}.{driver % 1000 // 10}",
    )


def known_gpu_id(device_name: str) -> str:
    """The package's id of a GPU by the driver's name for it; the name itself where the package does not know it.

    >>> known_gpu_id("NVIDIA H200"), known_gpu_id("Unheard Of 1")
    ('h200', 'Unheard Of 1')
    """
    try:
        return gpu_id_of_device(device_name)
    except InputError:
        return device_name


def _driver_version() -> str:
    from .sensors import driver_version

    return driver_version()


def environment(device: Device, compiler_version: str, commit: str) -> Environment:
    """Where a run on this device takes place, with the commit that its code was made at."""
    from .sensors import clock_limits_hz

    sm_hz, memory_hz = clock_limits_hz()
    major, minor = device.compute_capability
    return Environment(
        gpu_name=device.name,
        compute_capability=f"{major}.{minor}",
        driver_version=device.driver_version,
        cuda_version=device.cuda_version,
        compiler_version=compiler_version,
        commit=commit,
        sm_clock_max_hz=sm_hz,
        memory_clock_max_hz=memory_hz,
    )


@lru_cache(maxsize=1)
def commit_id() -> str:
    """The commit that the code was checked out at, the package's version where it was not checked out."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    folder = Path(__file__).resolve().parent
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=GIT_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return _package_version()
    return run.stdout.strip() if run.returncode == 0 else _package_version()


def _package_version() -> str:
    try:
        return version("perfmodel")
    except PackageNotFoundError:
        return ""
