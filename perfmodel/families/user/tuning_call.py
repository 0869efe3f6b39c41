"""A call of Kernel Tuner's ``tune_kernel`` as a tuning space: expressions stay expressions, functions become tables.

Names and meaning of the arguments are those of Kernel Tuner's manual (``kernel_tuner.tune_kernel``).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite, prod
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from ...errors import InputError
from ...launch.element_type import ElementType
from ...launch.expression import Value, parse_expression
from .space_file import MAX_CANDIDATES

_AXES = "xyz"
_BLOCK = {"block_size_x": 256, "block_size_y": 1, "block_size_z": 1}
"""Kernel Tuner's names of a block's sizes, with what they are where they are not tuned."""
_LANGUAGES = ("CUDA", "CUPY", "NVCUDA", "PYCUDA")
_EXACT_INTEGERS = 2**53
_ELEMENTS = {kind.dtype: kind.value for kind in ElementType if kind is not ElementType.BF16}


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningCall:
    """The arguments of ``tune_kernel`` that say what is tuned; ``folder`` is where else a kernel's file may lie."""

    kernel_name: str
    kernel_source: Any
    problem_size: Any
    arguments: Sequence[Any]
    tune_params: Mapping[str, Iterable[Any]]
    restrictions: Any = None
    grid_div_x: Any = None
    grid_div_y: Any = None
    grid_div_z: Any = None
    block_size_names: Sequence[str] | None = None
    smem_args: Mapping[str, Any] | None = None
    cmem_args: Mapping[str, Any] | None = None
    texmem_args: Mapping[str, Any] | None = None
    compiler_options: Sequence[str] | None = None
    defines: Mapping[str, Any] | None = None
    lang: str | None = None
    folder: Path | None = None


def write_space(call: TuningCall, folder: Path) -> Path:
    """Write the space file of a call, and arrays of its arguments, into a folder; the space file's path.

    Raises:
        InputError: an argument of the call is wrong, or is one that is not read.
    """
    path = folder / "space.toml"
    path.write_text(tomli_w.dumps(_Writer(call, folder).document()), encoding="utf-8")
    return path


