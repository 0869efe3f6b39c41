"""From measured runs to a calibration: the fit, and what runs that were held out of it say of its errors."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.documents import to_builtins
from ..core.files import write_text
from ..core.progress import Advance, no_progress
from ..core.results import Bar, Result
from ..errors import InputError
from ..time_model.calibration import (
    CalibrationFile,
    CalibrationStatus,
    ChosenCoefficients,
    Coefficient,
    DataSet,
    Intervals,
    OwnCoefficients,
    SharedCoefficients,
)
from ..time_model.coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES, Coefficients
from ..time_model.combine import launch_seconds
from .fitting import HELD_OUT_TOLERANCE, SOLVER_TOLERANCE, WRITTEN_TOLERANCE, Fit, FitSet, fit
from .measured_runs import MeasuredRuns, held_by_problem, shape_groups, taken_runs

FOLDS = 5
INTERVAL_LEVEL = 0.9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibrated(Result):
    """A fit to all data sets and the errors of runs held out of it, |log(measured / predicted)|.

    ``held_out`` has those of each data set by its name, after that set's scale; ``unseen`` those of every GPU by a fit to
    the others, without any scale, by what then backs the prediction; ``other_kernel`` those of every kernel by a fit to the
    others, on GPUs of which runs of others are left. ``told`` are data sets that were not fitted to, with their errors by
    name in ``told_errors``; these are among the ``unseen``.
    """

    fit: Fit
    data: tuple[MeasuredRuns, ...]
    held_out: Mapping[str, Floats]
    unseen: Mapping[CalibrationStatus, Floats] = field(default_factory=dict)
    other_kernel: Floats = field(default_factory=lambda: np.empty(0))
    told: tuple[MeasuredRuns, ...] = ()
    told_errors: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """Runs, GPUs, and how far runs that were held out are off."""
        runs = sum(len(one.runs.seconds) for one in self.data)
        error = f"90 % of those held out within a factor of {math.exp(self.log_error_90):.3f}"
        gpus = ", ".join(dict.fromkeys(one.runs.gpu.id for one in self.data))
        return f"{runs:,} runs on {gpus}; {error}"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each coefficient: its value and the standard error of its logarithm, of all GPUs or one architecture's."""
        content = to_builtins(calibration_file(self))
        sets = {"": content["coefficients"], **content.get("architectures", {})}
        return [
            {
                "coefficient": name,
                "architecture": architecture or None,
                "value": entry["value"],
                "log_standard_error": entry.get("log_standard_error"),
            }
            for architecture, entries in sets.items()
            for name, entry in entries.items()
        ]

    def bars(self) -> list[Bar]:
        """Refused: coefficients are no times."""
        raise InputError("a calibration has no times to plot; `perfmodel plot` draws what it predicts")

    def write(self, path: str | Path) -> None:
        """Write the calibration as a file for ``calibration=`` and ``--calibration``.

        Raises:
            OSError: the file cannot be written.
        """
        write_text(Path(path), calibration_text(self))

    @property
    def log_error_90(self) -> float:
        """Half the width of the 90 % interval, on a logarithmic scale: the conformal quantile of all held-out errors."""
        return conformal_quantile(np.concatenate(list(self.held_out.values())))


def conformal_quantile(errors: Floats) -> float:
    """The error that a further one stays below with ``INTERVAL_LEVEL`` probability, if it is exchangeable with these.

    >>> conformal_quantile(np.arange(1.0, 20.0))
    18.0
    """
    rank = min(len(errors), math.ceil(INTERVAL_LEVEL * (len(errors) + 1)))
    return float(np.sort(errors)[rank - 1])


def log_ratios(runs: FitSet, trained: Fit, without: Collection[str] = ()) -> Floats:
    """log(measured / predicted) by a fit, after the scale that it found for this data set (1 where it found none)."""
    own = trained.coefficients_for(runs.gpu)
    seconds, _ = launch_seconds(runs.profile, runs.blocks_per_sm, runs.gpu, own, without=without)
    return np.asarray(np.log(runs.seconds / seconds) - np.log(trained.scales.get(runs.name, 1.0)))


def fold_of_runs(data: Sequence[MeasuredRuns], folds: int, seed: int) -> list[NDArray[np.intp]]:
    """The fold of every run.

    Runs of one launch geometry are in one fold, in all data sets of few problems; those of one problem in the others.
    """
    groups = [np.asarray(of) for of in shape_groups([one.geometry for one in data])]
    first = 1 + max(int(of.max()) for of in groups)
    for number, one in enumerate(data):
        if held_by_problem(one.problems):
            groups[number] = first + one.groups
            first += len(one.problems)
    number = 1 + max(int(of.max()) for of in groups)
    order = np.random.default_rng(seed).permutation(number)
    return [np.asarray(order[of] % folds, np.intp) for of in groups]


