"""Counts that execution gave, beside those of a GPU's counters, of launches whose very machine code was counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.core.counts import Counts

from ..metrics import counts_of_metrics
from .record import PublicRecord

CLOSE = 0.005
"""Relative error within which a count that depends on the order of atomics is taken for right."""
CACHES = ("l2_read_sectors", "l2_write_sectors", "l2_atomic_sectors", "dram_read_bytes", "dram_write_bytes")
"""Counts of simulated caches, which are not read off the instructions."""
MISSED_IN_L1 = "l1_missed_sectors"
_SENT_TO_L1, _ATOMICS = "l1tex__m_xbar2l1tex_read_sectors.sum", "lts__t_sectors_srcunit_tex_op_atom.sum"
"""Sectors that L2 sends to L1, answers of atomics among them; and sectors of atomics that answer."""
TRAFFIC = (MISSED_IN_L1, "l2_read_sectors", "l2_write_sectors", "dram_read_bytes", "dram_write_bytes")
"""Counts that follow from simulated caches, in the order of the way to DRAM."""
LEAST_WRITTEN = 4e6
"""Of fewer bytes written to DRAM most is what the profiler's flush left in L2: no relative error."""
NEAR = 0.1
"""Relative error up to which a count of caches is near."""


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


def traffic_errors(counts: Counts, counters: Mapping[str, float]) -> dict[str, float]:
    """Relative error of each count of caches that a launch has a counter of, by name; of those of `TRAFFIC`.

    What L1 misses is left out where atomics answer, whose sectors the counter holds, too.
    """
    errors = {}
    for measured in counts_of_metrics(counters):
        counted = float(measured.launches[0])
        if measured.name in TRAFFIC and counted >= (LEAST_WRITTEN if measured.name == "dram_write_bytes" else 1.0):
            errors[measured.name] = float(measured.predicted(counts)[0]) / counted - 1.0
    if counters.get(_SENT_TO_L1) and not counters.get(_ATOMICS):
        errors[MISSED_IN_L1] = float(counts.l1_missed_sectors) / counters[_SENT_TO_L1] - 1.0
    return errors


def traffic_table(sets: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """A Markdown table of sets of launches: of each count how many are near its counter, of how many, and the median error.

    >>> print(traffic_table({"two": [{"l2_read_sectors": 0.02}, {"l2_read_sectors": -0.2}]}).splitlines()[-1])
    | two |  | 50 % of 2, 11.0 % |  |  |  |
    """
    lines = [f"| launches | {' | '.join(f'`{name}`' for name in TRAFFIC)} |", f"|---|{'---:|' * len(TRAFFIC)}"]
    for name, launches in sets.items():
        cells = []
        for count in TRAFFIC:
            errors = np.abs([errors[count] for errors in launches if count in errors])
            near = f"{np.mean(errors <= NEAR):.0%} of {len(errors)}, {np.median(errors):.1%}" if len(errors) else ""
            cells.append(near.replace("%", " %"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
