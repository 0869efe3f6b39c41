"""A launch of a family's kernel, executed whole and held to the float64 reference."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch, Family
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.ptx.parse import parse_module

EXACT_COUNTS = (
    *("global_load_requests", "global_load_sectors", "global_load_lines", "global_store_requests"),
    *("global_store_sectors", "shared_load_requests", "shared_store_requests", "shared_load_wavefronts"),
    *("shared_store_wavefronts", "shared_bank_conflicts", "async_copy_requests", "async_copy_wavefronts"),
    *("async_copy_read_requests", "async_copy_read_sectors", "async_copy_read_wavefronts", "constant_load_requests"),
    *("fp32_fma", "special_function", "shuffles", "barriers"),
)
"""What closed forms give exactly."""


def right_run(
    family: Family[Any, Any],
    problem: Any,
    chosen: Any,
    *,
    on: str | Gpu = "h200",
    seed: int = 0,
    ptx: bool = False,
    check: bool = True,
) -> CountedRun:
    """The run of all blocks: no faults, and outputs, poisoned before, within the family's tolerance of the exact ones."""
    gpu = load_gpu(on) if isinstance(on, str) else on
    inputs = dict(family.inputs(problem, np.random.default_rng(seed)))
    compiled = compile_kernel(family.compile_request(problem, chosen, gpu), gpu.architecture.name)
    launch = family.launch(problem, Batch.of([chosen]), gpu).at(0)
    code = parse_module(compiled.ptx).kernel(compiled.kernel_name) if ptx else read_machine_code(compiled)
    done = counted_run(code, launch, family.call(problem, chosen, gpu, inputs), check=check)
    assert done.faults == ()
    reference = family.reference(problem, inputs)
    assert done.outputs.keys() == reference.keys()
    for name, exact in reference.items():
        error = np.abs(done.outputs[name] - exact).max()  # NaN, the poison, fails the comparison
        assert error <= family.tolerance(problem) * np.abs(exact).max(), name
    return done


def hold_to_closed_form(
    family: Family[Any, Any],
    problem: Any,
    chosen: Any,
    *,
    on: str | Gpu,
    seed: int = 0,
    ptx: bool = True,
    check: bool = True,
    without: Collection[str] = (),
) -> CountedRun:
    """Results are right, and each exact count, but for those left out, is that of the closed form."""
    done = right_run(family, problem, chosen, on=on, seed=seed, ptx=ptx, check=check)
    closed = family.profile(problem, Batch.of([chosen]), load_gpu(on) if isinstance(on, str) else on).counts.at(0)
    names = [name for name in EXACT_COUNTS if name not in without]
    assert {n: float(getattr(done.counts, n)) for n in names} == {n: float(getattr(closed, n)) for n in names}
    return done


def hold_to_tf32(family: Family[Any, Any], exact: Any, chosen: Any) -> CountedRun:
    """In TF32 outputs are right, but not those of FP32."""
    problem = replace(exact, precision=Precision.TF32)
    done = right_run(family, problem, chosen)
    assert done.counts.tensor > 0
    result = family.reference(problem, dict(family.inputs(problem, np.random.default_rng(0))))["output"]
    assert np.abs(done.outputs["output"] - result).max() > 1e-5 * np.abs(result).max()
    return done


def hold_to_half_precision(family: Family[Any, Any], exact: Any, chosen: Any, *, on: str | Gpu = "h200") -> CountedRun:
    """In half precision a product has twice the terms, and outputs are right and of that type."""
    done = right_run(family, replace(exact, precision=Precision.FLOAT16), chosen, on=on)
    assert done.outputs["output"].dtype == np.float16
    assert done.counts.tensor > 0
    return done


def warps_on_tensor_cores(
    filters: int, positions: int, filter_warps: int, position_warps: int, slices: int = 1, split: int = 1
) -> dict[str, int]:
    """Fields of a configuration that multiplies on tensor cores."""
    return {
        "warp_filters": filters,
        "warp_positions": positions,
        "filter_warps": filter_warps,
        "position_warps": position_warps,
        "channel_slices": slices,
        "channel_split": split,
    }
