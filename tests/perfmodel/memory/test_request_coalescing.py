"""Requests that SMs share, against the counters of the micro-benchmark `common_read` on an H200."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.hierarchy import executed_record, hierarchy_of
from perfmodel.memory.request_coalescing import requests_in_step, requests_in_turns, sms_of_gpcs
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
