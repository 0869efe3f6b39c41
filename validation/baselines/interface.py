"""What a baseline is: a library's implementation of a family's problem, ready to be checked and captured as a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import PerfmodelError

Inputs = Mapping[str, NDArray[np.floating[Any]]]


class BaselineUnavailableError(PerfmodelError):
    """The library is not installed, or does not offer the operation for this problem; the text says which."""


class Precision(Enum):
    """In which arithmetic a library multiplies."""

    FP32 = "fp32"
    """As the families' kernels do; the result has to meet the reference."""
    TF32 = "tf32"
    """Tensor cores, which round the factors to 10 bits: faster, and not the same result."""
    FP16 = "fp16"
    """Half precision with sums in FP32: what settings for FP32 become where the inputs are of that type."""

    @classmethod
    def of_problem(cls, problem: Mapping[str, object]) -> Precision:
        """In which a problem, by its fields, is computed; FP32 where it does not say."""
        return {"tf32": cls.TF32, "float16": cls.FP16}.get(str(problem.get("precision")), cls.FP32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A library's function on PyTorch tensors.

    ``function`` gives the outputs, one for each name of ``outputs``, those of the family's reference; ``tensors`` are its
    arguments in the host's memory, in the layout that the library is to find on the device.
    """

    function: Callable[..., tuple[Any, ...]]
    tensors: tuple[Any, ...]
    outputs: tuple[str, ...]


Describe = Callable[[Any, Any, Inputs], Operation]
"""From PyTorch's module, problem and inputs to the operation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What of PyTorch's settings decides which library computes, and how."""

    precision: Precision = Precision.FP32
    cudnn: bool = True
    benchmark: bool = True
    """cuDNN tries all the plans that its heuristics and its fallback list and takes the fastest, instead of the first."""
    blas: str = "cublas"
    """Who multiplies matrices: ``cublas`` or ``cublaslt``."""
    compiled: bool = False
    """``torch.compile`` fuses what it can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """One implementation of a family's problems, and for which of them it is one."""

    name: str
    describe: Describe
    settings: Settings = Settings()
    takes: Callable[[Any], bool] = lambda _: True


def library(name: str) -> Any:
    """A library's module.

    Raises:
        BaselineUnavailableError: It is not installed.
    """
    try:
        return import_module(name)
    except ImportError as error:
        raise BaselineUnavailableError(f"{name} is not installed") from error
