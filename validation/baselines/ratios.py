"""How the project's kernels compare with the best library, problem by problem; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.launch.launch import L2State
from perfmodel.records.schema import Record, RecordKind, Scalar, Timing, TimingMethod

METHODS = {
    L2State.COLD: (TimingMethod.EVENTS,),
    L2State.WARM: (TimingMethod.GRAPH, TimingMethod.EVENTS),
}
"""What is compared: cold launches between events; warm ones by the one method that suits their length.

A warm kernel has one of the two: replayed in a graph if short, between events if long or not capturable. To compare only
where both sides have the same would leave a long library nothing but the slow ones among the kernels.
"""

LOSS = 1.1
"""A kernel that takes more than this many times the library's time has lost."""

ProblemKey = tuple[str, tuple[tuple[str, Scalar], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ratio:
    """One problem: the fastest configuration of the family, the fastest library, times in seconds under one condition."""

    gpu: str
    family: str
    problem: tuple[tuple[str, Scalar], ...]
    l2: L2State
    kernel_method: TimingMethod
    baseline_method: TimingMethod
    kernel_s: float
    configuration: tuple[tuple[str, Scalar], ...]
    baseline_s: float
    baseline: str

    @property
    def ratio(self) -> float:
        """The library's time over the kernel's: above 1 the kernel is faster."""
        return self.baseline_s / self.kernel_s

    @property
    def condition(self) -> str:
        """What L2 held, and how the kernel and the library were timed."""
        methods = dict.fromkeys([self.kernel_method.value, self.baseline_method.value])
        return f"{self.l2.value}, {' against '.join(methods)}"

    @property
    def lost(self) -> bool:
        """Whether the kernel takes over 10 % more time than the library."""
        return self.kernel_s > LOSS * self.baseline_s


def ratios(records: Iterable[Record]) -> tuple[Ratio, ...]:
    """A ratio for every problem with a timed kernel and a timed exact library, for each condition that they share."""
    kernels: dict[ProblemKey, list[Record]] = {}
    baselines: dict[ProblemKey, list[Record]] = {}
    for record in records:
        if record.failure is not None or not record.timings:
            continue
        problem = tuple(sorted(record.problem.items()))
        if record.kind is RecordKind.KERNEL:
            kernels.setdefault((record.name, problem), []).append(record)
        elif record.kind is RecordKind.BASELINE and is_exact(record):
            baselines.setdefault((str(record.configuration["family"]), problem), []).append(record)
    return tuple(
        ratio
        for key in kernels
        if key in baselines
        for l2 in METHODS
        if (ratio := _ratio(key, kernels[key], baselines[key], l2)) is not None
    )


def is_exact(record: Record) -> bool:
    """Whether a baseline met the tolerance; one of lower precision is recorded, and not compared."""
    return record.correctness is not None and record.correctness.passed


def _ratio(key: ProblemKey, kernels: Sequence[Record], baselines: Sequence[Record], l2: L2State) -> Ratio | None:
    kernel, baseline = _fastest(kernels, l2), _fastest(baselines, l2)
    if kernel is None or baseline is None:
        return None
    return Ratio(
        gpu=kernel[1].gpu,
        family=key[0],
        problem=key[1],
        l2=l2,
        kernel_method=kernel[0].method,
        baseline_method=baseline[0].method,
        kernel_s=kernel[0].median_s,
        configuration=tuple(kernel[1].configuration.items()),
        baseline_s=baseline[0].median_s,
        baseline=baseline[1].name,
    )


def _fastest(records: Sequence[Record], l2: L2State) -> tuple[Timing, Record] | None:
    timed = [
        (timing, record)
        for record in records
        for timing in record.timings
        if timing.l2 is l2 and timing.method in METHODS[l2]
    ]
    return min(timed, key=lambda pair: pair[0].median_s, default=None)


def ratio_table(found: Sequence[Ratio]) -> str:
    """The ratios as a Markdown table, slowest against the library first."""
    lines = [
        "| family | problem | condition | kernel µs | best library µs | library / kernel | library | configuration |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for entry in sorted(found, key=lambda ratio: ratio.ratio):
        lines.append(
            f"| {entry.family} | {text(entry.problem)} | {entry.condition} "
            f"| {entry.kernel_s * 1e6:.2f} | {entry.baseline_s * 1e6:.2f} | {entry.ratio:.2f} "
            f"| {entry.baseline} | {text(entry.configuration)} |"
        )
    return "\n".join(lines) + "\n"


def text(pairs: Sequence[tuple[str, Scalar]]) -> str:
    """The fields of a problem or of a configuration on one line."""
    return " ".join(f"{name}={value}" for name, value in pairs)


def summary_table(found: Sequence[Ratio]) -> str:
    """How many problems each family wins and loses, cold and warm, and the geometric mean, as a Markdown table."""
    lines = [
        "| family | L2 | problems | kernel faster | library faster | of these by over 10 % "
        "| library / kernel: geometric mean | least | most |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[str, L2State], list[Ratio]] = {}
    for entry in sorted(found, key=lambda ratio: (ratio.family, ratio.l2.value)):
        groups.setdefault((entry.family, entry.l2), []).append(entry)
    for (family, l2), entries in groups.items():
        values = np.array([entry.ratio for entry in entries])
        lines.append(
            f"| {family} | {l2.value} | {len(values)} | {(values > 1).sum()} | {(values < 1).sum()} "
            f"| {sum(entry.lost for entry in entries)} "
            f"| {np.exp(np.log(values).mean()):.2f} | {values.min():.2f} | {values.max():.2f} |"
        )
    return "\n".join(lines) + "\n"
