"""Whole kernels of the examples: outputs are NumPy's in double precision, counts are those that an H200 counted."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.compiler.toolchain import nvcc_available
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch, TensorMap
from perfmodel.launch.tensor_map import tensor_tiling
from perfmodel.machine_code.program import MachineCode, read_machine_code
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.simulator.execution import executions
from perfmodel.sources.kernel_source import SourceKind

from .tensor_cases import cases
from .test_asynchronous import run

pytestmark = [pytest.mark.compiler, pytest.mark.skipif(not nvcc_available(), reason="needs nvcc")]
ROOT = Path(__file__).parents[3]
SHARED = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_"


@cache
def counters() -> dict[str, dict[str, int]]:
    record = json.loads((ROOT / "validation" / "data" / "h200-tensor.json").read_text(encoding="utf-8"))
    return {launch["name"]: launch["counters"] for launch in record["launches"]}


def example(name: str) -> CompiledKernel:
    path = ROOT / "examples" / f"{name}.cu"
    request = CompileRequest(
        source=path.read_text(encoding="utf-8"), kernel=name, file_name=path.name, kind=SourceKind.CUDA_FILE, path=path
    )
    return compile_kernel(request, "sm_90")


def executed(name: str, launch: Launch, parameters: tuple[Any, ...]) -> CountedRun:
    return counted_run(read_machine_code(example(name)), launch, KernelCall(parameters=parameters))


def factors(n: int) -> tuple[Any, Any, Any]:
    random = np.random.default_rng(3)
    a, b = ((random.random((n, n)) - 0.5).astype(np.float16) for _ in range(2))
    return a, b, a.astype(np.float64) @ b.astype(np.float64).T


def hold_to_hardware(found: CountedRun, measured: dict[str, int]) -> None:
    counts, code = found.counts, found.kernel
    assert isinstance(code, MachineCode)
    # half precision by the multiplier of the tensor cores is counted with their pipe
    times = executions(code, found.visits).tolist()
    half = sum(n for i, n in zip(code.instructions, times, strict=True) if i.name == "HFMA2" and i.has("MMA"))
    assert counts.warp_instructions == measured["smsp__inst_executed.sum"]
    assert counts.tensor + half == measured["smsp__inst_executed_pipe_tensor.sum"]
    assert counts.shared_load_wavefronts == measured[f"{SHARED}ld.sum"] + measured[f"{SHARED}ldsm.sum"]
    assert counts.shared_store_wavefronts == measured[f"{SHARED}st.sum"] + measured[f"{SHARED}stsm.sum"]
    written = counts.global_store_sectors + counts.bulk_write_sectors
    assert written == sum(measured[f"lts__t_sectors_srcunit_tex_op_{kind}.sum"] for kind in ("write", "red"))


def test_a_whole_product_with_mma_ldmatrix_and_asynchronous_copies() -> None:
    a, b, expected = factors(256)
    parameters = (
        Buffer(name="a", array=a),
        Buffer(name="b", array=b),
        Buffer(name="c", array=np.zeros((256, 256), np.float32), output=True),
        np.int32(256),
        np.int32(256),
    )
    found = executed("gemm_mma", Launch(grid_x=2, grid_y=2, block_x=256), parameters)
    np.testing.assert_allclose(found.outputs["c"], expected, atol=2e-5)
    assert found.counts.tensor == 256 * 256 * 256 / (16 * 8 * 16)
    hold_to_hardware(found, counters()["gemm_mma_small"])


def test_a_whole_product_with_tensor_maps_mbarriers_and_wgmma() -> None:
    a, b, expected = factors(256)
    tiling = tensor_tiling("f16", (256, 256), box=(128, 64), swizzle_bytes=128)
    parameters = (
        TensorMap(buffer=Buffer(name="a", array=a), tiling=tiling),
        TensorMap(buffer=Buffer(name="b", array=b), tiling=tiling),
        Buffer(name="c", array=np.zeros((256, 256), np.float32), output=True),
        np.int32(256),
        np.int32(256),
    )
    launch = Launch(grid_x=2, grid_y=2, block_x=384, dynamic_shared_bytes=132_096)
    found = executed("gemm_wgmma", launch, parameters)
    np.testing.assert_allclose(found.outputs["c"], expected, atol=2e-5)
    measured = counters()["gemm_wgmma_small"]
    assert found.counts.tensor == measured["smsp__inst_executed_pipe_tensor_op_gmma.sum"]
    assert found.counts.bulk_read_sectors == 2 * 2 * (128 + 128) * 256 * 2 / 32
    # the hardware tries again where a phase is not over yet
    assert found.counts.warp_instructions == pytest.approx(measured["smsp__inst_executed.sum"], rel=0.03)
    assert found.counts.warp_instructions <= measured["smsp__inst_executed.sum"]
    # a box is 512 sectors, more than the 384 threads of a block; the caches see each of them
    profile = executed_profile(example("gemm_wgmma"), launch, KernelCall(parameters=parameters), load_gpu("h200"))
    assert profile.counts.bulk_read_sectors == found.counts.bulk_read_sectors
    assert profile.counts.l2_read_sectors == pytest.approx(measured["lts__t_sectors_srcunit_tex_op_read.sum"], rel=0.02)


def test_attention_with_mma() -> None:
    random = np.random.default_rng(4)
    q, k, v = (random.standard_normal((2, 256, 64)).astype(np.float16) for _ in range(3))
    parameters = (
        *(Buffer(name=name, array=array) for name, array in zip("qkv", (q, k, v), strict=True)),
        Buffer(name="out", array=np.zeros((2, 256, 64), np.float16), output=True),
        np.int32(256),
    )
    found = executed("attention_mma", Launch(grid_x=4, grid_y=2, block_x=128), parameters)
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 8
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    expected = weights / weights.sum(axis=-1, keepdims=True) @ v.astype(np.float64)
    np.testing.assert_allclose(found.outputs["out"], expected, atol=2e-3)
    hold_to_hardware(found, counters()["attention_mma_small"])


@pytest.mark.parametrize("name", ["wgmma_3", "wgmma_7", "tensors_f32_128", "bulk_plain", "cluster_share", "matrices"])
def test_units_are_counted_as_an_h200_counts_them(name: str) -> None:
    case = next(case for case in cases("sm_90") if case.name == name)
    if name == "matrices":  # counted with these rows
        case = replace(case, defines=(("ROW", "(lane * 5 % 32)"),))
    hold_to_hardware(run(case, "sm_90"), counters()[name])
