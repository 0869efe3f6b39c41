"""A tuning run: measure what a guided search asks for, until it ends or the budget does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from ..prediction.guided_search import GuidedSearch


class TuningEnd(Enum):
    """Why a tuning run ended."""

    SETTLED = "settled"
    """No other configuration is expected to be faster by more than the tolerance."""
    RUNS = "runs"
    """As many as were allowed have been measured."""
    TIME = "time"
    """The time was over."""
    ALL_MEASURED = "all measured"


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRun:
    """What a tuning run measured.

    Attributes:
        order: Indices of the configurations in the order in which they were measured; those known before are not among them.
        end: Why it ended.
    """

    order: tuple[int, ...]
    end: TuningEnd


def run_search(
    search: GuidedSearch,
    measure: Callable[[int], float | None],
    *,
    known: Mapping[int, float | None],
    most_runs: int,
    time_limit_s: float,
    clock: Callable[[], float] = time.monotonic,
) -> TuningRun:
    """Tell a search what is known, then measure what it asks for.

    Args:
        search: the search; afterwards its ``best`` is the fastest configuration.
        measure: seconds of a configuration by its index, None where it does not run.
        known: the same of those that were measured before; they are not measured again, and count as no runs. Where they are what
            this search asks for, it goes on as if it had never been interrupted, and ends where it has ended.
        most_runs: how many to measure at most.
        time_limit_s: no run begins after so many seconds.
        clock: seconds; for tests.

    >>> import numpy as np
    >>> times = [4.0, 3.0, 2.0, 1.0, 5.0]
    >>> search = GuidedSearch({"block": [32, 64, 128, 256, 512]}, np.array(times))
    >>> run_search(search, times.__getitem__, known={2: 2.0}, most_runs=1, time_limit_s=60.0).end
    <TuningEnd.RUNS: 'runs'>
    """
    order: list[int] = []
    end = clock() + time_limit_s
    left = dict(known)

    def tell_left() -> None:
        for index, seconds in left.items():
            search.tell(index, seconds)
        left.clear()

    while len(order) < most_runs and clock() < end:
        chosen = search.ask()
        if not chosen:
            tell_left()
            return TuningRun(order=tuple(order), end=TuningEnd.SETTLED if search.left else TuningEnd.ALL_MEASURED)
        if not left.keys() <= set(chosen) and not left.keys() >= set(chosen):
            tell_left()  # chosen by another search: it learns of all known runs before anything is measured
            continue
        for index in chosen:
            if index in left:
                search.tell(index, left.pop(index))
            elif len(order) < most_runs and clock() < end:
                search.tell(index, measure(index))
                order.append(index)
    tell_left()
    return TuningRun(order=tuple(order), end=TuningEnd.RUNS if len(order) >= most_runs else TuningEnd.TIME)
