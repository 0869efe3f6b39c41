"""Loads of followed blocks, one by one, by accesses whose sectors are written down."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.ir.instruction import Instruction, Space
from perfmodel.profiles import load_streams
from perfmodel.profiles.load_streams import CUT, LoadObserver, LoadStreams, joined, spread
from perfmodel.simulator.access import Action, Site, WarpAccess
from perfmodel.simulator.plan import Plan

LOAD = Instruction("ld.global.f32", ("%f1", "[%rd1]"), None, False, 1, None)


def read(observer: LoadObserver, instruction: int, first_sectors: list[int], block: int = 0) -> None:
    """Each warp of a block reads the 32 words from a sector on."""
    lanes = np.arange(32, dtype=np.uint64) * np.uint64(4)
    addresses: NDArray[np.uint64] = np.concatenate([np.uint64(32 * sector) + lanes for sector in first_sectors])
    plan = Plan(addresses[None], None, rows=1, threads=32 * len(first_sectors))
    site = Site(instruction, instruction, LOAD, Action.LOAD, Space.GLOBAL, 4)
    observer.access(WarpAccess(site, plan, 0, np.array([block]), np.array([0])))


def test_a_request_waits_for_the_newest_sectors_that_it_touches() -> None:
    observer = LoadObserver()
    read(observer, 7, [0, 0])  # sectors 0 to 3, by two warps
    read(observer, 9, [2, 8])  # the first one touches 4 and 5 besides, the second one 8 to 11
    found = observer.streams([0], 2)
    assert found.offsets.tolist() == [0, 2, 4]
    assert found.instruction.tolist() == [7, 9, 7, 9]
    assert found.group.tolist() == [0, 1, 0, 2]
    assert found.sectors.tolist() == [4, 2, 4]
    assert found.fresh.tolist() == [2, 1, 2]  # pairs 0-1 and 2-3; 4-5; 8-9 and 10-11


def test_spread_requests_share_what_the_first_of_them_fetched() -> None:
    observer = LoadObserver()
    for _ in range(2):
        read(observer, 7, [0, 8])  # two warps, four sectors each, twice
    read(observer, 9, [16, 16])  # four that both warps touch
    found = spread(observer.streams([0], 2), 2, {7: 4.0, 9: 4.0})
    assert found.instruction.tolist() == [7, 7, 9] * 2
    assert found.group.tolist() == [0, 1, 4, 2, 3, 4]
    assert found.sectors.tolist() == [2, 2, 2, 2, 4]
    assert found.fresh.tolist() == [1, 1, 1, 1, 2]
    assert found.group_offsets.tolist() == [0, 5]
    others = spread(observer.streams([0], 2), 2, {9: 4.0})
    assert others.group.tolist() == observer.streams([0], 2).group.tolist()


def test_spread_requests_are_fresh_in_one_proportion() -> None:
    """Four lanes walk along rows of their own: two requests for the first sectors of four pairs, two for the second ones."""
    rows = LoadStreams(
        instruction=np.array([7, 7, 7, 7]),
        group=np.array([0, 0, 1, 1]),
        offsets=np.array([0, 4]),
        sectors=np.array([4, 4]),
        fresh=np.array([4, 0]),
        common=np.array([0, 0]),
        group_offsets=np.array([0, 2]),
    )
    found = spread(rows, 1, {7: 2.0})
    assert (found.sectors.tolist(), found.fresh.tolist()) == ([2, 2, 2, 2], [1, 1, 1, 1])
    found = spread(rows, 1, {7: 1.0})  # half of what came was of no use
    assert (found.sectors.tolist(), found.fresh.tolist()) == ([1, 1, 1, 1], [0, 1, 0, 1])


def test_the_second_sector_of_a_pair_is_not_fresh() -> None:
    observer = LoadObserver()
    read(observer, 0, [1])  # 1 to 4
    read(observer, 0, [2])  # 5 besides, which came with 4
    assert observer.streams([0], 1).fresh.tolist() == [3, 0]


def test_a_group_is_common_where_others_ask_for_all_of_it() -> None:
    observer = LoadObserver()
    for block in range(3):
        read(observer, 0, [100], block)  # all of them
        read(observer, 1, [100 * block + 10], block)  # each its own
        read(observer, 2, [8 * min(block, 1) + 6], block)  # the last two; the first one's end where its own begin
    assert observer.streams([0, 1, 2], 1).common.tolist() == [1, 0, 0, 1, 0, 1, 1, 0, 1]
    assert observer.streams([0], 1).common.tolist() == [0, 0, 0]


def test_streams_of_some_blocks_are_those_of_each() -> None:
    observer = LoadObserver()
    for block in range(3):
        read(observer, block, [4 * block, 100], block)
    whole = observer.streams([0, 1, 2], 2)
    part, parts = whole.of_blocks([2, 0]), joined([observer.streams([2], 2), observer.streams([0], 2)])
    for name in ("instruction", "group", "offsets", "sectors", "fresh", "group_offsets"):
        assert getattr(part, name).tolist() == getattr(parts, name).tolist()


def test_what_is_not_kept_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_streams, "KEPT_REQUESTS", 2)
    observer = LoadObserver()
    for step in range(3):
        read(observer, step, [4 * step])
    assert observer.streams([0], 1).instruction.tolist() == [0, 1, CUT]
