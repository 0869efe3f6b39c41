"""Kernels in Python files: the file is run without a GPU, but for what Torch's Inductor wrote, which is read without Torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from ..errors import InputError
from .includes import read_text
from .inductor import inductor_kernel
from .python_kernel import is_kernel
from .user_module import UserModule, user_module


def kernel_of_file(path: Path, name: str | None, architecture: str) -> tuple[object, str | None, str]:
    """The kernel object of a name in a Python file of the user's, which of its kernels is meant, and what users should know.

    An object that may hold several kernels (CuPy's RawModule, cuda.core's ObjectCode) is named with one of them, as in
    ``module.scale``; of other objects the second is None. Raw kernels that a function of the file makes are found, too, if
    their source is known without running it.

    Raises:
        InputError: the file is no Python, or has no such kernel; the message lists those it has, and what failed.
    """
    text = read_text(path)
    if "torch._inductor" in text:
        return inductor_kernel(text, str(path), name), None, ""
    module = user_module(path, text, architecture)
    kernels = {key: value for key, value in module.names.items() if is_kernel(value) and not _for_devices(value)}
    kernels |= {key: value for key, value in _made_in_functions(module) if key not in kernels}
    if name is None and len(kernels) == 1:
        return next(iter(kernels.values())), None, module.note
    holder, _, inner = (name or "").partition(".")
    if holder not in kernels:
        wanted = "kernel is missing" if name is None else f"{path.name} has no kernel {name!r}"
        raise InputError(f"{wanted}; kernels of {path.name}: {', '.join(kernels) or 'none'}{module.reason}")
    return kernels[holder], inner or None, module.note


def _for_devices(value: object) -> bool:
    """Whether only kernels can call a function: Numba's ``@cuda.jit(device=True)``."""
    options = getattr(value, "targetoptions", None)
    return isinstance(options, dict) and bool(options.get("device"))


def _made_in_functions(module: UserModule) -> Iterator[tuple[str, object]]:
    """Raw kernels that functions make, by the kernel's name, or by that of the variable where there may be several."""
    functions = [node for node in module.tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.If)]
    for node in (node for function in functions for node in ast.walk(function)):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        called = node.value.func
        if (called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")) not in _RAW:
            continue
        call = ast.copy_location(
            ast.Call(called, node.value.args, [k for k in node.value.keywords if k.arg in _SOURCE]), called
        )
        try:
            found = eval(compile(ast.Expression(call), str(module.path), "eval"), dict(module.names))
        except Exception:  # whatever the user's expression raises: what it needs is known when the function runs
            continue
        if is_kernel(found):
            yield getattr(found, "name", None) or ast.unparse(node.targets[0]), found


_SOURCE = ("code", "path", "name", "options")
"""Their arguments that say what is compiled."""
_RAW = ("RawKernel", "RawModule")
"""Classes whose objects hold the source of a kernel."""