def out_of_fold(
    data: Sequence[MeasuredRuns],
    free: Sequence[str] = COEFFICIENT_NAMES,
    folds: int = FOLDS,
    seed: int = 0,
    without: Collection[str] = (),
    start: Coefficients | None = None,
    near: Fit | None = None,
    tolerance: float = SOLVER_TOLERANCE,
    advance: Advance = no_progress,
) -> list[Floats]:
    """log(measured / predicted) of every run by a fit that saw neither it nor any run of its launch geometry or problem.

    ``without`` leaves terms of the model out, ``start`` has what is not ``free``, ``near`` is where each search begins,
    ``tolerance`` ends it. NaN where a fold holds all runs of a data set: nothing is known of its scale.
    """
    fold_of = fold_of_runs(data, folds, seed)
    found = [np.full(len(one), np.nan) for one in data]
    for fold in range(folds):
        advance()
        kept = [taken_runs(one.runs, of != fold) for one, of in zip(data, fold_of, strict=True) if (of != fold).any()]
        if not kept:
            continue
        trained = fit(kept, free, start, without=without, near=near, tolerance=tolerance)
        for one, of, ratios in zip(data, fold_of, found, strict=True):
            held = of == fold
            if held.any() and not held.all():
                ratios[held] = log_ratios(taken_runs(one.runs, held), trained, without)
    return found


def calibrate(
    data: Sequence[MeasuredRuns],
    free: Sequence[str] = COEFFICIENT_NAMES,
    seed: int = 0,
    held_out: Collection[str] = (),
    advance: Advance = no_progress,
) -> Calibrated:
    """Fit to all data; then without each fifth of the groups, each GPU and each kernel, to see how far those runs are off.

    Runs on the GPUs ``held_out`` (ids) are not fitted to: they say how far such GPUs are off of which nothing was measured.
    ``advance`` is called for each of the `fits`.

    Raises:
        InputError: A GPU to hold out that nothing was measured on, or none that is left to fit to.
    """
    fitted, told = _split(data, held_out)
    sets = [one.runs for one in fitted]
    advance()
    whole = fit(sets, free, tolerance=WRITTEN_TOLERANCE)
    ratios = out_of_fold(fitted, free, seed=seed, near=whole, tolerance=HELD_OUT_TOLERANCE, advance=advance)
    told_errors = {one.runs.name: _left_out_errors(one.runs, whole) for one in told}
    return Calibrated(
        fit=whole,
        data=tuple(fitted),
        held_out={one.runs.name: np.abs(of[np.isfinite(of)]) for one, of in zip(fitted, ratios, strict=True)},
        unseen=_unseen_errors(sets, [(one.runs, told_errors[one.runs.name]) for one in told], whole, free, advance),
        other_kernel=_other_kernel_errors(fitted, whole, free, advance),
        told=tuple(told),
        told_errors=told_errors,
    )


def fits(data: Sequence[MeasuredRuns], held_out: Collection[str] = ()) -> int:
    """How many fits `calibrate` is done after: to all, without each fold, without each GPU, without each kernel."""
    fitted, _ = _split(data, held_out)
    return 1 + FOLDS + len({one.runs.gpu.id for one in fitted}) + len({one.kernel for one in fitted})


def _split(data: Sequence[MeasuredRuns], held_out: Collection[str]) -> tuple[list[MeasuredRuns], list[MeasuredRuns]]:
    """The data sets to fit to, and those of GPUs that are held out."""
    measured = dict.fromkeys(one.runs.gpu.id for one in data)
    for gpu_id in held_out:
        if gpu_id not in measured:
            raise InputError(f"--held-out {gpu_id}: nothing was measured on it (measured: {', '.join(measured)})")
    fitted = [one for one in data if one.runs.gpu.id not in held_out]
    if not fitted:
        raise InputError(f"--held-out {', '.join(measured)}: no GPU is left to fit to")
    return fitted, [one for one in data if one.runs.gpu.id in held_out]


def _other_kernel_errors(data: Sequence[MeasuredRuns], whole: Fit, free: Sequence[str], advance: Advance) -> Floats:
    """Errors on each kernel's runs of the coefficients that other kernels give, on GPUs of which others were measured."""
    errors = [np.empty(0)]
    for kernel in dict.fromkeys(one.kernel for one in data):
        advance()
        others = [one.runs for one in data if one.kernel != kernel]
        gpus = {one.gpu.id for one in others}
        left = [one.runs for one in data if one.kernel == kernel and one.runs.gpu.id in gpus]
        if left:
            trained = fit(others, free, near=whole, tolerance=HELD_OUT_TOLERANCE)
            errors += [_left_out_errors(one, trained) for one in left]
    return np.concatenate(errors)


def _left_out_errors(runs: FitSet, trained: Fit) -> Floats:
    """Errors of a fit on runs that it did not see, without any scale of theirs."""
    return np.abs(log_ratios(replace(runs, name="left out"), trained))