class _Writer:
    """A call on its way to a space; functions are evaluated for every combination of the tuned values."""

    def __init__(self, call: TuningCall, folder: Path) -> None:
        self.call, self.folder = call, folder
        if not isinstance(call.tune_params, Mapping) or not call.tune_params:
            raise InputError(f"tune_params must name parameters with their values, not {call.tune_params!r}")
        self.given = {str(name): list(values) for name, values in call.tune_params.items()}
        self.tables: dict[str, list[Value]] = {}
        self.constraints: list[str] | None = None

    def document(self) -> dict[str, Any]:
        call = self.call
        if call.texmem_args:
            raise InputError(
                "texmem_args: texture references were removed in CUDA 12; take a texture object as a parameter"
            )
        if call.lang is not None and call.lang.upper() not in _LANGUAGES:
            raise InputError(f"lang={call.lang!r}: kernels in CUDA C++ are executed")
        tune = {name: [_value(f"tune_params {name}", v) for v in values] for name, values in self.given.items()}
        blocks = self._block_names()
        constraints = self._constraints()
        grid = [self._grid(axis, name) for axis, name in enumerate(blocks)]
        fixed = {name: size for name, size in zip(blocks, _BLOCK.values(), strict=True) if name not in tune}
        sizes: dict[str, Value] = {**fixed, "kernel_tuner": 1}
        macros = {f"grid_size_{axis}": text for axis, text in zip(_AXES, grid, strict=True)}
        for name, content in (call.defines or {}).items():
            if callable(content):
                macros[name] = self._table(name, content)
            else:
                sizes[name] = _value(f"defines {name}", content)
        document = {
            "source": self._source(),
            "kernel": call.kernel_name,
            "grid": grid,
            "block": list(blocks),
            "shared_bytes": self._shared_bytes(),
            "problem_size": self._problem_size(),
            "arguments": [self._spec(f"argument{place}", value) for place, value in enumerate(call.arguments)],
            "constraints": constraints,
            "options": [str(option) for option in call.compiler_options or ()],
            "sizes": {name: value for name, value in sizes.items() if name not in macros},
            "tune": tune,
            "macros": macros,
            "contents": {name: self._spec(name, np.asarray(value)) for name, value in (call.cmem_args or {}).items()},
        }
        return document | {"tables": self.tables}

    def _problem_size(self) -> list[Value]:
        """What Kernel Tuner's cache file says of the problem."""
        given = self.call.problem_size
        if callable(given):
            return ["callable"]
        sizes = [given] if isinstance(given, str | int | np.integer) else list(given)
        return [_value("problem_size", size) for size in sizes]

    def _source(self) -> str:
        source = self.call.kernel_source
        if isinstance(source, list | tuple) and source:
            source = source[0]  # the kernel's file; the others are headers that it includes
        if not isinstance(source, str | PathLike):
            raise InputError(
                f"kernel_source of type {type(source).__name__}: a file or the text of the kernel is needed"
            )
        if isinstance(source, str) and ("\n" in source or "__global__" in source):
            return source if "\n" in source else f"{source}\n"
        places = [Path(source).absolute(), *([self.call.folder / source] if self.call.folder else [])]
        found = next((path for path in places if path.is_file()), None)
        if found is None:
            raise InputError(f"kernel_source {str(source)!r} is no file")
        return str(found)

    def _block_names(self) -> list[str]:
        """Names of the sizes along x, y, z; Kernel Tuner also knows its own names in capitals."""
        own = list(self.call.block_size_names or ())
        usual = [next((name for name in self.given if name.lower() == default), default) for default in _BLOCK]
        return [*own, *usual[len(own) :]][: len(_AXES)]

    def _constraints(self) -> list[str]:
        given = self.call.restrictions
        found = []
        for one in [] if given is None else list(given) if isinstance(given, list | tuple) else [given]:
            if isinstance(one, str):
                found.append(one)
            elif callable(one):
                found.append(self._table("restriction", one))
            elif isinstance(one, tuple) and len(one) >= 2 and callable(one[0]):
                function, names = one[0], [str(name) for name in one[1]]
                found.append(self._table("restriction", function, names))
            else:
                raise InputError(f"restriction {one!r} of type {type(one).__name__}: a text or a function is needed")
        self.constraints = found
        return found

    @cached_property
    def _allowed(self) -> list[bool]:
        """Which combinations meet the restrictions: other functions are asked about these alone."""
        parsed = [parse_expression(text) for text in self.constraints or ()]
        allowed = []
        for place, params in enumerate(self._combinations()):
            names = params | {name: table[place] for name, table in self.tables.items()}
            allowed.append(all(one.value(names) for one in parsed))
        return allowed

    def _combinations(self) -> Iterable[dict[str, Any]]:
        count = prod(map(len, self.given.values()))
        if count > MAX_CANDIDATES:
            raise InputError(
                f"the space has {count:,} combinations; functions are called for at most {MAX_CANDIDATES:,}: give strings"
            )
        return (dict(zip(self.given, values, strict=True)) for values in product(*self.given.values()))

    def _table(
        self, role: str, function: Callable[..., Any], names: Sequence[str] = (), axis: int | None = None
    ) -> str:
        """A name that stands for a function's value in each combination; of sizes the one along an axis."""
        own = getattr(function, "__name__", "")
        line = getattr(getattr(function, "__code__", None), "co_firstlineno", 0)
        name = own if own.isidentifier() else f"{role}_in_line_{line}"
        taken = {*self.tables, *self.given}
        name = next(n for k in range(len(taken) + 1) if (n := f"{name}_{k}" if k else name) not in taken)
        values: list[Value] = []
        for place, params in enumerate(self._combinations()):
            if self.constraints is not None and not self._allowed[place]:
                values.append(1)
                continue
            try:
                found = function(*(params[one] for one in names)) if names else self._called(function, params)
                found = found if axis is None else _along(found, axis)
            except Exception as error:  # whatever a user's function raises
                raise InputError(f"{name} fails for {params}: {type(error).__name__}: {error}") from error
            values.append(_value(name, bool(found) if role == "restriction" else found))
        self.tables[name] = values
        return name

    def _called(self, function: Callable[..., Any], params: dict[str, Any]) -> Any:
        """A function of the parameters that it names, or of all as a mapping."""
        names = list(inspect.signature(function).parameters)
        if names and set(names) <= set(params):
            return function(**{name: params[name] for name in names})
        return function(params)

    def _grid(self, axis: int, block_name: str) -> str:
        given, letter = self.call.problem_size, _AXES[axis]
        if callable(given):
            size = self._table(f"problem_size_{letter}", given, axis=axis)
        else:
            size = _expression("problem_size", _along(given, axis))
        divisor = getattr(self.call, f"grid_div_{letter}")
        if divisor is None:
            divisor = block_name if block_name in self.given else 1
        parts = [divisor] if isinstance(divisor, str) or not isinstance(divisor, Iterable) else list(divisor)
        texts = [
            self._table(f"grid_div_{letter}", part) if callable(part) else _expression(f"grid_div_{letter}", part)
            for part in parts
        ]
        return f"ceil_div({size}, {' * '.join(texts) or 1})"

    def _shared_bytes(self) -> str:
        size = (self.call.smem_args or {}).get("size", 0)
        return self._table("smem_args", size) if callable(size) else _expression("smem_args", size)

    def _spec(self, place: str, value: Any) -> str:
        """An argument as a spec; arrays that are not the same everywhere go to a file."""
        if isinstance(value, np.ndarray | np.generic) and value.dtype == np.complex64:
            value = np.atleast_1d(value).view(np.float32)
        if isinstance(value, np.ndarray | np.generic) and value.dtype == np.bool_:
            value = value.astype(np.uint8)
        if isinstance(value, int | float) and not isinstance(value, np.generic):
            return repr(value)
        kind = _ELEMENTS.get(value.dtype) if isinstance(value, np.ndarray | np.generic) else None
        if kind is None:
            raise InputError(
                f"{place} {type(value).__name__} {str(value)[:40]!r}: NumPy arrays and scalars of C types are needed"
            )
        if isinstance(value, np.generic):
            return f"{kind}={value.item()!r}"
        flat = np.ascontiguousarray(value).reshape(-1)
        first = flat[0].item() if flat.size else 0
        if isfinite(first) and abs(first) < _EXACT_INTEGERS and not (flat != flat[0]).any():
            return f"{kind}[{flat.size}]={first!r}"
        path = self.folder / f"{place}.npy"
        np.save(path, flat)
        return f"{kind}[{flat.size}]=@{path}"


def _along(sizes: Any, axis: int) -> Any:
    """The size along an axis; what is left out is 1."""
    given = [sizes] if isinstance(sizes, str | int | np.integer) else list(sizes)
    return given[axis] if axis < len(given) else 1


def _expression(key: str, value: Any) -> str:
    text = str(_value(key, value))
    parse_expression(text)
    return f"({text})" if not text.isalnum() else text


def _value(key: str, value: Any) -> Value:
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool):
        return int(plain)
    if not isinstance(plain, int | float | str):
        raise InputError(f"{key} must be a number or a text, not {value!r}")
    return plain
