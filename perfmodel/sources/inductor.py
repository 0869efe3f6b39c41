"""Triton kernels that Torch's Inductor wrote: its decorators are read, and Torch itself is not needed.

Inductor keeps a kernel as a file of its own, and as a text in the file of a whole graph (``output_code.py``), where it is an
argument of ``async_compile.triton``.
"""

from __future__ import annotations

import ast
import builtins
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..errors import InputError

_HELPERS = "torch._inductor.runtime.triton_helpers"


@dataclass(frozen=True, slots=True, kw_only=True)
class InductorKernel:
    """A function with ``@triton.jit``, and what Inductor says of its launch (``grid_type`` …)."""

    fn: Any
    inductor_meta: Mapping[str, Any] = field(default_factory=dict)


def inductor_kernel(text: str, origin: str, name: str | None) -> InductorKernel:
    """The kernel of a name in a file that Inductor wrote; its code is executed as far as it defines the kernel.

    Raises:
        InputError: the file has no such kernel.
    """
    try:
        found = dict(_kernels(ast.parse(text), text))
    except SyntaxError as error:
        raise InputError(f"{origin} line {error.lineno}: {error.msg}") from error
    name = next(iter(found)) if name is None and len(found) == 1 else name
    if name not in found:
        wanted = "kernel is missing" if name is None else f"{origin} has no kernel {name!r}"
        raise InputError(f"{wanted}; its kernels: {', '.join(found) or 'none'}")
    function, code = found[name]
    file = origin if code is text else f"{origin}:{name}"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # where Triton reads the function
    names: dict[str, Any] = {
        "__name__": name,
        "__file__": file,
        "__builtins__": vars(builtins) | {"__import__": _import},
    }
    exec(compile(code, file, "exec"), names)
    kernel: InductorKernel = names[function]
    return kernel


def _kernels(tree: ast.Module, text: str) -> Iterator[tuple[str, tuple[str, str]]]:
    """Kernels by name: the name of the function, and the text of the module that defines it."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and any("triton.jit" in ast.unparse(d) for d in node.decorator_list):
            yield node.name, (node.name, text)
    for call in ast.walk(tree):
        if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "triton"):
            continue
        texts = [a.value for a in call.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if len(texts) == 2:
            for function, (_, code) in _kernels(ast.parse(texts[1]), texts[1]):
                yield texts[0], (function, code)


def _import(
    name: str,
    global_names: Mapping[str, Any] | None = None,
    local_names: Mapping[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """``__import__`` with a stand-in for Torch, and for what another version of Triton had."""
    found: Any
    if name.partition(".")[0] != "torch":
        try:
            found = builtins.__import__(name, global_names, local_names, fromlist or (), level)
        except ModuleNotFoundError:
            if not name.startswith("triton."):
                raise
            return _StandIn()
        for wanted in fromlist or () if name.startswith("triton.") else ():
            if not hasattr(found, wanted) and not hasattr(found, "__path__"):
                found = _WithStandIns(found)
        return found
    found = _StandIn()
    for part in name.split(".")[1:] if fromlist else ():
        found = getattr(found, part)
    return found


class _StandIn:
    """A module, function or class of Torch that says nothing about a kernel's code."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "triton_heuristics":
            return _Heuristics()
        return _helpers() if name == "triton_helpers" else _StandIn()

    def __call__(self, *arguments: object, **keywords: object) -> _StandIn:
        return _StandIn()


class _WithStandIns(ModuleType):
    """A module of Triton, with stand-ins for what it has no longer: descriptions of arguments, which are worked out anew."""

    def __init__(self, module: ModuleType) -> None:
        super().__init__(module.__name__)
        vars(self).update({"_module": module})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(vars(self)["_module"], name, None) or _StandIn()


class _Heuristics(_StandIn):
    """The decorators above ``@triton.jit``: ``pointwise``, ``reduction``, ``persistent_reduction``, ``template`` and others."""

    def __getattr__(self, name: str) -> Any:
        def decorator(**keywords: Any) -> Callable[[Any], InductorKernel]:
            axes = len(keywords.get("size_hints") or ()) - ("reduction" in name)
            meta = {"grid_type": f"Grid{axes}D"} | dict(keywords.get("inductor_meta") or {})
            return lambda function: InductorKernel(fn=function, inductor_meta=meta)

        return decorator


def _helpers() -> ModuleType:
    """Device functions that generated kernels call: Torch's own where it is installed."""
    own = import_module(_HELPERS) if find_spec("torch") else import_module(".inductor_helpers", __package__)
    module = ModuleType("triton_helpers")
    vars(module).update({name: value for name, value in vars(own).items() if not name.startswith("__")})
    vars(module)["set_driver_to_gpu"] = lambda: None
    return module
