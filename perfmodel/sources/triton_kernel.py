"""Kernels of Triton, and those that Torch's Inductor writes for it: compiled for a GPU that is not there."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.constants import WARP_SIZE, ceil_div
from ..errors import CompileError, InputError
from ..launch.argument_spec import BufferSpec, NullSpec, ScalarSpec
from ..launch.argument_text import parse_argument
from ..launch.arguments import Argument
from ..launch.element_type import ElementType
from .kernel_source import KernelSource, SourceKind
from .python_kernel import BroughtKernel, KernelWish, Sizes
from .user_module import AbsentType

_TYPES = {
    "fp16": "__half",
    "bf16": "__nv_bfloat16",
    "fp32": "float",
    "fp64": "double",
    "fp8e4nv": "__nv_fp8_e4m3",
    "fp8e5": "__nv_fp8_e5m2",
    "i1": "bool",
    "u1": "bool",
    "i8": "char",
    "u8": "unsigned char",
    "i16": "short",
    "u16": "unsigned short",
    "i32": "int",
    "u32": "unsigned int",
    "i64": "long long",
    "u64": "unsigned long long",
}
"""C++ types by Triton's names; others of 8-bit floating-point numbers are bytes."""
_DTYPES = {
    ElementType.F8E4M3: "float8_e4m3fn",
    ElementType.F8E5M2: "float8_e5m2",
    ElementType.F16: "float16",
    ElementType.BF16: "bfloat16",
    ElementType.F32: "float32",
    ElementType.F64: "float64",
}
_LANGUAGE = re.compile(r"(?:tl|triton\.language)\.(\w+)")
_OPTIONS = "num_warps, num_stages, num_ctas, maxnreg"
_GRIDS = {"Grid1D": "X", "Grid2D": "XY", "Grid3D": "XYZ"}
_THREADS = re.compile(r"^\.(?:reqntid|maxntid) (\d+)", re.MULTILINE)


def read(kernel_object: Any, wish: KernelWish) -> BroughtKernel:
    """A decorated function compiled for the wish's architecture, or what is compiled already."""
    for name, given in (("options", wish.options), ("block", wish.block), ("shared_bytes", wish.shared_bytes)):
        if given:
            raise InputError(
                f"{name}={given!r} is not accepted: Triton chooses it; give num_warps and the like as defines"
            )
    if type(kernel_object).__name__ == "CompiledKernel":
        grid = wish.required_grid(f"the compiled {kernel_object.name}")
        return _brought(kernel_object, _in_order(kernel_object, wish), grid, wish.values, wish.architecture)
    *decorators, function = _layers(kernel_object)
    values = _values(kernel_object, function, wish)
    named = _named(function, decorators, values, wish)
    chosen = _asked("grid", wish.grid, named) if callable(wish.grid) else wish.grid
    sizes = _grid_of_inductor(kernel_object, named) if chosen is None else chosen
    return _brought(_compiled(function, named, values, wish), named, sizes, values, wish.architecture)


def _layers(kernel: Any) -> list[Any]:
    """What the decorators made of a function, the outermost first, and what ``@triton.jit`` made last."""
    layers = [kernel]
    while not (hasattr(layers[-1], "arg_names") and hasattr(layers[-1], "params")):
        layers.append(layers[-1].fn)
    return layers


def _values(kernel: Any, function: Any, wish: KernelWish) -> dict[str, Any]:
    """The compile-time values of the wish, or of the only configuration of ``@triton.autotune``."""
    values = {name: _literal(value) for name, value in wish.values.items()}
    configurations = configurations_of(kernel)
    if len(configurations) == 1:
        return values_of(configurations[0]) | values
    if configurations and not set(configurations[0].kwargs) <= set(values):
        raise InputError(
            f"{function.__name__} has {len(configurations)} configurations: choose one by --define (defines in Python), as in "
            f"{', '.join(f'{name}={value}' for name, value in values_of(configurations[0]).items())}, or rank all with "
            "pm.rank_configurations"
        )
    return values


def jit_function(kernel: Any) -> Any:
    """What ``@triton.jit`` made of a function, under whatever other decorators it has."""
    return _layers(kernel)[-1]


def configurations_of(kernel: Any) -> list[Any]:
    """The configurations of ``@triton.autotune``; none where a kernel has no such decorator."""
    layers = _layers(kernel) if hasattr(kernel, "fn") else []
    return [one for layer in layers for one in getattr(layer, "configs", None) or ()]


