"""From source to cubin: one front end for many targets, resources as ptxas says them, errors in the compiler's own words."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perfmodel.compiler import disk_cache, toolchain
from perfmodel.compiler.assembler import assemble
from perfmodel.compiler.compiled import CompiledKernel, compile_kernel, content_key
from perfmodel.compiler.front_end import compile_to_ptx
from perfmodel.compiler.pool import compile_many
from perfmodel.compiler.request import CompileRequest
from perfmodel.errors import CompileError, CompilerMissingError, InputError, PerfmodelError

from ..machine_code.mix import count

pytestmark = pytest.mark.compiler

TARGETS = ("sm_60", "sm_61", "sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
SCALE = 'extern "C" __global__ void scale(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] *= FACTOR; }\n'


def request(source: str = SCALE, kernel: str = "scale", **more: Any) -> CompileRequest:
    return CompileRequest(source=source, kernel=kernel, file_name="own.cu", **({"defines": (("FACTOR", 3),)} | more))


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_one_front_end_run_serves_several_targets() -> None:
    plain = request()
    assert {plain.virtual_architecture(target) for target in TARGETS} == {"compute_60", "compute_100"}
    assert {compile_kernel(plain, target).ptx for target in ("sm_60", "sm_75", "sm_90")} == {
        compile_to_ptx(plain, "compute_60").text
    }


@pytest.mark.parametrize("looks", ["#if __CUDA_ARCH__ >= 800\n#endif\n", "#include <cuda_fp16.h>\n"])
def test_a_source_that_looks_at_its_target_is_compiled_for_each(looks: str, tmp_path: Path) -> None:
    assert request(looks + SCALE).virtual_architecture("sm_86") == "compute_86"
    (tmp_path / "part.cuh").write_text(looks)
    including = request('#include "part.cuh"\n' + SCALE, include_directories=(str(tmp_path),))
    assert including.virtual_architecture("sm_86") == "compute_86"
    assert request(architecture_specific=True).virtual_architecture("sm_86") == "compute_86"


def test_the_target_decides_what_is_compiled() -> None:
    source = """
    extern "C" __global__ void which(int *x)
    {
    #if __CUDA_ARCH__ >= 800
        __shared__ int s[100];
    #else
        __shared__ int s[50];
    #endif
        s[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        x[threadIdx.x] = s[threadIdx.x ^ 1];
    }"""
    sizes = [compile_kernel(request(source, "which"), t).resources.static_shared_bytes for t in ("sm_75", "sm_80")]
    assert sizes == [4 * 50, 4 * 100]


@pytest.mark.parametrize("target", TARGETS)
def test_every_architecture_compiles(target: str) -> None:
    kernel = compile_kernel(request(), target)
    assert kernel.cubin[:4] == b"\x7fELF"
    assert 0 < kernel.resources.registers_per_thread <= 16
    assert kernel.resources.code_bytes > 0
    assert kernel.resources.static_shared_bytes == 0


HUNGRY = """
extern "C" __global__ void hungry(float *x, int n)
{
    __shared__ float patch[300];
    float sums[N];
    for (int i = 0; i < N; i++) sums[i] = x[i * 32 + threadIdx.x];
    for (int k = 0; k < n; k++) {
        patch[threadIdx.x] = x[k];
        __syncthreads();
    #pragma unroll
        for (int i = 0; i < N; i++) sums[i] = fmaf(sums[i], patch[i + k % 7], sums[(i * 7 + 1) % N]);
        __syncthreads();
    }
    for (int i = 0; i < N; i++) x[i * 32 + threadIdx.x] = sums[i];
}"""


@pytest.mark.parametrize("target", ["sm_60", "sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("limit", [None, 32])
def test_resources_are_those_of_the_assemblers_log(target: str, limit: int | None) -> None:
    """64 live sums in at most 32 registers must spill; the log of ptxas says registers, stack, spills and shared memory."""
    options = () if limit is None else (f"--maxrregcount={limit}",)
    asked = request(HUNGRY, "hungry", defines=(("N", 64),), options=options)
    found = compile_kernel(asked, target).resources
    log = assemble(compile_to_ptx(asked, "compute_60").text, target, options).log
    numbers = {
        name: int(match[1]) if (match := re.search(pattern, log)) else 0
        for name, pattern in {
            "registers_per_thread": r"Used (\d+) registers",
            "stack_bytes_per_thread": r"(\d+) bytes stack frame",
            "spill_load_bytes": r"(\d+) bytes spill loads",
            "spill_store_bytes": r"(\d+) bytes spill stores",
            "static_shared_bytes": r"(\d+) bytes smem",
        }.items()
    }
    assert numbers == {name: getattr(found, name) for name in numbers}
    assert found.static_shared_bytes == 4 * 300
    assert (found.spill_store_bytes > 0) == (limit is not None)
    assert found.registers_per_thread <= (limit or 255)


def test_a_template_is_asked_for_by_its_name_expression() -> None:
    source = """
    namespace ns { template <int N, typename T> __global__ void fill(T *x) { x[threadIdx.x] = T(N); } }
    """
    five = compile_kernel(request(source, "ns::fill<5, float>"), "sm_80")
    six = compile_kernel(request(source, "ns::fill<6, double>"), "sm_80")
    assert five.kernel_name != six.kernel_name
    assert five.kernel_name.startswith("_Z")
    assert str(0x40A00000) in five.ptx  # the bits of 5.0f
    assert five.kernel_name in five.ptx
    assert count(five, "global_store", 4) == 1
    assert count(six, "global_store", 8) == 1


def test_an_included_file_is_part_of_the_key(tmp_path: Path, fresh_cache: Path) -> None:
    part, nested = tmp_path / "part.cuh", tmp_path / "nested.cuh"
    nested.write_text("#define FACTOR 2.0f\n")
    part.write_text('#pragma once\n#include "nested.cuh"\n')
    asked = request('#include "part.cuh"\n' + SCALE, include_directories=(str(tmp_path),), defines=())
    first = compile_kernel(asked, "sm_80")
    assert "0f40400000" not in first.ptx
    nested.write_text("#define FACTOR 3.0f\n")
    second = compile_kernel(asked, "sm_80")
    assert second.key != first.key
    assert "0f40400000" in second.ptx  # 3.0f
    nested.write_text("#define FACTOR 2.0f\n")
    assert compile_kernel(asked, "sm_80") == first


@pytest.mark.parametrize("line", ['#include "sub/part.cuh"', "#include <sub/part.cuh>"])
def test_a_file_beside_the_included_one_is_part_of_the_key(line: str, tmp_path: Path, fresh_cache: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "part.cuh").write_text('#include "beside.cuh"\n')
    factor = tmp_path / "sub" / "beside.cuh"
    asked = request(f"{line}\n{SCALE}", include_directories=(str(tmp_path),), defines=())
    factor.write_text("#define FACTOR 2.0f\n")
    first = compile_kernel(asked, "sm_80")
    factor.write_text("#define FACTOR 3.0f\n")
    assert compile_kernel(asked, "sm_80").ptx != first.ptx


def test_the_key_names_all_that_decides_the_code() -> None:
    base = request()
    variants = [
        base,
        replace(base, source=SCALE + "\n"),
        replace(base, kernel="other"),
        replace(base, file_name="other.cu"),
        replace(base, defines=(("FACTOR", 4),)),
        replace(base, options=("-lineinfo",)),
    ]
    keys = [content_key(variant, "sm_80") for variant in variants]
    keys += [content_key(base, "sm_86"), content_key(base, "sm_80", "nvrtc-13 ptxas-13")]
    assert len(set(keys)) == len(keys)
    assert content_key(request(), "sm_80") == keys[0]


def test_compiling_again_gives_the_same_bytes(fresh_cache: Path) -> None:
    first = compile_kernel(request(), "sm_86")
    assert compile_kernel(request(), "sm_86") == first
    key = "cubin-" + first.key
    assert disk_cache.fetch(key) is not None
    disk_cache.keep(key, b"")
    disk_cache._store(fresh_cache).delete(key)
    assert compile_kernel(request(), "sm_86") == first


def test_line_information_names_the_source() -> None:
    kernel = compile_kernel(request(options=("-lineinfo",)), "sm_80")
    assert re.search(r'\.file\s+1\s+"[^"]*own\.cu"', kernel.ptx)
    assert ".loc" in kernel.ptx
    assert b"own.cu" in kernel.cubin
    assert ".loc" not in compile_kernel(request(), "sm_80").ptx


def test_an_error_is_the_compilers_own_message_with_file_and_line() -> None:
    with pytest.raises(CompileError, match=r'own\.cu\(2\): error: identifier "undefined_name" is undefined'):
        compile_kernel(request('extern "C" __global__ void scale(float *x) {\n  *x = undefined_name;\n}'), "sm_80")


def test_an_absent_kernel_is_an_error() -> None:
    with pytest.raises(CompileError, match="absent"):
        compile_kernel(request(kernel="absent"), "sm_80")


def test_a_wrong_option_or_target_is_wrong_input() -> None:
    with pytest.raises(InputError, match="no-such-option"):
        compile_kernel(request(options=("--no-such-option",)), "sm_80")
    with pytest.raises(InputError, match="ampere"):
        compile_kernel(request(), "ampere")


def test_many_jobs_keep_their_order_and_their_errors() -> None:
    jobs = [(request(), "sm_80"), (request("not CUDA"), "sm_80"), (request(), "sm_90")]
    ended: list[None] = []
    first, second, third = compile_many(jobs, workers=2, advance=lambda: ended.append(None))
    assert isinstance(first, CompiledKernel)
    assert isinstance(second, CompileError)
    assert isinstance(third, CompiledKernel)
    assert (first.architecture, third.architecture) == ("sm_80", "sm_90")
    assert len(ended) == 3


ENDLESS = """
template <int N> struct Chain { static __device__ float run(float x) {
    return Chain<N - 1>::run(fmaf(x, x, float(N))) + Chain<N - 2>::run(x * float(N)); } };
template <> struct Chain<1> { static __device__ float run(float x) { return sinf(x); } };
template <> struct Chain<0> { static __device__ float run(float x) { return cosf(x); } };
extern "C" __global__ void endless(float *x) { *x = Chain<24>::run(*x + SEED); }
"""


def test_what_takes_too_long_is_a_value() -> None:
    """Fibonacci of 24 inlined calls: minutes of compiling, given one second."""
    jobs = [(request(ENDLESS, "endless", defines=(("SEED", seed),)), "sm_80") for seed in (1, 2)]
    for outcome in compile_many(jobs, workers=2, time_limit_s=1.0):
        assert isinstance(outcome, PerfmodelError)
        assert isinstance(outcome, CompileError)
        assert str(outcome) == "own.cu for sm_80: not finished within 1 s of processor time"


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    """Worker processes must not run the script again, which would start workers without end."""
    script = tmp_path / "script.py"
    script.write_text(
        "from perfmodel.compiler.pool import compile_many\n"
        "from perfmodel.compiler.request import CompileRequest\n"
        f"request = CompileRequest(source={SCALE!r}, kernel='scale', file_name='own.cu', defines=(('FACTOR', 5),))\n"
        "found = compile_many([(request, 'sm_80'), (request, 'sm_86')], workers=2)\n"
        "print([kernel.architecture for kernel in found])\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stderr == ""
    assert done.stdout == "['sm_80', 'sm_86']\n"


def test_another_nvrtc_than_the_wheels_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding may find the system's: what that compiles must not pass for the wheel's."""
    from cuda.bindings import nvrtc as binding

    monkeypatch.setattr(binding, "nvrtcVersion", lambda: (binding.nvrtcResult.NVRTC_SUCCESS, 13, 0))
    with pytest.raises(
        CompilerMissingError, match=r"NVRTC 13\.0 of the system was loaded in place of the wheel .* 12\.\d"
    ):
        toolchain.nvrtc.__wrapped__()


def test_compiling_leaves_the_constants_of_python_alone(tmp_path: Path) -> None:
    """Modules compiled in the same process share single-byte constants; NVRTC must not write into one of them."""
    program = """
import sys
import numpy as np
from perfmodel.compiler.front_end import compile_to_ptx
from perfmodel.compiler.request import CompileRequest
source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'
assert compile_to_ptx(CompileRequest(source=source, kernel="k", file_name="k.cu"), "compute_75").log == ""
assert bytes([32]) == b" " and b" "[0] == 32
np.save(sys.argv[1], np.arange(3))
assert np.load(sys.argv[1]).tolist() == [0, 1, 2]
"""
    without_bytecode = {"PYTHONPYCACHEPREFIX": str(tmp_path / "empty"), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", program, str(tmp_path / "saved.npy")]
    subprocess.run(command, env=os.environ | without_bytecode, check=True, timeout=120)
