"""The fitted coefficients with their evidence, read from TOML files that ship with the package or that a user gives."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from ..core.documents import converted, parse_toml
from ..errors import InputError
from ..gpus.gpu import Gpu
from .coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES, Coefficients


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


Ratio = Annotated[float, Meta(ge=0, le=1e12)]


class Coefficient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fitted number with the standard error of its logarithm."""

    value: Ratio
    log_standard_error: float | None = None


class DataSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Measured runs of one kernel on one GPU: the hash of their file, and how far a fit is off on them.

    ``scale`` is the factor between measured and predicted of a file that does not record the clock, ``median_log_error`` the
    residual after it, ``log_error_90`` the 90 % quantile on runs that were held out.
    """

    gpu: str
    kernel: str | None = None
    runs: int | None = None
    sha256: str | None = None
    scale: float | None = None
    median_log_error: float | None = None
    log_error_90: Ratio | None = None


class Intervals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Half widths of the 90 % intervals, on a logarithmic scale, by what backs a prediction.

    ``other_kernel``: a kernel that was not measured on a GPU of which others were.
    """

    calibrated: Ratio | None = None
    architecture: Ratio | None = None
    data_sheet: Ratio | None = None
    other_kernel: Ratio | None = None


_STRICT: Any = {"frozen": True, "kw_only": True, "forbid_unknown_fields": True}
SharedCoefficients: Any = msgspec.defstruct(
    "SharedCoefficients", [(name, Coefficient) for name in COEFFICIENT_NAMES], **_STRICT
)
OwnCoefficients: Any = msgspec.defstruct(
    "OwnCoefficients", [(name, Coefficient | None, None) for name in COEFFICIENT_NAMES], omit_defaults=True, **_STRICT
)
ChosenCoefficients: Any = msgspec.defstruct("ChosenCoefficients", [(name, Ratio) for name in CHOSEN_NAMES], **_STRICT)
CalibrationFile: Any = msgspec.defstruct(
    "CalibrationFile",
    [
        ("coefficients", SharedCoefficients),
        ("chosen", ChosenCoefficients),
        (
            "architectures",
            dict[Annotated[str, Meta(pattern=r"^sm_\d+$")], OwnCoefficients],
            msgspec.field(default_factory=dict),
        ),
        ("datasets", dict[str, DataSet], msgspec.field(default_factory=dict)),
        ("held_out", dict[str, DataSet], msgspec.field(default_factory=dict)),
        ("intervals", Intervals, Intervals()),
    ],
    omit_defaults=True,
    namespace={"__doc__": "A calibration as `perfmodel fit` writes it and `--calibration` reads it."},
    **_STRICT,
)
"""A calibration as ``perfmodel fit`` writes it and ``--calibration`` reads it."""


def _widths(datasets: Mapping[str, DataSet], name_of: Callable[[DataSet], str | None]) -> dict[str, float]:
    """The widest interval of the data sets that have one, by what ``name_of`` says of each, without those it says None of."""
    widths: dict[str, float] = {}
    for entry in datasets.values():
        name = name_of(entry)
        if name is not None and entry.log_error_90 is not None:
            widths[name] = max(entry.log_error_90, widths.get(name, 0.0))
    return widths


def parse_calibration(text: str, origin: str, gpu: Gpu) -> Calibration:
    """A calibration from TOML text; ``InputError`` names file and key where it is not one.

    A GPU takes its architecture's own coefficients where the file has them, the shared ones otherwise; the interval of
    its own data sets, else the one for its calibration status.
    """
    content = converted(CalibrationFile, parse_toml(text, origin), origin)
    values = {name: getattr(content.coefficients, name).value for name in COEFFICIENT_NAMES}
    own = content.architectures.get(gpu.architecture.name)
    if own is not None:
        values |= {name: entry.value for name in COEFFICIENT_NAMES if (entry := getattr(own, name)) is not None}
    calibration_status = _status(gpu, {entry.gpu for entry in content.datasets.values()})
    of_gpu = _widths(content.datasets, lambda entry: entry.gpu)
    return Calibration(
        coefficients=Coefficients(**values, **{name: getattr(content.chosen, name) for name in CHOSEN_NAMES}),
        calibration_status=calibration_status,
        fitted_on=tuple(content.datasets),
        log_error_90=of_gpu.get(gpu.id, getattr(content.intervals, calibration_status.name.lower())),
        kernel_errors=tuple(_widths(content.datasets, lambda e: e.kernel if e.gpu == gpu.id else None).items()),
        other_kernel_error=content.intervals.other_kernel,
    )


def _status(gpu: Gpu, fitted: set[str]) -> CalibrationStatus:
    from ..gpus.catalogue import gpu_ids, load_gpu

    if gpu.id in fitted:
        return CalibrationStatus.CALIBRATED
    known = fitted & set(gpu_ids())
    if any(load_gpu(name).architecture == gpu.architecture for name in known):
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
