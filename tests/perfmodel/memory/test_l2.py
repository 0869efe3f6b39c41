"""What L2 holds when a launch ends."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.l2 import kept_bytes, local_traffic, shared_l2_bytes, written_by_the_end

RECORDS = Path(__file__).parents[3] / "validation" / "data"
H200 = load_gpu("h200")


def test_what_fits_is_kept_and_what_does_not_is_kept_in_proportion() -> None:
    counts = Counts(dram_read_bytes=np.array([0.0, 1e6, 3e8]), dram_write_bytes=np.array([0.0, 2e6, 1e8]))
    # 60 MiB in two partitions: 31,457,280 bytes, of which a quarter is for what was written
    assert written_by_the_end(counts, H200).dram_write_bytes.tolist() == [0.0, 0.0, 1e8 - 31_457_280 / 4]


@pytest.mark.parametrize("name", ["h200", "h200-activity"])
def test_an_h200_keeps_about_that(name: str) -> None:
    """Launches that write each sector once, nothing of which was seen when the rule was made but its two partitions."""
    errors = []
    for record in map(json.loads, gzip.decompress((RECORDS / f"{name}.jsonl.gz").read_bytes()).splitlines()):
        found = {key.split(".")[0]: value for key, value in record["counters"].items()} if record["counters"] else {}
        stored = found.get("l1tex__t_sectors_pipe_lsu_mem_global_op_st", 0.0)
        sectors = found.get("lts__t_sectors_srcunit_tex_op_write", 0.0)
        if record["kind"] != "kernel" or not stored or abs(sectors / stored - 1) > 0.02:
            continue
        read, written = found["dram__bytes_read"], 32 * sectors
        told = written - kept_bytes(read, written, H200)
        if told > shared_l2_bytes(H200) and record["name"] != "pointwise_conv2d":  # it writes sectors in several parts
            errors.append(abs(told / found["dram__bytes_write"] - 1))
    assert len(errors) > 10
    assert np.median(errors) < 0.05
    assert max(errors) < 0.15


def test_local_memory_passes_the_caches_that_it_exceeds() -> None:
    fits = local_traffic(1000.0, 600.0, 10_000.0, 32_768.0, 80_000.0)
    assert (fits.l2_read_sectors, fits.dram_read_sectors) == (0.0, 0.0)
    assert fits.l2_write_sectors == 600.0  # written through
    assert fits.dram_write_sectors == 600.0 * 10_000 / 40_000
    exceeds = local_traffic(1000.0, 600.0, 320_000.0, 32_000.0, 80_000.0)
    assert exceeds.l2_read_sectors == pytest.approx(950.0)  # half of L1 holds a twentieth of the stacks
    assert exceeds.dram_read_sectors == pytest.approx(900.0)
    assert exceeds.dram_write_sectors == 600.0
