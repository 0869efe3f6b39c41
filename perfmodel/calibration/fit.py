"""From measured runs to a calibration: the fit, and what runs that were held out of it say of its errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.documents import to_builtins
from ..core.files import write_text
from ..core.progress import Advance, no_progress
from ..core.results import Result, new_axes
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
from ..time_model.coefficients import CHOSEN_NAMES, COEFFICIENT_NAMES
from ..time_model.combine import launch_seconds
from .fitting import HELD_OUT_TOLERANCE, WRITTEN_TOLERANCE, Fit, FitSet, fit
from .measured_runs import MeasuredRuns, held_by_problem, shape_groups, taken_runs

FOLDS = 5
INTERVAL_LEVEL = 0.9

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """|log(measured / predicted)| of runs held out, and what each counts (arrays of shape ``(n,)``).

    Every data set counts the same, and in it every problem: thousands of configurations of one problem are no evidence of how
    far another problem is off.
    """

    logs: Floats
    weights: Floats

    @classmethod
    def of(cls, one: MeasuredRuns, ratios: Floats) -> Errors:
        """Those of a data set, without the runs of which nothing is known (NaN) or that cannot run (infinite)."""
        known = np.isfinite(ratios)
        _, problem, runs = np.unique(one.problem_index[known], return_inverse=True, return_counts=True)
        weights = 1.0 / runs[problem.reshape(-1)] / max(len(runs), 1)
        return cls(logs=np.abs(ratios[known]), weights=np.asarray(weights, np.float64))

    @classmethod
    def joined(cls, parts: Iterable[Errors]) -> Errors:
        """Those of several data sets."""
        listed = list(parts)
        none = np.empty(0)
        return cls(
            logs=np.concatenate([none, *(one.logs for one in listed)]),
            weights=np.concatenate([none, *(one.weights for one in listed)]),
        )

    def __len__(self) -> int:
        return len(self.logs)

    @property
    def interval(self) -> float | None:
        """Half the width of the 90 % interval, on a logarithmic scale; None of nothing."""
        return conformal_quantile(self.logs, self.weights) if len(self) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOutErrors:
    """Errors of runs held out of a fit, as seen at one fidelity.

    ``held_out`` has those of each data set by its name, after that set's scale; ``unseen`` those of every GPU by a fit to
    the others, without any scale, by what then backs the prediction; ``other_kernel`` those of every kernel by a fit to the
    others, on GPUs of which runs of others are left. ``unfitted`` has those of data sets that were not fitted to, by name; these
    are among the ``unseen``.
    """

    held_out: Mapping[str, Errors]
    unseen: Mapping[CalibrationStatus, Errors] = field(default_factory=dict)
    other_kernel: Errors = field(default_factory=lambda: Errors.joined(()))
    unfitted: Mapping[str, Errors] = field(default_factory=dict)

    @property
    def all_held_out(self) -> Errors:
        """Of all data sets."""
        return Errors.joined(self.held_out.values())


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Calibrated(Result):
    """A fit to all data sets and the errors of runs held out of it.

    ``unfitted`` are data sets that were not fitted to. ``closed`` are the errors of the same runs by closed forms alone, None
    where the fit was to closed forms.
    """

    fit: Fit
    data: tuple[MeasuredRuns, ...]
    errors: HeldOutErrors
    closed: HeldOutErrors | None = None
    unfitted: tuple[MeasuredRuns, ...] = ()

    @property
    def headline(self) -> str:
        """Runs, GPUs, and how far runs that were held out are off."""
        runs = sum(len(one.runs.seconds) for one in self.data)
        error = f"90 % of those held out within a factor of {math.exp(self.log_error_90):.3f}"
        gpus = ", ".join(dict.fromkeys(one.runs.gpu.id for one in self.data))
        return "; ".join((f"{runs:,} runs on {gpus}", error, *self.notes))

    @property
    def notes(self) -> tuple[str, ...]:
        """What to know about the data: files that name another GPU than the one that their times are taken for."""
        return tuple(one.doubt for one in (*self.data, *self.unfitted) if one.doubt is not None)

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

    def plot(self, ax: Any = None) -> Any:
        """Draw how many of the runs held out are within which factor, one line for each data set; `Result.plot`."""
        ax = new_axes(6, 4) if ax is None else ax
        for name, errors in self.errors.held_out.items():
            order = np.argsort(errors.logs)
            share = np.cumsum(errors.weights[order]) / max(float(errors.weights.sum()), math.ulp(0.0))
            ax.plot(np.exp(errors.logs[order]), 100.0 * share, drawstyle="steps-post", label=name)
        ax.axhline(100.0 * INTERVAL_LEVEL, color="gray", linewidth=0.8)
        ax.set_xlabel("measured over predicted time, or the inverse, at most")
        ax.set_ylabel("runs held out (%)")
        ax.set_title(self.headline, fontsize="medium")
        ax.legend()
        return ax

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract: the calibration as its file has it, the error of all runs held out, notes."""
        content: dict[str, Any] = to_builtins(calibration_file(self))
        return content | {"held_out_log_error_90": self.log_error_90, "notes": list(self.notes)}

    def write(self, path: str | Path) -> None:
        """Write the calibration as a file for ``calibration=`` and ``--calibration``.

        Raises:
            OSError: the file cannot be written.
        """
        write_text(Path(path), calibration_text(self))

    @property
    def log_error_90(self) -> float:
        """Half the width of the 90 % interval, on a logarithmic scale: the conformal quantile of all held-out errors."""
        return self.errors.all_held_out.interval or math.nan


