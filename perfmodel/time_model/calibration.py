"""The fitted coefficients with their evidence, read from TOML files that ship with the package or that a user gives."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta, Struct

from ..core.documents import converted, parse_toml
from ..core.files import read_text
from ..core.numbers import read_numbers
from ..errors import InputError
from ..gpus.gpu import Gpu
from ..profiles.kernel_profile import Fidelity
from .backing import Backing
from .coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES, Coefficients


class CalibrationStatus(Enum):
    """What backs the coefficients for the GPU asked about."""

    CALIBRATED = "calibrated GPU"
    ARCHITECTURE = "same architecture"
    DATA_SHEET = "data sheet only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Widths:
    """Half widths of the 90 % interval at one fidelity: quantiles of |log(measured / predicted)| of runs that were held out.

    ``any_kernel`` is what backs a prediction of whatever kernel, None where nothing does; ``kernels`` are those of kernels that
    were measured on this GPU, ``other_kernel`` that of kernels on GPUs of which only others were fitted to.
    """

    any_kernel: float | None = None
    kernels: tuple[tuple[str, float], ...] = ()
    other_kernel: float | None = None

    def of(self, kernel: str | None) -> float | None:
        """That of a kernel, None for one that nothing was fitted to: no less than any of this GPU.

        Where the file does not say which kernels were measured, all kernels have the same.
        """
        own = dict(self.kernels)
        if not own or kernel in own:
            return own.get(kernel or "", self.any_kernel)
        return max((width for width in (self.other_kernel, self.any_kernel) if width is not None), default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Coefficients, what they were fitted on, and how far held-out runs were off.

    ``executed`` are the intervals of predictions from executed profiles, ``analytic`` those of closed forms alone;
    ``fitted_kernels`` are the kernels whose runs were fitted to, as far as the file names them.
    """

    coefficients: Coefficients
    calibration_status: CalibrationStatus
    fitted_on: tuple[str, ...]
    executed: Widths
    analytic: Widths
    fitted_kernels: tuple[str, ...] = ()

    def log_error_90(self, kernel: str | None, fidelity: Fidelity) -> float | None:
        """Half the width of the 90 % interval of a kernel, on a logarithmic scale; None where nothing backs one."""
        return (self.analytic if fidelity is Fidelity.ANALYTIC else self.executed).of(kernel)

    def backing(self, kernel: str | None, fidelity: Fidelity) -> Backing:
        """What backs the times of a kernel."""
        return Backing(status=self.label(kernel, fidelity), log_error_90=self.log_error_90(kernel, fidelity))

    def label(self, kernel: str | None, fidelity: Fidelity) -> str:
        """What backs a prediction of a kernel, as people read it.

        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> known = load_calibration(load_gpu("h200"))
        >>> known.label("ssim", Fidelity.ANALYTIC)
        'calibrated GPU; closed forms'
        >>> known.label(None, Fidelity.COMPILED).startswith("calibrated GPU, but on tiled_conv2d, direct_conv2d")
        True
        """
        text = self.calibration_status.value
        if self.fitted_kernels and kernel not in self.fitted_kernels:
            text = f"{text}, but on {', '.join(self.fitted_kernels)}: yours is of another kind"
        return f"{text}; closed forms" if fidelity is Fidelity.ANALYTIC else text


Ratio = Annotated[float, Meta(ge=0, le=1e12)]


class Coefficient(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A fitted number with the standard error of its logarithm."""

    value: Ratio
    log_standard_error: float | None = None


class DataSet(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Measured runs of one kernel on one GPU: the hash of their file, and how far a fit is off on them.

    ``scale`` is the factor between measured and predicted of a file that does not record the clock, ``median_log_error`` the
    residual after it, ``log_error_90`` the 90 % quantile on runs that were held out, ``analytic_log_error_90`` that of closed
    forms alone.
    """

    gpu: str
    kernel: str | None = None
    runs: int | None = None
    sha256: str | None = None
    scale: float | None = None
    median_log_error: float | None = None
    log_error_90: Ratio | None = None
    analytic_log_error_90: Ratio | None = None


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
        ("analytic_intervals", Intervals, Intervals()),
    ],
    omit_defaults=True,
    namespace={"__doc__": "A calibration as `perfmodel fit` writes it and `--calibration` reads it."},
    **_STRICT,
)
"""A calibration as ``perfmodel fit`` writes it and ``--calibration`` reads it."""


