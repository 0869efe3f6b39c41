"""What requests take of an SM, by shapes whose cycles a micro-benchmark has shown."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.issue_table import Wait
from perfmodel.profiles.warp_traces import MemoryDemand
from perfmodel.time_model.sm_costs import atomic_cycles, copies_past_l1, data_pipe, lanes_on_a_word, store_cycles

H200 = load_gpu("h200")
DATA = Path(__file__).parents[3] / "validation" / "data"
SHAPES = ((1.0, 4.0), (32.0, 32.0))
"""Lines and sectors of a request: 32 neighbouring words, and each word in a line of its own."""
WORDS = np.full(2, 4)
"""Bytes of a lane."""


def demand(requests: float = 1.0) -> MemoryDemand:
    """Requests of these shapes."""
    lines, sectors = np.array(SHAPES).T
    none = np.zeros(len(SHAPES))
    return MemoryDemand(
        wavefronts=none,
        lines=lines,
        sectors=sectors,
        first_stores=none,
        partial_sectors=none,
        requests=none + requests,
        past_l1=none,
    )


@pytest.mark.parametrize(("gpu", "bytes_per_cycle"), [("h200", 128), ("rtx-3090", 64), ("rtx-2080-ti", 64)])
def test_l1_gives_as_many_bytes_a_cycle_as_it_does_of_a_large_array(gpu: str, bytes_per_cycle: int) -> None:
    cycles, _ = data_pipe(demand(), np.full(2, int(Wait.GLOBAL_LOAD)), WORDS, 1.0, load_gpu(gpu))
    assert cycles.tolist() == [128 / bytes_per_cycle, 32 / 4]  # four lines are looked up in a cycle


@pytest.mark.parametrize(("gpu", "least", "each"), [("h200", 1, 1), ("rtx-3090", 2, 1), ("rtx-2080-ti", 2, 2)])
@pytest.mark.parametrize(("lane_bytes", "words"), [(2, 1), (4, 1), (8, 2), (16, 4)])
def test_a_global_load_of_one_place_by_all_lanes_takes_as_long_as_of_as_many_places(
    gpu: str, least: int, each: int, lane_bytes: int, words: int
) -> None:
    """As an H200 was measured to do: 1.02, 2.04 and 4.06 cycles (validation/data/h200-l1-requests.json)."""
    one_place = replace(demand(), lines=np.ones(2), sectors=np.ones(2), wavefronts=np.array([1.0, 2.0]).clip(max=words))
    wait, lanes = np.full(2, int(Wait.GLOBAL_LOAD)), np.full(2, lane_bytes)
    cycles, _ = data_pipe(one_place, wait, lanes, 1.0, load_gpu(gpu))
    assert cycles.tolist() == [max(least, each * words)] * 2


@pytest.mark.parametrize(("wait", "passes"), [(Wait.GLOBAL_REDUCTION, 1.0), (Wait.GLOBAL_ATOMIC, 2.0)])
def test_atomics_pass_l1_line_by_line_and_what_they_return_passes_again(wait: Wait, passes: float) -> None:
    cycles, _ = data_pipe(demand(), np.full(2, int(wait)), WORDS, 1.0, H200)
    assert cycles.tolist() == [passes * 1, passes * 32]


def test_lanes_on_one_word_pass_one_after_the_other() -> None:
    wait = np.full(2, int(Wait.GLOBAL_REDUCTION))
    counts = replace(Counts(), l2_atomic_sectors=32 * (4 + 32))  # every sector 32 times
    lanes = lanes_on_a_word(demand(), wait, counts, 1.0)
    assert lanes == 32
    assert data_pipe(demand(), wait, WORDS, lanes, H200)[0].tolist() == [32, 32 * 32]


def test_all_sms_together_add_to_lines_and_to_words_as_fast_as_measured() -> None:
    wait, lanes = np.full(2, int(Wait.GLOBAL_REDUCTION)), np.full(2, 32.0)
    cycles = atomic_cycles(demand(), wait, lanes, 1.0, 132.0, H200)
    a_line_s, words_s = cycles / 132 / H200.boost_clock_hz
    assert a_line_s == pytest.approx(34.2e-12, rel=0.1)  # micro-benchmark scatter, 540,672 lines in 18.5 us
    assert words_s / 32 == pytest.approx(9.5e-12, rel=0.25)  # 17.3 million words in 164 us
    returned = atomic_cycles(demand(), np.full(2, int(Wait.GLOBAL_ATOMIC)), lanes, 1.0, 132.0, H200)
    assert returned[0] / 132 / H200.boost_clock_hz == pytest.approx(60.7e-12, rel=0.1)  # 540,672 lines in 32.8 us


STRIDED = json.loads((DATA / "h200-strided-stores.json").read_text())
"""Micro-benchmark ``sector_parts``: stores of words of rows; each store writes the next part of the sectors of the one before."""


@pytest.mark.parametrize(
    "run", STRIDED["runs"], ids=lambda run: f"{run['words']} words of rows of {run['row_bytes']} bytes"
)
def test_parts_of_sectors_take_what_was_measured_by_how_many_share_a_line(run: dict[str, float]) -> None:
    rows, parts = 32 / run["words"], int(8 / run["words"])
    lines = rows * min(run["row_bytes"] / 128, 1.0)
    one = np.ones(parts)
    first = np.array([1.0, *np.zeros(parts - 1)])
    stored = MemoryDemand(
        wavefronts=one,
        lines=lines * one,
        sectors=rows * one,
        first_stores=first,
        partial_sectors=rows * one,
        requests=one,
        past_l1=0.0 * one,
    )
    wait = np.full(parts, int(Wait.GLOBAL_STORE))
    cycles, _ = store_cycles(stored, wait, Counts(), 1.0, 132.0, 0.0, H200, True)
    requests = STRIDED["bytes"] / 32 / rows * parts * STRIDED["passes"]
    measured = run["time_us"] * 1e-6 * H200.boost_clock_hz * 132 / requests
    assert cycles.mean() == pytest.approx(measured, rel=0.35)


COPIES = json.loads(gzip.decompress((DATA / "h200-copy-pipe.json.gz").read_bytes()))
"""Micro-benchmark ``copy_pipe``: four copies of 512 bytes a warp and step, sources ``shift`` bytes from a line."""


@pytest.mark.parametrize(("shift", "sectors", "parts"), [(0, 16, 4), (16, 32, 8)])
def test_copies_past_l1_take_what_all_that_l2_sends_takes(shift: int, sectors: int, parts: int) -> None:
    """Half a sector off its target a copy takes twice as long: its sectors are sent twice, and a pass takes two lines."""
    lines, sent = np.array([float(parts)]), np.array([float(sectors)])
    copies = MemoryDemand(
        wavefronts=np.full(1, 4.0),
        lines=lines,
        sectors=sent,
        first_stores=lines,
        partial_sectors=lines,
        requests=lines,
        past_l1=sent,
    )
    named = (dict(zip(COPIES["columns"], run, strict=True)) for run in COPIES["runs"])
    wanted = {"bytes": 16, "cached": 0, "reads": 0, "shift": shift, "grid": 8, "warps": 8}
    (measured,) = (run["cycles"] / 4 for run in named if wanted.items() <= run.items())
    assert copies_past_l1(copies, sent, H200)[0] == pytest.approx(measured, rel=0.02)


def test_conflicts_of_banks_make_copies_past_l1_slower() -> None:
    """Eight passes of four lines take as long as eight lines."""
    four, eight, none = np.full(1, 4.0), np.full(1, 8.0), np.zeros(1)
    copies = MemoryDemand(
        wavefronts=eight,
        lines=four,
        sectors=4 * four,
        first_stores=none,
        partial_sectors=none,
        requests=four,
        past_l1=4 * four,
    )
    assert copies_past_l1(copies, 4 * four, H200)[0] == 8 * 128 / H200.copied_bytes_per_cycle


@pytest.mark.parametrize(("passes", "measured"), [(1, 2.89), (4, 5.66), (8, 10.13), (16, 19.15), (32, 36.1)])
def test_copies_through_l1_take_the_passes_of_their_banks(passes: int, measured: float) -> None:
    """Cycles of a copy of 4 bytes a lane, 12 warps that copy what L1 holds (`h200-bulk-copies.json.gz`)."""
    shape = np.array([float(passes)])
    copies = MemoryDemand(
        wavefronts=shape,
        lines=shape,
        sectors=shape,
        first_stores=shape,
        partial_sectors=shape,
        requests=shape,
        past_l1=0.0 * shape,
    )
    cycles, _ = data_pipe(copies, np.array([int(Wait.ASYNC_COPY)]), WORDS[:1], 1.0, H200)
    assert cycles[0] == pytest.approx(measured, rel=0.07)