def values_of(configuration: Any) -> dict[str, Any]:
    """The compile-time values of a ``triton.Config``, as ``analyze`` takes them."""
    options = {name: getattr(configuration, name, None) for name in ("num_warps", "num_stages", "num_ctas", "maxnreg")}
    return dict(configuration.kwargs) | {name: value for name, value in options.items() if value is not None}


def _literal(value: Any) -> Any:
    """A value of the command line as Python has it; ``tl.float16`` is Triton's."""
    if not isinstance(value, str):
        return value
    of_triton = _LANGUAGE.fullmatch(value)
    if of_triton is not None:
        import triton.language

        return getattr(triton.language, of_triton[1], value)
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value


def _named(function: Any, decorators: Sequence[Any], values: Mapping[str, Any], wish: KernelWish) -> dict[str, Any]:
    """Arguments, compile-time values and defaults by the names of the function's parameters, in their order."""
    computed = {
        name: rule
        for layer in decorators
        for name, rule in (getattr(layer, "values", None) or {}).items()  # of @triton.heuristics
        if name not in values
    }
    open_names = [name for name in function.arg_names if name not in values and name not in computed]
    if len(wish.arguments) > len(open_names):
        listed = ", ".join(open_names) or "none"
        raise InputError(
            f"{len(wish.arguments)} arguments given, {function.__name__} takes {len(open_names)}: {listed}"
        )
    given = dict(zip(open_names, map(_plain, wish.arguments), strict=False)) | dict(values)
    given |= {p.name: p.default for p in function.params if p.has_default and p.name not in given}
    absent = [p for p in function.params if p.name in open_names and p.name not in given]
    if any(not p.is_constexpr for p in absent):
        taken = [p.name for p in function.params if p.name in open_names and not p.is_constexpr]
        constants = [p.name for p in absent if p.is_constexpr]
        defined = f"; by --define (defines in Python): {', '.join(constants)}" if constants else ""
        raise InputError(
            f"{len(wish.arguments)} arguments given, {function.__name__} takes {len(taken)}: {', '.join(taken)}{defined}"
        )
    for name, rule in computed.items():
        given[name] = _asked(f"the heuristic of {name}", rule, given)
    missing = [p for p in function.params if p.name not in given]
    if missing and missing[0].is_constexpr:
        raise InputError(
            f"constexpr {missing[0].name} of {function.__name__} has no value: give defines={{{missing[0].name!r}: ...}} "
            f"(--define {missing[0].name}=...)"
        )
    return {name: given[name] for name in function.arg_names}


def _asked(what: str, function: Callable[[Mapping[str, Any]], Any], named: Mapping[str, Any]) -> Any:
    """What a user's function says; buffers that are given as specs are texts to it."""
    try:
        return function(named)
    except Exception as error:  # whatever it raises
        raise InputError(f"{what} fails: {type(error).__name__}: {error}") from error


def _plain(argument: Argument) -> Any:
    """Scalars as Python numbers, a null pointer as None; buffers stay as they are."""
    spec = parse_argument(argument) if isinstance(argument, str) else argument
    if isinstance(spec, NullSpec):
        return None
    if isinstance(spec, ScalarSpec):
        return spec.value.value({})
    if isinstance(spec, np.generic):
        return spec.item()
    if spec is None or isinstance(spec, BufferSpec | np.ndarray | int | float):
        return argument
    raise InputError(f"argument {argument!r}: a Triton kernel takes buffers, numbers and null")


@dataclass(frozen=True)
class _Pointer:
    """What Triton looks at of a tensor: the type of its elements, and an aligned address within 32 bits of range."""

    dtype: str

    def data_ptr(self) -> int:
        return 0

    def ptr_range(self) -> int:
        return 0


def _seen(value: Any) -> Any:
    """An argument as Triton's specialisation sees it."""
    if isinstance(value, np.ndarray):
        return _Pointer(str(value.dtype))
    if isinstance(value, str):
        spec = parse_argument(value)
        assert isinstance(spec, BufferSpec)
        return _Pointer(_DTYPES.get(spec.element) or str(spec.element.dtype))
    return value


