"""Kernels that functions of a Python file make: what they need of the function is run, and nothing else of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .cuda_text import CudaText
from .python_kernel import is_kernel
from .user_module import UserModule

_SOURCE = ("code", "path", "name", "options")
"""Arguments of CuPy's classes that say what is compiled."""
_RAW = ("RawKernel", "RawModule")
"""CuPy's classes whose objects hold the source of a kernel."""
_TEXTS = {"Program": "code", "SourceModule": "source", "load_inline": "cuda_sources"}
"""What takes CUDA C++ as a text, and the argument that is the text: cuda.core, PyCUDA, Torch."""
_POSITIONS = {"Program": 0, "SourceModule": 0, "load_inline": 2}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Import, ast.ImportFrom, ast.FunctionDef)
"""Statements that give names a value."""


@dataclass(frozen=True, slots=True)
class MadeKernels:
    """Kernels by name, and by line why others are not known before the file's own code runs."""

    kernels: Mapping[str, object]
    unknown: tuple[tuple[int, str, tuple[str, ...]], ...]
    """Line, error, and parameters of the functions around it that have no value."""
    parameters: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of the functions that a kernel is made in."""

    @property
    def reason(self) -> str:
        """Why a kernel may be missing; empty where all are known."""
        if not self.unknown:
            return ""
        line, text, parameters = self.unknown[0]
        more = f" (and {len(self.unknown) - 1} more)" if len(self.unknown) > 1 else ""
        given = f"give {', '.join(parameters)} by --define NAME=VALUE, or " if parameters else ""
        return (
            f"line {line}{more}: what is compiled is known only when its function runs ({text}): "
            f"{given}write it to a .cu file"
        )


def made_kernels(module: UserModule) -> MadeKernels:
    """Kernels that are made inside functions, classes and branches of a file, or of a text at its top.

    A raw kernel has its own name; a module that may hold several, and a text, that of the variable or else of the function.
    Parameters of these functions have the values of `UserModule.given`, else their defaults.
    """
    found: dict[str, object] = {}
    unknown: list[tuple[int, str, tuple[str, ...]]] = []
    parameters: dict[str, frozenset[str]] = {}
    for node, around in _within(module.tree.body, ()):
        if (
            isinstance(node, ast.FunctionDef)
            and around
            and any("jit" in ast.unparse(one) for one in node.decorator_list)
        ):
            value = _value(node, around, module)
            if isinstance(value, Exception):
                unknown.append((node.lineno, _said(value), _without_value(around, module)))
            elif is_kernel(value):
                found.setdefault(node.name, value)
        elif isinstance(node, ast.Call) and (call := _source_call(node)) is not None:
            if not around and _called(node) in _RAW:
                continue  # the module has the object
            value = _value(call, around, module)
            if isinstance(value, Exception):
                unknown.append((node.lineno, _said(value), _without_value(around, module)))
            elif is_kernel(made := _as_kernel(node, value)):
                name = getattr(made, "name", None) or _variable(node, around, module.tree)
                found.setdefault(name, made)
                parameters.setdefault(name, frozenset(one.arg for function in around for one in _parameters(function)))
    return MadeKernels(found, tuple(unknown), parameters)


def _parameters(function: ast.AST) -> list[ast.arg]:
    """Of a function, but for the object that a method is of."""
    assert isinstance(function, _FUNCTIONS)
    named = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [one for one in named if one.arg not in ("self", "cls")]


def _without_value(around: Sequence[ast.AST], module: UserModule) -> tuple[str, ...]:
    """Parameters of functions that have neither a default nor a value that is given."""
    found: list[str] = []
    for function in around:
        assert isinstance(function, _FUNCTIONS)
        arguments = function.args
        positional = [*arguments.posonlyargs, *arguments.args]
        without = positional[: len(positional) - len(arguments.defaults)]
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        without += [name for name, value in pairs if value is None]
        found += [one.arg for one in _parameters(function) if one in without and one.arg not in module.given]
    return tuple(dict.fromkeys(found))


def holder_of(kernels: Mapping[str, object], kernel: str) -> str | None:
    """The name of the one object whose source has a kernel of this name; None where none or several have."""
    stem = re.sub(r"<.*", "", kernel).rpartition("::")[2]
    word = re.compile(rf"__global__[^;{{}}()]*(?:\([^;{{}}()]*\)[^;{{}}()]*)?\b{re.escape(stem)}\s*\(")
    codes = {name: str(getattr(value, "code", None) or "") for name, value in kernels.items()}
    found = {name: code for name, code in codes.items() if word.search(code)}
    return next(iter(found)) if len(set(found.values())) == 1 else None


def _within(nodes: Iterable[ast.AST], around: tuple[ast.AST, ...]) -> Iterator[tuple[ast.AST, tuple[ast.AST, ...]]]:
    """Every node, and the functions around it, the outermost first."""
    for node in nodes:
        yield node, around
        inner = (*around, node) if isinstance(node, _FUNCTIONS) else around
        yield from _within(ast.iter_child_nodes(node), inner)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _source_call(call: ast.Call) -> ast.expr | None:
    """The expression that gives what a call compiles; None of other calls."""
    name = _called(call)
    if name in _RAW:
        kept = [keyword for keyword in call.keywords if keyword.arg in _SOURCE]
        return ast.copy_location(ast.Call(call.func, call.args, kept), call)
    if name not in _TEXTS:
        return None
    named = next((keyword.value for keyword in call.keywords if keyword.arg == _TEXTS[name]), None)
    position = _POSITIONS[name]
    return named or (call.args[position] if len(call.args) > position else None)


def _as_kernel(call: ast.Call, value: object) -> object:
    if _called(call) in _RAW:
        return value
    texts = [value] if isinstance(value, str) else value
    if isinstance(texts, list | tuple) and texts and all(isinstance(text, str) for text in texts):
        joined = "\n".join(texts)
        return CudaText(joined) if "__global__" in joined else None
    return None


def _variable(call: ast.Call, around: tuple[ast.AST, ...], tree: ast.Module) -> str:
    """What a call's value is called: the variable that takes it, else the function around it."""
    for node in ast.walk(around[-1] if around else tree):
        if isinstance(node, ast.Assign) and node.value is call:
            return ast.unparse(node.targets[0])
    return next((node.name for node in reversed(around) if isinstance(node, ast.FunctionDef)), f"line{call.lineno}")


