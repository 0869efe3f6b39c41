"""What a tuning run starts from and gives: candidates with their predictions, runs as they come in, and a report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from perfmodel.core.axes import Floats
from perfmodel.core.json_values import plain
from perfmodel.core.progress import Advance, no_progress
from perfmodel.errors import InfeasibleError, InputError
from perfmodel.families.base import Batch
from perfmodel.families.registry import family_of
from perfmodel.families.user.family import UserFamily
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.guided_search import GuidedSearch
from perfmodel.prediction.scenario import Scenario
from perfmodel.prediction.space_search import executed_seconds
from perfmodel.records.tuning_cache import TunedRun, TuningCache, Values
from perfmodel.tuning.tuning_run import TuningEnd, run_search

from .selection import all_fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """What is tuned.

    Attributes:
        names: Names of the parameters.
        values: Values of each of n configurations, in this order.
        records: The configurations as their family's records; none where only a cache file is known.
        predicted_s: Predicted seconds, shape ``(n,)``, NaN where nothing is predicted; None where nothing is at all.
    """

    names: tuple[str, ...]
    values: tuple[Values, ...]
    records: tuple[Any, ...] = ()
    predicted_s: Floats | None = None

    @property
    def parameters(self) -> dict[str, tuple[Any, ...]]:
        """The values of each parameter, in order of appearance."""
        columns = zip(*self.values, strict=True)
        return {name: tuple(dict.fromkeys(column)) for name, column in zip(self.names, columns, strict=True)}

    def among(self, cache: TuningCache) -> Candidates:
        """Those that a cache file knows.

        Raises:
            InputError: The file has other parameters, or knows none of them.
        """
        names = tuple(cache.parameters)
        if set(names) != set(self.names):
            raise InputError(f"the cache file tunes {', '.join(names)}; the space tunes {', '.join(self.names)}")
        places = [self.names.index(name) for name in names]
        ordered = [tuple(values[place] for place in places) for values in self.values]
        kept = [index for index, values in enumerate(ordered) if values in cache.runs]
        if not kept:
            raise InputError(f"the cache file holds none of the {len(ordered):,} configurations of the space")
        return Candidates(
            names=names,
            values=tuple(ordered[index] for index in kept),
            records=tuple(self.records[index] for index in kept),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningLimits:
    """When a tuning run ends, and what it draws from.

    ``gain`` is the expected improvement, as a part of the best time, below which it ends; 0 goes on to the last configuration.
    """

    runs: int
    time_limit_s: float
    gain: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningReport:
    """What tuning found.

    Attributes:
        cache: All that was measured, before and now.
        candidates: What could have been.
        measured: How many runs were made now.
        known: How many configurations had been measured before.
        end: Why tuning ended.
    """

    cache: TuningCache
    candidates: Candidates
    measured: int
    known: int
    end: TuningEnd

    @property
    def fastest(self) -> tuple[Values, ...]:
        """The configurations that ran, fastest first."""
        timed = [(run.seconds, values) for values, run in self.cache.runs.items() if run.seconds is not None]
        return tuple(values for _, values in sorted(timed, key=lambda pair: pair[0]))

    @property
    def failures(self) -> Counter[str]:
        """How often each reason for a run without time occurred."""
        failed = (run for run in self.cache.runs.values() if run.seconds is None)
        return Counter(run.message or run.failure or "" for run in failed)

    def predicted_s(self, values: Values) -> float | None:
        """The prediction of a configuration, None where there is none."""
        predicted = self.candidates.predicted_s
        if predicted is None or values not in self.candidates.values:
            return None
        found = float(predicted[self.candidates.values.index(values)])
        return found if np.isfinite(found) else None

    def to_json(self) -> dict[str, Any]:
        """The object that ``perfmodel tune --json`` prints."""
        runs = [
            {
                "config": dict(zip(self.candidates.names, values, strict=True)),
                "measured_us": None if run.seconds is None else run.seconds * 1e6,
                "predicted_us": None if (predicted := self.predicted_s(values)) is None else predicted * 1e6,
                "failure": run.message or run.failure,
            }
            for values, run in self.cache.runs.items()
        ]
        best = self.fastest[0] if self.fastest else None
        return {
            "kernel": self.cache.kernel_name,
            "gpu": self.cache.device_name,
            "candidates": len(self.candidates.values),
            "measured": self.measured,
            "measured_before": self.known,
            "end": self.end.value,
            "best": None if best is None else dict(zip(self.candidates.names, best, strict=True)),
            "runs": runs,
        }


def candidates_of(problem: Any, scenario: Scenario) -> Candidates:
    """All configurations of a problem that fit a GPU, without predictions.

    Raises:
        InfeasibleError: None fits.
    """
    records = tuple(all_fitting(family_of(problem), problem, scenario))
    if not records:
        raise InfeasibleError(f"no configuration of {family_of(problem).name} fits {scenario.gpu.id}")
    rows = [plain(record) for record in records]
    values = tuple(tuple(row.values()) for row in rows)
    return Candidates(names=tuple(rows[0]), values=values, records=records)


def candidates_of_cache(cache: TuningCache) -> Candidates:
    """The configurations that a cache file holds.

    Raises:
        InputError: It holds none.
    """
    if not cache.runs:
        raise InputError("the cache file holds no configuration")
    return Candidates(names=tuple(cache.parameters), values=tuple(cache.runs))


def with_predictions(
    candidates: Candidates, problem: Any, scenario: Scenario, executions: int, advance: Advance = no_progress
) -> Candidates:
    """The candidates with predicted times: by closed forms where the family has them, else by executing some on the CPU."""
    family = family_of(problem)
    if family.closed_forms:
        batch: Batch[Any] = Batch.of(candidates.records)
        found = np.broadcast_to(evaluate_batch(family, problem, batch, scenario).seconds, len(batch))
    elif executions:
        found = executed_seconds(problem, candidates.records, scenario, executions, advance)
    else:
        return candidates
    return replace(
        candidates, predicted_s=np.where(np.isinf(found), np.nan, found)
    )  # whether it runs is the GPU's to say


def empty_cache(problem: Any, candidates: Candidates, device_name: str) -> TuningCache:
    """The cache file of a tuning that has not begun."""
    family = family_of(problem)
    if isinstance(family, UserFamily):
        kernel, sizes = family.tuned_space.kernel, family.tuned_space.problem_size
    else:
        fields = plain(problem)
        kernel, sizes = family.name, tuple(fields[name] for name in family.kernel_tuner_problem_size or fields)
    return TuningCache(
        device_name=device_name, kernel_name=kernel, problem_size=sizes, parameters=candidates.parameters
    )


def tune_candidates(
    candidates: Candidates,
    cache: TuningCache,
    run: Callable[[int], TunedRun],
    limits: TuningLimits,
    save: Callable[[TuningCache], None],
    advance: Advance = no_progress,
) -> TuningReport:
    """Measure configurations until the search ends; after each run all that is known is saved.

    Args:
        candidates: what is tuned.
        cache: what is known before.
        run: measures a configuration by its index.
        limits: when to end.
        save: is given all that is known after each run.
        advance: called after each run.
    """
    columns = {name: [values[place] for values in candidates.values] for place, name in enumerate(candidates.names)}
    search = GuidedSearch(columns, candidates.predicted_s, tolerance=limits.gain, seed=limits.seed)
    places = {values: index for index, values in enumerate(candidates.values)}
    known = {places[values]: one.seconds for values, one in cache.runs.items() if values in places}
    now = cache

    def measure(index: int) -> float | None:
        nonlocal now
        found = run(index)
        now = replace(now, runs={**now.runs, candidates.values[index]: found})
        save(now)
        advance()
        return found.seconds

    done = run_search(search, measure, known=known, most_runs=limits.runs, time_limit_s=limits.time_limit_s)
    return TuningReport(cache=now, candidates=candidates, measured=len(done.order), known=len(known), end=done.end)
