"""Counts that execution gave, beside those of a GPU's counters, of launches whose very machine code was counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..metrics import counts_of_metrics
from .record import PublicRecord

CLOSE = 0.005
"""Relative error within which a count that depends on the order of atomics is taken for right."""
CACHES = ("l2_read_sectors", "l2_write_sectors", "l2_atomic_sectors", "dram_read_bytes", "dram_write_bytes")
"""Counts of simulated caches, which are not read off the instructions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedCount:
    """One count of some launches: how many are equal, how many within half a percent, and the others with their errors.

    An error is relative to the counter, infinite where that is zero.
    """

    name: str
    launches: int
    equal: int
    close: int
    unequal: tuple[tuple[str, float], ...]


def compared_counts(records: Sequence[PublicRecord]) -> tuple[ComparedCount, ...]:
    """Each count of instructions and requests that any of the launches has a counter of."""
    errors: dict[str, dict[str, float]] = {}
    for record in records:
        if not record.profile:
            continue
        counts = record.kernel_profile().counts
        for measured in counts_of_metrics(record.counters):
            if measured.count not in CACHES:
                executed, counted = float(measured.predicted(counts)[0]), float(measured.launches[0])
                error = 0.0 if executed == counted else executed / counted - 1.0 if counted else np.inf
                errors.setdefault(measured.name, {})[record.launch.id] = error
    return tuple(
        ComparedCount(
            name=name,
            launches=len(found),
            equal=sum(error == 0.0 for error in found.values()),
            close=sum(abs(error) <= CLOSE for error in found.values()),
            unequal=tuple((launch, error) for launch, error in found.items() if error),
        )
        for name, found in errors.items()
    )


def compared_table(found: Sequence[ComparedCount]) -> str:
    """The counts as a Markdown table, with the launches that are off most."""
    lines = ["| count | launches | equal | within 0.5 % | unequal |", "|---|---|---|---|---|"]
    for one in found:
        worst = sorted(one.unequal, key=lambda launch: -abs(launch[1]))
        shown = ", ".join(f"{launch} {error:+.2g}" for launch, error in worst[:6])
        more = f" and {len(worst) - 6} more" if len(worst) > 6 else ""
        lines.append(f"| {one.name} | {one.launches} | {one.equal} | {one.close} | {shown}{more} |")
    return "\n".join(lines) + "\n"
