"""How many lines L1 of an H200 holds beside each carve-out of shared memory: what `l1_reserved_bytes` is taken from."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.occupancy import l1_cache_bytes

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-l1-capacity.json.gz"
HIT_CYCLES = 48.0


def test_l1_holds_seven_kib_less_than_shared_memory_leaves() -> None:
    """By the most that was walked through without a miss on the median SM; beside one carve-out L1 lost lines earlier."""
    gpu = load_gpu("h200")
    differences = []
    for sweep in json.loads(gzip.decompress(DATA.read_bytes()))["sweeps"]:
        held = max(kib for kib, _, median, _ in sweep["rows"] if median < HIT_CYCLES)
        differences.append(int(l1_cache_bytes(gpu, 1024 * sweep["carve_out_kb"])) // 1024 - held)
    assert len(differences) == len(gpu.shared_carve_outs_bytes) - 1  # all but none
    assert np.sort(differences).tolist() == [0] * 7 + [1, 5]
