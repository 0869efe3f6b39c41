"""From files of measurements to a calibration: the work of every run, the fit, what held-out runs say of its errors."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .conditions import Conditions
from .counts import Counts
from .errors import InputError
from .facts import Advance, Facts, no_progress
from .families.base import Family
from .gather import gather_facts
from .gpu import Gpu
from .launch import Launch
from .predicting import evaluate_under
from .prediction import Fidelity
from .records import Measurements
from .time.calibration import Evidence
from .time.coefficients import COEFFICIENT_NAMES
from .time.combine import launch_seconds
from .time.fitting import Fit, FitSet, fit
from .work import Work

FOLDS = 5
INTERVAL_LEVEL = 0.9
LEAST_RUNS = 10
"""Runs below which a data set says too little to be fitted to."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRuns:
    """A data set as the fit takes it, the group that each run belongs to, and the hash of the file that it came from.

    Runs of one group have the same launch geometry: held out together, so that no run is predicted from its twins.
    """

    runs: FitSet
    groups: NDArray[np.intp]
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """A fit to all data sets and the errors of runs held out of it: |log(measured / predicted)| after each set's scale."""

    fit: Fit
    data: tuple[MeasuredRuns, ...]
    held_out: Floats
    unseen_gpu: Floats = field(default_factory=lambda: np.zeros(0))
    """|log(measured / predicted)| of every data set by a fit to the others, without any scale; empty for one data set."""

    @property
    def log_error_90(self) -> float:
        """Half the width of the 90 % interval, on a logarithmic scale: the conformal quantile of the held-out errors."""
        return conformal_quantile(self.held_out)


def conformal_quantile(errors: Floats) -> float:
    """The error that a further one stays below with ``INTERVAL_LEVEL`` probability, if it is exchangeable with these.

    >>> conformal_quantile(np.arange(1.0, 20.0))
    18.0
    """
    rank = min(len(errors), math.ceil(INTERVAL_LEVEL * (len(errors) + 1)))
    return float(np.sort(errors)[rank - 1])


def measured_runs(
    name: str,
    family: Family[Any, Any],
    measurements: Measurements,
    under: Conditions,
    fidelity: Fidelity,
    advance: Advance = no_progress,
) -> MeasuredRuns:
    """The runs of a file that gave a time and that the model has facts for.

    Raises:
        InputError: Fewer than ``LEAST_RUNS`` are left.
    """
    works: list[Work] = []
    blocks: list[NDArray[Any]] = []
    seconds: list[Floats] = []
    for index, problem in enumerate(measurements.problems):
        rows = np.flatnonzero((measurements.problem_index == index) & measurements.ran)
        batch, facts = measurements.batch.take(rows), None
        if len(rows) and fidelity is not Fidelity.ANALYTIC:
            outcomes = gather_facts(
                family, problem, batch, under.gpu, fidelity=fidelity, equivalents=True, advance=advance
            )
            known = np.array([isinstance(outcome, Facts) for outcome in outcomes])
            facts = [outcome for outcome in outcomes if isinstance(outcome, Facts)]
            rows, batch = rows[known], batch.take(known)
        if not len(rows):
            continue
        found = evaluate_under(family, problem, batch, under, facts)
        fits = np.flatnonzero(np.isfinite(found.seconds))
        works.append(_taken(found.work, fits, len(rows)))
        blocks.append(np.broadcast_to(found.occupancy.blocks_per_sm, len(rows))[fits])
        seconds.append(measurements.time_s[rows][fits])
    count = sum(len(part) for part in seconds)
    if count < LEAST_RUNS:
        raise InputError(f"{measurements.path}: {count} runs can be fitted to; at least {LEAST_RUNS} are needed")
    work = joined_works(works)
    runs = FitSet(
        name=name, gpu=under.gpu, work=work, blocks_per_sm=np.concatenate(blocks), seconds=np.concatenate(seconds)
    )
    digest = hashlib.sha256(measurements.path.read_bytes()).hexdigest()
    return MeasuredRuns(runs=runs, groups=_groups(work.launch, count), sha256=digest)


def _taken(work: Work, rows: NDArray[np.intp], count: int) -> Work:
    """The work of some candidates, every number spread to an array."""

    def take(value: Any) -> NDArray[Any]:
        return np.broadcast_to(np.asarray(value), count)[rows]

    return _mapped([work], lambda values: take(values[0]))


def joined_works(works: Sequence[Work]) -> Work:
    """Works whose fields are arrays as one, in order."""
    return _mapped(works, np.concatenate)


