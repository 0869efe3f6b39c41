"""What became of all that a campaign ran: results compared and wrong, launches timed and counted, failures; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfmodel.records.schema import FailureKind, Mark, Record, RecordKind, RunKey


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyOutcome:
    """One family: numbers of different configurations and problems, however often each ran."""

    family: str
    checked: int
    """Compared with the reference and not timed: the random small problems."""
    timed: int
    """Compared with the reference and timed."""
    wrong: int
    largest_error: float
    """Of all comparisons, as a part of what is allowed."""
    counted: int
    failures: Counter[FailureKind]
    timings: int
    noisy: int
    throttled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerOutcome:
    """The last run of one tool over the kernels of one family."""

    tool: str
    family: str
    kernels: int
    finding: str | None


def family_outcomes(records: Iterable[Record]) -> tuple[FamilyOutcome, ...]:
    """One entry for each family among the kernels, in alphabetical order."""
    by_family: dict[str, list[Record]] = {}
    for record in records:
        if record.kind is RecordKind.KERNEL:
            by_family.setdefault(record.name, []).append(record)
    return tuple(_outcome(family, by_family[family]) for family in sorted(by_family))


def _outcome(family: str, records: Sequence[Record]) -> FamilyOutcome:
    compared = [record for record in records if record.correctness is not None]
    timed = _keys(record for record in records if record.timings)
    errors = [r.correctness.max_relative_error / r.correctness.tolerance for r in compared if r.correctness is not None]
    failed = {record.key: record.failure.kind for record in records if record.failure is not None}
    timings = [timing for record in records for timing in record.timings]
    return FamilyOutcome(
        family=family,
        checked=len(_keys(compared) - timed),
        timed=len(timed),
        wrong=sum(record.correctness is not None and not record.correctness.passed for record in compared),
        largest_error=max(errors, default=0.0),
        counted=len(_keys(record for record in records if record.counters)),
        failures=Counter(failed.values()),
        timings=len(timings),
        noisy=sum(Mark.NOISY in timing.marks for timing in timings),
        throttled=sum(Mark.THROTTLED in timing.marks for timing in timings),
    )


def _keys(records: Iterable[Record]) -> set[RunKey]:
    return {record.key for record in records}


def sanitizer_outcomes(records: Iterable[Record]) -> tuple[SanitizerOutcome, ...]:
    """The last run of each tool over each family, by family and then in the order of the records."""
    last = {record.key: record for record in records if record.kind is RecordKind.SANITIZER}
    found = [
        SanitizerOutcome(
            tool=record.name,
            family=str(record.configuration["family"]),
            kernels=int(record.counters["kernels"]),
            finding=None if record.failure is None else record.failure.message,
        )
        for record in last.values()
    ]
    return tuple(sorted(found, key=lambda one: one.family))


def outcome_tables(records: Sequence[Record]) -> str:
    """Both as Markdown tables."""
    lines = [
        "| family | checked | timed | wrong | largest error / allowed | counted | failed | timings | noisy | throttled |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in family_outcomes(records):
        failures = ", ".join(f"{number} {kind.value}" for kind, number in one.failures.items()) or "–"
        lines.append(
            f"| {one.family} | {one.checked} | {one.timed} | {one.wrong} | {one.largest_error:.2f} | {one.counted} "
            f"| {failures} | {one.timings} | {one.noisy} | {one.throttled} |"
        )
    lines += ["", "| family | tool | kernels | finding |", "|---|---|---|---|"]
    lines += [
        f"| {one.family} | {one.tool} | {one.kernels} | {one.finding or '–'} |" for one in sanitizer_outcomes(records)
    ]
    return "\n".join(lines) + "\n"
