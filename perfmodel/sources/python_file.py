"""Kernels in Python files: the file is run without a GPU, but for what Torch's Inductor wrote, which is read without Torch."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.choices import one_of
from ..errors import InputError
from ..launch.element_type import ElementType
from .includes import read_text
from .inductor import inductor_kernel
from .made_kernels import holder_of, made_kernels
from .python_kernel import is_kernel
from .user_module import UserModule, user_module

_ARRAY = re.compile(r"(\w+)\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]")
"""An array of a type and extents."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundKernel:
    """A kernel object of a Python file; ``note`` is what users should know.

    ``kernel`` is which of its kernels is meant, None where it has one. ``used`` are the values that went to parameters of the
    functions that make it, and not to its compiler.
    """

    kernel_object: object
    kernel: str | None = None
    note: str = ""
    used: frozenset[str] = frozenset()


def kernel_of_file(
    path: Path, name: str | None, architecture: str, values: Mapping[str, str | int] | None = None
) -> FoundKernel:
    """The kernel of a name in a Python file of the user's.

    An object that may hold several kernels (CuPy's RawModule, cuda.core's ObjectCode) is named with one of them, as in
    ``module.scale``, or by the kernel's name alone where one object has it; of other objects the second is None. Kernels that
    functions of the file make are found, too; where arguments of these functions decide what is compiled, ``values`` gives them:
    numbers and texts as Python writes them, and arrays as ``f32[64,64]``, of which only the shape and type are known.

    Raises:
        InputError: the file is no Python, or has no such kernel; the message lists those it has, and what failed.
    """
    text = read_text(path)
    if "torch._inductor" in text:
        return FoundKernel(kernel_object=inductor_kernel(text, str(path), name))
    given = {key: _python_value(value) for key, value in (values or {}).items()}
    module = user_module(path, text, architecture, given)
    kernels = {key: value for key, value in module.names.items() if is_kernel(value) and not _for_devices(value)}
    kernels |= _of_classes(module)
    holder, _, inner = (name or "").partition(".")
    if name in kernels or holder in kernels:
        kernel = None if name in kernels else inner or None
        return FoundKernel(kernel_object=kernels[name if name in kernels else holder], kernel=kernel, note=module.note)
    made = made_kernels(module)

    def found(key: str, kernel: str | None) -> FoundKernel:
        used = made.parameters.get(key, frozenset()) & given.keys()
        return FoundKernel(kernel_object=kernels[key], kernel=kernel, note=module.note, used=used)

    kernels |= {key: value for key, value in made.kernels.items() if key not in kernels}
    called = _called_by_others(kernels)
    launched = {key: value for key, value in kernels.items() if key not in called}
    if name is None and len(launched) == 1:
        return found(next(iter(launched)), None)
    if holder in kernels:
        return found(holder, inner or None)
    whose = holder_of(kernels, name) if name else None
    if whose is not None:
        return found(whose, name)
    wanted = "kernel is missing" if name is None else f"{path.name} has no kernel {name!r}"
    reasons = "; ".join(
        filter(None, (made.reason, module.reason, "" if launched or made.reason else _text_of_a_kernel(module)))
    )
    reason = f" ({reasons})" if reasons else ""
    raise InputError(f"{wanted}; kernels of {path.name}: {', '.join(launched) or 'none'}{reason}")


def _python_value(value: str | int) -> object:
    """A value as Python writes it, an array of a shape and type, or else the text."""
    text = str(value).strip()
    array = _ARRAY.fullmatch(text)
    if array is not None:
        return np.zeros(
            [int(extent) for extent in array[2].split(",")], one_of(ElementType, "--define", array[1]).dtype
        )
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _text_of_a_kernel(module: UserModule) -> str:
    """What to do about CUDA C++ that the file only holds as a text; empty where there is none."""
    constants = (node for node in ast.walk(module.tree) if isinstance(node, ast.Constant))
    line = next((one.lineno for one in constants if isinstance(one.value, str) and "__global__" in one.value), None)
    return (
        ""
        if line is None
        else f"line {line}: the text is compiled elsewhere: save what the program compiles as a .cu file"
    )


def _of_classes(module: UserModule) -> dict[str, object]:
    """Kernels that are attributes of a file's own classes, by the names of both."""
    own = {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}
    classes = [(name, value) for name, value in module.names.items() if name in own and isinstance(value, type)]
    found = {f"{name}.{key}": getattr(one, key, None) for name, one in classes for key in vars(one)}
    return {name: value for name, value in found.items() if is_kernel(value)}


def _called_by_others(kernels: Mapping[str, object]) -> set[str]:
    """Names of Triton functions that others call, or that give back a value: they are no kernels."""
    trees = {}
    for name, value in kernels.items():
        if hasattr(function := _innermost(value), "arg_names") and hasattr(function, "src"):
            trees[name] = ast.parse(textwrap.dedent(function.src))
    found = {
        name
        for name, tree in trees.items()
        if any(isinstance(node, ast.Return) and node.value is not None for node in ast.walk(tree))
    }
    for name, tree in trees.items():
        called = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        found |= {other for other in trees if other in called and other != name}
    return found


def _innermost(value: object) -> object:
    """What is under the decorators of a Triton kernel."""
    while not hasattr(value, "arg_names") and hasattr(value, "fn"):
        value = value.fn
    return value


def _for_devices(value: object) -> bool:
    """Whether only kernels can call a function: Numba's ``@cuda.jit(device=True)``."""
    options = getattr(value, "targetoptions", None)
    return isinstance(options, dict) and bool(options.get("device"))
