"""Patterns of lanes: parts of sectors that are used, loads of the same bytes, words that atomics share."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from perfmodel.ir.instruction import Instruction, SourceLine, Space
from perfmodel.profiles.access_patterns import NO_LANE, AccessPatterns, PatternObserver
from perfmodel.simulator.access import Action, Site, WarpAccess
from perfmodel.simulator.plan import Plan

LANES = np.arange(32, dtype=np.uint64)
LINE = np.uint64(4096)


def site(number: int, action: Action, space: Space = Space.GLOBAL, line: SourceLine | None = None) -> Site:
    return Site(number, number, Instruction("any", (), None, False, 1, line), action, space, 4)


def seen(*accesses: tuple[Site, NDArray[np.uint64]]) -> AccessPatterns:
    observer = PatternObserver()
    for where, addresses in accesses:
        plan = Plan(addresses[None], None, rows=1, threads=32)
        observer.access(WarpAccess(where, plan, 0, np.zeros(1, np.int64), np.zeros(1, np.int64)))
    return observer.patterns(2, [0])


def test_a_field_of_a_structure_fills_its_part_of_the_sectors() -> None:
    found = seen((site(0, Action.LOAD), LINE + LANES * 16))
    assert found.filled[0] == 4 / 16
    assert found.reuse[0] == 1


def test_fields_that_other_loads_ask_for_fill_the_sectors_together() -> None:
    fields = [(site(0, Action.LOAD), LINE + LANES * 8), (site(1, Action.LOAD), LINE + LANES * 8 + 4)]
    assert seen(*fields).filled.tolist() == [1, 1]


def test_stores_do_not_fill_what_loads_ask_for() -> None:
    stores = (site(1, Action.STORE), LINE + LANES * 4)
    assert seen((site(0, Action.LOAD), LINE + LANES * 8), stores).filled.tolist() == [0.5, 1]


def test_lanes_that_share_a_word_ask_for_it_once_a_request() -> None:
    broadcast = (site(0, Action.LOAD), LINE + LANES * 0)
    assert seen(broadcast).reuse[0] == 1
    assert seen(*[broadcast] * 3).reuse[0] == 3


def test_loads_of_one_source_line_count_together() -> None:
    line = SourceLine("k.cu", 7)
    unrolled = [(site(number, Action.LOAD, line=line), LINE + LANES * 4) for number in (0, 1)]
    assert seen(*unrolled).reuse.tolist() == [2, 2]
    shifted = [(site(number, Action.LOAD, line=line), LINE + (LANES + number * 8) * 4) for number in (0, 1)]
    assert seen(*shifted).reuse.tolist() == [7 / 4, 7 / 4]  # three of four sectors are asked for by both
    apart = [(site(number, Action.LOAD, line=SourceLine("k.cu", number)), LINE + LANES * 4) for number in (0, 1)]
    assert seen(*apart).reuse.tolist() == [1, 1]


def test_atomics_share_words_within_requests_and_within_the_block() -> None:
    found = seen(*[(site(0, Action.REDUCTION), LINE + LANES // 2 * 4)] * 2)
    assert found.atomic_words_of_requests[0] == 16 / 32
    assert found.atomic_words_of_blocks[0] == 16 / 64
    assert found.atomic_wavefronts[0] == 2  # two lanes on each word


def test_lanes_are_kept_from_the_line_of_the_lowest() -> None:
    found = seen((site(0, Action.LOAD, Space.SHARED), np.uint64(132) + LANES * 128))
    assert found.lanes[0].tolist() == [4 + 128 * lane for lane in range(32)]
    assert (found.lanes[1] == NO_LANE).all()


def test_of_several_requests_the_lanes_of_the_most_scattered_are_kept() -> None:
    apart = (site(0, Action.LOAD), LINE + LANES * 64)
    together = (site(0, Action.LOAD), LINE + LANES * 4)
    for order in ([together, apart], [apart, together]):
        assert seen(*order).lanes[0].tolist() == [64 * lane for lane in range(32)]


def test_steps_that_one_warp_does_alone_are_kept() -> None:
    observer = PatternObserver()
    half = np.where(np.arange(64) < 32, True, False)[None]
    both = np.ones((1, 64), np.bool_)
    words = np.arange(64, dtype=np.uint64)[None] * 4
    load, store = (site(k, action, Space.SHARED) for k, action in enumerate((Action.LOAD, Action.STORE)))
    outside = site(2, Action.LOAD)
    for passed, accesses in enumerate(
        [[(store, both)], [(load, half), (load, half), (store, half)], [(load, half), (outside, half)]]
    ):
        for where, active in accesses:
            plan = Plan(words, active, rows=1, threads=64)
            observer.access(WarpAccess(where, plan, 0, np.array([7]), np.zeros(1, np.int64), None, np.array([passed])))
    # block 7 is the second of those looked at; in stretch 0 two warps store, in stretch 2 one reads global memory
    assert observer.patterns(3, [3, 7]).lone_steps.tolist() == [[1, 1, 0, 2, 1]]
