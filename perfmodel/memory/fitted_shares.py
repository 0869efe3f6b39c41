"""Fitted shares of the cache model, read from the package's data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..core.numbers import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What the cache model takes from measurements; the data file says what each number means and where it comes from."""

    read_ahead_bytes: float
    beside_code_bytes: float
    blocks_of_one_gpc: int
    oldest_share: float
    l1_ways: int
    works_spread: float
    slice_cycles: float
    merging_cycles: float
    dirty_share: float
    partly_written_share: float
    read_once_age: float
    written_age_idle: float
    dram_busy_share: float
    store_queue_lines: int
    store_line_cycles: float
    store_issue_cycles: float
    wide_store_issue_cycles: float
    store_latency_cycles: float
    barrier_spread_cycles: float
    issue_spread_cycles: float


@cache
def shares() -> Shares:
    """The shares that the package ships.

    >>> shares().oldest_share
    0.3
    """
    return numbers("caches", Shares)