def conformal_quantile(errors: Floats, weights: Floats | None = None) -> float:
    """The error that a further one stays below with ``INTERVAL_LEVEL`` probability, if it is exchangeable with these.

    With ``weights`` of the same shape some count more than others; a further one counts as much as these do on average.

    >>> conformal_quantile(np.arange(1.0, 20.0))
    18.0
    >>> conformal_quantile(np.arange(1.0, 20.0), np.where(np.arange(19) < 16, 10.0, 1.0))
    16.0
    """
    order = np.argsort(errors, kind="stable")
    shares = np.ones(len(errors)) if weights is None else weights[order]
    further = float((shares**2).sum() / shares.sum())
    below = np.cumsum(shares) / (shares.sum() + further)
    rank = int(np.searchsorted(below, INTERVAL_LEVEL * (1.0 - 1e-12)))
    return float(errors[order[min(rank, len(errors) - 1)]])


def log_ratios(runs: FitSet, trained: Fit) -> Floats:
    """log(measured / predicted) by a fit, after the scale that it found for this data set (1 where it found none)."""
    own = trained.coefficients_for(runs.gpu)
    seconds, _ = launch_seconds(runs.profile, runs.blocks_per_sm, runs.gpu, own)
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


def _fold_fits(
    data: Sequence[MeasuredRuns],
    fold_of: Sequence[NDArray[np.intp]],
    fitted: Callable[[list[FitSet]], Fit],
    folds: int,
    advance: Advance,
) -> list[Fit | None]:
    """A fit without each fold, None where nothing is left."""
    found: list[Fit | None] = []
    for fold in range(folds):
        advance()
        kept = [taken_runs(one.runs, of != fold) for one, of in zip(data, fold_of, strict=True) if (of != fold).any()]
        found.append(fitted(kept) if kept else None)
    return found


def _fold_ratios(
    sets: Sequence[FitSet],
    fold_of: Sequence[NDArray[np.intp]],
    trained: Sequence[Fit | None],
) -> list[Floats]:
    """log(measured / predicted) of every run by the fit without its fold."""
    ratios = [np.full(len(one.seconds), np.nan) for one in sets]
    for fold, by in enumerate(trained):
        for one, of, own in zip(sets, fold_of, ratios, strict=True):
            held = of == fold
            if by is not None and held.any() and not held.all():
                own[held] = log_ratios(taken_runs(one, held), by)
    return ratios


@dataclass(frozen=True, slots=True, kw_only=True)
class _LeftOut:
    """Fits to all data, and to what is left without each fold, each GPU and each kernel (None where nothing is left)."""

    whole: Fit
    folds: list[Fit | None]
    gpus: Mapping[str, Fit | None]
    kernels: Mapping[str, Fit | None]


