"""Products of the tensor cores: fragments of known matrices give the product of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.launch.launch import Buffer, Launch

from .differential import run_machine_code

pytestmark = pytest.mark.compiler

HALF = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void k(float *out, const half *a, const half *b)
{
    __shared__ half s[512];
    for (int i = threadIdx.x; i < 256; i += 32) { s[i] = a[i]; s[256 + i] = b[i]; }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    wmma::fill_fragment(z, 1.0f);
    wmma::load_matrix_sync(x, s, 16);
    wmma::load_matrix_sync(y, s + 256, 16);
    wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(out, z, 16, wmma::mem_row_major);
}
"""

BYTES = HALF.replace("half", "signed char").replace("float", "int").replace("1.0f", "1")


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_half_precision(architecture: str) -> None:
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, (16, 16)).astype(np.float16) for _ in range(2))
    parameters = [
        Buffer(name="out", array=np.zeros((16, 16), np.float32), output=True),
        Buffer(name="a", array=a),
        Buffer(name="b", array=b),
    ]
    simulation = run_machine_code(HALF, architecture, Launch(grid_x=1, block_x=32), parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], a.astype(np.float32) @ b.astype(np.float32) + 1)
    assert simulation.counts.tensor > 0


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_bytes(architecture: str) -> None:
    random = np.random.default_rng(2)
    a, b = (random.integers(-100, 100, (16, 16)).astype(np.int8) for _ in range(2))
    parameters = [
        Buffer(name="out", array=np.zeros((16, 16), np.int32), output=True),
        Buffer(name="a", array=a),
        Buffer(name="b", array=b),
    ]
    simulation = run_machine_code(BYTES, architecture, Launch(grid_x=1, block_x=32), parameters)
    np.testing.assert_array_equal(simulation.outputs["out"], a.astype(np.int32) @ b.astype(np.int32) + 1)
