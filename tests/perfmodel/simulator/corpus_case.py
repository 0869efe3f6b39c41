"""A kernel of the corpus with a launch, its arguments, the results NumPy expects and the counts that plain arithmetic gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.front_end import compile_to_ptx
from perfmodel.compiler.request import CompileRequest
from perfmodel.ir.kernel import Kernel
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.ptx.parse import parse_module

CORPUS = Path(__file__).parent / "corpus"


@dataclass(frozen=True, kw_only=True)
class Case:
    """``expected`` maps output buffers to results; ``counts`` names of `Counts` to values for the whole launch."""

    source: str
    launch: Launch
    parameters: tuple[Buffer | np.generic, ...]
    expected: Mapping[str, NDArray[Any]]
    tolerance: float = 0.0
    counts: Mapping[str, float] = field(default_factory=dict)
    constants: tuple[Buffer, ...] = ()
    defines: tuple[tuple[str, int], ...] = ()
    kernel: str = ""
    architecture: str = "compute_75"
    clean: bool = True
    """Whether the kernel is free of faults, races among them."""

    @property
    def call(self) -> KernelCall:
        return KernelCall(parameters=self.parameters, constants=self.constants)


@cache
def compiled(source: str, kernel: str, defines: tuple[tuple[str, int], ...], architecture: str) -> Kernel:
    """A kernel of a corpus source."""
    request = CompileRequest(
        source=(CORPUS / f"{source}.cu").read_text(),
        kernel=kernel or source,
        file_name=f"{source}.cu",
        defines=defines,
        options=("-lineinfo",),
    )
    ptx = compile_to_ptx(request, architecture)
    return parse_module(ptx.text).kernel(ptx.kernel_name)


def kernel_of(case: Case) -> Kernel:
    """The compiled kernel of a case."""
    return compiled(case.source, case.kernel, case.defines, case.architecture)


def given(name: str, array: NDArray[Any]) -> Buffer:
    """An input buffer."""
    return Buffer(name=name, array=array)


def written(name: str, array: NDArray[Any]) -> Buffer:
    """An output buffer with its contents before the launch."""
    return Buffer(name=name, array=array, output=True)


def blank(name: str, shape: Any, dtype: Any) -> Buffer:
    """An output buffer filled with bytes 0xCD, which no kernel writes."""
    array = np.empty(shape, dtype)
    array.view(np.uint8)[...] = 0xCD
    return written(name, array)


def random(seed: int) -> np.random.Generator:
    """Reproducible random numbers."""
    return np.random.default_rng(seed)
