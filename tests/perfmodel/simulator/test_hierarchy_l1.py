"""L1 with lines that give up their place at random."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.simulator.hierarchy_l1 import L1Traffic, l1_traffic, launch_rates
from perfmodel.simulator.hierarchy_trace import LineAccesses


def accesses(lines: list[int]) -> LineAccesses:
    """Whole-line loads of one warp of block 0, one after the other."""
    n = len(lines)
    zeros = np.zeros(n, np.int64)
    return LineAccesses(zeros, zeros, np.arange(n), np.array(lines, dtype=np.int64), np.full(n, 15))


def brute_force_misses(lines: list[int], capacity: int, drawn: list[int]) -> int:
    """Misses of a list of lines in which the n-th access, if it misses, overwrites the n-th place that was drawn."""
    held: list[int] = []
    missed = 0
    for line, place in zip(lines, drawn, strict=True):
        if line in held:
            continue
        missed += 1
        if len(held) < capacity:
            held.append(line)
        else:
            held[place] = line
    return missed


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(1, 14))
def test_l1_gives_up_the_lines_that_are_drawn(lines: list[int], capacity: int) -> None:
    _, found = l1_traffic(accesses(lines), [np.array([0])], 0, capacity * 128)
    drawn = np.random.default_rng(0).integers(capacity, size=len(lines)).tolist()
    assert found == L1Traffic(1, 4 * len(lines), 4 * brute_force_misses(lines, capacity, drawn))
    if len(set(lines)) <= capacity:
        assert found.missed == 4 * len(set(lines))


def test_a_walk_in_circles_finds_some_of_the_lines_that_it_left() -> None:
    # 200 lines, room for 100. Of m misses in a round each gives up a line with 1 / 100, so m = 200 * (1 - 0.99 ** m): 159.
    rounds = 300
    _, found = l1_traffic(accesses(list(range(200)) * rounds), [np.array([0])], 0, 100 * 128)
    per_round = found.missed / 4 / rounds
    assert per_round == pytest.approx(200 * (1 - 0.99**per_round), rel=0.02)
    assert per_round == pytest.approx(159, rel=0.02)


def test_sectors_of_a_line_are_filled_one_by_one() -> None:
    masks = np.array([0b0001, 0b0011, 0b1111, 0b0001])
    zeros = np.zeros(4, np.int64)
    _, found = l1_traffic(LineAccesses(zeros, zeros, np.arange(4), zeros, masks), [np.array([0])], 0, 4096)
    assert found == L1Traffic(1, 1 + 2 + 4 + 1, 1 + 1 + 2)


def test_the_first_groups_fill_the_cache_for_the_others() -> None:
    both = LineAccesses(*(np.array(values) for values in ([0, 1], [0, 0], [0, 1], [5, 5], [15, 15])))
    first, later = l1_traffic(both, [np.array([0]), np.array([1])], 1, 4096)
    assert (first, later) == (L1Traffic(1, 4, 4), L1Traffic(1, 4, 0))
    # a launch of four waves misses everything in the first of them and nothing later
    assert launch_rates([(first, later)], 1 / 4).missed == 1 / 4


def test_blocks_of_a_group_go_in_lock_step() -> None:
    # Each block loads a line twice. With room for one line, 10 20 10 20 misses each time and 10 10 20 20 every other time.
    block = np.array([0, 0, 1, 1])
    time = np.array([0, 2, 1, 3])
    lines = LineAccesses(block, np.zeros(4, np.int64), time, np.array([10, 10, 20, 20]), np.full(4, 15))
    _, together = l1_traffic(lines, [np.array([0, 1])], 0, 128)
    _, apart = l1_traffic(lines, [np.array([0]), np.array([1])], 0, 128)
    assert together.missed == 4 * 4
    assert apart.missed == 2 * 4
