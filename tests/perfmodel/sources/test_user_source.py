"""Sources as people write them compile: host code beside kernels, CUDA's own headers, what nvcc declares by itself."""

from pathlib import Path

import pytest

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.errors import CompileError, InputError
from perfmodel.sources.user_source import compile_user_kernel, read_user_source, user_request

pytestmark = pytest.mark.compiler

HOST_AND_DEVICE = r"""
#include <algorithm>
#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#define CHECK(call) \
    do { cudaError_t e = (call); if (e != cudaSuccess) { printf("%s", cudaGetErrorString(e)); exit(1); } } while (0)

namespace filters {
struct Matrix {
    int width;
    float *data;
    Matrix(int w) : width(w) { CHECK(cudaMalloc(&data, w * sizeof(float))); }
    __device__ float at(int i) const { return data[i]; }
    std::vector<float> copy() const { return std::vector<float>(width); }
};
constexpr int taps(int r) { return 2 * r + 1; }
template <int R> __global__ void blur(Matrix in, float *out)
{
    float sum = 0;
    for (int i = 0; i < taps(R); ++i)
        sum += in.at(blockIdx.x * blockDim.x + threadIdx.x + i);
    out[blockIdx.x * blockDim.x + threadIdx.x] = sum == 0 ? -INFINITY : sum;
}
}

static void run(const std::vector<float> &data) { filters::blur<2><<<1, 32>>>(filters::Matrix(36), nullptr); }

int main(int argc, char **argv)
{
    std::vector<float> data(36);
    std::sort(data.begin(), data.end(), [](float a, float b) { return a < b; });
    run(data);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
"""

SNIPPETS = {
    "cuda_fp16.h": "x[0] = __half2float(__float2half(x[1]));",
    "cooperative_groups.h": "cooperative_groups::this_thread_block().sync();",
    "cuda_pipeline.h": "__pipeline_commit();",
    "cub/block/block_reduce.cuh": (
        "__shared__ typename cub::BlockReduce<float, 64>::TempStorage s; x[0] = cub::BlockReduce<float, 64>(s).Sum(x[1]);"
    ),
    "cuda/std/limits": "x[0] = cuda::std::numeric_limits<float>::max();",
    "cstdint": "x[0] = (std::uint32_t)x[1];",
    "algorithm": "x[0] = std::max(x[0], x[1]);",
    "cmath": "x[0] = std::sqrt(x[1]) + M_PI + FLT_MAX;",
}


def compiled(source: str, kernel: str, **defines: str | int) -> CompiledKernel:
    user = read_user_source(source)
    expression, _ = user.kernel(kernel)
    return compile_user_kernel(user_request(user, expression, defines), "sm_80")


def test_a_file_with_host_code_compiles_and_names_its_own_lines() -> None:
    found = compiled(HOST_AND_DEVICE, "blur<2>")
    line = next(i for i, text in enumerate(HOST_AND_DEVICE.split("\n"), 1) if "sum == 0" in text)
    assert f".loc\t1 {line} " in found.ptx


@pytest.mark.parametrize("header", SNIPPETS)
def test_sources_with_the_headers_of_cuda_and_the_c_library_compile(header: str) -> None:
    source = f"#include <{header}>\n__global__ void k(float *x) {{ {SNIPPETS[header]} }}\n"
    assert compiled(source, "k").resources.registers_per_thread > 0


def test_macros_are_handed_to_the_compiler() -> None:
    source = "__global__ void k(float *x) { x[0] = VALUE; }"
    assert str(0x40E00000) in compiled(source, "k", VALUE=7).ptx  # the bits of 7.0f


def test_kernels_are_found_by_their_last_name_if_there_is_one() -> None:
    source = (
        "namespace a { __global__ void k() { } }\nnamespace b { __global__ void k() { }\n__global__ void own() { } }\n"
    )
    user = read_user_source(source)
    assert user.kernel("own")[0] == "b::own"
    assert user.kernel("a::k")[0] == "a::k"
    with pytest.raises(InputError, match=r"several kernels 'k'; its kernels: a::k\(\); b::k\(\)"):
        user.kernel("k")


def test_an_unknown_kernel_lists_those_that_there_are() -> None:
    user = read_user_source(HOST_AND_DEVICE)
    with pytest.raises(InputError, match=r"no kernel 'blurr'; its kernels: filters::blur<…>\(Matrix in, float \*out\)"):
        user.kernel("blurr")
    with pytest.raises(InputError, match="is a template; name its arguments"):
        user.kernel("blur")


def test_an_error_of_the_source_is_one_line_with_file_and_line() -> None:
    with pytest.raises(CompileError) as caught:
        compiled("__global__ void k(float *x) {\n    x[0] = y;\n    x[1] = z;\n}\n", "k")
    assert str(caught.value) == 'source.cu(2): error: identifier "y" is undefined (and 1 more error)'


def test_files_and_folders_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.cu"):
        read_user_source(tmp_path / "none.cu")
    with pytest.raises(InputError, match="include folder"):
        read_user_source("__global__ void k() { }", [tmp_path / "none"])
