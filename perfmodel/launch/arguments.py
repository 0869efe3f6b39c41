"""Arguments of a call checked against the kernel's parameters, whether they come as texts, NumPy values or numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .argument_spec import BufferSpec, NullSpec, PointerSpec, StructureSpec, TensorMapSpec, TextureSpec
from .argument_text import parse_argument
from .argument_values import (
    StructureContents,
    buffer_contents,
    scalar_value,
    seen_texture,
    structure_contents,
    tensor_map_tiling,
)
from .contents import Contents
from .element_type import ElementType
from .expression import ExpressionError, Value
from .launch import Buffer, Buffered, KernelCall, Parameter, Structure, TensorMap, TextureObject
from .tensor_map import TENSOR_MAP_BYTES

_CONSTANT_POINTER = re.compile(r"\bconst\b[^*&]*[*&](?!.*[*&])")
_QUALIFIERS = re.compile(r"(?:\s*\b(?:const|volatile|__restrict__|__restrict|restrict))+\s*$")
POINTER_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameter:
    """One parameter: its name, PTX type (``u64``; ``b8`` for a structure), size, and C++ type, empty where nothing states it.

    >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float const*").pointed_type
    'float'
    >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float* const").is_pointer
    True
    """

    name: str
    ptx_type: str
    size_bytes: int
    cpp_type: str = ""

    @property
    def text(self) -> str:
        """How a message shows it.

        >>> KernelParameter(name="x", ptx_type="u64", size_bytes=8, cpp_type="float const*").text
        'const float *x'
        """
        usual = re.sub(r"^([^*]+) const\*", r"const \1*", self.cpp_type or f".{self.ptx_type}")
        return f"{usual[: -len(stars)]} {stars}{self.name}" if (stars := _stars(usual)) else f"{usual} {self.name}"

    @property
    def is_pointer(self) -> bool | None:
        """Whether it is a pointer; None where only the size is known."""
        if self.size_bytes != POINTER_BYTES or self.ptx_type not in ("u64", "b64", "s64"):
            return False
        return self._unqualified.endswith(("*", "&")) if self.cpp_type else None

    @property
    def _unqualified(self) -> str:
        """The C++ type without what qualifies the parameter itself: ``float*`` of ``float* const``."""
        return _QUALIFIERS.sub("", self.cpp_type).rstrip()

    @property
    def is_written(self) -> bool:
        """Whether the kernel may write what it points to."""
        return not _CONSTANT_POINTER.search(self.cpp_type)

    @property
    def pointed_type(self) -> str | None:
        """The C++ type of the elements of a pointer, without qualifiers; None where it is unknown."""
        if not self.is_pointer:
            return None
        return " ".join(re.sub(r"\b(?:const|volatile)\b", " ", self._unqualified[:-1]).split())


def _stars(cpp_type: str) -> str:
    return cpp_type[len(cpp_type.rstrip("*")) :]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """A kernel's parameters in order, under the name that messages show."""

    name: str
    parameters: tuple[KernelParameter, ...]

    def described(self, descriptions: Sequence[tuple[str, str]]) -> Signature:
        """The same with names and C++ types that somebody else knows, where there are as many; empty texts say nothing."""
        if len(descriptions) != len(self.parameters):
            return self
        parameters = tuple(
            replace(own, name=name or own.name, cpp_type=cpp_type or own.cpp_type)
            for own, (name, cpp_type) in zip(self.parameters, descriptions, strict=True)
        )
        return replace(self, parameters=parameters)


Argument = str | NDArray[Any] | np.generic | int | float | TensorMap | None
"""A spec such as ``f32[1024]``, an array (a buffer, copied), a NumPy scalar, a number that takes the parameter's type, a tensor
map, None (a null pointer)."""

