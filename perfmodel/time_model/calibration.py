"""The fitted coefficients with their evidence, read from TOML files that ship with the package or that a user gives."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..core.toml_text import parse_toml
from ..errors import InputError
from ..gpus.gpu import Gpu
from .coefficients import COEFFICIENT_NAMES, Coefficients


class CalibrationStatus(Enum):
    """What backs the coefficients for the GPU asked about."""

    CALIBRATED = "calibrated GPU"
    ARCHITECTURE = "same architecture"
    DATA_SHEET = "data sheet only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Coefficients, what they were fitted on, and how far held-out runs were off.

    ``log_error_90`` is the 90 % quantile of |log(measured / predicted)| on held-out groups for this evidence, None where
    nothing backs it; half the width of the interval on a logarithmic scale. ``kernel_errors`` are those of the kernels that
    were measured on this GPU, ``other_kernel_error`` that of kernels on GPUs of which only others were fitted to.
    """

    coefficients: Coefficients
    calibration_status: CalibrationStatus
    fitted_on: tuple[str, ...]
    log_error_90: float | None
    kernel_errors: tuple[tuple[str, float], ...] = ()
    other_kernel_error: float | None = None

    def for_kernel(self, kernel: str | None) -> Calibration:
        """The same with the interval of one kernel, None for one that nothing was fitted to.

        On a GPU that was fitted to, a kernel that was not measured there has the errors of kernels that were left out of a
        fit, and none smaller than any of this GPU. Where the file does not say which kernels were measured, nothing changes.
        """
        own = dict(self.kernel_errors)
        if self.calibration_status is not CalibrationStatus.CALIBRATED or not own:
            return self
        known = [width for width in (self.other_kernel_error, self.log_error_90) if width is not None]
        return replace(self, log_error_90=own[kernel] if kernel in own else max(known, default=None))

    def interval_s(self, seconds: float) -> tuple[float, float] | None:
        """The 90 % interval around a prediction, None where nothing backs one."""
        if self.log_error_90 is None:
            return None
        factor = math.exp(self.log_error_90)
        return seconds / factor, seconds * factor


OTHER_KERNEL = "other_kernel"
"""The interval of a kernel that was not measured on a GPU of which others were."""
_TABLES = {"architectures", "coefficients", "fit", "intervals", "datasets", "held_out"}


def _table(document: dict[str, Any], name: str, origin: str) -> dict[str, Any]:
    value = document.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{origin}: {name} must be a table")
    return value


def _values(entries: dict[str, Any], origin: str) -> dict[str, float]:
    """Coefficient values, strict about names and kinds."""
    found: dict[str, float] = {}
    for name, entry in entries.items():
        if name not in COEFFICIENT_NAMES:
            raise InputError(f"{origin}: unknown coefficient {name!r} (known: {', '.join(COEFFICIENT_NAMES)})")
        value = entry.get("value") if isinstance(entry, dict) else None
        found[name] = _non_negative(value, f"{origin}: coefficient {name} needs a non-negative number as value")
    return found


def _own_values(document: dict[str, Any], origin: str) -> dict[str, dict[str, float]]:
    """Coefficients that architectures have for themselves, by the compiler's name of the architecture."""
    architectures = _table(document, "architectures", origin)
    for name, entries in architectures.items():
        if not name.startswith("sm_") or not isinstance(entries, dict):
            raise InputError(
                f"{origin}: architectures.{name} must be a table whose name is an architecture such as sm_86"
            )
    return {name: _values(entries, f"{origin}: architectures.{name}") for name, entries in architectures.items()}