def _value(node: ast.expr | ast.FunctionDef, around: tuple[ast.AST, ...], module: UserModule) -> Any:
    """The value of an expression or of a function's definition inside functions, or the exception that it ends with.

    Of the functions around it only the statements are run that its names come from; parameters have their defaults.
    """
    names = dict(module.names)
    needed = _loaded(node)
    chosen: list[ast.stmt | ast.arguments] = []
    for function in reversed(around):
        for statement in reversed(list(_before(function, node))):
            if needed & _given(statement):
                chosen.append(statement)
                needed |= _loaded(statement)
        assert isinstance(function, _FUNCTIONS)
        chosen.append(function.args)
    for one in ast.walk(module.tree):  # a branch of the file that asks for a GPU may import them
        if isinstance(one, ast.Import | ast.ImportFrom) and _given(one) & needed.difference(names):
            _run(one, names, module)
    for step in reversed(chosen):
        if isinstance(step, ast.arguments):
            _defaults(step, names, module)
        elif (error := _run(step, names, module)) is not None:
            return error
    if isinstance(node, ast.FunctionDef):
        return _run(node, names, module) or names.get(node.name)
    return _evaluated(node, names, module)


def _evaluated(expression: ast.expr, names: dict[str, Any], module: UserModule) -> Any:
    """The value of an expression, or the exception that it ends with."""
    try:
        return eval(compile(ast.Expression(expression), str(module.path), "eval"), names)
    except Exception as error:  # whatever the user's expression raises
        return error


def _before(function: ast.AST, node: ast.AST) -> Iterator[ast.stmt]:
    """Statements of a function itself, before a place in it, that give names a value."""
    stop = getattr(node, "lineno", 0)
    pending: list[ast.AST] = list(ast.iter_child_nodes(function))
    found: list[ast.stmt] = []
    while pending:
        one = pending.pop()
        if isinstance(one, _STATEMENTS) and one is not node and one.lineno < stop:
            found.append(one)
        if not isinstance(one, (*_FUNCTIONS, ast.ClassDef)):
            pending.extend(ast.iter_child_nodes(one))
    return iter(sorted(found, key=lambda statement: statement.lineno))


def _loaded(node: ast.AST) -> set[str]:
    """Names whose values a statement needs; those that a function gives a value itself are its own."""
    found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
    if isinstance(node, ast.FunctionDef):
        own = {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        found -= own | {one.arg for one in ast.walk(node) if isinstance(one, ast.arg)}
    return found


def _given(statement: ast.stmt) -> set[str]:
    """Names that a statement gives a value."""
    if isinstance(statement, ast.FunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _defaults(arguments: ast.arguments, names: dict[str, Any], module: UserModule) -> None:
    """Give parameters what is given, else their defaults; those without one, or whose default fails, have no value."""
    positional = [*arguments.posonlyargs, *arguments.args]
    pairs = [*zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    pairs += [(name, value) for name, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    for name in (*positional, *arguments.kwonlyargs):
        names.pop(name.arg, None)
    for name, value in pairs:
        default = _evaluated(value, names, module)
        if not isinstance(default, Exception):
            names[name.arg] = default
    for name in (*positional, *arguments.kwonlyargs):
        if name.arg in module.given:
            names[name.arg] = module.given[name.arg]


def _run(statement: ast.stmt, names: dict[str, Any], module: UserModule) -> Exception | None:
    try:
        exec(compile(ast.Module([statement], []), str(module.path), "exec"), names)
    except Exception as error:  # whatever the user's statement raises
        return error
    return None
