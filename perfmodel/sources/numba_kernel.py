"""Kernels of Numba: compiled to PTX for a GPU that is not there, arrays taken apart into the parameters that Numba passes."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CompileError, InputError
from ..launch.argument_spec import BufferSpec, ScalarSpec
from ..launch.argument_text import parse_argument
from ..launch.argument_values import buffer_contents, scalar_value
from ..launch.arguments import Argument
from ..launch.element_type import ElementType
from .grid_barrier import with_grid_barrier
from .kernel_source import KernelSource, SourceKind
from .python_kernel import BroughtKernel, KernelWish

_KEPT_OPTIONS = ("fastmath", "opt", "forceinline", "launch_bounds")
"""Options of ``@cuda.jit`` that decide the code."""
_STATED = "stated_types"
"""Attribute of a kernel that holds its own signature, for messages."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def read(kernel_object: Any, wish: KernelWish) -> BroughtKernel:
    """A kernel of ``@numba.cuda.jit``, or one with its launch as in ``kernel[grid, block]``."""
    if type(kernel_object).__name__ == "_LaunchConfiguration":
        launch, kernel_object = kernel_object, kernel_object.dispatcher
        wish = replace(
            wish,
            grid=launch.griddim if wish.grid is None else wish.grid,
            block=launch.blockdim if wish.block is None else wish.block,
            shared_bytes=(launch.sharedmem or None) if wish.shared_bytes is None else wish.shared_bytes,
        )
    function = kernel_object.py_func
    if wish.values:
        raise InputError(
            f"defines={dict(wish.values)!r}: the Numba kernel {function.__name__} takes none; its globals are constants"
        )
    names = list(inspect.signature(function).parameters)
    if len(wish.arguments) != len(names):
        stated = getattr(kernel_object, _STATED, None) or [""] * len(names)
        listed = [f"{kind} {name}".strip() for kind, name in zip(stated, names, strict=False)]
        raise InputError(
            f"{len(wish.arguments)} arguments given, {function.__name__} takes {len(names)}: {', '.join(listed) or 'none'}"
        )
    origin = f"the Numba kernel {function.__name__}"
    grid, block = wish.required_grid(origin), wish.required_block(origin)
    values = [_value(name, argument, wish.rng) for name, argument in zip(names, wish.arguments, strict=True)]
    passed = [part for name, value in zip(names, values, strict=True) for part in _parts(name, value)]
    registers = kernel_object.targetoptions.get("max_registers")
    text = _ptx(kernel_object, values, wish.architecture)
    return BroughtKernel(
        source=KernelSource(kind=SourceKind.PTX, file_name=f"{function.__name__}.ptx", text=text),
        kernel=_entry(text),
        name=function.__name__,
        arguments=tuple(argument for _, _, argument in passed),
        parameters=tuple((name, cpp_type) for name, cpp_type, _ in passed),
        options=(*wish.options, *([f"-maxrregcount={registers}"] if registers else [])),
        grid=grid,
        block=block,
        shared_bytes=wish.shared_bytes,
    )


def _types(signature: Any) -> list[str]:
    """Types of the parameters as a signature of Numba states them; none where there are several signatures."""
    from numba.core.sigutils import normalize_signature

    try:
        types, _ = normalize_signature(signature)
    except Exception:  # Numba evaluates the text of a signature: anything can be raised; types are for messages alone
        return []
    axes = [getattr(kind, "ndim", 0) for kind in types]
    return [f"{k.dtype}[{','.join(':' * n)}]" if n else str(k) for k, n in zip(types, axes, strict=True)]


@contextmanager
def without_gpu(_: str) -> Iterator[None]:
    """Tell modules that a GPU is there; let ``@cuda.jit`` take signatures, for which Numba compiles at once, for that GPU."""
    from numba import cuda

    own, available = cuda.jit, cuda.is_available

    def jit(func_or_sig: Any = None, **keywords: Any) -> Any:
        if func_or_sig is None or inspect.isfunction(func_or_sig):
            return own(func_or_sig, **keywords)

        def compiled_later(function: Any) -> Any:
            found = own(**keywords)(function)
            vars(found)[_STATED] = _types(func_or_sig)
            return found

        return compiled_later

    cuda.jit, cuda.is_available = jit, lambda: True
    try:
        yield
    finally:
        cuda.jit, cuda.is_available = own, available


