"""What joins where SMs ask for many lines at once, counted on an H200, against the simulated requests."""

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
from perfmodel.memory.trace import LineAccesses

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-bursts.json.gz"
RECORD: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
H200 = load_gpu("h200")
ASKED, READ = "l1tex__m_xbar2l1tex_read_sectors.sum", "lts__t_sectors_srcunit_tex_op_read.sum"
SMS, LINES = 16, 240
"""SMs of a GPC, and lines that a block on each of them asks for, of each one sector."""


def counted(shift: int, modulo: int) -> float:
    """Requests for each sector of 132 blocks, block b of which loads word (b % modulo) * shift of 240 lines 1 KiB apart."""
    wanted = {"blocks": 132, "threads": LINES, "stride": 256, "shift": shift, "modulo": modulo, "lag": 0}
    runs = [dict(zip(RECORD["columns"], run, strict=True)) for run in RECORD["runs"]]
    (run,) = (run for run in runs if all(run[name] == value for name, value in wanted.items()))
    return float(run[READ] / run[ASKED])


def simulated(sectors: list[int]) -> float:
    """The same of one GPC, whose blocks load these sectors of the lines."""
    block, line = np.repeat(np.arange(SMS), LINES), np.tile(np.arange(LINES), SMS)
    none = np.zeros_like(line)
    words = 0xFF << 8 * np.repeat(sectors, LINES)
    loads = LineAccesses(block, none, none, none, line, words, line >= 0)
    pace = Pace(works_cycles=0.0, sector_cycles=1.0, line_cycles=1.66)
    found, _ = merged_traffic(loads, [[np.array([sm]) for sm in range(SMS)]], 1 << 17, pace, H200)
    return found.rate


def test_four_blocks_that_load_one_sector_join_whatever_its_words() -> None:
    assert simulated([0] * SMS) == 0.25
    assert counted(shift=1, modulo=8) == pytest.approx(0.25, abs=0.02)


def test_blocks_that_load_other_sectors_of_the_same_halves_of_lines_keep_others_from_joining() -> None:
    """Blocks 0 to 7 load the first sector, 8 to 15 the second; requests hardly join, as if SMs asked for the two in turns."""
    assert simulated([0, 1] * (SMS // 2)) == 1.0
    assert counted(shift=1, modulo=132) == pytest.approx(0.88, abs=0.01)


def test_halves_of_lines_join_by_themselves() -> None:
    assert simulated([0] * 8 + [2] * 8) == 0.25


def test_what_nobody_shares_does_not_join() -> None:
    assert counted(shift=8, modulo=132) == 1.0
