"""How two versions of a kernel compare where both were measured: the fastest of each, problem by problem; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.records.schema import L2State, Record, RecordKind, Scalar, TimingMethod

from .baselines.ratios import METHODS, text

ConditionKey = tuple[str, tuple[tuple[str, Scalar], ...], L2State, TimingMethod]


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRatio:
    """One problem under one condition: the fastest configuration before and after, in seconds."""

    family: str
    problem: tuple[tuple[str, Scalar], ...]
    l2: L2State
    method: TimingMethod
    before_s: float
    after_s: float

    @property
    def ratio(self) -> float:
        """Time after over time before: below 1 the new version is faster."""
        return self.after_s / self.before_s


def _fastest(records: Iterable[Record]) -> Mapping[ConditionKey, float]:
    """The shortest median of each problem and L2 state, each by the one method that suits its length (see ``ratios``)."""
    found: dict[ConditionKey, float] = {}
    for record in records:
        if record.kind is not RecordKind.KERNEL or record.failure is not None:
            continue
        problem = tuple(sorted(record.problem.items()))
        for timing in record.timings:
            if timing.method in METHODS[timing.l2]:
                key = (record.name, problem, timing.l2, timing.method)
                found[key] = min(found.get(key, np.inf), timing.median_s)
    return found


def version_ratios(before: Iterable[Record], after: Iterable[Record]) -> tuple[VersionRatio, ...]:
    """A ratio for each problem and L2 state that both versions have by the method of their fastest configuration."""
    old, new = _fastest(before), _fastest(after)
    found: dict[tuple[str, tuple[tuple[str, Scalar], ...], L2State], VersionRatio] = {}
    for key in old.keys() & new.keys():
        family, problem, l2, method = key
        one = VersionRatio(family=family, problem=problem, l2=l2, method=method, before_s=old[key], after_s=new[key])
        place = (family, problem, l2)
        if place not in found or one.after_s < found[place].after_s:
            found[place] = one
    return tuple(found[place] for place in sorted(found, key=lambda place: (found[place].ratio, repr(place))))


def version_table(found: Sequence[VersionRatio]) -> str:
    """Every ratio as a row of a Markdown table, least first, and the geometric means below."""
    lines = ["| family | problem | L2 | before, µs | after, µs | after / before |", "|---|---|---|---|---|---|"]
    for one in found:
        lines.append(
            f"| {one.family} | {text(one.problem)} | {one.l2.value}, {one.method.value} "
            f"| {1e6 * one.before_s:.2f} | {1e6 * one.after_s:.2f} | {one.ratio:.3f} |"
        )
    for family, l2 in dict.fromkeys((one.family, one.l2) for one in sorted(found, key=lambda one: one.l2.value)):
        ratios = [one.ratio for one in found if (one.family, one.l2) == (family, l2)]
        mean = float(np.exp(np.mean(np.log(ratios))))
        lines.append(f"| {family} | geometric mean of {len(ratios)} | {l2.value} | | | {mean:.3f} |")
    return "\n".join(lines) + "\n"
