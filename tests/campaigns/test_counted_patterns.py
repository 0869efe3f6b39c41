"""Wavefronts of shared accesses by lane pattern against the counters that were read on an H200."""

from pathlib import Path

import numpy as np
import pytest

from campaigns.micro.pattern_suite import ACCESSES, INACTIVE, PatternSizes, lane_patterns
from perfmodel.memory.bank_conflicts import load_wavefronts, store_wavefronts
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import Record

RECORDS = Path(__file__).parents[2] / "validation" / "data" / "h200-micro.jsonl.gz"
LOADED, STORED = (f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st"))
REQUESTS = PatternSizes().steps * ACCESSES


@pytest.fixture(scope="module")
def counted() -> list[Record]:
    return [record for record in read_records(RECORDS) if record.name == "shared_patterns"]


def test_every_pattern_was_counted(counted: list[Record]) -> None:
    assert {record.configuration["pattern"] for record in counted} == {pattern.name for pattern in lane_patterns()}


@pytest.mark.parametrize("width_bytes", [8, 16])
def test_simulated_wavefronts_are_those_of_the_hardware(counted: list[Record], width_bytes: int) -> None:
    words = {pattern.name: np.array([pattern.words]) for pattern in lane_patterns()}
    records = [record for record in counted if record.configuration["bytes"] == width_bytes]
    assert len(records) == 53 + 12  # loaded and stored
    filling = {record.counters[STORED] for record in records if not record.configuration["store"]}
    assert len(filling) == 1  # what fills shared memory before any pattern
    for record in records:
        chosen = words[str(record.configuration["pattern"])]
        active = chosen != INACTIVE
        addresses = (np.where(active, chosen, 0) * width_bytes).astype(np.uint64)
        if record.configuration["store"]:
            found, measured = store_wavefronts(addresses, active, width_bytes), record.counters[STORED] - min(filling)
        else:
            found, measured = load_wavefronts(addresses, active, width_bytes), record.counters[LOADED]
        assert measured == REQUESTS * int(found[0][0]), record.configuration
