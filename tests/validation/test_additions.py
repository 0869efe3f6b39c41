"""Additions of many warps to few words, timed on an H200, against the operations that are counted and what each takes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.ir.instruction import Instruction, Space
from perfmodel.memory.atomics import AtomicObserver, Contention, Slices
from perfmodel.simulator.access import Action, Site, WarpAccess
from perfmodel.simulator.plan import Plan
from perfmodel.time_model.terms import atomic_seconds

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-additions.json.gz"
ROWS: list[dict[str, Any]] = json.loads(gzip.decompress(DATA.read_bytes()))["rows"]
H200 = load_gpu("h200")
SUFFIXES = {"f32": "f32", "f64": "f64", "i32": "u32"}


def contention(row: dict[str, Any]) -> Contention:
    """Of one warp that adds to each of the words once, with all of its lanes to one word at a time."""
    width = 8 if row["type"] == "f64" else 4
    opcode = f"red.global.add.{SUFFIXES[row['type']]}"
    site = Site(0, 0, Instruction(opcode, (), None, False, 1, None), Action.REDUCTION, Space.GLOBAL, width)
    observer = AtomicObserver(Slices.of(H200))
    for word in range(row["words"]):
        lanes = np.full((1, 32), word * row["stride"], np.uint64)
        observer.access(
            WarpAccess(site, Plan(lanes, None, rows=1, threads=32), 0, np.zeros(1, np.int64), np.zeros(1, np.int64))
        )
    return observer.found().contention(executed=1, launch_blocks=1, slices=Slices.of(H200))


def seconds(row: dict[str, Any]) -> float:
    """What the launch asks of L2 in the steps by which the longer run is longer."""
    found, times = contention(row), row["blocks"] * row["warps"] * row["steps"]
    counts = Counts(
        l2_busiest_slice_atomics=times * found.busiest_slice,
        l2_busiest_word_atomics=times * found.busiest_word,
        l2_busiest_float_atomics=times * found.busiest_float,
    )
    return float(atomic_seconds(counts, H200))


def near(row: dict[str, Any]) -> bool:
    """Whether all of its words, or all but the last, lie in one sector."""
    return row["lanes"] == 32 and not row["spread"] and row["words"] * row["stride"] <= 36


@pytest.mark.parametrize("kind", ["f32", "f64", "i32"])
def test_what_is_added_to_a_sector_follows_one_another(kind: str) -> None:
    """1 to 9 words, 1 to 132 blocks of 1 to 32 warps, in step or not: of floating-point numbers the sector counts."""
    rows = [row for row in ROWS if row["type"] == kind and near(row)]
    assert {row["words"] for row in rows} == ({1, 3} if kind == "f64" else {1, 3, 8, 9})
    assert {row["blocks"] for row in rows} == {1, 2, 4, 8, 16, 33, 66, 132}
    ratios = [seconds(row) / ((row["twice_us"] - row["us"]) * 1e-6) for row in rows]
    assert np.quantile(ratios, [0.05, 0.5, 0.95]) == pytest.approx(
        1.0, abs=0.08
    )  # the last of nine words lies in another sector
    assert np.median(ratios) == pytest.approx(1.0, abs=0.02)
