"""A strategy for Kernel Tuner: begin with what is predicted, learn from what is measured, end where nothing is to be gained."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..core.axes import Floats
from ..errors import InputError
from ..families.user.configuration import with_values
from ..families.user.family import call_problem
from ..families.user.tuning_call import TuningCall
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..prediction.guided_search import TOLERANCE, GuidedSearch
from ..prediction.scenario import scenario_of
from ..prediction.space_search import executed_seconds

EXECUTIONS = 48
"""Configurations that are executed on the CPU before the first run on the GPU."""

Predicted = Callable[[Mapping[str, Any]], float | None]


def kernel_tuner_strategy(
    *,
    gpu: str | Gpu | None = None,
    predicted: Predicted | None = None,
    executions: int = EXECUTIONS,
    tolerance: float = TOLERANCE,
    compiler_options: tuple[str, ...] = (),
    seed: int = 0,
) -> Any:
    """A strategy for ``kernel_tuner.tune_kernel(…, strategy=…)``; needs Kernel Tuner.

    With ``gpu`` some configurations are executed on the CPU first, and the one that is predicted fastest is the first to run.
    Where none of them can be, a warning says so. Without, and without ``predicted``, the search begins with some that are spread
    over the space. It ends by itself, or at ``max_fevals`` and ``time_limit`` of ``strategy_options``.

    Args:
        gpu: id, file or record of the GPU that the kernel runs on.
        predicted: seconds of a configuration, given by the values of its parameters, or None where you cannot say.
        executions: how many configurations to execute on the CPU, where ``gpu`` is given.
        tolerance: expected improvement, as a part of the best time, below which tuning ends; 0 goes on to the last.
        compiler_options: those of the call of ``tune_kernel``, which Kernel Tuner does not tell its strategies.
        seed: of what is chosen at random.

    Raises:
        InputError: Kernel Tuner is not installed.

    >>> strategy = kernel_tuner_strategy(predicted=lambda block_size_x: 1e-3 / block_size_x)
    >>> callable(strategy.tune)  # kernel_tuner.tune_kernel(…, strategy=strategy)
    True
    """
    try:
        from kernel_tuner.strategies.wrapper import OptAlg, OptAlgWrapper
    except ImportError as error:
        raise InputError("a strategy for Kernel Tuner needs Kernel Tuner: pip install kernel-tuner") from error

    class Guided(OptAlg):  # type: ignore[misc]
        """What Kernel Tuner calls with its cost function and its space."""

        def __call__(self, func: Any, searchspace: Any) -> tuple[tuple[Any, ...], float]:
            names = list(searchspace.tune_params)
            every = [tuple(values) for values in searchspace.list]
            times = _prior(func, names, every)
            columns = {name: [values[place] for values in every] for place, name in enumerate(names)}
            search = GuidedSearch(columns, times, tolerance=tolerance, seed=seed)
            while chosen := search.ask():
                for index in chosen:
                    search.tell(index, _seconds(func(every[index])))
            if search.best is None:
                raise InputError("no configuration of the space runs")
            return every[search.best[0]], search.best[1]

    def _prior(func: Any, names: list[str], every: list[tuple[Any, ...]]) -> Floats | None:
        if predicted is not None:
            said = [predicted(dict(zip(names, values, strict=True))) for values in every]
            return np.array([math.nan if one is None else one for one in said], np.float64)
        if gpu is None:
            return None
        problem = call_problem(_call(func, compiler_options))
        kind = problem.family.configuration_type
        records = [with_values(kind, dict(zip(names, values, strict=True))) for values in every]
        found = executed_seconds(problem, records, scenario_of(gpu, l2=L2State.WARM), executions)
        if not np.isfinite(found).any():
            warnings.warn(
                "nothing is predicted: no configuration could be compiled and executed on the CPU"
                " (the compiler_options of tune_kernel have to be given to the strategy, too)",
                stacklevel=2,
            )
        return np.where(np.isinf(found), np.nan, found)  # whether it runs is for the GPU to say

    return OptAlgWrapper(Guided())


def _call(func: Any, compiler_options: tuple[str, ...]) -> TuningCall:
    """What ``tune_kernel`` was called with, as far as its cost function knows."""
    runner = func.runner
    options, source = runner.kernel_options, runner.kernel_source
    return TuningCall(
        kernel_name=options.kernel_name,
        kernel_source=source.kernel_sources[0],
        problem_size=options.problem_size,
        arguments=options.arguments,
        tune_params=func.searchspace.tune_params,
        restrictions=func.tuning_options.restrictions_unmodified,
        grid_div_x=options.grid_div_x,
        grid_div_y=options.grid_div_y,
        grid_div_z=options.grid_div_z,
        block_size_names=options.block_size_names,
        smem_args=options.smem_args,
        cmem_args=options.cmem_args,
        texmem_args=options.texmem_args,
        compiler_options=compiler_options,
        defines=source.defines,
        lang=source.lang,
    )


def _seconds(cost: float) -> float | None:
    """A cost as a positive time: what is to be large comes negative, and counts by its inverse; None where a run failed."""
    if not math.isfinite(cost) or abs(cost) >= 1e300 or cost == 0:
        return None
    return cost if cost > 0 else -1.0 / cost
