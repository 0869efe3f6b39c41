"""A launch of a family's kernel, executed whole and held to the float64 reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch, Family
from perfmodel.families.precision import Precision
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.totals import CountedRun, counted_run


def right_run(
    family: Family[Any, Any], problem: Any, chosen: Any, *, gpu_id: str = "h200", seed: int = 0
) -> CountedRun:
    """The run of all blocks: no faults, and outputs, poisoned before, within the family's tolerance of the exact ones."""
    gpu = load_gpu(gpu_id)
    inputs = dict(family.inputs(problem, np.random.default_rng(seed)))
    compiled = compile_kernel(family.compile_request(problem, chosen, gpu), gpu.architecture.name)
    launch = family.launch(problem, Batch.of([chosen]), gpu).at(0)
    done = counted_run(read_machine_code(compiled), launch, family.call(problem, chosen, gpu, inputs), check=True)
    assert done.faults == ()
    exact = family.reference(problem, inputs)["output"]
    error = np.abs(done.outputs["output"] - exact).max()  # NaN, the poison, fails the comparison
    assert error <= family.tolerance(problem) * np.abs(exact).max()
    return done


def hold_to_tf32(family: Family[Any, Any], exact: Any, chosen: Any) -> None:
    """With TF32 a problem takes a third of the products, and its outputs are right, but not those of FP32."""
    problem = replace(exact, precision=Precision.TF32)
    done = right_run(family, problem, chosen)
    assert done.counts.tensor == right_run(family, exact, chosen).counts.tensor / 3
    result = family.reference(problem, dict(family.inputs(problem, np.random.default_rng(0))))["output"]
    assert np.abs(done.outputs["output"] - result).max() > 1e-5 * np.abs(result).max()


def hold_to_half_precision(family: Family[Any, Any], exact: Any, chosen: Any) -> CountedRun:
    """In half precision a product has twice the terms, and outputs are right and of that type."""
    done = right_run(family, replace(exact, precision=Precision.FLOAT16), chosen)
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