def _non_negative(value: Any, complaint: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(f"{complaint}, not {value!r}")
    return float(value)


def _log_errors(document: dict[str, Any], origin: str) -> dict[str, float]:
    """Half widths of the intervals by the evidence that they hold for."""
    known = [*(calibration_status.name.lower() for calibration_status in CalibrationStatus), OTHER_KERNEL]
    found = _table(document, "intervals", origin)
    for name in found:
        if name not in known:
            raise InputError(f"{origin}: unknown interval {name!r} (known: {', '.join(known)})")
    return {name: _non_negative(value, f"{origin}: intervals.{name} must be a number") for name, value in found.items()}


def _fitted_gpus(datasets: dict[str, Any], origin: str) -> dict[str, float | None]:
    """GPUs that were fitted to, each with the widest of its data sets' own intervals, None where they have none."""
    found: dict[str, float | None] = {}
    for name, entry in datasets.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("gpu"), str):
            raise InputError(f"{origin}: datasets.{name} must be a table that names its gpu")
        known = found.setdefault(entry["gpu"], None)
        if "log_error_90" in entry:
            width = _non_negative(entry["log_error_90"], f"{origin}: datasets.{name}.log_error_90 must be a number")
            found[entry["gpu"]] = max(width, known or 0.0)
    return found


def _kernel_errors(datasets: dict[str, Any], gpu: Gpu, origin: str) -> dict[str, float]:
    """The widest interval of each kernel that was measured on this GPU, of those data sets that name their kernel."""
    found: dict[str, float] = {}
    for name, entry in datasets.items():
        kernel = entry.get("kernel")
        if kernel is not None and not isinstance(kernel, str):
            raise InputError(f"{origin}: datasets.{name}.kernel must be a text, not {kernel!r}")
        if kernel is not None and entry["gpu"] == gpu.id and "log_error_90" in entry:
            found[kernel] = max(float(entry["log_error_90"]), found.get(kernel, 0.0))
    return found


def parse_calibration(text: str, origin: str, gpu: Gpu) -> Calibration:
    """A calibration from TOML text; ``InputError`` names file and key where it is not one.

    A GPU takes its architecture's own coefficients where the file has them, the shared ones otherwise; the interval of
    its own data sets, else the one for its evidence.
    """
    document = parse_toml(text, origin)
    unknown = set(document) - _TABLES
    if unknown:
        raise InputError(f"{origin}: unknown table {sorted(unknown)[0]!r} (known: {', '.join(sorted(_TABLES))})")
    values = _values(_table(document, "coefficients", origin), origin)
    missing = [name for name in COEFFICIENT_NAMES if name not in values]
    if missing:
        raise InputError(f"{origin}: coefficient {missing[0]} is missing")
    own = _own_values(document, origin).get(gpu.architecture, {})
    datasets = _table(document, "datasets", origin)
    fitted = _fitted_gpus(datasets, origin)
    calibration_status = _evidence(gpu, set(fitted))
    widths = _log_errors(document, origin)
    general = widths.get(calibration_status.name.lower())
    measured = fitted.get(gpu.id)
    return Calibration(
        coefficients=Coefficients(**values | own),
        calibration_status=calibration_status,
        fitted_on=tuple(datasets),
        log_error_90=general if measured is None else measured,
        kernel_errors=tuple(_kernel_errors(datasets, gpu, origin).items()),
        other_kernel_error=widths.get(OTHER_KERNEL),
    )


def _evidence(gpu: Gpu, fitted: set[str]) -> CalibrationStatus:
    from ..gpus.catalogue import gpu_ids, load_gpu

    if gpu.id in fitted:
        return CalibrationStatus.CALIBRATED
    known = fitted & set(gpu_ids())
    if any(load_gpu(name).compute_capability == gpu.compute_capability for name in known):
        return CalibrationStatus.ARCHITECTURE
    return CalibrationStatus.DATA_SHEET


@functools.cache
def load_calibration(gpu: Gpu, path: str | None = None) -> Calibration:
    """The calibration for a GPU: a user's file, else the one shipped for all GPUs.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> load_calibration(load_gpu("rtx-3090")).calibration_status
    <CalibrationStatus.CALIBRATED: 'calibrated GPU'>
    """
    if path is not None:
        try:
            return parse_calibration(Path(path).read_text(encoding="utf-8"), path, gpu)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"calibration {path}: {error}") from error
    shipped = files("perfmodel.data").joinpath("calibrations", "universal.toml")
    return parse_calibration(shipped.read_text(encoding="utf-8"), shipped.name, gpu)
