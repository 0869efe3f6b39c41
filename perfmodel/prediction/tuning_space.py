"""Rank what Kernel Tuner would run: its ``tune_kernel`` arguments, with a GPU's name in the place of the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..families.user.family import call_problem
from ..families.user.tuning_call import TuningCall
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from .ranking import Ranking, rank_problem
from .scenario import scenario_of


def rank_space(
    kernel_name: str,
    kernel_source: str | Path | Sequence[str],
    problem_size: Any,
    arguments: Sequence[Any],
    tune_params: Mapping[str, Iterable[Any]],
    *,
    gpu: str | Gpu,
    grid_div_x: Any = None,
    grid_div_y: Any = None,
    grid_div_z: Any = None,
    restrictions: Any = None,
    block_size_names: Sequence[str] | None = None,
    smem_args: Mapping[str, Any] | None = None,
    cmem_args: Mapping[str, Any] | None = None,
    compiler_options: Sequence[str] | None = None,
    defines: Mapping[str, Any] | None = None,
    lang: str | None = None,
    top: int = 10,
    executions: int | None = None,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> Ranking:
    """The configurations that Kernel Tuner would run, compiled, executed on the CPU and ranked by predicted time.

    Args:
        kernel_name: name of the kernel; this and the others up to ``lang`` are as ``kernel_tuner.tune_kernel`` takes them.
        kernel_source: file or text of the kernel.
        problem_size: sizes along x, y, z: integers, expressions of the tuned parameters, or a function of them.
        arguments: NumPy arrays and scalars, one for each parameter of the kernel.
        tune_params: values of each tuned parameter; they are defined as macros.
        gpu: id, file or record of the GPU.
        grid_div_x: what the problem's size along x is divided by: names, expressions, integers or a function.
        grid_div_y: likewise along y.
        grid_div_z: likewise along z.
        restrictions: expressions, or functions of the tuned parameters; one or a list.
        block_size_names: names of the parameters that are a block's sizes.
        smem_args: ``{"size": bytes}`` of dynamic shared memory.
        cmem_args: contents of module-scope arrays by name.
        compiler_options: options of the compiler.
        defines: macros in addition.
        lang: ``CUDA``.
        top: how many predictions to return.
        executions: execute at most so many configurations, those that a search on predicted times asks for; all by default.
        sm_clock_mhz: SM clock; the boost clock by default.
        l2: what the L2 holds when the kernel starts.
        calibration: a calibration file of your own.

    Raises:
        InputError: an argument is wrong; the text names it.
        InfeasibleError: no configuration fits the GPU.

    >>> import numpy as np
    >>> source = '''
    ... __global__ void scale(float *x, int n) {
    ...     int i = blockIdx.x * block_size_x + threadIdx.x;
    ...     if (i < n) x[i] *= 2.0f;
    ... }
    ... '''
    >>> n = np.int32(2**16)
    >>> values = [np.ones(n, np.float32), n]
    >>> params = {"block_size_x": [32, 64, 256]}
    >>> found = rank_space("scale", source, n, values, params, gpu="h200", restrictions=["block_size_x > 32"])
    >>> found.candidates, dict(found.rejected), found.best.configuration.block_size_x
    (3, {'constraint block_size_x > 32': 1}, 256)
    """
    call = TuningCall(
        kernel_name=kernel_name,
        kernel_source=kernel_source,
        problem_size=problem_size,
        arguments=arguments,
        tune_params=tune_params,
        grid_div_x=grid_div_x,
        grid_div_y=grid_div_y,
        grid_div_z=grid_div_z,
        restrictions=restrictions,
        block_size_names=block_size_names,
        smem_args=smem_args,
        cmem_args=cmem_args,
        compiler_options=compiler_options,
        defines=defines,
        lang=lang,
    )
    scenario = scenario_of(gpu, sm_clock_mhz=sm_clock_mhz, l2=l2, calibration=calibration)
    return rank_problem(call_problem(call), scenario, top=top, executions=executions)
