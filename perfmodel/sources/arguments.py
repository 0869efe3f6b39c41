"""Arguments of a call checked against the kernel's parameters, whether they come as texts, NumPy values or numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..launch.argument_spec import BufferSpec, buffer_contents, parse_argument, scalar_value
from ..launch.expression import Value
from ..launch.launch import Buffer, KernelCall
from ..program.instruction import Parameter
from ..program.kernel import Kernel
from .host_code import Signature

Argument = str | NDArray[Any] | np.generic | int | float
"""A spec such as ``f32[1024]``, an array (a buffer, copied), a NumPy scalar, or a number that takes the parameter's type."""

_POINTER_BYTES = 8
_CONSTANT_POINTER = re.compile(r"\bconst\b[^*]*\*(?!.*\*)")
_NAME = re.compile(r"(\w+)\s*(?:\[\s*\])?$")
_INTEGER = re.compile(r"(?:const\s+)?(?:unsigned|signed|long|size_t|ptrdiff_t|u?int64_t)\b")
_FLOATS: Mapping[str, type[np.floating[Any]]] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def kernel_call(
    kernel: Kernel,
    signature: Signature | None,
    arguments: Sequence[Argument],
    constants: Mapping[str, Argument],
    rng: np.random.Generator,
    names: Mapping[str, Value] | None = None,
) -> KernelCall:
    """The call that the arguments describe, one for each parameter in order.

    Pointers that are not ``const`` become outputs. ``constants`` are contents of module-scope arrays by name; ``names`` stand in
    sizes and values of specs.

    Raises:
        InputError: the number of arguments or the kind of one is wrong; the message lists the parameters.
    """
    names = names or {}
    texts = _parameter_texts(kernel, signature)
    if len(arguments) != len(kernel.parameters):
        listed = ", ".join(texts) or "none"
        raise InputError(f"{len(arguments)} arguments given, the kernel has {len(texts)} parameters: {listed}")
    parameters: list[Buffer | np.generic] = []
    for position, (argument, parameter) in enumerate(zip(arguments, kernel.parameters, strict=True)):
        value = _value(argument, parameter, rng, names)
        _require_fits(value, argument, parameter, position, texts[position])
        if isinstance(value, np.ndarray):
            match = _NAME.search(texts[position])
            name = match[1] if match else f"argument{position}"
            written = not _CONSTANT_POINTER.search(texts[position])
            parameters.append(Buffer(name=name, array=value, output=written))
        else:
            parameters.append(value)
    return KernelCall(parameters=tuple(parameters), constants=_constants(constants, rng, names))


def _constants(
    given: Mapping[str, Argument], rng: np.random.Generator, names: Mapping[str, Value]
) -> tuple[Buffer, ...]:
    found = []
    for name, argument in given.items():
        value = _buffer(argument, rng, names) if isinstance(argument, str) else argument
        if not isinstance(value, np.ndarray):
            raise InputError(f"constant {name}={argument!r} must be an array or a buffer such as f32[25]")
        found.append(Buffer(name=name, array=value))
    return tuple(found)


def _buffer(text: str, rng: np.random.Generator, names: Mapping[str, Value]) -> NDArray[Any] | np.generic:
    spec = parse_argument(text)
    return buffer_contents(spec, rng, names) if isinstance(spec, BufferSpec) else scalar_value(spec, names)


def _parameter_texts(kernel: Kernel, signature: Signature | None) -> tuple[str, ...]:
    if signature is not None and len(signature.parameters) == len(kernel.parameters):
        return signature.parameters
    return tuple(f".{p.type_name} argument{i}" for i, p in enumerate(kernel.parameters))


def _value(
    argument: Argument, parameter: Parameter, rng: np.random.Generator, names: Mapping[str, Value]
) -> NDArray[Any] | np.generic:
    if isinstance(argument, str):
        return _buffer(argument, rng, names)
    if isinstance(argument, np.ndarray | np.generic):
        return argument
    if not isinstance(argument, int | float):
        raise InputError(f"argument {argument!r} of type {type(argument).__name__} is no array, number or spec")
    return _number(argument, parameter)


def _number(value: int | float, parameter: Parameter) -> np.generic:
    """A Python number in the parameter's own type."""
    if parameter.type_name in _FLOATS:
        return _FLOATS[parameter.type_name](value)
    bits = 8 * parameter.size_bytes
    if float(value) != int(value) or bits not in (8, 16, 32, 64):
        raise InputError(f"argument {value!r} does not fit a parameter of PTX type .{parameter.type_name}")
    dtype = np.dtype(f"{'i' if value < 0 else 'u'}{parameter.size_bytes}")
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        raise InputError(f"argument {value!r} does not fit a parameter of {parameter.size_bytes} bytes")
    found: np.generic = dtype.type(value)
    return found


def _require_fits(
    value: NDArray[Any] | np.generic, argument: Argument, parameter: Parameter, position: int, text: str
) -> None:
    shown = repr(argument) if isinstance(argument, str) else f"of type {value.dtype}"
    wanted = f"argument {position + 1} ({text})"
    if isinstance(value, np.ndarray):
        if parameter.size_bytes != _POINTER_BYTES or parameter.type_name not in ("u64", "b64", "s64"):
            raise InputError(f"{wanted} is no pointer and takes a scalar, not the buffer {shown}")
        if _INTEGER.match(text) and "*" not in text and "[" not in text:
            raise InputError(f"{wanted} is no pointer and takes a scalar, not the buffer {shown}")
        return
    if "*" in text:
        raise InputError(f"{wanted} is a pointer and takes a buffer such as f32[1024], not the scalar {shown}")
    if value.dtype.itemsize != parameter.size_bytes:
        raise InputError(f"{wanted} has {parameter.size_bytes} bytes, the scalar {shown} has {value.dtype.itemsize}")
    floating = parameter.type_name in _FLOATS
    if parameter.type_name[0] in "usf" and floating != (value.dtype.kind == "f"):
        raise InputError(
            f"{wanted} takes {'a floating-point number' if floating else 'an integer'}, not the scalar {shown}"
        )
