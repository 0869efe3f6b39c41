"""Requests of SMs of a GPC that join, and SMs that drift apart: by hand, and against micro-benchmarks on an H200."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.gpc_simulation import MergedTraffic, Pace, merged_traffic, share_of_launch
from perfmodel.memory.trace import WORDS_OF_LINE, LineAccesses

H200 = load_gpu("h200")
DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-joined-requests.json.gz"
RECORD: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
EVERY_SM = [np.array([sm]) for sm in range(16)]
PACE = Pace(works_cycles=100.0, sector_cycles=1.0)
BLOCK_SECTORS = 128
"""Sectors that a block of `drift` reads in a step: 256 threads, 16 bytes each."""


def accesses(lines: list[list[int]], words: list[list[int]]) -> LineAccesses:
    """Block b loads ``lines[b]``, one after the other, of each the words ``words[b]``."""
    blocks = np.repeat(np.arange(len(lines)), [len(own) for own in lines])
    times = np.concatenate([np.arange(len(own)) for own in lines])
    flat: list[NDArray[np.int64]] = [np.concatenate(values).astype(np.int64) for values in (lines, words)]
    return LineAccesses(blocks, np.zeros_like(blocks), times, np.zeros_like(blocks), *flat, np.full(len(blocks), True))


def merged(loads: LineAccesses, gpcs: list[list[NDArray[np.int64]]], pace: Pace = PACE, **more: Any) -> MergedTraffic:
    return merged_traffic(loads, gpcs, 4096, pace, H200, **more)[0]


def test_four_sms_share_a_request() -> None:
    same = accesses([[7, 8]] * 16, [[WORDS_OF_LINE, 0xFF]] * 16)
    # 5 sectors each; of 16 SMs four requests for each sector, of 5 SMs two
    assert merged(same, [EVERY_SM]) == MergedTraffic(16, 16 * 5, 16 * 5, 4 * 5)
    assert merged(same, [EVERY_SM[:5]]) == MergedTraffic(5, 5 * 5, 5 * 5, 2 * 5)
    assert merged(same, [EVERY_SM[:8], EVERY_SM[8:]]) == MergedTraffic(16, 16 * 5, 16 * 5, 4 * 5)
    assert merged(same, [[sm] for sm in EVERY_SM]) == MergedTraffic(16, 16 * 5, 16 * 5, 16 * 5)


@pytest.mark.parametrize(
    ("cycles_apart", "requests"),
    [
        (300.0, 4),  # 341 cycles: 573 - 280 of DRAM beyond L2, and 48
        (400.0, 8),
    ],
)
def test_who_asks_before_dram_has_answered_joins(cycles_apart: float, requests: int) -> None:
    same = accesses([[7]] * 2, [[WORDS_OF_LINE]] * 2)
    assert merged(same, [EVERY_SM[:2]], begins=[np.array([[0.0], [cycles_apart]])]) == MergedTraffic(2, 8, 8, requests)


@pytest.mark.parametrize(("cycles_apart", "requests"), [(40.0, 4), (60.0, 8)])
def test_who_asks_before_l2_has_answered_joins(cycles_apart: float, requests: int) -> None:
    same = accesses([[7]] * 2, [[WORDS_OF_LINE]] * 2)
    held = replace(PACE, in_dram=0.0)
    assert merged(same, [EVERY_SM[:2]], held, begins=[np.array([[0.0], [cycles_apart]])]) == MergedTraffic(
        2, 8, 8, requests
    )


def test_sms_that_miss_a_sector_in_different_round_trips_ask_for_themselves() -> None:
    apart = accesses([[7, 8], [8, 7]], [[WORDS_OF_LINE, WORDS_OF_LINE]] * 2)
    assert merged(apart, [EVERY_SM[:2]]) == MergedTraffic(2, 16, 16, 16)


def test_blocks_that_warm_l1_up_do_not_count() -> None:
    same = accesses([[7], [7, 8]], [[WORDS_OF_LINE], [WORDS_OF_LINE, 0xFF]])
    assert merged(same, [[np.array([0, 1])]], warmed_up_by=1) == MergedTraffic(1, 5, 1, 1)


def test_requests_for_different_sectors_of_a_line_do_not_join() -> None:
    border = accesses([[7], [7]], [[0xFF_FFFF], [0xFFFF_0000]])
    assert merged(border, [EVERY_SM[:2]]) == MergedTraffic(2, 5, 5, 5)


def test_blocks_of_an_sm_find_in_l1_what_one_of_them_loaded() -> None:
    pairs = accesses([[7]] * 4, [[WORDS_OF_LINE]] * 4)
    runs = [[np.array([0, 1]), np.array([2, 3])]]
    assert merged(pairs, runs) == MergedTraffic(4, 16, 8, 4)


def test_first_and_later_waves_share_for_themselves() -> None:
    quarter, half = (MergedTraffic(blocks=16, loaded=160, asked=160, requests=requests) for requests in (40, 80))
    assert share_of_launch(quarter, half, 10.0, 1.0) == 0.25
    assert share_of_launch(quarter, half, 10.0, 0.5) == 1.0 - 0.5 * 0.75 - 0.5 * 0.5
    assert share_of_launch(quarter, half, 2.5, 0.25) == 0.25  # later blocks miss nothing


def drifting(steps: int) -> LineAccesses:
    """Blocks of 16 SMs that read one stream, 128 sectors a step."""
    lines = np.arange(steps * BLOCK_SECTORS // 4)
    block, line = np.repeat(np.arange(16), len(lines)), np.tile(lines, 16)
    none = np.zeros_like(line)
    return LineAccesses(block, none, line // (BLOCK_SECTORS // 4), none, line, none + WORDS_OF_LINE, line >= 0)


@pytest.mark.parametrize("work", [0, 100, 500, 2000])
@pytest.mark.parametrize("warm", [0, 1])
def test_sms_that_read_one_stream_stay_together_unless_they_work_for_long(work: int, warm: int) -> None:
    """``work`` dependent multiply-adds between steps; all warps do the same (`works_spread`)."""
    for run in RECORD["runs"]:
        wanted = {"grid": 132, "threads": 256, "steps": 128, "work": work, "warm": warm, "sync": 1, "apart": 0}
        if wanted.items() <= run.items():
            read_before = run["steps"] * BLOCK_SECTORS * warm
            sectors, requests = (
                run["counters"][name] - read_before
                for name in ("l1tex__m_xbar2l1tex_read_sectors.sum", "lts__t_sectors_srcunit_tex_op_read.sum")
            )
            pace = Pace(works_cycles=4.4 * work, sector_cycles=1.0, in_dram=1.0 - warm, gpcs_of_line=8.0)
            found = merged(drifting(steps=128), [EVERY_SM], pace)
            assert 0.25 <= requests / sectors <= 0.48
            assert found.rate == pytest.approx(requests / sectors, abs=0.12)


def test_gpcs_find_in_l2_what_others_have_asked_for() -> None:
    """A GPC whose blocks begin 200 cycles later waits for DRAM for so much less; it joins nothing of another GPC's."""
    block = np.arange(2)
    none = np.zeros(2, np.int64)
    same = LineAccesses(block, none, none, none, none + 7, none + WORDS_OF_LINE, block >= 0)
    gpcs = [[np.array([0])], [np.array([1])]]
    begins = [np.array([[0.0]]), np.array([[200.0]])]
    found, ends = merged_traffic(same, gpcs, 1 << 16, PACE, H200, begins=begins)
    assert found.requests == 2 * 4
    assert abs(float(ends[1][0, 0] - ends[0][0, 0])) < 40.0  # the places of the slices of L2


def test_sectors_of_a_line_come_from_dram_one_by_one() -> None:
    """The second sector of a line is asked for when L2 holds the first: its readers have as long to join as the first one's."""
    block = np.repeat(np.arange(2), 2)
    none = np.zeros(4, np.int64)
    words = np.tile([0xFF, 0xFF00], 2)
    both = LineAccesses(block, none, np.tile([0, 1], 2), none, none + 7, words, none == 0)
    begins = [np.array([[0.0], [150.0]])]
    found, _ = merged_traffic(both, [[np.array([0]), np.array([1])]], 0.0, PACE, H200, cached=False, begins=begins)
    assert found.requests == 2


def test_all_stay_together_where_nobody_waits() -> None:
    assert merged(drifting(steps=64), [EVERY_SM]).rate == 0.25
