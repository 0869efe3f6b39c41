"""Cooperative groups of less than a warp: lanes of one warp that name different groups, executed against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.user_kernel import user_request
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.totals import counted_run
from perfmodel.sources.kernel_source import read_kernel_source

pytestmark = pytest.mark.compiler

SOURCE = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(unsigned *out, const unsigned *in, unsigned *taken)
{
    const unsigned t = threadIdx.x, v = in[t];
    const auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[t] = cg::reduce(tile, v & 1023, cg::plus<unsigned>());
    out[64 + t] = tile.ballot(v & 1);
    out[128 + t] = tile.shfl_down(v, 2);
    const auto alike = cg::labeled_partition(cg::coalesced_threads(), v & 3);
    out[192 + t] = cg::reduce(alike, v & 15, cg::plus<unsigned>());
    out[256 + t] = alike.thread_rank() + 100 * alike.size();
    if (v & 4) {
        const auto here = cg::coalesced_threads();
        unsigned first = 0;
        if (here.thread_rank() == 0)
            first = atomicAdd(&taken[t / 32], here.size());
        out[320 + t] = here.shfl(first, 0) + here.thread_rank() + 1;
    }
}
"""


def expected(values: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """By row what the kernel gives: of tiles of eight lanes, of lanes of a warp with one label, and of those that are there."""
    out = np.zeros((6, 64), np.uint32)
    for start in range(0, 64, 8):
        tile = values[start : start + 8]
        out[0, start : start + 8] = (tile & 1023).sum()
        out[1, start : start + 8] = sum(int(v & 1) << lane for lane, v in enumerate(tile))
        out[2, start : start + 8] = np.append(tile[2:], tile[6:])
    for start in (0, 32):
        warp = values[start : start + 32]
        for label in range(4):
            lanes = np.flatnonzero(warp & 3 == label)
            out[3, start + lanes] = (warp[lanes] & 15).sum()
            out[4, start + lanes] = np.arange(len(lanes)) + 100 * len(lanes)
        lanes = np.flatnonzero(warp & 4)
        out[5, start + lanes] = np.arange(len(lanes)) + 1
    return out.reshape(-1)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_groups_of_less_than_a_warp(architecture: str) -> None:
    request = user_request(read_kernel_source(SOURCE), "k", {})
    code = read_machine_code(compile_kernel(request, architecture))
    for seed in (1, 2):
        values = np.random.default_rng(seed).integers(0, 2**32, 64, dtype=np.uint32)
        parameters = (
            Buffer(name="out", array=np.zeros(384, np.uint32), output=True),
            Buffer(name="in", array=values),
            Buffer(name="taken", array=np.zeros(2, np.uint32), output=True),
        )
        run = counted_run(code, Launch(grid_x=1, block_x=64), KernelCall(parameters=parameters))
        np.testing.assert_array_equal(run.outputs["out"], expected(values))
