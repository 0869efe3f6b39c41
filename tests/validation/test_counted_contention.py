"""Repeated wavefronts of shared accesses beside others, as an H200 counted them in micro-benchmark ``shared_contention``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfmodel.gpus.catalogue import load_gpu
from perfmodel.records.schema import Record
from perfmodel.records.store import read_records

DATA = Path(__file__).parents[2] / "validation" / "data"
RECORDS = DATA / "h200-contention.jsonl.gz"
RECOUNTED = DATA / "h200-recounted-contention.jsonl.gz"
SIDES = ("ld", "st")
STORES = {"stores of whole lines", "stores to 32 lines"}
COPIES = {"copies of 4 bytes", "copies of 16 bytes"}
LOADS = {"loads of 64 lines", "loads of new lines"}
COPY_STEPS = 4 * 128
LOADS_OFF = 3 * COPY_STEPS
"""Loads without an active lane, before each step's copies: requests, but no wavefronts."""
CONFLICTS = 4 * 3
"""What the last loads of lanes 16 bytes apart need, beside the request, of the four warps that made copies of 16 bytes."""
ENDS = 16
"""At most this many are repeated when the block begins and ends."""


@pytest.fixture(scope="module")
def records() -> tuple[Record, ...]:
    return read_records(RECORDS)


def beside(record: Record) -> str:
    return str(record.configuration["beside"])


def repeated(record: Record, side: str) -> float:
    """Wavefronts of loads or stores that the kernel does not need."""
    counters = record.counters
    found = counters[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{side}.sum"]
    found -= counters[f"smsp__inst_executed_op_shared_{side}.sum"]
    if side == "ld" and beside(record) in COPIES:
        found += LOADS_OFF - (CONFLICTS if beside(record) == "copies of 16 bytes" else 0)
    return found


def apart(record: Record) -> bool:
    """Whether the words lie where no line of L1 does."""
    return int(str(record.configuration["first_byte"])) < load_gpu("h200").shared_bytes_apart_from_l1


def test_every_place_was_counted_beside_every_kind(records: tuple[Record, ...]) -> None:
    assert len(records) == 160
    assert {beside(record) for record in records} == {"nothing", "shared stores", *STORES, *COPIES, *LOADS}
    assert sum(not apart(record) for record in records) == 8 * (3 + 1)


def test_no_load_is_repeated_apart_from_l1(records: tuple[Record, ...]) -> None:
    assert not any(repeated(record, "ld") for record in records if apart(record))


def test_stores_apart_from_l1_are_repeated_beside_what_comes_from_l2_alone(records: tuple[Record, ...]) -> None:
    fetching = {*COPIES, "loads of new lines"}
    assert not any(repeated(record, "st") for record in records if apart(record) and beside(record) not in fetching)


def test_loads_meet_what_stores_send_on(records: tuple[Record, ...]) -> None:
    """As many for a sector whether a request stores four sectors of one line or one of each of 32."""
    loading = [record for record in records if not apart(record) and not record.configuration["store"]]
    rates = [
        repeated(record, "ld") / record.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"]
        for record in loading
        if beside(record) in STORES
    ]
    assert len(rates) == 6
    assert min(rates) > 0.34
    assert max(rates) < 0.38
    assert np.median(rates) == pytest.approx(load_gpu("h200").shared_load_wavefronts_per_store_sector, abs=0.005)
    assert all(repeated(record, "ld") <= ENDS for record in loading if beside(record) not in STORES)


def test_stores_meet_what_l2_brings(records: tuple[Record, ...]) -> None:
    """0.43 to 0.47 for each sector that L1 misses, of loads and of copies; next to none for sectors that it holds."""
    storing = {beside(r): r for r in records if not apart(r) and r.configuration["store"]}
    for name, record in storing.items():
        brought = record.counters["lts__t_sectors_srcunit_tex_op_read.sum"]
        if name in COPIES or name == "loads of new lines":
            assert brought == 16 * COPY_STEPS
            assert 0.43 < repeated(record, "st") / brought < 0.48
        elif name == "loads of 64 lines":
            assert repeated(record, "st") == pytest.approx(0.4 * brought, rel=0.1)  # 64 lines are 256 sectors
        else:
            assert repeated(record, "st") <= ENDS


def test_instrumented_wavefronts_know_no_contention() -> None:
    """What the profiler counts beside each access is what its addresses need, here one wavefront for most."""
    recounted = read_records(RECOUNTED)
    assert len(recounted) == 160
    for side in SIDES:
        more = 0
        for record in recounted:
            instrumented = record.counters[f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{side}.sum"]
            counted = record.counters[f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{side}.sum"]
            assert instrumented == counted - repeated(record, side)
            more += counted > instrumented
        assert more > 5