class _AbsentGpu:
    """Triton's view of a GPU that is not there; each architecture is a device of its own in Triton's caches."""

    def __init__(self, architecture: str) -> None:
        self.architecture = architecture

    def get_current_target(self) -> Any:
        from triton.backends.compiler import GPUTarget

        return GPUTarget("cuda", int(self.architecture.removeprefix("sm_")), WARP_SIZE)

    def get_current_device(self) -> str:
        return f"{self.architecture} without a GPU"

    def get_current_stream(self, device: object) -> int:
        return 0


class _AskedGpu(_AbsentGpu):
    """What scripts ask of a GPU when they are imported."""

    def __getattr__(self, name: str) -> Any:
        return getattr(AbsentType("gpu", (), {}), name)


def without_gpu(architecture: str) -> AbstractContextManager[None]:
    """Let a script be imported that asks Triton which GPU there is."""
    return _active(_AskedGpu(architecture))


@contextmanager
def _active(gpu: _AbsentGpu) -> Iterator[None]:
    """Let Triton compile for a GPU, and give it its own driver back."""
    from triton.runtime import driver

    before = vars(driver).get("_active", vars(driver).get("active"))
    driver.set_active(gpu)
    try:
        with warnings.catch_warnings(), _old_names():
            warnings.simplefilter("ignore")  # Triton's own, of coming changes
            yield
    finally:
        driver.set_active(before)


@contextmanager
def _old_names() -> Iterator[None]:
    """Let scripts for Triton 2 find the functions of libdevice in ``tl.math`` and ``tl.libdevice``, where they were then."""
    import triton.language as language
    from triton.language.extra.cuda import libdevice

    moved = {name: value for name, value in vars(libdevice).items() if not name.startswith("_")}
    added = [(language, "libdevice", libdevice), *((language.math, name, value) for name, value in moved.items())]
    added = [(module, name, value) for module, name, value in added if not hasattr(module, name)]
    for module, name, value in added:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, _ in added:
            delattr(module, name)


def _compiled(function: Any, named: Mapping[str, Any], values: Mapping[str, Any], wish: KernelWish) -> Any:
    """What Triton makes of the arguments: it looks at types, at multiples of 16 and at ones."""
    constant = {p.name for p in function.params if p.is_constexpr}
    keywords = {name: value if name in constant else _seen(value) for name, value in named.items()}
    keywords |= {name: value for name, value in values.items() if name not in named}
    try:
        with _active(_AbsentGpu(wish.architecture)):
            return function.warmup(grid=(1,), **keywords)
    except KeyError as error:
        names = ", ".join(function.arg_names)
        raise InputError(
            f"{error.args[0]}: it is neither a parameter of {function.__name__} ({names}) nor an option of Triton ({_OPTIONS})"
        ) from error
    except (
        Exception
    ) as error:  # Triton's errors have no base class, and what a user's constexpr function raises may be any
        raise CompileError(f"Triton does not compile {function.__name__}: {_said(str(error), function)}") from error


_OTHER_VERSION = re.compile(r"has no attribute|have been removed|no longer|unexpected keyword argument|is deprecated")
"""What Triton says of something that another of its versions has."""
_PLACE = re.compile(r"\bat (\d+):\d+:")


def _said(text: str, function: Any) -> str:
    """Triton's error in one line, with the line of the file, and what to do about one of another version."""
    import triton

    code = function.fn.__code__
    start = code.co_firstlineno + _lines_before(function)
    said = _PLACE.sub(lambda m: f"{Path(code.co_filename).name}:{start + int(m[1]) - 1}:", _one_line(text))
    if not _OTHER_VERSION.search(text):
        return said
    return f"{said}; Triton {triton.__version__} is installed: install the version that the kernel was written for"


def _lines_before(function: Any) -> int:
    """Lines of decorators above a function's ``def``."""
    try:
        lines, _ = inspect.getsourcelines(function.fn)
    except OSError:
        return 0
    return next((n for n, line in enumerate(lines) if re.match(r"\s*(?:async\s+)?def\b", line)), 0)


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip(" ^\t")]
    return (
        lines[0]
        if len(lines) == 1
        else f"{lines[-1]} ({' '.join(lines[:1])} {lines[-2]})"
        if lines
        else "no reason given"
    )


def _signature(compiled: Any) -> list[tuple[str, str]]:
    """Names and Triton types of the parameters that are left in the compiled code."""
    signature = compiled.src.signature
    for name, kind in signature.items():
        if not isinstance(kind, str) or kind.startswith(("tensordesc", "nvTmaDesc")):
            raise InputError(
                f"parameter {name} of {compiled.name} is a {kind}: tuples and tensor descriptors are not executed"
            )
    return [(str(name), kind) for name, kind in signature.items() if kind != "constexpr"]