_PTX_FLOATS = frozenset({"f16", "f32", "f64"})
_VECTOR = re.compile(r"(\w+?)[1-4](?:_\w+)?")
_OF_BYTES = re.compile(r"u?int[24]")
"""Vectors by which kernels move elements of any type, 8 or 16 bytes at once."""
_ELEMENTS: Mapping[str, frozenset[ElementType]] = {
    names: frozenset(ElementType(kind) for kind in kinds.split())
    for names_, kinds in (
        ("float", "f32 u32"),
        ("double", "f64 u64"),
        ("__half half", "f16 u16"),
        ("__half2 half2", "f16 u16"),
        ("__nv_bfloat16 nv_bfloat16 __nv_bfloat162 nv_bfloat162", "bf16 u16"),
        ("__nv_fp8_e4m3 __nv_fp8x2_e4m3 __nv_fp8x4_e4m3", "f8e4m3 u8"),
        ("__nv_fp8_e5m2 __nv_fp8x2_e5m2 __nv_fp8x4_e5m2", "f8e5m2 u8"),
        ("bool", "bool i8 u8"),
        ("char uchar", "i8 u8"),
        ("signed_char unsigned_char", "i8 u8"),
        ("short ushort unsigned_short", "i16 u16"),
        ("int uint unsigned_int", "i32 u32"),
        ("long ulong unsigned_long longlong ulonglong long_long unsigned_long_long", "i64 u64"),
    )
    for names in names_.split()
}
"""Element types that a buffer may have for a C++ type; unsigned integers of its size are a floating-point number's bits."""


def host_argument(value: Any, position: int) -> Argument:
    """An argument as `kernel_call` takes it; arrays of other libraries that lie in the host's memory become NumPy's.

    Raises:
        InputError: the array is on a device, or of a type that NumPy has not.
    """
    if isinstance(value, str | np.ndarray | np.generic | int | float) or not hasattr(value, "__array__"):
        found: Argument = value
        return found
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"argument {position} of type {type(value).__name__} is no array of the host: {reason}"
        ) from error


def kernel_call(
    signature: Signature,
    arguments: Sequence[Argument],
    constants: Mapping[str, Argument],
    rng: np.random.Generator,
    names: Mapping[str, Value] | None = None,
) -> KernelCall:
    """The call that the arguments describe, one for each parameter in order.

    Pointers that are not ``const`` become outputs. ``constants`` are contents of module-scope arrays by name; ``names`` are the
    values that sizes and values of specs may use.

    Raises:
        InputError: the number of arguments or the kind of one is wrong; the message lists the parameters.
    """
    names = names or {}
    if len(arguments) != len(signature.parameters):
        listed = ", ".join(parameter.text for parameter in signature.parameters) or "none"
        parameters_there = f"{len(signature.parameters)} parameter{'' if len(signature.parameters) == 1 else 's'}"
        raise InputError(f"{len(arguments)} arguments given, the kernel has {parameters_there}: {listed}")
    parameters: list[Parameter] = []
    for position, (argument, parameter) in enumerate(zip(arguments, signature.parameters, strict=True), 1):
        subject = f"argument {position} ({parameter.text})"
        try:
            value = _Argument(argument, parameter, subject).value(rng, names)
        except ExpressionError as error:
            raise InputError(f"{subject}: {error}") from None
        if isinstance(value, np.ndarray | Contents):
            parameters.append(Buffer(name=parameter.name, array=value, output=parameter.is_written))
        else:
            parameters.append(value)
    return KernelCall(parameters=tuple(parameters), constants=_constants(constants, rng, names))


def drawn_types(name: str, argument: Argument) -> dict[str, str]:
    """What is drawn at random among the buffers of an argument: their names, and the type that a spec of each begins with.

    >>> drawn_types("x", "i32[8]=0..99"), drawn_types("x", "i32[8]=arange"), drawn_types("x", "struct=i32=1,*f32[8]")
    ({'x': 'i32'}, {}, {'x.2': 'f32'})
    >>> drawn_types("x", "struct[8]=i32=1,f32[3]")
    {'x': 'struct'}
    """
    spec = parse_argument(argument) if isinstance(argument, str) else None
    if isinstance(spec, StructureSpec) and spec.in_buffer:
        return {name: "struct"} if any(isinstance(f, BufferSpec) and f.fill.is_drawn for f in spec.fields) else {}
    found = {name: spec} if isinstance(spec, BufferSpec) else {}
    if isinstance(spec, StructureSpec):
        pointers = enumerate(spec.fields, 1)
        found = {f"{name}.{n}": f.buffer for n, f in pointers if isinstance(f, PointerSpec) and f.buffer}
    return {key: buffer.element.value for key, buffer in found.items() if buffer.fill.is_drawn}


