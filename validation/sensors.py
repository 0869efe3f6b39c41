"""Clock, temperature and power while a kernel is timed, from NVML; the card's settings are read and never changed."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from perfmodel.records.schema import Mark

SAMPLE_INTERVAL_S = 0.01
HERTZ_PER_MHZ = 1e6
WATTS_PER_MILLIWATT = 1e-3

HARMLESS_REASONS = 0x1 | 0x2 | 0x100
"""nvmlClocksEventReason GpuIdle, ApplicationsClocksSetting, DisplayClockSetting (nvml.h): no limit met while running."""
CLOCK_TOLERANCE = 0.02
"""Part by which the SM clock may move within a run before the run is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSample:
    """One look at the sensors; ``limits`` are the driver's clock event reasons as bits."""

    sm_clock_hz: float
    temperature_c: float
    power_w: float
    limits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SensorSummary:
    """Medians over a run, and whether its clock was limited or moved; zero where nothing was sampled."""

    sm_clock_hz: float = 0.0
    temperature_c: float = 0.0
    power_w: float = 0.0
    marks: tuple[Mark, ...] = ()


def summarise(samples: Sequence[SensorSample]) -> SensorSummary:
    """What a run's samples say together.

    >>> steady = [SensorSample(sm_clock_hz=1.98e9, temperature_c=50, power_w=300, limits=0)] * 3
    >>> summarise(steady).marks
    ()
    """
    if not samples:
        return SensorSummary()
    clocks = np.array([sample.sm_clock_hz for sample in samples])
    median_hz = float(np.median(clocks))
    limited = any(sample.limits & ~HARMLESS_REASONS for sample in samples)
    moved = bool(np.any(np.abs(clocks - median_hz) > CLOCK_TOLERANCE * median_hz))
    return SensorSummary(
        sm_clock_hz=median_hz,
        temperature_c=float(np.median([sample.temperature_c for sample in samples])),
        power_w=float(np.median([sample.power_w for sample in samples])),
        marks=(Mark.THROTTLED,) if limited or moved else (),
    )


@dataclass(slots=True)
class SensorLog:
    """Samples of one run, filled while the run lasts."""

    samples: list[SensorSample] = field(default_factory=list)


def _nvml() -> Any | None:
    """NVML, ready for use, or None where the library or the driver is missing."""
    try:
        nvml = import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    return nvml


def _sample(nvml: Any, handle: Any) -> SensorSample | None:
    try:
        return SensorSample(
            sm_clock_hz=nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM) * HERTZ_PER_MHZ,
            temperature_c=float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
            power_w=nvml.nvmlDeviceGetPowerUsage(handle) * WATTS_PER_MILLIWATT,
            limits=int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        )
    except nvml.NVMLError:
        return None


@contextmanager
def sampled_sensors() -> Iterator[SensorLog]:
    """Sample the sensors in a thread until the block ends; the log stays empty where NVML is not to be had."""
    log = SensorLog()
    nvml = _nvml()
    if nvml is None:
        yield log
        return
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    stop = threading.Event()

    def watch() -> None:
        while True:
            sample = _sample(nvml, handle)
            if sample is not None:
                log.samples.append(sample)
            if stop.wait(SAMPLE_INTERVAL_S):
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield log
    finally:
        stop.set()
        thread.join()


def driver_version() -> str:
    """The driver's version as NVML says it, empty where NVML is not to be had."""
    nvml = _nvml()
    return str(nvml.nvmlSystemGetDriverVersion()) if nvml is not None else ""


def clock_limits_hz() -> tuple[float, float]:
    """Highest SM and memory clock that the card allows, zeros where NVML is not to be had."""
    nvml = _nvml()
    if nvml is None:
        return 0.0, 0.0
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    try:
        sm_mhz = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM)
        memory_mhz = nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_MEM)
    except nvml.NVMLError:
        return 0.0, 0.0
    return sm_mhz * HERTZ_PER_MHZ, memory_mhz * HERTZ_PER_MHZ
