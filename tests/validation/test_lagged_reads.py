"""What the request coalescer of an H200 joins, and where blocks go, against the simulated ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.gpc_simulation import Pace, merged_traffic
from perfmodel.memory.request_coalescing import gpcs_of_blocks
from perfmodel.memory.trace import WORDS_OF_LINE, LineAccesses

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-lagged-reads.json.gz"
H200 = load_gpu("h200")
RECORD: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
SMS, WARMED_UP_BY = 4, 65_536
"""SMs that read, and sectors that the first one has read before where L2 is warm."""


def counted(run: dict[str, Any]) -> float:
    """Requests that L2 saw for each sector."""
    read = run["counters"]["lts__t_sectors_srcunit_tex_op_read.sum"] - WARMED_UP_BY * run["warm"]
    return float(read / (RECORD["steps"] * run["sectors_of_step"]))


def simulated(lag_cycles: float) -> float:
    """Requests for a line that comes from DRAM, by SMs that read it one after the other."""
    block = np.arange(SMS)
    zero = np.zeros(SMS, np.int64)
    same = LineAccesses(block, zero, zero, zero, zero + 7, zero + WORDS_OF_LINE, block >= 0)
    pace = Pace(works_cycles=0.0, sector_cycles=1.0)
    sms = [np.array([one]) for one in range(SMS)]
    found, _ = merged_traffic(
        same, [sms], 1 << 16, pace, H200, begins=[lag_cycles * np.arange(SMS, dtype=float)[:, None]]
    )
    return found.requests / 4  # sectors of the line


@pytest.mark.parametrize("lag_cycles", [0, 16, 32, 64, 128, 384, 512, 768, 1024, 2048])
def test_requests_join_while_dram_answers(lag_cycles: int) -> None:
    """Not 192 and 256 cycles, at which two of four should join and hardly two do: DRAM answers sooner or later."""
    for run in RECORD["runs"]:
        if (run["cluster"], run["warm"], run["lag_cycles"], run["pattern"]) == (SMS, False, lag_cycles, 0):
            assert simulated(lag_cycles) == pytest.approx(counted(run), abs=0.65)


@pytest.mark.parametrize(("lag_cycles", "requests"), [(0, 1), (16, 2), (32, 2), (64, 3), (128, 4)])
def test_requests_join_while_l2_answers(lag_cycles: int, requests: int) -> None:
    """The first row of `Shares.merging_cycles`: 48 cycles from the request to L2's answer, whatever lanes read."""
    for run in RECORD["runs"]:
        if (run["cluster"], run["warm"], run["lag_cycles"], run["group"]) == (SMS, True, lag_cycles, 1):
            assert counted(run) == pytest.approx(requests, abs=0.02)


@pytest.mark.parametrize("blocks", [1, 2, 8, 16, 32, 33, 64, 96, 132])
def test_places_of_blocks(blocks: int) -> None:
    """SMs are of the GPCs to which the grid of one block for each SM gives them, GPC by GPC."""
    full = next(one["sms"] for one in RECORD["places"] if one["blocks"] == H200.sm_count)
    gpc_of_sm = dict(zip(full, gpcs_of_blocks(H200.sm_count, H200).tolist(), strict=True))
    for one in RECORD["places"]:
        if one["blocks"] == blocks and set(one["sms"][:4]) <= set(full[:8]):
            assert [gpc_of_sm[sm] for sm in one["sms"]] == gpcs_of_blocks(blocks, H200).tolist()
