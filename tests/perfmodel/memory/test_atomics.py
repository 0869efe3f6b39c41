"""Where the atomics of a launch queue, from a few executed blocks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from perfmodel.ir.instruction import Instruction, Space
from perfmodel.memory.atomics import AtomicObserver, Contention, Slices
from perfmodel.simulator.access import Action, Site, WarpAccess
from perfmodel.simulator.global_memory import Segment
from perfmodel.simulator.plan import Plan

SLICES = Slices(count=94, stretch_bytes=256, range_bytes=1024, part_of_sector=1.5)


def contention(
    words: np.ndarray,
    opcode: str,
    launch_blocks: int,
    executed: int | None = None,
    segments: Sequence[Segment] = (),
) -> Contention:
    """Of blocks of 32 threads that change these words, shape (blocks, 32), once each; in two accesses of half the blocks."""
    site = Site(0, 0, Instruction(opcode, (), None, False, 1, None), Action.REDUCTION, Space.GLOBAL, 4)
    observer = AtomicObserver(SLICES)
    for half in np.array_split(np.arange(len(words)), 2):
        plan = Plan(words[half].astype(np.uint64) * np.uint64(4), None, rows=len(half), threads=32)
        observer.access(WarpAccess(site, plan, 4096, half, half))
    return observer.found().contention(executed or len(words), launch_blocks, SLICES, segments)


LANE, BLOCK = np.arange(32), np.arange(8)[:, None]


def test_one_word_is_changed_by_all_lanes_of_the_launch() -> None:
    found = contention(0 * (BLOCK + LANE), "red.global.add.f32", 1000)
    assert found.busiest_float == pytest.approx(32 * 1000)
    assert found.busiest_slice == pytest.approx(
        SLICES.part_of_sector * 32 * 1000
    )  # one operation for each lane on the word
    assert found.busiest_word == 0


def test_floating_point_numbers_of_a_sector_follow_one_another() -> None:
    """The blocks add to one word each of a sector: as long as if all added to one. Lanes of a request are one operation."""
    apart = contention(BLOCK + 0 * LANE, "red.global.add.f32", 8)
    assert apart.busiest_float == 8 * 32
    together = contention(LANE % 8 + 0 * BLOCK, "red.global.add.f32", 8)
    assert together.busiest_float == 8 * 4
    integers = contention(BLOCK + 0 * LANE, "red.global.add.u32", 8)
    assert integers.busiest_word == 32


def test_a_word_of_each_block_keeps_its_lanes_however_many_blocks_there_are() -> None:
    found = contention(BLOCK * 1024 + 0 * LANE, "RED.E.ADD.STRONG.GPU", 1000)
    assert found.busiest_word == pytest.approx(32)
    assert found.busiest_slice >= 32 * 1000 / SLICES.count  # no slice is the busiest below the average


def test_a_word_of_each_two_neighbours_keeps_their_lanes() -> None:
    found = contention(BLOCK // 2 * 1024 + 0 * LANE, "atom.global.add.u32", 64)
    assert found.busiest_word == pytest.approx(64)


def test_words_that_all_blocks_change_by_chance_grow_as_the_blocks() -> None:
    drawn = np.random.default_rng(1).integers(0, 64, (64, 32))  # 32 lanes of 64 blocks on 64 words
    found = contention(drawn, "RED.E.ADD.STRONG.GPU", 6400)
    assert 32 * 6400 / 64 <= found.busiest_word <= 1.5 * 32 * 6400 / 64


def test_sums_of_rows_in_a_small_buffer_share_its_slices() -> None:
    apart = BLOCK * 64 + LANE % 8  # of each block a sector, 256 bytes from the next one's; 64 of them in the buffer
    small = [Segment("sums", 0, 64 * 256)]
    found, anywhere = (contention(apart, "RED.E.ADD.STRONG.GPU", 512, segments=given) for given in (small, ()))
    slices = np.unique(SLICES.of_halves(SLICES.halves(np.arange(0, 64 * 256, 256, dtype=np.uint64))))
    assert len(slices) <= 2 * 16  # two for each KiB
    assert found.busiest_slice >= 4 * 512 / len(slices)  # 32 lanes on 8 words: 4 operations a block
    assert anywhere.busiest_slice < found.busiest_slice


def test_executing_all_blocks_leaves_nothing_to_estimate() -> None:
    found = contention(LANE % 4 + 0 * BLOCK, "red.global.add.u32", 8)
    assert found.busiest_word == 8 * 8  # 8 lanes of each block
    assert (
        found.busiest_slice == SLICES.part_of_sector * 8 * 8
    )  # one sector, as many operations as the most lanes on a word


def test_an_operation_on_a_part_of_a_sector_is_longer() -> None:
    whole, part = (contention(LANE % words + 0 * BLOCK, "red.global.add.u32", 8) for words in (8, 4))
    assert whole.busiest_slice == 4 * 8  # 4 lanes on each of 8 words
    assert part.busiest_slice == SLICES.part_of_sector * 8 * 8


def test_blocks_without_atomics_count_as_executed() -> None:
    found = contention(0 * (BLOCK + LANE), "red.global.add.u32", 1000, executed=80)
    assert found.busiest_word == pytest.approx(32 * 1000 * 8 / 80)


@pytest.mark.parametrize(
    ("opcode", "floating"),
    [
        ("ATOM.E.ADD.F32.FTZ.RN.STRONG.GPU", True),
        ("red.global.add.noftz.bf16x2", True),
        ("ATOMG.E.CAS.64", False),
        ("atom.global.exch.b32", False),
        ("RED.E.MAX.S32", False),
    ],
)
def test_integers_and_floating_point_numbers_stand_apart(opcode: str, floating: bool) -> None:
    found = contention(0 * (BLOCK + LANE), opcode, 8)
    assert (found.busiest_float, found.busiest_word) == ((256, 0) if floating else (0, 256))