def _in_order(compiled: Any, wish: KernelWish) -> dict[str, Any]:
    """The arguments of a compiled kernel by name; those that its constexprs stand for may be given or left out."""
    names = [name for name, _ in _signature(compiled)]
    every = list(compiled.src.signature)
    if len(wish.arguments) == len(every):
        names = [str(name) for name in every]
    if len(wish.arguments) != len(names):
        raise InputError(
            f"{len(wish.arguments)} arguments given, {compiled.name} takes {len(names)}: {', '.join(names) or 'none'}"
        )
    return dict(zip(names, map(_plain, wish.arguments), strict=True))


def _cpp_type(kind: str) -> str:
    """The C++ type of a Triton type such as ``*fp32``.

    >>> _cpp_type("*kfp32"), _cpp_type("i32"), _cpp_type("*fp8e4b15")
    ('const float*', 'int', 'unsigned char*')
    """
    if not kind.startswith("*"):
        return _TYPES.get(kind, "")
    constant = "const " if kind.startswith("*k") else ""
    return f"{constant}{_TYPES.get(kind.removeprefix('*').removeprefix('k'), 'unsigned char')}*"


def _brought(
    compiled: Any, named: Mapping[str, Any], grid: Sizes | None, values: Mapping[str, Any], architecture: str
) -> BroughtKernel:
    """Machine code, launch and arguments of a compiled kernel, with the hidden parameters that Triton adds."""
    metadata, text = compiled.metadata, compiled.asm["ptx"]
    if grid is None:
        raise InputError(f"grid is missing: {compiled.name} does not state how many blocks are launched")
    if metadata.num_ctas > 1:
        raise InputError(f"{compiled.name} has num_ctas={metadata.num_ctas}: clusters of blocks are not executed")
    threads = _THREADS.search(text)
    signature = _signature(compiled)
    scratch = getattr(metadata, "global_scratch_size", 0) * int(np.prod(grid))
    hidden: list[tuple[str, Argument]] = [
        ("global_scratch", np.zeros(scratch, np.uint8) if scratch else None),
        ("profile_scratch", None),
    ]
    stated = re.search(rf"\.entry {re.escape(compiled.name)}\(([^)]*)\)", text)
    added = hidden[: (stated[1].count(".param") if stated else 0) - len(signature)]
    return BroughtKernel(
        source=_served(compiled, architecture),
        kernel=compiled.name,
        name=compiled.name,
        arguments=(*(named[name] for name, _ in signature), *(argument for _, argument in added)),
        parameters=(*((name, _cpp_type(kind)) for name, kind in signature), *((name, "char*") for name, _ in added)),
        values={name: value if isinstance(value, str | int) else str(value) for name, value in values.items()},
        grid=grid,
        block=int(threads[1]) if threads else metadata.num_warps * WARP_SIZE,
        shared_bytes=metadata.shared,
    )


def _served(compiled: Any, architecture: str) -> KernelSource:
    """The machine code that Triton's assembler made for this architecture; PTX where the kernel is compiled for another one."""
    own = f"sm_{compiled.metadata.target.arch}"
    if own == architecture:
        content = compiled.asm["cubin"]
        return KernelSource(kind=SourceKind.BINARY, file_name=f"{compiled.name}.cubin", text="", content=content)
    text = compiled.asm["ptx"]
    if re.search(r"^\.target sm_\d+[af]", text, re.MULTILINE):
        raise InputError(
            f"{compiled.name} is compiled for {own} alone, not for {architecture}: pass the @triton.jit function"
        )
    return KernelSource(kind=SourceKind.PTX, file_name=f"{compiled.name}.ptx", text=text)


def _grid_of_inductor(kernel: Any, named: Mapping[str, Any]) -> Sizes | None:
    """The blocks that Inductor launches: of each axis so many that they hold its elements; None where it does not say."""
    axes = _GRIDS.get((getattr(kernel, "inductor_meta", None) or {}).get("grid_type", ""), "")
    sizes = [(named.get(f"{axis.lower()}numel"), named.get(f"{axis}BLOCK")) for axis in axes]
    if not sizes or not all(isinstance(numel, int) and isinstance(block, int) for numel, block in sizes):
        return None
    return [int(ceil_div(numel, block)) for numel, block in sizes]
