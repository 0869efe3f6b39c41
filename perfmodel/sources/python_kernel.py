"""Kernels that a user brings as objects of Python libraries: what is asked of such an object, and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from ..errors import InputError
from ..launch.arguments import Argument
from .kernel_source import KernelSource

Sizes = int | Sequence[int]
Grid = Sizes | Callable[[Mapping[str, Any]], Sizes]
"""Blocks along x, y, z; for a Triton kernel also a function of its arguments and compile-time values by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelWish:
    """What a user says about a launch; None where nothing is said.

    ``architecture`` is that of the GPU (``sm_90``), ``values`` are compile-time values: macros, or constexprs and options of
    Triton. ``rng`` draws the contents of buffers.
    """

    architecture: str
    kernel: str | None
    arguments: tuple[Argument, ...]
    values: Mapping[str, str | int]
    options: tuple[str, ...]
    grid: Grid | None
    block: Sizes | None
    shared_bytes: int | None
    rng: np.random.Generator

    def required_block(self, origin: str) -> Sizes:
        """The block where ``origin`` does not state it."""
        if self.block is None:
            raise InputError(
                f"block is missing: {origin} does not state how many threads a block has; give --block (block in Python)"
            )
        return self.block

    def required_grid(self, origin: str) -> Sizes:
        """The grid where ``origin`` does not state it."""
        if self.grid is None or callable(self.grid):
            reason = "is a function, which only Triton kernels take" if self.grid else "is missing"
            raise InputError(
                f"grid {reason}: give the numbers of blocks that {origin} is launched with by --grid (grid in Python)"
            )
        return self.grid

    def brought(
        self, source: KernelSource, kernel: str, origin: str, *, name: str = "", options: Sequence[str] = ()
    ) -> BroughtKernel:
        """A kernel whose launch only the user knows.

        ``origin`` is what lacks a grid or a block, for the messages, ``name`` what results call the kernel, as the code where it
        is empty; ``options`` are those of the object, before the user's.
        """
        return BroughtKernel(
            source=source,
            kernel=kernel,
            name=name or kernel,
            arguments=self.arguments,
            values=self.values,
            options=(*options, *self.options),
            grid=self.required_grid(origin),
            block=self.required_block(origin),
            shared_bytes=self.shared_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BroughtKernel:
    """A kernel, and everything of its launch that is known.

    ``kernel`` is its name in the code, ``name`` what results call it. ``arguments`` stand in the order of the compiled code's
    parameters; ``parameters`` are their names and C++ types where the object states them.
    """

    source: KernelSource
    kernel: str
    name: str
    arguments: tuple[Argument, ...]
    grid: Sizes
    block: Sizes
    shared_bytes: int | None
    parameters: tuple[tuple[str, str], ...] = ()
    values: Mapping[str, str | int] = field(default_factory=dict)
    options: tuple[str, ...] = ()


NAME_ONE = "give the name of one as kernel= (of an object in a file by --kernel OBJECT.NAME)"
"""What to do about an object that may hold several kernels."""

_READERS = {
    ("triton", "JITFunction"): "triton_kernel",
    ("triton", "Autotuner"): "triton_kernel",
    ("triton", "Heuristics"): "triton_kernel",
    ("triton", "KernelInterface"): "triton_kernel",
    ("triton", "CompiledKernel"): "triton_kernel",
    ("torch", "CachingAutotuner"): "triton_kernel",
    ("torch", "DebugAutotuner"): "triton_kernel",
    ("perfmodel", "InductorKernel"): "triton_kernel",
    ("perfmodel", "CudaText"): "cuda_text",
    ("numba", "CUDADispatcher"): "numba_kernel",
    ("numba", "_LaunchConfiguration"): "numba_kernel",
    ("cupy", "RawKernel"): "cupy_kernel",
    ("cupy", "RawModule"): "cupy_kernel",
    ("cuda", "ObjectCode"): "cuda_core_kernel",
}
"""By the package and name of an object's type, the module here that reads it: no library is imported to recognise it."""

_ACCEPTED = (
    "the path of a file, the source itself, a Triton kernel (@triton.jit), a Numba kernel (@numba.cuda.jit), a CuPy RawKernel or "
    "RawModule, or a cuda.core ObjectCode"
)


def brought_by(kernel_object: object, wish: KernelWish) -> BroughtKernel:
    """The kernel of an object of Triton, Numba, CuPy or cuda.core.

    Raises:
        InputError: the object is none of these, or the wish does not fit it.

    >>> from dataclasses import dataclass
    >>> brought_by(object(), None)
    Traceback (most recent call last):
    perfmodel.errors.InputError: source of type object is no kernel; accepted are ...
    """
    name = _reader(kernel_object)
    if name is not None:
        found: BroughtKernel = import_module(f".{name}", __package__).read(kernel_object, wish)
        return found
    kind = type(kernel_object)
    hint = ""
    if callable(kernel_object) and kind.__name__ == "function":
        hint = "; a Python function becomes a kernel by @triton.jit or @numba.cuda.jit"
    elif (kind.__module__.partition(".")[0], kind.__name__) == ("cuda", "Kernel"):
        hint = "; pass the ObjectCode that it comes from, and its name as kernel="
    raise InputError(f"source of type {kind.__name__} is no kernel; accepted are {_ACCEPTED}{hint}")


def is_kernel(value: object) -> bool:
    """Whether `brought_by` takes it."""
    return _reader(value) is not None


def _reader(value: object) -> str | None:
    keys = [(base.__module__.partition(".")[0], base.__name__) for base in type(value).__mro__]
    return next((_READERS[key] for key in keys if key in _READERS), None)
