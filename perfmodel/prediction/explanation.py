"""Why a configuration takes its time: terms, what one step in each field would change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.json_values import plain
from ..core.units import microseconds
from ..errors import InputError
from ..families.base import Batch, Family
from ..families.registry import family_of
from ..gpus.gpu import Gpu
from ..time_model.combine import LIMITER_NAMES
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


_MEANING = {
    "arithmetic": "FP32 and integer pipes",
    "sfu_fp64_fp16_pipes": "FP64, special-function or half-precision pipes",
    "issue_slots": "instruction issue",
    "lsu_data_pipe": "the data pipe of shared memory and L1",
    "sectors": "L1's fill and store path",
    "instruction_fetch": "instruction fetch (code beyond the instruction cache)",
    "constant_cache": "indexed constants beyond the constant cache",
    "l2": "L2 bandwidth",
    "dram": "DRAM bandwidth",
    "atomics": "atomics that follow one another in L2",
    "local_memory": "traffic of spilled registers and stack arrays behind L1",
    "exposed_memory_latency": "latency of loads that the resident blocks do not hide",
    "exposed_dependency_latency": "latency of the dependent instructions that the resident blocks do not hide",
    "block_launch_rate": "starting the blocks one after the other",
    "ramp_up": "ramp-up: the first blocks wait for code, constants and all their data at once",
    "fixed_launch_cost": "the start and end of a kernel, whatever it does",
}


def limiter_text(name: str) -> str:
    """A limiter's name as a sentence's end.

    >>> limiter_text("dram")
    'DRAM bandwidth'
    """
    return _MEANING[name]


def why_first(top: Sequence[Prediction]) -> str:
    """Why the winner of a ranking beats the runner-up: the term that differs most, in its favour."""
    if len(top) < 2:
        return "one configuration; nothing to compare it with"
    first, second = top[0], top[1]
    gap = second.time.predicted_s / first.time.predicted_s - 1
    changed = [
        f"{name}={plain(first.configuration)[name]} instead of {value}"
        for name, value in plain(second.configuration).items()
        if plain(first.configuration)[name] != value
    ]
    gains = {
        name: float(getattr(second.time.terms, name)) - float(getattr(first.time.terms, name)) for name in LIMITER_NAMES
    }
    best = max(gains, key=lambda name: gains[name])
    reason = (
        f"it saves {microseconds(gains[best]):.3g} µs of {limiter_text(best)}"
        if gains[best] > 0
        else "no single term explains it"
    )
    return f"the first is predicted {gap:.1%} faster than the second ({', '.join(changed)}): {reason}"