def calibrate(
    data: Sequence[MeasuredRuns],
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
    fitted, unfitted = _split(data, held_out)
    advance()
    whole = fit([one.runs for one in fitted], COEFFICIENT_NAMES, tolerance=WRITTEN_TOLERANCE)

    def near(sets: list[FitSet]) -> Fit:
        return fit(sets, COEFFICIENT_NAMES, near=whole, tolerance=HELD_OUT_TOLERANCE)

    def without(name_of: Callable[[MeasuredRuns], str]) -> dict[str, Fit | None]:
        found: dict[str, Fit | None] = {}
        for name in dict.fromkeys(map(name_of, fitted)):
            advance()
            others = [one.runs for one in fitted if name_of(one) != name]
            found[name] = near(others) if others else None
        return found

    fold_of = fold_of_runs(fitted, FOLDS, seed)
    fits_done = _LeftOut(
        whole=whole,
        folds=_fold_fits(fitted, fold_of, near, FOLDS, advance),
        gpus=without(lambda one: one.runs.gpu.id),
        kernels=without(lambda one: one.kernel),
    )
    closed = all(one.closed is not None for one in data)
    return Calibrated(
        fit=whole,
        data=tuple(fitted),
        errors=_errors(fitted, unfitted, fold_of, fits_done, lambda one: one.runs),
        closed=_errors(fitted, unfitted, fold_of, fits_done, lambda one: one.closed or one.runs) if closed else None,
        unfitted=tuple(unfitted),
    )


def _errors(
    fitted: Sequence[MeasuredRuns],
    unfitted: Sequence[MeasuredRuns],
    fold_of: Sequence[NDArray[np.intp]],
    fits_done: _LeftOut,
    seen: Callable[[MeasuredRuns], FitSet],
) -> HeldOutErrors:
    """Errors of all that was held out, of runs as ``seen``."""

    def off(one: MeasuredRuns, trained: Fit) -> Errors:
        """By a fit that did not see the data set, without any scale of it."""
        return Errors.of(one, log_ratios(replace(seen(one), name="left out"), trained))

    def status(one: MeasuredRuns, others: Sequence[MeasuredRuns]) -> CalibrationStatus:
        relatives = any(other.runs.gpu.architecture == one.runs.gpu.architecture for other in others)
        return CalibrationStatus.ARCHITECTURE if relatives else CalibrationStatus.DATA_SHEET

    unseen: dict[CalibrationStatus, list[Errors]] = {}
    for one in fitted:
        trained = fits_done.gpus[one.runs.gpu.id]
        if trained is not None:
            others = [other for other in fitted if other.runs.gpu.id != one.runs.gpu.id]
            unseen.setdefault(status(one, others), []).append(off(one, trained))
    of_unfitted = {one.runs.name: off(one, fits_done.whole) for one in unfitted}
    for one in unfitted:
        unseen.setdefault(status(one, fitted), []).append(of_unfitted[one.runs.name])
    other_kernel = []
    for one in fitted:
        trained = fits_done.kernels[one.kernel]
        gpus = {other.runs.gpu.id for other in fitted if other.kernel != one.kernel}
        if trained is not None and one.runs.gpu.id in gpus:
            other_kernel.append(off(one, trained))
    ratios = _fold_ratios([seen(one) for one in fitted], fold_of, fits_done.folds)
    return HeldOutErrors(
        held_out={one.runs.name: Errors.of(one, of) for one, of in zip(fitted, ratios, strict=True)},
        unseen={backing: Errors.joined(parts) for backing, parts in unseen.items()},
        other_kernel=Errors.joined(other_kernel),
        unfitted=of_unfitted,
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


def calibration_text(found: Calibrated) -> str:
    """The calibration as TOML, with few enough digits to be the same on every machine; standard errors say how many matter.

    Every coefficient with its uncertainty, those of each architecture, every data set with hash, scale, residual and its
    intervals, those that were not fitted to, then the intervals by evidence; of all intervals those of closed forms alone,
    too. A GPU that was not fitted to takes the intervals of an unseen one; where no other GPU of an architecture was held out,
    its relatives take those of a GPU of another architecture, which are wider.
    """
    import tomli_w

    return tomli_w.dumps(to_builtins(calibration_file(found)))


def calibration_file(found: Calibrated) -> Any:
    """The calibration as the record that its file holds (`perfmodel.time_model.calibration.CalibrationFile`)."""
    done = found.fit
    return CalibrationFile(
        coefficients=SharedCoefficients(
            **{
                name: _entry(getattr(done.coefficients, name), done.log_standard_errors.get(name))
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
        held_out={one.runs.name: _source(one, **_widths(found, "unfitted", one.runs.name)) for one in found.unfitted},
        intervals=_intervals(found.errors),
        analytic_intervals=Intervals() if found.closed is None else _intervals(found.closed),
    )


def _intervals(errors: HeldOutErrors) -> Intervals:
    """Widths by what backs a prediction."""
    unseen = dict(errors.unseen)
    if CalibrationStatus.DATA_SHEET in unseen:
        unseen.setdefault(CalibrationStatus.ARCHITECTURE, unseen[CalibrationStatus.DATA_SHEET])
    found = {status.name.lower(): of for status, of in unseen.items()}
    found |= {"calibrated": errors.all_held_out, "other_kernel": errors.other_kernel}
    return Intervals(**{name: _width(of) for name, of in found.items()})


def _widths(found: Calibrated, part: str, name: str) -> dict[str, float | None]:
    """The interval of one data set among those ``held_out`` or ``unfitted``, and the one of closed forms alone."""
    return {
        "log_error_90": _width(getattr(found.errors, part)[name]),
        "analytic_log_error_90": None if found.closed is None else _width(getattr(found.closed, part)[name]),
    }


def _entry(value: float, log_standard_error: float | None) -> Coefficient:
    error = None if log_standard_error is None else _rounded(log_standard_error, 2)
    return Coefficient(value=_rounded(value, 3), log_standard_error=error)


def _source(one: MeasuredRuns, **errors: float | None) -> DataSet:
    return DataSet(gpu=one.runs.gpu.id, kernel=one.kernel, runs=len(one), sha256=one.sha256, **errors)


def _width(errors: Errors) -> float | None:
    return None if errors.interval is None else _rounded(errors.interval, 3)


def _dataset(one: MeasuredRuns, found: Calibrated) -> DataSet:
    name = one.runs.name
    return _source(
        one,
        scale=_rounded(found.fit.scales.get(name, 1.0), 4),
        median_log_error=_rounded(float(np.median(np.abs(found.fit.log_residuals[name]))), 3),
        **_widths(found, "held_out", name),
    )


def _rounded(value: float, digits: int) -> float:
    """A value with so many significant digits.

    >>> _rounded(331.52518, 4)
    331.5
    """
    return float(f"{value:.{digits}g}")
