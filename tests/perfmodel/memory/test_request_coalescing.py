"""Requests that SMs share, against the counters of the micro-benchmark `common_read` on an H200."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.hierarchy import executed_record, hierarchy_of
from perfmodel.memory.request_coalescing import (
    InStep,
    MergedTraffic,
    Pace,
    in_step,
    merged_traffic,
    requests_in_step,
    requests_in_turns,
    share_of_launch,
    sms_of_gpcs,
)
from perfmodel.memory.trace import LineAccesses
from perfmodel.profiles.blocks.launch_counts import count_launch
from perfmodel.ptx.parse import parse_module

H200 = load_gpu("h200")
BUFFER_SECTORS = 65_536 / 32


@pytest.mark.parametrize(("buffers", "counted"), [(1, 71_092), (2, 74_444), (4, 73_728), (8, 131_072), (16, 262_148)])
def test_blocks_on_all_sms_that_read_buffers_in_turn(buffers: int, counted: int) -> None:
    assert requests_in_step(132, H200, buffers) == pytest.approx(counted / BUFFER_SECTORS, rel=0.021)


@pytest.mark.parametrize(
    ("blocks", "counted"), [(2, 2048), (4, 2048), (8, 4132), (16, 20_480), (33, 20_728), (66, 35_236)]
)
def test_blocks_on_some_sms_that_read_one_buffer(blocks: int, counted: int) -> None:
    assert requests_in_step(blocks, H200) == pytest.approx(counted / BUFFER_SECTORS, rel=0.021)


def test_gpcs_have_all_sms() -> None:
    for sms in (132, 114, 96):
        of_gpcs = sms_of_gpcs(replace(H200, sm_count=sms))
        assert of_gpcs.sum() == sms
        assert of_gpcs.max() - of_gpcs.min() <= 2


def test_nothing_is_merged_where_no_unit_does() -> None:
    turing = load_gpu("rtx-2080-ti")
    assert requests_in_step(68, turing, 4) == 68
    assert requests_in_turns(10, 10, 2, turing) == (1.0, 1.0)


def test_one_wave_of_a_block_for_each_sm() -> None:
    # a row of 66 blocks is four GPCs of 16 and two SMs: 17 requests, and one more where a GPC has SMs of both rows
    of_rows, of_columns = requests_in_turns(66, 2, 1, H200)
    assert of_rows == pytest.approx(34 / 132, abs=2 / 132)
    assert of_columns == 1.0  # block b and block b + 66 are on different GPCs


SAME = """
extern "C" __global__ void same(const float *in, float *out)
{
    float sum = 0.0f;
    for (int i = threadIdx.x; i < 1024; i += 128)
        sum += in[i];
    out[blockIdx.x * 128 + threadIdx.x] = sum;
}
"""
EVERY_SM = [np.array([sm]) for sm in range(16)]


def accesses(lines: list[list[int]], masks: list[list[int]]) -> LineAccesses:
    """Block b loads ``lines[b]``, one after the other, of each the sectors ``masks[b]``."""
    blocks = np.repeat(np.arange(len(lines)), [len(own) for own in lines])
    times = np.concatenate([np.arange(len(own)) for own in lines])
    flat: list[NDArray[np.int64]] = [np.concatenate(values).astype(np.int64) for values in (lines, masks)]
    return LineAccesses(blocks, np.zeros_like(blocks), times, *flat, np.full(len(blocks), True))


PACE = Pace(trip_cycles=10_000.0, sector_cycles=1.0)
"""Round trips so far apart that no request of one joins any of another."""


def test_four_sms_share_a_request() -> None:
    same = accesses([[7, 8]] * 16, [[0b1111, 0b0001]] * 16)
    # 5 sectors each; of 16 SMs four requests for each sector, of 5 SMs two
    assert merged_traffic(same, [EVERY_SM], 4096, PACE, H200) == MergedTraffic(16, 16 * 5, 4 * 5)
    assert merged_traffic(same, [EVERY_SM[:5]], 4096, PACE, H200) == MergedTraffic(5, 5 * 5, 2 * 5)
    assert merged_traffic(same, [EVERY_SM[:8], EVERY_SM[8:]], 4096, PACE, H200) == MergedTraffic(16, 16 * 5, 4 * 5)
    assert merged_traffic(same, [[sm] for sm in EVERY_SM], 4096, PACE, H200) == MergedTraffic(16, 16 * 5, 16 * 5)


def test_sms_that_miss_a_sector_at_different_steps_ask_for_themselves() -> None:
    apart = accesses([[7, 8], [8, 7]], [[0b1111, 0b1111]] * 2)
    assert merged_traffic(apart, [EVERY_SM[:2]], 4096, PACE, H200) == MergedTraffic(2, 16, 16)


@pytest.mark.parametrize(
    ("sectors_between", "requests"),
    [
        (300, 1),  # 341 cycles: 573 - 280 of DRAM beyond L2, and 48
        (400, 2),
    ],
)
def test_who_asks_before_dram_has_answered_joins(sectors_between: int, requests: int) -> None:
    # one SM asks for line 7 at once, the other after so many sectors, one a cycle, in the same round trip
    others = 100 + np.arange(sectors_between)
    line = np.concatenate([[7], others, [7]])
    mask = np.concatenate([[0b1], np.full(sectors_between, 0b1), [0b1]])
    block = np.concatenate([[0], np.full(sectors_between + 1, 1)])
    zero = np.zeros_like(line)
    late = LineAccesses(block, zero, zero, line, mask, np.full(len(line), True))
    asked = sectors_between + 2
    assert merged_traffic(late, [EVERY_SM[:2]], 1 << 20, PACE, H200) == MergedTraffic(
        2, asked, sectors_between + requests
    )


def test_blocks_that_start_one_after_the_other_join_while_l2_has_not_answered() -> None:
    same = accesses([[7]] * 2, [[0b1111]] * 2)
    for start_cycles, requests in ((300.0, 4), (400.0, 8)):
        pace = Pace(trip_cycles=10_000.0, sector_cycles=1.0, start_cycles=start_cycles)
        assert merged_traffic(same, [EVERY_SM[:2]], 4096, pace, H200) == MergedTraffic(2, 8, requests)


def test_blocks_that_warm_l1_up_do_not_count() -> None:
    same = accesses([[7], [7, 8]], [[0b1111], [0b1111, 0b0001]])
    one_sm = [[np.array([0, 1])]]
    assert merged_traffic(same, one_sm, 4096, replace(PACE, start_cycles=1e5), H200, warmed_up_by=1) == MergedTraffic(
        1, 1, 1
    )


def test_a_sector_at_the_border_of_two_blocks_is_asked_for_twice() -> None:
    border = accesses([[7], [7]], [[0b0111], [0b1100]])
    assert merged_traffic(border, [EVERY_SM[:2]], 4096, PACE, H200) == MergedTraffic(2, 5, 5)


def test_blocks_of_an_sm_find_in_l1_what_one_of_them_loaded() -> None:
    pairs = accesses([[7]] * 4, [[0b1111]] * 4)
    runs = [[np.array([0, 1]), np.array([2, 3])]]
    assert merged_traffic(pairs, runs, 4096, PACE, H200) == MergedTraffic(4, 8, 4)
    assert merged_traffic(pairs, runs, 4096, PACE, H200, cached=False) == MergedTraffic(4, 16, 4)


def test_first_and_later_waves_share_for_themselves() -> None:
    quarter, half = MergedTraffic(blocks=16, asked=160, requests=40), MergedTraffic(blocks=16, asked=160, requests=80)
    alike, apart = InStep(first=1.0, later=1.0), InStep(first=1.0, later=0.0)
    assert share_of_launch(quarter, half, 10.0, 1.0, alike) == 0.25
    assert share_of_launch(quarter, half, 10.0, 0.1, apart) == 1.0 - 0.1 * 0.75
    assert share_of_launch(quarter, half, 10.0, 0.5, alike) == 1.0 - 0.5 * 0.75 - 0.5 * 0.5
    assert share_of_launch(quarter, half, 2.5, 0.25, alike) == 0.25  # later blocks miss nothing


def test_sms_drift_apart_in_long_loops() -> None:
    latency = H200.dram_latency_cycles
    assert in_step(16, 1e9, H200) == InStep(first=1.0, later=1.0)
    waiting = in_step(64, 0.0, H200)  # it waits all the time
    assert (waiting.first, waiting.later) == (1.0, pytest.approx(0.25 + 0.75 * 0.27))
    # three quarters of the loop in step for a third of the time, as it waits for one of three latencies
    assert in_step(64, 2 * latency, H200).first == pytest.approx(0.25 + 0.75 / 3)
    assert in_step(64, 1e9, H200).first == pytest.approx(0.25 + 0.75 * 0.27)


@pytest.mark.parametrize(("gpu_id", "blocks", "requests"), [("h200", 132, 33), ("rtx-2080-ti", 68, 68)])
def test_sms_that_read_one_buffer_in_step(gpu_id: str, blocks: int, requests: int) -> None:
    gpu = load_gpu(gpu_id)
    kernel = compile_kernel(CompileRequest(source=SAME, kernel="same", file_name="same.cu"), gpu.architecture.name)
    module = parse_module(kernel.ptx)
    call = KernelCall(
        parameters=(
            Buffer(name="in", array=np.zeros(1024, np.float32)),
            Buffer(name="out", array=np.zeros(128 * blocks, np.float32), output=True),
        )
    )
    launch = Launch(grid_x=blocks, block_x=128)
    counts = count_launch(module.kernel("same"), launch, call).counts
    record = executed_record(module.kernel("same"), launch, call, gpu, kernel.resources)
    found = hierarchy_of(record, launch, gpu, counts, kernel.resources)
    assert found.l2_read_sectors == 1024 / 8 * requests  # each sector once for an SM, or for every four of them
