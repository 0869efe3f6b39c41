"""What blocks that read the same ask L2 for, and the sectors of bulk copies, counted on an H200, against the simulated ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.gpc_simulation import MergedTraffic, Pace, merged_traffic
from perfmodel.memory.trace import WORDS_OF_LINE, LineAccesses
from perfmodel.prediction.analyze import analyze

DATA = Path(perfmodel.validation.__file__).parent / "data" / "h200-copies.json.gz"
RECORD: dict[str, Any] = json.loads(gzip.decompress(DATA.read_bytes()))
H200 = load_gpu("h200")
RUNS = {tuple(run[0].split()): dict(zip(RECORD["columns"][1:], run[1:], strict=True)) for run in RECORD["runs"]}
ASKED, READ, CYCLES = (
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "lts__t_sectors_srcunit_tex_op_read.sum",
    "sm__cycles_active.max",
)
SMS, STEPS, LINES_OF_STEP, L1_BYTES = 16, 64, 32, 28 * 1024
"""SMs of a GPC; steps of a block, lines that it reads in each; L1 beside all shared memory that a kernel may have."""


def counted(kernel: str, resident: int, work: int) -> dict[str, float]:
    """Counters of blocks that all read the same, so many of them on each SM."""
    wanted = {1: str(132 * resident), 4: str(STEPS), 5: "1", 6: str(work)}
    return next(
        run
        for launch, run in RUNS.items()
        if launch[0] == kernel and all(launch[place] == value for place, value in wanted.items())
    )


def simulated(resident: int, works_cycles: float, *, cached: bool, ahead: int) -> MergedTraffic:
    """The same of one GPC: each block loads a tile of 4 KiB a step."""
    blocks, lines = SMS * resident, STEPS * LINES_OF_STEP
    block, line = np.repeat(np.arange(blocks), lines), np.tile(np.arange(lines), blocks)
    none = np.zeros_like(line)
    loads = LineAccesses(block, none, line // LINES_OF_STEP, none, line, none + WORDS_OF_LINE, line >= 0)
    pace = Pace(works_cycles=works_cycles, sector_cycles=1.0, gpcs_of_line=8.0, ahead=ahead)
    sms = [np.arange(sm, blocks, SMS) for sm in range(SMS)]
    return merged_traffic(loads, [sms], L1_BYTES, pace, H200, cached=cached)[0]


@pytest.mark.parametrize("resident", [1, 2, 4, 8])
@pytest.mark.parametrize("work", [0, 300])
@pytest.mark.parametrize(("kernel", "cached"), [("tiles<0,1>", True), ("tiles<2,1>", False), ("tiles<2,2>", False)])
def test_blocks_go_on_together_where_memory_takes_longer_than_an_sm(
    kernel: str, cached: bool, work: int, resident: int
) -> None:
    """An SM works 1,250 cycles for 300 multiply-adds of a block (eight of them take eight times as long), 60 for none."""
    run = counted(kernel, resident, work)
    loaded = 132 * resident * STEPS * LINES_OF_STEP * 4
    found = simulated(resident, 1250.0 if work else 60.0, cached=cached, ahead=int(kernel[-2]) - 1)
    assert found.asked / found.loaded == pytest.approx(run[ASKED] / loaded, abs=0.2)
    assert found.rate == pytest.approx(run[READ] / run[ASKED], abs=0.2)


def test_what_an_sm_works_for_a_step() -> None:
    per_block = counted("tiles<0,1>", 8, 300)[CYCLES] / STEPS / 8
    assert per_block == pytest.approx(1250.0, rel=0.1)


BULK = """
__global__ void bulk_alone(const char *src, float *out, int copies, int bytes, int apart, int first) {
    __shared__ __align__(128) char to[8192];
    __shared__ unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int k = 0; k < copies; k++) {
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(src + k * apart + first), "r"(bytes), "r"(at) : "memory");
            asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared.b64 p, [%0], %1; @p bra done; bra again; done: }"
                ::"r"(at), "r"(k & 1) : "memory");
        }
        out[blockIdx.x] = to[0];
    }
}
"""


@pytest.mark.parametrize("size", [16, 32, 48, 96, 160, 512, 4096])
@pytest.mark.parametrize("first", [0, 16, 32, 96])
def test_bulk_copies_read_the_sectors_of_each_line_of_shared_memory(size: int, first: int) -> None:
    run = RUNS["bulk_alone", "132", "32", "0", "64", str(size), "8192", str(first)]
    args = ["u8[65536]", "f32[1]=0", "i32=4", f"i32={size}", "i32=8192", f"i32={first}"]
    counts = analyze(BULK, kernel="bulk_alone", grid=1, block=32, args=args, gpu="h200").prediction.counts
    assert float(counts.bulk_read_sectors) / 4 == pytest.approx(run[ASKED] / (132 * 64), abs=0.01)