def _constants(
    given: Mapping[str, Argument], rng: np.random.Generator, names: Mapping[str, Value]
) -> tuple[Buffer, ...]:
    buffers = []
    for name, argument in given.items():
        spec = parse_argument(argument) if isinstance(argument, str) else argument
        value = buffer_contents(spec, rng, names) if isinstance(spec, BufferSpec) else spec
        if not isinstance(value, np.ndarray | Contents):
            raise InputError(f"constant {name}={argument!r} must be an array or a buffer such as f32[25]")
        buffers.append(Buffer(name=name, array=value))
    return tuple(buffers)


class _Argument:
    """One argument, its parameter, and how a message begins that is about both."""

    def __init__(self, argument: Argument, parameter: KernelParameter, subject: str) -> None:
        self.argument, self.parameter, self.subject = argument, parameter, subject

    def value(
        self, rng: np.random.Generator, names: Mapping[str, Value]
    ) -> Buffered | TensorMap | TextureObject | Structure | np.generic:
        argument = self.argument
        if isinstance(argument, TensorMap):
            return self._tensor_map(argument)
        if argument is None:
            return self._null()
        if isinstance(argument, np.ndarray):
            return self._buffer(argument, {e for e in ElementType if e.dtype == argument.dtype}, str(argument.dtype))
        if isinstance(argument, np.generic):
            return self._scalar(argument)
        if isinstance(argument, int | float):
            return self._number(argument)
        if not isinstance(argument, str):
            raise InputError(f"argument {argument!r} of type {type(argument).__name__} is no array, number or spec")
        spec = parse_argument(argument)
        if isinstance(spec, NullSpec):
            return self._null()
        if isinstance(spec, StructureSpec):
            return self._structure(spec, structure_contents(spec, rng, names))
        if isinstance(spec, TensorMapSpec):
            contents = buffer_contents(spec.buffer, rng, names)
            buffer = Buffer(name=self.parameter.name, array=contents, output=True)
            return self._tensor_map(TensorMap(buffer=buffer, tiling=tensor_map_tiling(spec, names)))
        if isinstance(spec, TextureSpec):
            contents = buffer_contents(spec.buffer, rng, names)
            buffer = Buffer(name=self.parameter.name, array=contents, output=spec.text.strip().startswith("surface"))
            return self._texture_object(TextureObject(buffer=buffer, texture=seen_texture(spec, names)))
        if isinstance(spec, BufferSpec):
            return self._buffer(buffer_contents(spec, rng, names), {spec.element}, spec.element.value)
        if spec.element is not None:
            return self._scalar(scalar_value(spec, spec.element, names))
        number = spec.value.value(names)
        if isinstance(number, str):
            raise InputError(f"argument {spec.text!r}: {number!r} is no number")
        return self._number(number)

    @property
    def _shown(self) -> str:
        return repr(self.argument) if isinstance(self.argument, str | int | float) else f"of type {self._type_name}"

    @property
    def _type_name(self) -> str:
        return str(self.argument.dtype) if isinstance(self.argument, np.ndarray | np.generic) else "None"

    def _tensor_map(self, given: TensorMap) -> TensorMap:
        if self.parameter.is_pointer is False and self.parameter.size_bytes != TENSOR_MAP_BYTES:
            raise InputError(
                f"{self.subject} has {self.parameter.size_bytes} bytes; a CUtensorMap has {TENSOR_MAP_BYTES}"
            )
        return replace(given, by_pointer=self.parameter.size_bytes == POINTER_BYTES)

    def _texture_object(self, given: TextureObject) -> TextureObject:
        if self.parameter.is_pointer or self.parameter.size_bytes != POINTER_BYTES:
            raise InputError(f"{self.subject} is no texture or surface object and does not take {self._shown}")
        return given

    def _structure(self, spec: StructureSpec, given: StructureContents) -> Buffered | Structure | np.generic:
        name = self.parameter.name
        value: Buffered | np.generic
        if spec.in_buffer:
            value = self._buffer(given.content, set(), "structures")
        else:
            value = self._scalar(given.content.view((np.void, len(given.content)))[0])
        pointers = tuple(
            (
                offset,
                Buffer(
                    name=f"{name}[{one}].{number}" if spec.in_buffer else f"{name}.{number}", array=array, output=True
                ),
            )
            for offset, one, number, array in given.pointed
        )
        if not pointers:
            return value
        return Structure(name=name, content=given.content.tobytes(), pointers=pointers, by_pointer=spec.in_buffer)

    def _null(self) -> np.generic:
        if self.parameter.is_pointer is False:
            raise InputError(f"{self.subject} is no pointer and takes a scalar, not null")
        return np.uint64(0)

    def _buffer(self, array: Buffered, kinds: set[ElementType], given: str) -> Buffered:
        if self.parameter.is_pointer is False:
            raise InputError(f"{self.subject} is no pointer and takes a scalar, not the buffer {self._shown}")
        accepted = _elements_of(self.parameter.pointed_type or "")
        if kinds and accepted and kinds.isdisjoint(accepted):
            wanted = " or ".join(kind.value for kind in ElementType if kind in accepted)
            raise InputError(f"{self.subject} takes a buffer of {wanted}, not of {given}")
        return array

    def _require_no_pointer(self) -> None:
        if self.parameter.is_pointer:
            raise InputError(
                f"{self.subject} is a pointer and takes a buffer such as f32[1024] or null, not the scalar {self._shown}"
            )

    def _scalar(self, value: np.generic) -> np.generic:
        if self.parameter.is_pointer and value.dtype.kind in "iu" and not value:
            return self._null()
        self._require_no_pointer()
        parameter = self.parameter
        if value.dtype.itemsize != parameter.size_bytes:
            raise InputError(
                f"{self.subject} has {parameter.size_bytes} bytes, the scalar {self._shown} has {value.dtype.itemsize}"
            )
        floating = parameter.ptx_type in _PTX_FLOATS
        if parameter.ptx_type[0] in "usf" and floating != (value.dtype.kind == "f") and value.dtype.kind != "V":
            wanted = "a floating-point number" if floating else "an integer"
            raise InputError(f"{self.subject} takes {wanted}, not the scalar {self._shown}")
        return value

    def _number(self, value: int | float) -> np.generic:
        """A number in the parameter's own type."""
        if self.parameter.is_pointer and value == 0:
            return self._null()
        self._require_no_pointer()
        parameter = self.parameter
        floats = {kind for kind in _elements_of(parameter.cpp_type) if kind.is_float}
        if parameter.ptx_type in _PTX_FLOATS:
            floats = {ElementType(parameter.ptx_type)}
        bits = 8 * parameter.size_bytes
        if parameter.cpp_type.endswith("CUtensorMap") or parameter.cpp_type.endswith("CUtensorMap_st"):
            raise InputError(f"{self.subject} is a tensor map; give it as tensormap=f16[512,64]:box=128,64:swizzle=128")
        if bits not in ({8 * kind.dtype.itemsize for kind in floats} or {8, 16, 32, 64}):
            raise InputError(
                f"{self.subject} is a structure of {parameter.size_bytes} bytes; give it as struct=@file.npy or by its fields, "
                "as struct=i32=64,f32=0.5,*f32[64]"
            )
        if not parameter.cpp_type and parameter.ptx_type.startswith("b"):
            raise InputError(
                f"{self.subject} has {parameter.size_bytes} bytes, and the code does not state its type; give it with one, as "
                f"i{bits}={value} or f{bits}={value}"
            )
        if not floats and value != int(value):
            raise InputError(f"{self.subject} takes an integer, not {value!r}")
        element = floats.pop() if floats else ElementType(f"{'i' if value < 0 else 'u'}{bits}")
        lowest, highest = element.limits
        if not element.is_float and not lowest <= value <= highest:
            raise InputError(f"{self.subject} has {parameter.size_bytes} bytes; {value!r} does not fit")
        return element.scalar(value)


def _elements_of(cpp_type: str) -> frozenset[ElementType]:
    """Element types that fit a C++ type; none where nothing is known of it."""
    name = "_".join(cpp_type.replace("const", " ").split())
    if _OF_BYTES.fullmatch(name):
        return frozenset()
    vector = _VECTOR.fullmatch(name)
    return _ELEMENTS.get(name) or (_ELEMENTS.get(vector[1], frozenset()) if vector else frozenset())
