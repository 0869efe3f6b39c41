"""What arguments hold at the launch: contents of buffers, values of scalars, bytes of structures, tilings and textures."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..core.constants import round_up
from ..errors import InputError
from .argument_spec import (
    BufferSpec,
    FieldSpec,
    Fill,
    FillKind,
    PointerSpec,
    ScalarSpec,
    StructureSpec,
    TensorMapSpec,
    TextureSpec,
)
from .contents import Computed, Contents, Repeated
from .element_type import ElementType, require_fits
from .expression import Expression, Value, parse_expression
from .tensor_map import TensorTiling, tensor_tiling
from .texture import Extent, TexelKind, Texture, checked

MAX_BUFFER_BYTES = 2**38
"""Bytes of one buffer: more than any GPU has. Of these only what the kernel reads or writes is held."""
RANDOM_PERIOD = 1_048_583
"""Random contents repeat after so many elements (a prime, so that no row length divides it): drawing more only costs time."""
CONSTANT_PERIOD = 4096
"""Equal elements that are made at once."""
RANDOM_INTEGERS = (0, 127)
"""Bounds of random integers without bounds of their own: every type holds them."""


def buffer_contents(spec: BufferSpec, rng: np.random.Generator, names: Mapping[str, Value]) -> NDArray[Any] | Contents:
    """What a buffer holds before the launch; sizes may use names of a tuning space.

    >>> from perfmodel.launch.argument_text import parse_argument
    >>> np.asarray(buffer_contents(parse_argument("i32[N]=arange"), np.random.default_rng(0), {"N": 3})).tolist()
    [0, 1, 2]
    """
    if spec.fill.kind is FillKind.FILE:
        return _from_file(spec, names)
    assert spec.count is not None
    count = spec.count.integer(names)
    if count < 1 or count * spec.element.dtype.itemsize > MAX_BUFFER_BYTES:
        most = MAX_BUFFER_BYTES // 2**30
        raise InputError(
            f"argument {spec.text!r}: {count} elements; at least 1 and at most {most} GiB are accepted "
            "(null is a pointer to nothing)"
        )
    return _filled(spec.fill, spec.element, count, rng)


def _filled(fill: Fill, element: ElementType, count: int, rng: np.random.Generator) -> Contents:
    dtype = element.number_dtype
    if fill.kind in (FillKind.RANDOM, FillKind.BOUNDED):
        return Repeated(element.encoded(_drawn(fill, dtype, min(count, RANDOM_PERIOD), rng)), count)
    if fill.kind is FillKind.CONSTANT:
        return Repeated(np.full(min(count, CONSTANT_PERIOD), element.scalar(fill.low)), count)
    return Computed(f"{element.value} arange", partial(_counted, element), element.dtype, count)


def _counted(element: ElementType, index: NDArray[np.int64]) -> NDArray[Any]:
    return element.encoded(index.astype(element.number_dtype))


def _drawn(fill: Fill, dtype: np.dtype[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    if dtype.kind == "f":
        low, high = (fill.low, fill.high) if fill.kind is FillKind.BOUNDED else (-1.0, 1.0)
        drawn = rng.random(count, dtype=np.float64 if dtype.itemsize == 8 else np.float32)
        if high - low > float(np.finfo(drawn.dtype).max):  # wider than the type's largest number
            return (drawn * high + (1 - drawn) * low).astype(dtype, copy=False)
        drawn *= high - low
        drawn += low
        return drawn.astype(dtype, copy=False)
    usual = (0, 1) if dtype.kind == "b" else RANDOM_INTEGERS
    low, high = (fill.low, fill.high) if fill.kind is FillKind.BOUNDED else usual
    return rng.integers(int(low), int(high), count, dtype=dtype, endpoint=True)


def _from_file(spec: BufferSpec, names: Mapping[str, Value]) -> NDArray[Any]:
    assert spec.fill.path is not None
    array = _loaded(spec.text, spec.fill.path)
    if array.dtype != spec.element.dtype:
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {array.dtype}, not {spec.element.dtype}")
    if spec.count is not None and array.size != spec.count.integer(names):
        wanted = spec.count.integer(names)
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {array.size} elements, not {wanted}")
    return array


def _loaded(text: str, path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as stream:
            array = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile, TokenError) as error:
        raise InputError(f"argument {text!r}: {path} cannot be read: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"argument {text!r}: {path} holds several arrays; one is needed")
    return array


def scalar_value(spec: ScalarSpec, element: ElementType, names: Mapping[str, Value]) -> np.generic:
    """The scalar as NumPy value of a type: its own, or for one without a type that of its parameter.

    >>> from perfmodel.launch.argument_text import parse_argument
    >>> scalar_value(parse_argument("2 * N"), ElementType.U8, {"N": 100})
    np.uint8(200)
    """
    if element.is_float:
        number = spec.value.value(names)
        if isinstance(number, str):
            raise InputError(f"argument {spec.text!r}: {number!r} is no number")
        return element.scalar(number)
    whole = spec.value.integer(names)
    require_fits(spec.text, element, whole)
    return element.scalar(whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureContents:
    """Bytes of structures, one after the other, and what their pointers point to.

    ``pointed``: offset of the pointer, index of its structure, number of its field from 1, contents.
    """

    content: NDArray[np.uint8]
    pointed: tuple[tuple[int, int, int, NDArray[Any] | Contents], ...] = ()


def structure_contents(spec: StructureSpec, rng: np.random.Generator, names: Mapping[str, Value]) -> StructureContents:
    """A structure or a buffer of them; fields lie where C++ puts them, each at a multiple of its element's size.

    >>> from perfmodel.launch.argument_text import parse_argument
    >>> found = structure_contents(parse_argument("struct=i8=1,f64=0.5,*f32[4]"), np.random.default_rng(0), {})
    >>> len(found.content), [(offset, field, buffer.size) for offset, _, field, buffer in found.pointed]
    (24, [(16, 3, 4)])
    >>> found = structure_contents(parse_argument("struct[3]=i32[1]=arange,i8=7"), np.random.default_rng(0), {})
    >>> found.content.view(np.int32).tolist()
    [0, 7, 1, 7, 2, 7]
    """
    count = None if spec.count is None else spec.count.integer(names)
    if spec.path is not None:
        array = _loaded(spec.text, spec.path)
        if count is not None and array.size != count:
            raise InputError(f"argument {spec.text!r}: {spec.path} holds {array.size} structures, not {count}")
        return StructureContents(content=np.ascontiguousarray(array).reshape(-1).view(np.uint8))
    count = 1 if count is None else count
    if count < 1:
        raise InputError(
            f"argument {spec.text!r}: {count} structures; at least 1 is accepted (null is a pointer to nothing)"
        )
    places: list[tuple[int, NDArray[Any]]] = []
    pointers: list[tuple[int, int, BufferSpec]] = []
    end, widest = 0, 1
    for number, field in enumerate(spec.fields, 1):
        values = _of_each(field, count, rng, names)
        width = values.dtype.itemsize
        offset, widest = round_up(end, width), max(widest, width)
        if isinstance(field, PointerSpec) and field.buffer is not None:
            pointers.append((offset, number, field.buffer))
        places.append((offset, values.view(np.uint8)))
        end = offset + places[-1][1].shape[1]
    size = round_up(end, widest)
    content = np.zeros((count, size), np.uint8)
    for offset, data in places:
        content[:, offset : offset + data.shape[1]] = data
    pointed = (
        (size * one + offset, one, number, buffer_contents(buffer, rng, names))
        for one in range(count)
        for offset, number, buffer in pointers
    )
    return StructureContents(content=content.reshape(-1), pointed=tuple(pointed))


def _of_each(field: FieldSpec, count: int, rng: np.random.Generator, names: Mapping[str, Value]) -> NDArray[Any]:
    """A field of each of so many structures, shape (structures, elements); pointers are null."""
    if isinstance(field, PointerSpec):
        return np.zeros((count, 1), np.uint64)
    if isinstance(field, ScalarSpec):
        assert field.element is not None
        return np.full((count, 1), scalar_value(field, field.element, names))
    if field.count is None or count == 1:
        return np.tile(np.asarray(buffer_contents(field, rng, names)).reshape(1, -1), (count, 1))
    each = field.count.integer(names)
    elements = each if field.fill.kind is FillKind.FILE else each * count
    every = replace(field, count=parse_expression(elements))
    return np.asarray(buffer_contents(every, rng, names)).reshape(-1, each)


def tensor_map_tiling(spec: TensorMapSpec, names: Mapping[str, Value]) -> TensorTiling:
    """The tiling of a tensor map; extents may use names of a tuning space.

    Raises:
        InputError: the driver would refuse it.

    >>> from perfmodel.launch.argument_text import parse_argument
    >>> tensor_map_tiling(parse_argument("tensormap=f16[M,64]:box=128,64:swizzle=128"), {"M": 512}).shape
    (512, 64)
    """

    def numbers(parts: tuple[Expression, ...] | None) -> tuple[int, ...] | None:
        return None if parts is None else tuple(part.integer(names) for part in parts)

    shape, box = numbers(spec.shape), numbers(spec.box)
    assert shape is not None
    assert box is not None
    try:
        tiling = tensor_tiling(
            spec.buffer.element.value,
            shape,
            box=box,
            strides_bytes=numbers(spec.strides_bytes),
            element_strides=numbers(spec.element_strides),
            swizzle_bytes=spec.swizzle_bytes,
        )
    except InputError as error:
        raise InputError(f"argument {spec.text!r}: {error}") from None
    return tiling


def seen_texture(spec: TextureSpec, names: Mapping[str, Value]) -> Texture:
    """How a texture or surface object sees its array; extents may use names of a tuning space.

    Raises:
        InputError: CUDA would create no such object.

    >>> from perfmodel.launch.argument_text import parse_argument
    >>> seen_texture(parse_argument("texture=u8[N,64]:channels=4:float:linear"), {"N": 32}).size_bytes
    8192
    """
    extents = [part.integer(names) for part in spec.shape]
    element, has_rows = spec.buffer.element, spec.extent.has_rows
    width, height = extents[-1], extents[-2] if has_rows else 1
    outer = math.prod(extents[: -2 if has_rows else -1])
    is_space = spec.extent is Extent.SPACE
    kind = TexelKind.FLOAT if element.is_float else TexelKind.SIGNED if element.value[0] == "i" else TexelKind.UNSIGNED
    texture = Texture(
        extent=spec.extent,
        width=width,
        height=height,
        depth=outer if is_space else 1,
        layers=1 if is_space else outer,
        kind=kind,
        channel_bits=8 * element.dtype.itemsize,
        channels=spec.channels,
        pitch_bytes=width * spec.channels * element.dtype.itemsize if spec.in_memory and has_rows else 0,
        linear=spec.linear,
        address_modes=(spec.address_mode,) * 3,
        normalized=spec.normalized,
        as_float=spec.as_float,
    )
    try:
        return checked(texture)
    except InputError as error:
        raise InputError(f"argument {spec.text!r}: {error}") from None