def _value(name: str, argument: Argument, rng: np.random.Generator) -> NDArray[Any] | np.generic | int | float:
    """An argument as Numba is called with it."""
    spec = parse_argument(argument) if isinstance(argument, str) else argument
    if isinstance(spec, BufferSpec):
        if spec.element is ElementType.BF16:
            raise InputError(f"argument {name}={argument!r}: Numba has no bf16 arrays; u16 holds their bits")
        elements = np.asarray(buffer_contents(spec, rng, {}))
        return elements.reshape([axis.integer({}) for axis in spec.shape]) if spec.shape else elements
    if isinstance(spec, ScalarSpec):
        found = scalar_value(spec, spec.element, {}) if spec.element else spec.value.value({})
        assert not isinstance(found, str)
        return found
    if isinstance(spec, np.ndarray | np.generic | int | float):
        return spec
    raise InputError(f"argument {name}={argument!r}: a Numba kernel takes arrays and numbers")


def _parts(name: str, value: NDArray[Any] | np.generic | int | float) -> Iterator[tuple[str, str, Argument]]:
    """Names, C++ types and values of the parameters that an argument becomes.

    An array is passed as two pointers of Numba's memory manager, which kernels do not use, the number and size of its elements,
    its address, shape and strides.
    """
    if not isinstance(value, np.ndarray):
        yield (
            name,
            "",
            value if isinstance(value, np.generic) else (np.int64 if isinstance(value, int) else np.float64)(value),
        )
        return
    yield f"{name}.meminfo", "char*", None
    yield f"{name}.parent", "char*", None
    yield f"{name}.size", "long long", np.int64(value.size)
    yield f"{name}.itemsize", "long long", np.int64(value.itemsize)
    yield name, "", value.T if value.flags.f_contiguous else np.ascontiguousarray(value)
    for axis, size in enumerate(value.shape):
        yield f"{name}.shape[{axis}]", "long long", np.int64(size)
    for axis, stride in enumerate(_contiguous(value).strides):
        yield f"{name}.strides[{axis}]", "long long", np.int64(stride)


def _contiguous(value: NDArray[Any]) -> NDArray[Any]:
    return value if value.flags.f_contiguous else np.ascontiguousarray(value)


def _ptx(kernel: Any, values: list[Any], architecture: str) -> str:
    import numba
    from numba import cuda

    types = tuple(numba.typeof(_contiguous(v) if isinstance(v, np.ndarray) else v) for v in values)
    accepted = inspect.signature(cuda.compile_ptx).parameters
    options = {k: v for k, v in kernel.targetoptions.items() if k in _KEPT_OPTIONS and k in accepted and v is not None}
    number = int(architecture.removeprefix("sm_"))
    try:
        with warnings.catch_warnings(), _asked_device(kernel, divmod(number, 10)):
            warnings.simplefilter("ignore")  # Numba's, of the performance of a launch that is not made
            text, _ = cuda.compile_ptx(kernel.py_func, types, cc=divmod(number, 10), lineinfo=True, **options)
    except Exception as error:  # typing errors, those of NVVM, and a missing library have no common base class
        lines = [line.strip() for line in _COLOURS.sub("", str(error)).splitlines() if line.strip()]
        raise CompileError(f"Numba does not compile {kernel.py_func.__name__}: {' '.join(lines[:3])}") from error
    return with_grid_barrier(text)


@contextmanager
def _asked_device(kernel: Any, compute_capability: tuple[int, int]) -> Iterator[None]:
    """Let device functions that a kernel calls be compiled: Numba asks the GPU that is there which one it is."""
    module = sys.modules[type(kernel).__module__]
    own = getattr(module, "get_current_device", None)
    if own is not None:
        vars(module)["get_current_device"] = lambda: SimpleNamespace(compute_capability=compute_capability)
    try:
        yield
    finally:
        if own is not None:
            vars(module)["get_current_device"] = own


def _entry(text: str) -> str:
    return text.partition(".entry ")[2].partition("(")[0].strip()
