"""L1 in which of two lines drawn at random the one that was not used for longer makes room."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.memory.l1 import L1Traffic, l1_traffic, launch_rates, with_own_stacks
from perfmodel.memory.trace import LOCAL_LINES, WORDS_OF_LINE, LineAccesses


def accesses(lines: list[int]) -> LineAccesses:
    """Whole-line loads of one warp of block 0, one after the other."""
    n = len(lines)
    zeros = np.zeros(n, np.int64)
    return LineAccesses(
        zeros, zeros, np.arange(n), zeros, np.array(lines, dtype=np.int64), np.full(n, WORDS_OF_LINE), np.full(n, True)
    )


def brute_force_misses(lines: list[int], capacity: int, drawn: list[list[int]]) -> int:
    """Misses of a list of lines in which the n-th access, if it misses, overwrites the older of the n-th places drawn."""
    held: list[tuple[int, int]] = []
    missed = 0
    for now, (line, places) in enumerate(zip(lines, drawn, strict=True)):
        place = next((i for i, (one, _) in enumerate(held) if one == line), None)
        if place is not None:
            held[place] = (line, now)
            continue
        missed += 1
        if len(held) < capacity:
            held.append((line, now))
        else:
            held[min(places, key=lambda i: held[i][1])] = (line, now)
    return missed


@given(st.lists(st.integers(0, 12), min_size=1, max_size=80), st.integers(1, 14))
def test_l1_gives_up_the_older_of_two_lines_that_are_drawn(lines: list[int], capacity: int) -> None:
    _, found = l1_traffic(accesses(lines), np.array([0]), 1, capacity * 128)
    drawn = np.random.default_rng(0).integers(capacity, size=(len(lines), 2)).tolist()
    assert found == L1Traffic(1, 4 * len(lines), 4 * brute_force_misses(lines, capacity, drawn))
    if len(set(lines)) <= capacity:
        assert found.missed == 4 * len(set(lines))


def test_a_walk_in_circles_finds_some_of_the_lines_that_it_left() -> None:
    # 200 lines, room for 100. With q(t) the share of the places that were used within the last t accesses, each of a round's m
    # misses takes one of that age with 2 q / 100, so q' = (1 - m / 200 * q ** 2) / 100, and q(200) = 1: m = 200 * x ** 2 where
    # tanh(2 x) = x, which is 183. The least recently used line, always the next one wanted, would miss all 200.
    rounds = 300
    _, found = l1_traffic(accesses(list(range(200)) * rounds), np.array([0]), 1, 100 * 128)
    per_round = found.missed / 4 / rounds
    assert per_round == pytest.approx(200 * math.tanh(2 * math.sqrt(per_round / 200)) ** 2, rel=0.02)
    assert per_round == pytest.approx(183, rel=0.02)


def test_sectors_of_a_line_are_filled_one_by_one() -> None:
    words = np.array([0xFF, 0xFFFF, 0xFFFF_FFFF, 0x01])
    zeros = np.zeros(4, np.int64)
    _, found = l1_traffic(
        LineAccesses(zeros, zeros, np.arange(4), zeros, zeros, words, words > 0), np.array([0]), 1, 4096
    )
    assert found == L1Traffic(1, 1 + 2 + 4 + 1, 1 + 1 + 2)


def blocks_that_load(lines: list[list[int]]) -> LineAccesses:
    """Block b has one warp that loads the whole lines ``lines[b]``, one after the other."""
    block = np.repeat(np.arange(len(lines)), [len(own) for own in lines])
    trip = np.concatenate([np.arange(len(own)) for own in lines])
    whole, loads = np.full(len(block), WORDS_OF_LINE), np.full(len(block), True)
    return LineAccesses(block, np.zeros_like(block), trip, np.zeros_like(block), np.concatenate(lines), whole, loads)


def test_the_first_wave_misses_and_those_that_follow_find_what_it_loaded() -> None:
    run = np.arange(3)
    first, later = l1_traffic(blocks_that_load([[5], [5], [5]]), run, 1, 4096)
    assert (first, later) == (L1Traffic(1, 4, 4), L1Traffic(2, 8, 0))
    # a launch of four waves misses everything in the first of them and nothing later
    assert launch_rates([(first, later)], 1 / 4).missed == 1 / 4


def test_a_grid_of_few_waves_is_simulated_wave_by_wave() -> None:
    first, every = l1_traffic(blocks_that_load([[5], [6], [5]]), np.arange(3), 2, 4096)
    assert (first.asked, every) == (0, L1Traffic(3, 12, 8))
    assert launch_rates([(first, every)], 1.0).missed == 2 / 3


def test_blocks_of_a_wave_go_in_lock_step() -> None:
    # Each block loads a line twice. With room for one line, 10 20 10 20 misses each time and 10 10 20 20 every other time.
    twice = blocks_that_load([[10, 10], [20, 20]])
    _, together = l1_traffic(twice, np.arange(2), 2, 128)
    _, apart = l1_traffic(twice, np.arange(2), 1, 128)
    assert together.missed == 4 * 4
    assert apart.missed == 2 * 4


def test_what_a_warp_has_in_flight_together_comes_without_others_between() -> None:
    lines = blocks_that_load([[10, 10], [20, 20]])
    in_flight = replace(lines, trip=np.zeros(4, np.int64))
    _, found = l1_traffic(in_flight, np.arange(2), 2, 128)
    assert found.missed == 2 * 4


@pytest.mark.parametrize("length", [2, 40])
def test_later_blocks_share_what_they_walk_through_at_different_times_only_where_it_fits(length: int) -> None:
    # Every block walks through the same lines. In step one of four misses them; at any point of the walk others have left them.
    lines = blocks_that_load([list(range(length))] * 40)
    first, later = l1_traffic(lines, np.arange(40), 4, 8 * 128)
    assert first.missed == 4 * length
    assert later.asked == 36 * 4 * length
    if length <= 8:
        assert later.missed == 0
    else:
        assert later.missed > 1.5 * later.asked / 4


def test_blocks_that_load_nothing_miss_nothing() -> None:
    assert l1_traffic(blocks_that_load([[], [], []]), np.arange(3), 1, 4096) == (L1Traffic(1, 0, 0), L1Traffic(2, 0, 0))


def test_blocks_that_advance_by_age_find_little_of_what_the_others_loaded() -> None:
    """Eight blocks walk through 2,000 lines, of which 100 fit: together once in step, nearly each for itself by age."""
    together = blocks_that_load([list(range(2000))] * 8)
    _, in_step = l1_traffic(together, np.arange(8), 8, 100 * 128)
    _, by_age = l1_traffic(together, np.arange(8), 8, 100 * 128, by_age=True)
    assert in_step.missed == 4 * 2000
    assert by_age.asked == in_step.asked == 8 * 4 * 2000
    assert 0.85 * by_age.asked < by_age.missed <= by_age.asked


def test_blocks_that_advance_by_age_share_what_fits() -> None:
    several = blocks_that_load([list(range(60))] * 24)
    first, later = l1_traffic(several, np.arange(24), 8, 100 * 128, by_age=True)
    assert (first.blocks, later.blocks) == (8, 16)
    assert first.missed + later.missed == 4 * 60
    alone = l1_traffic(several, np.arange(8), 8, 100 * 128, by_age=True)
    assert alone == (L1Traffic(0, 0, 0), L1Traffic(8, 8 * 4 * 60, 4 * 60))


@pytest.mark.parametrize("line", [LOCAL_LINES, 7])
def test_what_was_written_wholly_is_read_from_l1(line: int) -> None:
    zeros = np.zeros(2, np.int64)
    stored = LineAccesses(
        zeros, zeros, np.arange(2), zeros, zeros + line, zeros + WORDS_OF_LINE, np.array([False, True])
    )
    assert l1_traffic(stored, np.array([0]), 1, 4096)[1] == L1Traffic(1, 4, 0)


@pytest.mark.parametrize("line", [LOCAL_LINES, 7])
def test_words_that_were_written_are_read_from_l1_and_others_of_their_sectors_are_not(line: int) -> None:
    zeros = np.zeros(4, np.int64)
    words = np.array(
        [0x103, 0x101, 0x107, 0x01FF]
    )  # two words of a sector and one of the next are stored, the others are loads
    stored = LineAccesses(zeros, zeros, np.arange(4), zeros, zeros + line, words, np.arange(4) > 0)
    _, found = l1_traffic(stored, np.array([0]), 1, 4096)
    assert found == L1Traffic(1, 2 + 2 + 2, 1)  # word 2 brings its whole sector


@pytest.mark.parametrize("line", [LOCAL_LINES, 7])
def test_sectors_of_bytes_that_were_written_are_read_once(line: int) -> None:
    zeros = np.zeros(4, np.int64)
    load = np.array([False, True, False, True])  # bytes are stored, loaded, stored again and loaded again
    written = LineAccesses(zeros, zeros, np.arange(4), zeros, zeros + line, np.where(load, WORDS_OF_LINE, 0), load)
    _, found = l1_traffic(written, np.array([0]), 1, 4096)
    assert found == L1Traffic(1, 4 + 4, 4)  # the first load brings what the second store and load find


def test_each_place_of_an_sm_has_stacks_of_its_own() -> None:
    block, load = np.array([0, 0, 1, 1, 2]), np.array([False, True, False, True, True])
    zeros = np.zeros(5, np.int64)
    found = with_own_stacks(
        LineAccesses(block, zeros, zeros, zeros, zeros + LOCAL_LINES, zeros + WORDS_OF_LINE, load),
        np.arange(3),
        together=2,
    )
    assert found.line[0] == found.line[4] != found.line[2]  # the third block takes the place of the first one


def stack_walks(trips_before: list[int], warps: int) -> LineAccesses:
    """Blocks whose warps go through 48 lines of their stacks three times, each after so many round trips."""
    rows = []
    for walk, before in enumerate(trips_before):
        block, warp = divmod(walk, warps)
        rows += [(block, warp, trip, 0, 1000 * walk + trip) for trip in range(before)]
        rows += [(block, warp, before, step, LOCAL_LINES + 100 * warp + step % 48) for step in range(3 * 48)]
    block, warp, trip, step, line = np.array(rows, np.int64).T
    return LineAccesses(block, warp, trip, step, line, np.full(len(line), WORDS_OF_LINE), np.full(len(line), True))


def test_stacks_of_the_blocks_that_an_sm_holds_are_walked_through_at_a_time() -> None:
    # one walk fits L1, two do not: blocks of later waves are in their stacks together most of the time
    one, other = (l1_traffic(stack_walks([2] * 12, 1), np.arange(12), together, 64 * 128)[1] for together in (1, 2))
    assert one.missed < 0.5 * one.asked
    assert other.missed > 0.6 * other.asked


def test_warps_are_in_their_stacks_together_whatever_number_of_round_trips_come_before() -> None:
    alike, apart = (l1_traffic(stack_walks(trips, 2), np.arange(1), 1, 64 * 128)[1] for trips in ([2, 2], [2, 4]))
    assert alike.missed > 0.6 * alike.asked
    assert apart.missed == pytest.approx(alike.missed, rel=0.1)
