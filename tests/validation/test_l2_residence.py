"""What an H200's L2 holds, against the simulated one: launches that read and write pieces of memory in known order."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.block_schedule import begins_of_blocks
from perfmodel.memory.grid_streams import LaunchStream
from perfmodel.memory.l2 import DramTraffic, dram_traffic, partition_of_sms
from perfmodel.memory.trace import Kind

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-l2-residence.json.gz"
H200 = load_gpu("h200")
PIECE_LINES = 32
MIX_BLOCKS_PER_SM = 8
"""Of 256 threads."""
FAR = 1 << 30
ALL_WORDS = 0xFFFF_FFFF
THINNED = 16
"""Of so many pieces of memory one is looked at: every so many a launch of a smaller GPU would have."""


def runs(kernel: str) -> Iterator[dict[str, Any]]:
    return (run for run in json.loads(gzip.decompress(DATA.read_bytes()))["runs"] if run["kernel"] == kernel)


def traffic(
    block: NDArray[np.int64],
    step: NDArray[np.int64],
    line: NDArray[np.int64],
    kind: NDArray[np.int64],
    *,
    words: int = ALL_WORDS,
    slots: int,
) -> DramTraffic:
    """The simulated traffic of accesses to whole lines, of which every so many a one is taken."""
    kept = line * 0x9E37_79B9 % (1 << 32) < (1 << 32) // THINNED
    stream = LaunchStream(
        block=block[kept],
        time=step[kept],
        kind=kind[kept],
        line=line[kept],
        words=np.full(int(kept.sum()), words),
        share=1.0 / THINNED,
    )
    blocks = np.arange(int(block.max()) + 1)
    begins = begins_of_blocks(np.full(len(blocks), int(step.max()) + 1), slots)
    return dram_traffic(stream, begins, partition_of_sms(H200)[blocks % H200.sm_count], H200)


@pytest.mark.parametrize("mega", [33, 67])
def test_written_data_leave_l2_as_they_do_on_an_h200(mega: int) -> None:
    """Streams of all mixtures of reads and writes, half of which L2 holds, and which exceed it."""
    for run in runs("mix"):
        moved = run["blocks"] * 4096 * (run["reads"] + run["writes"])
        if round(moved / 1e6) != mega or run["evict_first"]:
            continue
        pieces = run["reads"] + run["writes"]
        block = np.repeat(np.arange(run["blocks"]), pieces * PIECE_LINES)
        at = np.tile(np.arange(pieces * PIECE_LINES), run["blocks"])
        writes = at >= run["reads"] * PIECE_LINES
        line = block * pieces * PIECE_LINES + at + FAR
        kind = np.where(writes, Kind.WRITE, Kind.READ)
        found = traffic(block, at // PIECE_LINES, line, kind, slots=MIX_BLOCKS_PER_SM * H200.sm_count)
        counted = run["counters"]
        assert 32 * found.read_sectors == pytest.approx(counted["dram_read_bytes"], rel=0.01, abs=1e5)
        assert 32 * found.written_sectors == pytest.approx(counted["dram_write_bytes"], rel=0.12, abs=3.5e6)


@pytest.mark.parametrize(("mib", "reads"), [(32, 1), (96, 3)])
def test_passes_over_what_fits_and_what_does_not(mib: int, reads: int) -> None:
    (run,) = (
        run
        for run in runs("passes")
        if run["shift"] == 0 and not run["writes"] and round(run["blocks"] * run["bytes_of_block"] / 2**20) == mib
    )
    lines = run["bytes_of_block"] // 128
    block = np.tile(np.repeat(np.arange(run["blocks"]), lines), run["passes"])
    at = np.tile(np.arange(lines), run["blocks"] * run["passes"])
    step = np.repeat(np.arange(run["passes"]), run["blocks"] * lines) * 16 + at * 16 // lines
    found = traffic(block, step, FAR + block * lines + at, np.zeros_like(block), slots=run["blocks"])
    assert 32 * found.read_sectors == pytest.approx(reads * run["blocks"] * lines * 128, rel=0.02)
    assert 32 * found.read_sectors == pytest.approx(run["counters"]["dram_read_bytes"], rel=0.03)


def test_sectors_written_in_part_are_read_before_they_are_written_back() -> None:
    (run,) = (run for run in runs("partial") if run["words"] == 2 and run["blocks"] == 64 * 128)
    block = np.repeat(np.arange(run["blocks"]), 2 * PIECE_LINES)
    at = np.tile(np.arange(2 * PIECE_LINES), run["blocks"])
    found = traffic(
        block,
        np.zeros_like(block),
        FAR + block * 2 * PIECE_LINES + at,
        np.full_like(block, Kind.WRITE),
        words=0x0303_0303,
        slots=MIX_BLOCKS_PER_SM * H200.sm_count,
    )
    assert 32 * found.read_sectors == pytest.approx(run["counters"]["dram_read_bytes"], rel=0.03)
    assert 32 * found.written_sectors == pytest.approx(run["counters"]["dram_write_bytes"], rel=0.05)
