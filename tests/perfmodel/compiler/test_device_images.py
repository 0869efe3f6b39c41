"""Programs, libraries, objects and fat binaries give the cubin that a GPU executes, or the PTX that its driver would compile."""

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import perfmodel as pm
from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.toolchain import cuda13_program
from perfmodel.compiler.user_kernel import signature_of, user_request
from perfmodel.errors import CompileError, InputError, SimulationError
from perfmodel.sources.kernel_source import SourceKind, read_kernel_source

pytestmark = pytest.mark.compiler

SOURCE = """
struct Scale { int n; float by; };
__constant__ float offset[2] = {1, 2};
template <int R> __global__ void blur(const float *in, float *out, Scale scale)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < scale.n)
        out[threadIdx.x] = tile[threadIdx.x ^ R] * scale.by + offset[threadIdx.x & 1];
}
__global__ void plain(short *x) { x[threadIdx.x] = 1; }
void run() { blur<3><<<1, 64>>>(nullptr, nullptr, {}); plain<<<1, 1>>>(nullptr); }
"""


def nvcc(*arguments: object) -> None:
    subprocess.run([str(cuda13_program("nvcc")), "-cudart", "none", *map(str, arguments)], check=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An object with compressed images: cubins for 7.5 and 8.0, and for 9.0 PTX too."""
    folder = tmp_path_factory.mktemp("binaries")
    (folder / "k.cu").write_text(SOURCE)
    targets = [f"-gencode=arch=compute_{n},code=sm_{n}" for n in (75, 80)]
    targets.append("-gencode=arch=compute_90,code=[sm_90,compute_90]")
    nvcc(*targets, "--compress-mode=size", "-c", folder / "k.cu", "-o", folder / "k.o")
    nvcc("-shared", "-Xlinker=--unresolved-symbols=ignore-all", folder / "k.o", "-o", folder / "libk.so")
    return folder


def compiled(path: Path, kernel: str, architecture: str) -> CompiledKernel:
    return compile_kernel(user_request(read_kernel_source(path), kernel, {}), architecture)


@pytest.mark.parametrize(
    ("architecture", "executed"),
    [("sm_75", "sm_75"), ("sm_80", "sm_80"), ("sm_86", "sm_80"), ("sm_89", "sm_80"), ("sm_90", "sm_90")],
)
def test_the_cubin_is_the_one_that_the_driver_would_take(folder: Path, architecture: str, executed: str) -> None:
    for name in ("k.o", "libk.so"):
        kernel = compiled(folder / name, "blur<3>", architecture)
        assert (kernel.architecture, bool(kernel.ptx)) == (executed, architecture == "sm_90")


def test_newer_gpus_get_the_ptx_and_older_ones_a_reason(folder: Path) -> None:
    kernel = compiled(folder / "libk.so", "blur", "sm_120")
    assert (kernel.architecture, ".target sm_90" in kernel.ptx) == ("sm_120", True)
    with pytest.raises(InputError, match=r"for sm_75 \(cubin\), sm_80 \(cubin\), sm_90 \(cubin\), sm_90 \(PTX\) only"):
        compiled(folder / "libk.so", "blur", "sm_70")
    with pytest.raises(InputError, match=r"libk.so has no kernel 'other'; its kernels: .*plain\(short\*\)"):
        compiled(folder / "libk.so", "other", "sm_80")


def test_a_cubin_says_what_its_parameters_are(folder: Path) -> None:
    parameters = signature_of(compiled(folder / "k.o", "blur", "sm_80")).parameters
    assert [p.text for p in parameters] == ["const float *arg0", "float *arg1", "Scale arg2"]
    assert parameters[2].size_bytes == 4 + 4  # an int and a float


def test_machine_code_without_ptx_is_executed(folder: Path) -> None:
    cubin = folder / "k.cubin"
    cubin.write_bytes(compiled(folder / "k.o", "blur", "sm_80").cubin)
    scale = np.array([(64, 3.0)], [("n", "i4"), ("by", "f4")])[0]
    values = np.arange(64, dtype=np.float32)
    found = pm.analyze(
        cubin, kernel="blur<3>", grid=1, block=64, args=[values, np.zeros(64, np.float32), scale], gpu="rtx-3090"
    )
    lanes = np.arange(64)
    assert found.outputs["arg1"].tolist() == ((lanes ^ 3) * 3 + 1 + lanes % 2).tolist()
    assert (found.prediction.counts.global_load_requests, found.prediction.exact) == (2, True)  # of two warps


def test_relocatable_objects_are_linked(tmp_path: Path) -> None:
    source = tmp_path / "apart.cu"
    source.write_text(
        "__device__ float twice(float x) { return 2 * x; }\n__global__ void k(float *x) { *x = twice(*x); }\n"
    )
    nvcc("-arch=sm_80", "-dc", source, "-o", tmp_path / "apart.o")
    assert compiled(tmp_path / "apart.o", "k", "sm_80").resources.code_bytes
    source.write_text("extern __device__ float twice(float);\n__global__ void k(float *x) { *x = twice(*x); }\n")
    nvcc("-arch=sm_80", "-dc", source, "-o", tmp_path / "apart.o")
    with pytest.raises(
        CompileError, match=r"apart.o is not linked, and nvlink refuses it .*Undefined reference to '_Z5twicef'"
    ):
        compiled(tmp_path / "apart.o", "k", "sm_80")


@pytest.mark.parametrize(("architecture", "gpu"), [("sm_80", "rtx-3090"), ("sm_90", "h200")])
def test_functions_that_nvlink_leaves_apart_are_executed(tmp_path: Path, architecture: str, gpu: str) -> None:
    """Calls between sections, one of a function that calls a third, and returns from all of them."""
    (tmp_path / "a.cu").write_text(
        "extern __device__ float scale(float x, int k);\n"
        "__device__ __noinline__ int twice(int k) { return (k * 2) ^ (k >> 3); }\n"
        "__global__ void k(float *x)\n{\n    x[threadIdx.x] = scale(x[threadIdx.x], twice(threadIdx.x));\n}\n"
    )
    (tmp_path / "b.cu").write_text(
        "__constant__ float table[8] = {1, 2, 3, 4, 5, 6, 7, 8};\n"
        "__device__ __noinline__ float deep(float x) { return x * table[(int)x & 7] + 3.0f / x; }\n"
        "__device__ float scale(float x, int k) { return k & 1 ? deep(x) : x * table[k & 7]; }\n"
    )
    for name in "ab":
        nvcc(
            f"-arch={architecture}",
            "-lineinfo",
            "-rdc=true",
            "-cubin",
            tmp_path / f"{name}.cu",
            "-o",
            tmp_path / f"{name}.cubin",
        )
    linked = tmp_path / "linked.cubin"
    command = [
        cuda13_program("nvlink"),
        f"-arch={architecture}",
        tmp_path / "a.cubin",
        tmp_path / "b.cubin",
        "-o",
        linked,
    ]
    subprocess.run(list(map(str, command)), check=True)
    x = np.arange(1, 65, dtype=np.float32)
    found = pm.analyze(linked, kernel="k", grid=1, block=64, args=[x], gpu=gpu, lines=True)
    lane = np.arange(64)
    k = (lane * 2) ^ (lane >> 3)
    table = np.arange(1, 9)
    expected = np.where(k & 1, x * table[x.astype(int) & 7] + 3 / x, x * table[k & 7])
    assert found.outputs["arg0"] == pytest.approx(expected, rel=1e-6)
    assert {(one.file, one.line) for one in found.instructions} == {("a.cu", 5), ("b.cu", 2), ("b.cu", 3)}


def test_a_binary_without_device_code_is_refused() -> None:
    source = read_kernel_source("/bin/sh")
    assert source.kind is SourceKind.BINARY
    with pytest.raises(InputError, match=r"sh holds no device code \(.*does not contain device code"):
        compile_kernel(user_request(source, "k", {}), "sm_80")


def test_what_a_cubin_does_not_say_is_asked_for(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    body = "s[threadIdx.x] = *x; __syncthreads(); *x = s[n];"
    source.write_text(
        f'extern "C" __global__ void k(float *x, int n) {{ extern __shared__ float s[]; {body} }}\n'
        f'extern "C" __global__ void part(float *x, int n) {{ __shared__ float s[32]; {body} }}\n'
    )
    nvcc("-arch=sm_80", "-cubin", source, "-o", tmp_path / "k.cubin")
    launch: dict[str, Any] = {"grid": 1, "block": 64, "gpu": "a100-sxm-80gb"}
    with pytest.raises(InputError, match=r"k accesses shared memory, and its cubin declares none: .* by --shared"):
        pm.analyze(tmp_path / "k.cubin", kernel="k", args=["f32[1]", "i32=0"], **launch)
    with pytest.raises(InputError, match=r"argument 2 \(.b32 arg1\) .* does not state its type; .* i32=0 or f32=0"):
        pm.analyze(tmp_path / "k.cubin", kernel="k", args=["f32[1]", 0], shared_bytes=256, **launch)
    with pytest.raises(SimulationError, match=r"shared address 0x80 of 128 bytes; --shared"):  # 32 floats, 64 threads
        pm.analyze(tmp_path / "k.cubin", kernel="part", args=["f32[1]", "i32=0"], **launch)
    found = pm.analyze(tmp_path / "k.cubin", kernel="k", args=["f32[1]", "i32=0"], shared_bytes=256, **launch)
    assert found.prediction.counts.shared_store_requests == 2