def _unseen_errors(
    sets: Sequence[FitSet],
    told: Sequence[tuple[FitSet, Floats]],
    whole: Fit,
    free: Sequence[str],
    advance: Advance,
) -> dict[CalibrationStatus, Floats]:
    """Errors on each GPU's runs of the coefficients that the other GPUs give, with those ``told`` of GPUs not fitted to."""
    errors: dict[CalibrationStatus, list[Floats]] = {}

    def add(left: FitSet, others: Sequence[FitSet], found: Floats) -> None:
        relatives = any(one.gpu.architecture == left.gpu.architecture for one in others)
        calibration_status = CalibrationStatus.ARCHITECTURE if relatives else CalibrationStatus.DATA_SHEET
        errors.setdefault(calibration_status, []).append(found)

    for gpu_id in dict.fromkeys(one.gpu.id for one in sets):
        advance()
        others = [one for one in sets if one.gpu.id != gpu_id]
        if not others:
            continue
        trained = fit(others, free, near=whole, tolerance=HELD_OUT_TOLERANCE)
        for left in (one for one in sets if one.gpu.id == gpu_id):
            add(left, others, _left_out_errors(left, trained))
    for one, found in told:
        add(one, sets, found)
    return {calibration_status: np.concatenate(parts) for calibration_status, parts in errors.items()}


def calibration_text(found: Calibrated, free: Sequence[str] = COEFFICIENT_NAMES) -> str:
    """The calibration as TOML, with few enough digits to be the same on every machine; standard errors say how many matter.

    Every coefficient with its uncertainty, those of each architecture, every data set with hash, scale, residual and its
    interval, those that were not fitted to, then the intervals by evidence. A GPU that was not fitted to takes the intervals
    of an unseen one; where no other GPU of an architecture was held out, its relatives take those of a stranger, which are
    wider.
    """
    import tomli_w

    return tomli_w.dumps(to_builtins(calibration_file(found, free)))


def calibration_file(found: Calibrated, free: Sequence[str] = COEFFICIENT_NAMES) -> Any:
    """The calibration as the record that its file holds (`perfmodel.time_model.calibration.CalibrationFile`)."""
    done = found.fit
    unseen = {calibration_status: conformal_quantile(errors) for calibration_status, errors in found.unseen.items()}
    if CalibrationStatus.DATA_SHEET in unseen:
        unseen.setdefault(CalibrationStatus.ARCHITECTURE, unseen[CalibrationStatus.DATA_SHEET])
    widths = {
        status.name.lower(): width
        for status, width in (unseen | {CalibrationStatus.CALIBRATED: found.log_error_90}).items()
    }
    if len(found.other_kernel):
        widths["other_kernel"] = conformal_quantile(found.other_kernel)
    return CalibrationFile(
        coefficients=SharedCoefficients(
            **{
                name: _entry(
                    getattr(done.coefficients, name), done.log_standard_errors.get(name) if name in free else None
                )
                for name in COEFFICIENT_NAMES
            }
        ),
        chosen=ChosenCoefficients(**{name: getattr(done.coefficients, name) for name in CHOSEN_NAMES}),
        architectures={
            architecture: OwnCoefficients(
                **{
                    name: _entry(value, done.architecture_log_standard_errors[architecture][name])
                    for name, value in own.items()
                }
            )
            for architecture, own in done.architectures.items()
        },
        datasets={one.runs.name: _dataset(one, found) for one in found.data},
        held_out={
            one.runs.name: _source(one, log_error_90=_width(found.told_errors[one.runs.name])) for one in found.told
        },
        intervals=Intervals(**{name: _rounded(width, 3) for name, width in widths.items()}),
    )


def _entry(value: float, log_standard_error: float | None) -> Coefficient:
    error = None if log_standard_error is None else _rounded(log_standard_error, 2)
    return Coefficient(value=_rounded(value, 3), log_standard_error=error)


def _source(one: MeasuredRuns, **errors: float | None) -> DataSet:
    return DataSet(gpu=one.runs.gpu.id, kernel=one.kernel, runs=len(one), sha256=one.sha256, **errors)


def _width(errors: Floats) -> float | None:
    return _rounded(conformal_quantile(errors), 3) if len(errors) else None


def _dataset(one: MeasuredRuns, found: Calibrated) -> DataSet:
    name = one.runs.name
    return _source(
        one,
        scale=_rounded(found.fit.scales.get(name, 1.0), 4),
        median_log_error=_rounded(float(np.median(np.abs(found.fit.log_residuals[name]))), 3),
        log_error_90=_width(found.held_out[name]),
    )


def _rounded(value: float, digits: int) -> float:
    """A value with so many significant digits.

    >>> _rounded(331.52518, 4)
    331.5
    """
    return float(f"{value:.{digits}g}")
