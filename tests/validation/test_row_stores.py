"""Lanes that store along rows of their own, timed on an H200, against what a partly written sector takes of L1's data pipe."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.analyze import analyze

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-row-stores.json.gz"
RECORD: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
H200 = load_gpu("h200")
FLOATS_OF_SECTOR = 8
Key = tuple[int, int, int]
"""Lanes of a row, floats from one row to the next, threads of a block."""
LOADS, STORES, COPIES, SUMS = range(4)


def cycles(mode: int) -> dict[Key, float]:
    """Cycles of one of 32 busy SMs for each instruction of a warp, of 32 warps."""
    return {
        (row["lanes_per_row"], row["stride"], row["threads"]): row["warm_us"]
        * 1e-6
        * H200.boost_clock_hz
        / (row["threads"] / 32 * row["columns"] / row["lanes_per_row"])
        for row in RECORD["rows"]
        if row["mode"] == mode and row["blocks"] == 32 and row["threads"] == 1024
    }


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_a_sector_that_is_stored_in_part_keeps_loads_waiting(lanes: int) -> None:
    loads, copies = cycles(LOADS), cycles(COPIES)
    sectors = 32 / lanes
    added = [(copies[key] - loads[key]) / sectors for key in copies if key[0] == lanes]
    assert len(added) >= 2
    assert np.median(added) == pytest.approx(H200.partial_store_cycles, rel=0.15)


def test_whole_sectors_are_no_such_stores() -> None:
    """They add no more than they take alone to what loads take; those of one line half of it."""
    loads, stores, copies = cycles(LOADS), cycles(STORES), cycles(COPIES)
    rows = [key for key in copies if key[0] >= FLOATS_OF_SECTOR]
    assert len(rows) >= 3
    assert all(copies[key] - loads[key] < 1.1 * stores[key] for key in rows)
    assert all(copies[key] - loads[key] < 0.7 * stores[key] for key in rows if key[0] == 32)


@pytest.mark.parametrize(("mode", "stride"), [(COPIES, 768), (SUMS, 768), (COPIES, 776)])
def test_a_row_for_each_thread(tmp_path: Path, mode: int, stride: int) -> None:
    """0.65, 0.74 and 0.93 of what was measured if stores take the port to L2 alone."""
    (row,) = (
        row
        for row in RECORD["rows"]
        if (row["mode"], row["stride"], row["blocks"], row["threads"], row["columns"]) == (mode, stride, 32, 256, 768)
        and row["lanes_per_row"] == 1
    )
    source = tmp_path / "rows.cu"
    kernel = RECORD["source"].split("static char*")[0]
    parameters = "const float*, const float*, float*, float*, int, long, int"
    source.write_text(f"{kernel}template __global__ void rows<{mode}>({parameters});\n")
    size = 32 * 256 * stride + 768
    buffers = [f"f32[{size}]", f"f32[{size}]", f"f32[{size}]=0", f"f32[{size}]=0"]
    found = analyze(
        source, kernel=f"rows<{mode}>", gpu="h200", grid=(32,), block=(256,), args=[*buffers, 768, stride, 1]
    )
    assert found.prediction.time.predicted_s == pytest.approx(row["cold_us"] * 1e-6, rel=0.15)
