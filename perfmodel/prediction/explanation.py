"""Why a configuration takes its time: terms, what one step in each field would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.json_values import plain
from ..errors import InputError
from ..families.base import Batch, Family
from ..families.registry import family_of
from ..gpus.gpu import Gpu
from .differences import alike, difference_text, spread_text
from .evaluation import evaluate_batch
from .prediction import Prediction
from .scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field changed to another value: the predicted time relative to now (below 1 is faster), or why it cannot run."""

    field: str
    value: Any
    ratio: float | None
    rejection: str | None
    configuration: Any


def _field_values(family: Family[Any, Any], problem: Any, gpu: Gpu, name: str) -> list[Any]:
    """All values that a field takes anywhere in the space, in order."""
    found: list[Any] = []
    for product in family.space(problem, gpu).products:
        found += [value for value in product.values[name] if value not in found]
    return found


def neighbours(family: Family[Any, Any], problem: Any, configuration: Any, gpu: Gpu) -> list[tuple[str, Any, Any]]:
    """Configurations that differ in one field: one step of an ordered field, any value of a choice."""
    found = []
    for field in fields(configuration):
        values = _field_values(family, problem, gpu, field.name)
        now = getattr(configuration, field.name)
        others = [value for value in values if value != now and value is not None]
        numbers = isinstance(now, int) and not isinstance(now, bool)
        if numbers:
            below = [v for v in others if v < now][-1:]
            others = below + [v for v in others if v > now][:1]
        if now is None:
            others = []
        for value in others:
            try:
                found.append((field.name, value, replace(configuration, **{field.name: value})))
            except InputError:
                continue
    return found


def sensitivity(prediction: Prediction, scenario: Scenario) -> list[Change]:
    """What each field's change would do, by the analytic model on both sides (so that estimates cancel)."""
    family = family_of(prediction.problem)
    changes = neighbours(family, prediction.problem, prediction.configuration, scenario.gpu)
    if not changes:
        return []
    batch: Batch[Any] = Batch.of([prediction.configuration, *(configuration for *_, configuration in changes)])
    found = evaluate_batch(family, prediction.problem, batch, scenario)
    own = float(found.seconds[0])
    ratios = found.seconds / (
        own if np.isfinite(own) else np.nan
    )  # by estimates it may not run, then nothing is compared
    return [
        Change(
            field=name,
            value=value,
            ratio=float(ratios[i]) if np.isfinite(ratios[i]) else None,
            rejection=found.feasibility.rejection(i, scenario.gpu),
            configuration=configuration,
        )
        for i, (name, value, configuration) in enumerate(changes, 1)
    ]


def why_first(top: Sequence[Prediction]) -> str:
    """Which configurations of a ranking are the fastest, as far as the model can tell, and why the next one is slower."""
    if len(top) < 2:
        return "one configuration; nothing to compare it with"
    seconds = [found.time.predicted_s for found in top]
    ties = alike(seconds)
    first = "rank 1 is the fastest" if ties == 1 else f"ranks 1–{ties} lie {spread_text(seconds[:ties])}"
    if ties == len(top):
        return first
    next_one = top[ties]
    here, there = plain(top[0].configuration), plain(next_one.configuration)
    changed = ", ".join(
        f"{name}={value} instead of {here[name]}" for name, value in there.items() if here[name] != value
    )
    slower = f"rank {ties + 1} ({changed}) is {seconds[ties] / seconds[0] - 1:.1%} slower than rank 1"
    return f"{first}; {slower}: {difference_text(top[0], next_one)}"
