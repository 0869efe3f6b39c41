"""The best configurations of a space: analytic over all of it, compiled for the best few dozen, simulated for the last."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.choices import one_of
from ..core.freed_memory import keep_freed_memory
from ..core.json_values import plain
from ..core.progress import Advance, no_progress
from ..core.results import Bar, ResultList
from ..core.units import interval_text, time_text
from ..core.value_types import require_type
from ..errors import InfeasibleError, InputError
from ..families.base import Batch, Family, encode
from ..families.profiling import Outcome, fidelity_of, gather_profiles, start_workers
from ..families.registry import family_of
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..profiles.kernel_profile import Fidelity, KernelProfile
from .evaluation import Evaluation, evaluate_batch
from .feasibility import FITS
from .predicting import predictions_of
from .prediction import Prediction
from .scenario import Scenario, scenario_of
from .screening import Screening
from .space_search import search_space

REFINED_CANDIDATES = 16
"""How many candidates are compiled at most."""
FIRST_CANDIDATES = 8
"""How many of them are chosen by closed forms alone."""
NEXT_CANDIDATES = 4
"""How many are compiled at a time after these."""
SCREENED_CANDIDATES = 2048
"""The fastest of each product of the space by closed forms: those from which the others are chosen."""
SIMULATED_CANDIDATES = 8
"""How many of the compiled best are simulated with caches."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Ranking(ResultList[Prediction]):
    """The space's size, why candidates were rejected, and the best ones, fastest first.

    A ranking is a list of its best: ``len(ranking)``, ``ranking[0]``, ``for prediction in ranking``.
    """

    kernel: str
    gpu: str
    problem: Any
    fidelity: Fidelity
    candidates: int
    rejected: Mapping[str, int]
    top: tuple[Prediction, ...]
    notes: tuple[str, ...] = ()

    @property
    def best(self) -> Prediction:
        """The predicted fastest configuration."""
        return self.top[0]

    @property
    def items(self) -> Sequence[Prediction]:
        """The best configurations."""
        return self.top

    @property
    def headline(self) -> str:
        """Kernel, GPU, size of the space and the best time."""
        best = time_text(self.best.time.predicted_s)
        return (
            f"{self.kernel} on {self.gpu}: {len(self.top)} best of {self.candidates:,} configurations, the first {best}"
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each of the best, with its place."""
        return [{"place": place} | found.to_row() for place, found in enumerate(self.top, 1)]

    def shown(self) -> list[dict[str, str]]:
        """Place, configuration, time and what limits it."""
        return [
            {
                "#": str(place),
                **{name: str(value) for name, value in plain(found.configuration).items()},
                "predicted": time_text(found.time.predicted_s),
                "90 % within": interval_text(found.time.interval_s),
                "limiter": found.time.limiter,
            }
            for place, found in enumerate(self.top, 1)
        ]

    def bars(self) -> list[Bar]:
        """One bar for each of the best."""
        return [
            Bar(
                label=" ".join(str(v) for v in plain(found.configuration).values()),
                seconds=found.time.predicted_s,
                interval_s=found.time.interval_s,
            )
            for found in self.top
        ]

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return {
            "kernel": self.kernel,
            "gpu": self.gpu,
            "problem": plain(self.problem),
            "fidelity": self.fidelity.value,
            "candidates": self.candidates,
            "rejected": dict(self.rejected),
            "top": [prediction.to_json() for prediction in self.top],
            "notes": list(self.notes),
        }


@dataclass(slots=True)
class _Survey:
    """The analytic pass over a whole space, chunk by chunk; ``best`` holds the fastest of each product of the space."""

    candidates: int
    rejected: Counter[str]
    examples: dict[str, str]
    """For each reason one rejected candidate's message."""
    best: list[tuple[Batch[Any], NDArray[np.float64]]]


def _fastest(batch: Batch[Any], seconds: NDArray[np.float64], keep: int) -> tuple[Batch[Any], NDArray[np.float64]]:
    order = np.argsort(seconds, kind="stable")[:keep]
    order = order[np.isfinite(seconds[order])]
    return batch.take(order), seconds[order]


def _joined(parts: list[tuple[Batch[Any], NDArray[np.float64]]]) -> tuple[Batch[Any], NDArray[np.float64]]:
    return Batch.joined([batch for batch, _ in parts]), np.concatenate([seconds for _, seconds in parts])


def survey(family: Family[Any, Any], problem: Any, scenario: Scenario, keep: int) -> _Survey:
    """Evaluate every candidate analytically; memory stays bounded whatever the space's size."""
    keep_freed_memory()
    found = _Survey(0, Counter(), {}, [])
    best: dict[int, tuple[Batch[Any], NDArray[np.float64]]] = {}
    for product, every in family.space(problem, scenario.gpu).numbered_chunks():
        distinct = ~family.redundant(problem, every, scenario.gpu)
        product, chunk = product[distinct], every.take(distinct)
        if not len(chunk):
            continue
        evaluation = evaluate_batch(family, problem, chunk, scenario)
        found.candidates += len(chunk)
        can_run = evaluation.feasibility
        found.rejected.update(can_run.rejected())
        codes, first = np.unique(can_run.reason_codes, return_index=True)
        for code, index in zip(codes.tolist(), first.tolist(), strict=True):
            if code != FITS and can_run.reasons[code] not in found.examples:
                found.examples[can_run.reasons[code]] = str(can_run.rejection(index, scenario.gpu))
        for number in np.unique(product).tolist():
            own = product == number
            part = _fastest(chunk.take(own), evaluation.seconds[own], keep)
            best[number] = _fastest(*_joined([best[number], part]), keep) if number in best else part
    found.best += [part for part in best.values() if len(part[0])]
    return found


def shortlist(found: _Survey, size: int, log_error: float = math.inf) -> list[int]:
    """The candidates to look at first: half of them the fastest of all, the rest from each product in turn.

    Closed forms may favour one variant of a kernel as a whole; what the compiler makes of the others must be seen too, as long as
    they can be the fastest: ``log_error`` is how far closed forms may be off, as a logarithm, too slow here and too fast there.
    Indices into the joined batches of ``found.best``.
    """
    _, seconds = _joined(found.best)
    order = np.argsort(seconds, kind="stable")
    sizes = [len(batch) for batch, _ in found.best]
    place = np.concatenate([np.arange(count) for count in sizes])
    in_turn = np.lexsort((seconds, place))
    in_turn = in_turn[np.log(seconds[in_turn] / seconds[order[0]]) <= 2.0 * log_error]
    return list(dict.fromkeys([*order[: (size + 1) // 2].tolist(), *in_turn.tolist()]))[:size]


def rank(
    problem: Any,
    *,
    gpu: str | Gpu,
    fidelity: Fidelity | str = Fidelity.COMPILED,
    top: int = 10,
    refine: int = REFINED_CANDIDATES,
    executions: int | None = None,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> Ranking:
    """The ``top`` configurations of the problem's family on a GPU, fastest first.

    Args:
        problem: A problem such as ``Conv2d`` or ``TiledConv2d``.
        gpu: An id of ``gpu_ids()``, the path of a TOML file, ``"auto"``, or a ``Gpu``.
        fidelity: Where counts come from: ``analytic``, ``compiled`` (needs the extra ``compile``) or ``simulated``.
        top: How many predictions to return.
        refine: How many candidates are compiled at most (at least ``top``): fewer where no other one is likely to be faster.
        executions: Of a space of your own execute at most so many, those that a search on predicted times asks for; all by
            default.
        sm_clock_mhz: SM clock; the boost clock by default.
        l2: ``cold`` or ``warm``, what the L2 holds when the kernel starts.
        calibration: A calibration file of your own, made by ``perfmodel fit``.

    Raises:
        InputError: A value is wrong; the text names it.
        InfeasibleError: No configuration fits the GPU.

    >>> from perfmodel import TiledConv2d
    >>> rank(TiledConv2d(height=256, width=256), gpu="h200", fidelity="analytic", top=3).top[0].kernel
    'tiled_conv2d'
    """
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    return rank_problem(
        problem, scenario, one_of(Fidelity, "fidelity", fidelity), top, refine=refine, executions=executions
    )


def rank_problem(
    problem: Any,
    scenario: Scenario,
    fidelity: Fidelity = Fidelity.COMPILED,
    top: int = 10,
    advance: Advance = no_progress,
    refine: int = REFINED_CANDIDATES,
    executions: int | None = None,
) -> Ranking:
    """Rank the whole space of the problem's family.

    ``advance`` is called once for each candidate that is compiled or simulated. Raises ``InfeasibleError`` where no
    candidate can run at all.
    """
    require_type(int, "an integer", top=top, refine=refine)
    if min(top, refine) < 1:
        raise InputError(f"top={top} and refine={refine} must be at least 1")
    family = family_of(problem)
    if executions is not None:
        require_type(int, "an integer", executions=executions)
        if family.closed_forms:
            raise InputError(f"executions={executions} is for a source of your own: {family.name} has closed forms")
        if executions < 1:
            raise InputError(f"executions={executions} must be at least 1")
    space = family.space(problem, scenario.gpu)
    if space.drawn_from and executions is None:
        raise InputError(
            f"{space.drawn_from:,} configurations meet the constraints: too many to execute; executions=N searches by N of them"
        )
    size = max(top, refine) if family.closed_forms else len(space)
    fidelity = fidelity_of(family, fidelity)
    if fidelity is not Fidelity.ANALYTIC:
        start_workers()
    found = survey(family, problem, scenario, max(size, SCREENED_CANDIDATES))
    if not found.best:
        most = max(found.rejected, key=found.rejected.__getitem__, default="")
        why = found.examples.get(most, "its space is empty")
        raise InfeasibleError(
            f"none of the {found.candidates} configurations of {family.name} fits {scenario.gpu.id}: {why}"
        )
    notes: list[str] = []
    if space.drawn_from:
        notes.append(f"{len(space):,} configurations, drawn from the {space.drawn_from:,} that meet the constraints")
    if fidelity is Fidelity.ANALYTIC:
        best, _ = _fastest(*_joined(found.best), top)
        evaluation = evaluate_batch(family, problem, best, scenario)
        predictions = _fastest_first(family, problem, best, evaluation, scenario, fidelity)
    elif family.closed_forms:
        predictions = _screened(family, problem, found, min(top, size), size, scenario, advance, notes)
    else:
        every, _ = _joined(found.best)
        if executions is not None:
            _, known = search_space(problem, every, scenario, executions, advance)
            every, outcomes = every.take(list(known)), list(known.values())
            _, predictions = _judged(family, problem, every, outcomes, scenario, fidelity, notes)
        else:
            _, predictions = _refined(family, problem, every, scenario, fidelity, advance, notes)
    if fidelity is Fidelity.SIMULATED and family.closed_forms:
        finalists = Batch.of([p.configuration for p in predictions[: max(top, SIMULATED_CANDIDATES)]])
        _, predictions = _refined(family, problem, finalists, scenario, fidelity, advance, notes)
    if not predictions:
        raise InfeasibleError(f"none of the best configurations of {family.name} compiles and fits: {notes[0]}")
    return Ranking(
        kernel=family.name,
        gpu=scenario.gpu.id,
        problem=problem,
        fidelity=fidelity,
        candidates=found.candidates,
        rejected=dict(found.rejected.most_common()),
        top=tuple(predictions[:top]),
        notes=tuple(notes),
    )


def best_with(problem: Any, fields: Mapping[str, Any], scenario: Scenario) -> Any | None:
    """The analytic best of the configurations that have these values, None where none of them can run.

    >>> from perfmodel import Conv1d
    >>> from perfmodel.prediction.scenario import scenario_of
    >>> from perfmodel.families.conv1d import Variant
    >>> problem = Conv1d(in_channels=64, out_channels=64, length=8)
    >>> best_with(problem, {"variant": Variant.NAIVE}, scenario_of("h200")).variant.value
    'naive'
    """
    family = family_of(problem)
    best, least = None, math.inf
    for batch in family.space(problem, scenario.gpu).chunks():
        codes = {name: encode(batch.configuration_type, name, value) for name, value in fields.items()}
        having = np.logical_and.reduce([batch[name] == code for name, code in codes.items()])
        if not np.any(having):
            continue
        batch = batch.take(np.broadcast_to(having, len(batch)))
        found = evaluate_batch(family, problem, batch, scenario)
        index = int(np.argmin(found.seconds))
        if found.seconds[index] < least:
            best, least = batch.configuration(index), float(found.seconds[index])
    return best


def _screened(
    family: Family[Any, Any],
    problem: Any,
    found: _Survey,
    least: int,
    most: int,
    scenario: Scenario,
    advance: Advance,
    notes: list[str],
) -> list[Prediction]:
    """Predictions of ``least`` to ``most`` compiled candidates, chosen part by part by what those before them have shown."""
    screening, predictions = Screening(*_joined(found.best)), list[Prediction]()
    whole = len(screening.batch) <= most
    off = scenario.calibration.log_error_90(family.name, Fidelity.ANALYTIC) or math.inf
    chosen = list(range(len(screening.batch))) if whole else shortlist(found, min(most, FIRST_CANDIDATES), off)
    asked = 0
    while chosen:
        part = screening.batch.take(chosen)
        seconds, fresh = _refined(family, problem, part, scenario, Fidelity.COMPILED, advance, notes)
        screening.note(chosen, seconds)
        predictions += fresh
        asked += len(chosen)
        chosen = screening.next(min(NEXT_CANDIDATES, most - asked), least - asked)
    return sorted(predictions, key=lambda found: found.time.predicted_s)


def _refined(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    scenario: Scenario,
    fidelity: Fidelity,
    advance: Advance,
    notes: list[str],
) -> tuple[NDArray[np.float64], list[Prediction]]:
    """Times from executed profiles and predictions, fastest first.

    What has no profile or does not fit is left out and noted; its time is infinite.
    """
    outcomes = gather_profiles(family, problem, batch, scenario.gpu, fidelity=fidelity, stores=(), advance=advance)
    return _judged(family, problem, batch, outcomes, scenario, fidelity, notes)


def _judged(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    outcomes: Sequence[Outcome],
    scenario: Scenario,
    fidelity: Fidelity,
    notes: list[str],
) -> tuple[NDArray[np.float64], list[Prediction]]:
    """Times and predictions of profiles, as ``_refined`` gives them."""
    kept, executed, seconds = list[int](), list[KernelProfile](), np.full(len(batch), np.inf)
    for index, outcome in enumerate(outcomes):
        if isinstance(outcome, KernelProfile):
            kept.append(index)
            executed.append(outcome)
        else:
            notes.append(f"{plain(batch.configuration(index))} left out: {outcome}")
    if not kept:
        return seconds, []
    known = batch.take(kept)
    found = evaluate_batch(family, problem, known, scenario, executed)
    seconds[kept] = found.seconds
    notes += [
        f"{plain(known.configuration(i))} left out: {found.feasibility.rejection(i, scenario.gpu)}"
        for i in np.flatnonzero(np.isinf(found.seconds)).tolist()
    ]
    return seconds, _fastest_first(family, problem, known, found, scenario, fidelity)


def _fastest_first(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    found: Evaluation,
    scenario: Scenario,
    fidelity: Fidelity,
) -> list[Prediction]:
    order = np.argsort(found.seconds, kind="stable")
    order = order[np.isfinite(found.seconds[order])]
    return predictions_of(family, problem, batch, found, scenario, fidelity, order.tolist())