def _widths(
    datasets: Mapping[str, DataSet], intervals: Intervals, status: CalibrationStatus, gpu: Gpu, field: str
) -> Widths:
    """The intervals at one fidelity, whose widths stand in a ``field`` of the data sets: the widest where several say one."""
    of_gpu = [entry for entry in datasets.values() if entry.gpu == gpu.id and getattr(entry, field) is not None]
    kernels: dict[str, float] = {}
    for entry in of_gpu:
        if entry.kernel is not None:
            kernels[entry.kernel] = max(getattr(entry, field), kernels.get(entry.kernel, 0.0))
    widest = max((getattr(entry, field) for entry in of_gpu), default=getattr(intervals, status.name.lower()))
    return Widths(any_kernel=widest, kernels=tuple(kernels.items()), other_kernel=intervals.other_kernel)


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
    executed = _widths(content.datasets, content.intervals, calibration_status, gpu, "log_error_90")
    analytic = _widths(content.datasets, content.analytic_intervals, calibration_status, gpu, "analytic_log_error_90")
    kernels = [entry.kernel for entry in content.datasets.values()]
    return Calibration(
        coefficients=Coefficients(**values, **{name: getattr(content.chosen, name) for name in CHOSEN_NAMES}),
        calibration_status=calibration_status,
        fitted_on=tuple(content.datasets),
        executed=executed,
        analytic=executed if analytic.any_kernel is None else analytic,
        fitted_kernels=() if None in kernels else tuple(dict.fromkeys(name for name in kernels if name is not None)),
    )


def _status(gpu: Gpu, fitted: set[str]) -> CalibrationStatus:
    from ..gpus.catalogue import gpu_ids, load_gpu

    if gpu.id in fitted:
        return CalibrationStatus.CALIBRATED
    known = fitted & set(gpu_ids())
    if any(load_gpu(name).architecture == gpu.architecture for name in known):
        return CalibrationStatus.ARCHITECTURE
    return CalibrationStatus.DATA_SHEET


def load_calibration(gpu: Gpu, path: str | None = None) -> Calibration:
    """The calibration for a GPU: a user's file, read anew each time, else the one shipped for all GPUs.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> load_calibration(load_gpu("rtx-3090")).calibration_status
    <CalibrationStatus.CALIBRATED: 'calibrated GPU'>
    """
    if path is None:
        return _shipped_calibration(gpu)
    try:
        text = read_text(Path(path))
    except InputError as error:
        raise InputError(f"calibration {error}") from error
    return parse_calibration(text, path, gpu)


@functools.cache
def _shipped_calibration(gpu: Gpu) -> Calibration:
    shipped = files("perfmodel.data").joinpath("calibrations", "universal.toml")
    found = parse_calibration(shipped.read_text(encoding="utf-8"), shipped.name, gpu)
    return replace(found, analytic=_of_new_problems(found.analytic)) if gpu.id == NEW_PROBLEMS_GPU else found


NEW_PROBLEMS_GPU = "h200"
"""GPU on which problems were measured that no fit has seen, for every kernel (`closed_forms.toml`)."""


def _of_new_problems(fitted: Widths) -> Widths:
    """The intervals of closed forms that new problems give; they are of more kinds than those that were fitted to."""
    kernels = {name: cast(float, one.value) for name, one in read_numbers("closed_forms").items()}
    return replace(fitted, any_kernel=max(kernels.values()), kernels=tuple(kernels.items()))
