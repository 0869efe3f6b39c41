"""A launch of a family's kernel, executed whole and held to the float64 reference."""

from __future__ import annotations

from typing import Any

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch, Family
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
