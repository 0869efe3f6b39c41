"""Facts from execution: a compiled kernel run in the simulator on the problem's own sizes."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compiler import CompiledKernel
from .facts import Facts
from .families.base import Family
from .gpu import Gpu
from .launch import Launch
from .prediction import Fidelity


@dataclass(frozen=True)
class Execution:
    """Executes configurations of one problem; the problem's inputs are made once, for the first that needs them."""

    family: Family[Any, Any]
    problem: Any
    gpu: Gpu
    fidelity: Fidelity

    @functools.cached_property
    def _inputs(self) -> Mapping[str, Any]:
        return self.family.inputs(self.problem, np.random.default_rng(0))

    def facts(self, kernel: CompiledKernel, launch: Launch, configuration: Any) -> Facts:
        """Resources and executed counts of one configuration; raises ``SimulationError`` where it cannot be executed."""
        return self.facts_each([kernel], launch, configuration)[0]

    def facts_each(self, kernels: Sequence[CompiledKernel], launch: Launch, configuration: Any) -> list[Facts]:
        """The same for one configuration compiled for several architectures; what they share is executed once."""
        from .simulator.executed_work import executed_work_each

        call = self.family.call(self.problem, configuration, self.gpu, self._inputs)
        return executed_work_each(kernels, launch, call)