def _mapped(works: Sequence[Work], function: Any) -> Work:
    """The works with every field of the launch, of the counts and of their own put through one function."""
    launch = Launch(**{f.name: function([getattr(w.launch, f.name) for w in works]) for f in fields(Launch)})
    counts = Counts(**{f.name: function([getattr(w.counts, f.name) for w in works]) for f in fields(Counts)})
    own = [f.name for f in fields(Work) if f.name not in ("launch", "counts")]
    return Work(launch=launch, counts=counts, **{name: function([getattr(w, name) for w in works]) for name in own})


def _groups(launch: Launch, count: int) -> NDArray[np.intp]:
    geometry = [np.broadcast_to(getattr(launch, f.name), count) for f in fields(Launch)]
    return np.asarray(np.unique(np.stack(geometry, axis=1), axis=0, return_inverse=True)[1], np.intp).reshape(-1)


def calibrate(data: Sequence[MeasuredRuns], free: Sequence[str] = COEFFICIENT_NAMES, seed: int = 0) -> Calibrated:
    """Fit to all data; then again without each fifth of the groups in turn, to see how far those runs are off."""
    rng = np.random.default_rng(seed)
    folds = [rng.integers(FOLDS, size=int(one.groups.max()) + 1)[one.groups] for one in data]
    errors: list[Floats] = []
    for fold in range(FOLDS):
        kept = [taken_runs(one.runs, of != fold) for one, of in zip(data, folds, strict=True) if (of != fold).any()]
        trained = fit(kept, free)
        for one, of in zip(data, folds, strict=True):
            if (of == fold).any() and one.runs.name in {part.name for part in kept}:
                errors.append(np.abs(_log_ratios(taken_runs(one.runs, of == fold), trained)))
    return Calibrated(
        fit=fit([one.runs for one in data], free),
        data=tuple(data),
        held_out=np.concatenate(errors),
        unseen_gpu=_unseen_errors([one.runs for one in data], free),
    )


def _unseen_errors(sets: Sequence[FitSet], free: Sequence[str]) -> Floats:
    """Errors on each GPU's runs of the coefficients that the other GPUs give, as for a GPU known by its data sheet."""
    errors = []
    for left in sets:
        others = [one for one in sets if one.gpu.id != left.gpu.id]
        if others:
            errors.append(np.abs(_log_ratios(replace(left, name="left out"), fit(others, free))))
    return np.concatenate(errors) if errors else np.zeros(0)


def taken_runs(runs: FitSet, rows: NDArray[Any]) -> FitSet:
    """The runs at the given indices or under the given mask."""
    return replace(
        runs,
        work=_taken(runs.work, rows, len(runs.seconds)),
        blocks_per_sm=np.asarray(runs.blocks_per_sm)[rows],
        seconds=runs.seconds[rows],
    )


def _log_ratios(runs: FitSet, trained: Fit) -> Floats:
    seconds, _ = launch_seconds(runs.work, runs.blocks_per_sm, runs.gpu, trained.coefficients_for(runs.gpu))
    return np.asarray(np.log(runs.seconds / seconds) - np.log(trained.scales.get(runs.name, 1.0)))


def calibration_text(found: Calibrated, free: Sequence[str] = COEFFICIENT_NAMES) -> str:
    """The calibration as TOML: every coefficient with its uncertainty, every data set with hash, scale and residual."""
    lines: list[str] = []
    for name in COEFFICIENT_NAMES:
        lines += [f"[coefficients.{name}]", f"value = {getattr(found.fit.coefficients, name):.6g}"]
        if name in free:
            lines.append(f"log_standard_error = {found.fit.log_standard_errors[name]:.3g}")
        lines.append("")
    for one in found.data:
        residual = float(np.median(np.abs(found.fit.log_residuals[one.runs.name])))
        lines += [
            f"[datasets.{one.runs.name}]",
            f'gpu = "{one.runs.gpu.id}"',
            f"runs = {len(one.runs.seconds)}",
            f'sha256 = "{one.sha256}"',
            f"scale = {found.fit.scales.get(one.runs.name, 1.0):.6g}",
            f"median_log_error = {residual:.4g}",
            "",
        ]
    lines += ["[intervals]", f"{Evidence.CALIBRATED.name.lower()} = {found.log_error_90:.4g}"]
    if len(found.unseen_gpu):
        wide = conformal_quantile(found.unseen_gpu)
        lines += [f"{one.name.lower()} = {wide:.4g}" for one in (Evidence.ARCHITECTURE, Evidence.DATA_SHEET)]
    lines.append("")
    return "\n".join(lines)


def dataset_name(gpu: Gpu, number: int) -> str:
    """A name for a data set that TOML takes as a bare key.

    >>> from perfmodel.gpus import load_gpu
    >>> dataset_name(load_gpu("h200"), 2)
    'h200-2'
    """
    bare = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in gpu.id)
    return f"{bare}-{number}"
