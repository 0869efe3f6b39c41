"""Arguments from texts: ``f32[1048576]``, ``i32[1000]=0..999``, ``f32[64]=@weights.npy``, ``i32=512``, ``512``, ``null``."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from .argument_spec import (
    ArgumentSpec,
    BufferSpec,
    FieldSpec,
    Fill,
    FillKind,
    NullSpec,
    PointerSpec,
    ScalarSpec,
    StructureSpec,
    TensorMapSpec,
    TextureSpec,
)
from .element_type import ElementType, require_fits
from .expression import Expression, parse_expression
from .texture import AddressMode, Extent

_FORMS = (
    "f32[1048576], f32[64]=0, i32[64]=arange, i32[1000]=0..999, f32[64]=@file.npy, i32=512, f32=0.5, 512, null, "
    "struct=@file.npy, struct=i32=64,f32=0.5,*f32[64], struct[100]=i32[1]=0..9,f32[3], "
    "tensormap=f16[512,64]:box=128,64:swizzle=128, texture=f32[512,512]:linear, surface=f32[512,512]"
)
_SPEC = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[(.*?)\])?\s*(?:=(?!=)(.*))?", re.DOTALL)
_COMMA = re.compile(r",(?![^(]*\))")
"""Between the extents of two axes."""
_NO_TEXELS = frozenset({"f64", "bf16", "i64", "u64", "bool", "f8e4m3", "f8e5m2"})
"""Elements that textures have not."""
_INTEGER = re.compile(r"[+-]?\d+")
_NULL = "null"
_STRUCTURE = "struct"
_TENSOR_MAP = re.compile(r"\s*tensormap\s*=(?!=)(.*)", re.DOTALL)
_TEXTURE = re.compile(r"\s*(texture|surface)\s*=(?!=)(.*)", re.DOTALL)
_ADDRESS_MODES = {mode.name.lower(): mode for mode in AddressMode}
_EXTENTS = {
    "": {1: Extent.LINEAR, 2: Extent.PLANE, 3: Extent.SPACE},
    "array": {1: Extent.LINE, 2: Extent.PLANE, 3: Extent.SPACE},
    "memory": {1: Extent.LINEAR, 2: Extent.PLANE},
    "layers": {2: Extent.LAYERED_LINE, 3: Extent.LAYERED_PLANE},
    "cube": {3: Extent.CUBE, 4: Extent.LAYERED_CUBE},
}
"""Kinds of arrays by the option that names them and the number of axes."""
_SAMPLING = ("linear", "normalized", "float")
_TENSOR_BUFFER = re.compile(r"\s*(\w+)\s*\[(.*?)\]\s*(?:=(.*))?", re.DOTALL)


def parse_argument(text: str) -> ArgumentSpec:
    """An argument from its text; ``InputError`` names the text and shows the accepted forms.

    >>> parse_argument("i32[1000]=0..999").fill.high
    999
    >>> parse_argument("f32=0.5").value.value({})
    0.5
    """
    tensor_map = _TENSOR_MAP.fullmatch(text)
    if tensor_map is not None:
        return _tensor_map(text, tensor_map[1])
    texture = _TEXTURE.fullmatch(text)
    if texture is not None:
        return _texture(text, texture[1], texture[2])
    match = _SPEC.fullmatch(text)
    known = {kind.value: kind for kind in ElementType}
    if text.strip() == _NULL:
        return NullSpec(text=text)
    if match is not None and match[1] == _STRUCTURE:
        return _structure(text, match[2], (match[3] or "").strip())
    if match is None or match[1] not in known:
        if match is None or (match[2] is None and match[3] is None):
            return ScalarSpec(text=text, element=None, value=_expression(text, text))
        raise InputError(
            f"argument {text!r} is not understood: unknown type {match[1]!r} (types: {' '.join(known)}); accepted are {_FORMS}"
        )
    element, count, rest = known[match[1]], match[2], match[3]
    if count is None:
        if rest is None or not rest.strip():
            raise InputError(f"argument {text!r}: a scalar needs a value, a buffer a size; accepted are {_FORMS}")
        return ScalarSpec(text=text, element=element, value=_expression(text, rest))
    fill = _fill(text, element, rest)
    if not count.strip() and fill.kind is not FillKind.FILE:
        raise InputError(f"argument {text!r} needs a number of elements, as f32[1024], or a file, as f32[]=@file.npy")
    if not count.strip():
        return BufferSpec(text=text, element=element, count=None, fill=fill)
    axes = _COMMA.split(count)
    shape = tuple(_expression(text, axis) for axis in axes) if len(axes) > 1 else ()
    product = "*".join(f"({axis})" for axis in axes) if shape else count
    return BufferSpec(text=text, element=element, count=_expression(text, product), fill=fill, shape=shape)


def _structure(text: str, size: str | None, value: str) -> StructureSpec:
    """A structure from what stands behind ``struct=``, or a buffer of so many as ``struct[size]=`` says."""
    in_buffer, count = size is not None, _expression(text, size) if size and size.strip() else None
    if len(value) > 1 and value.startswith("@"):
        return StructureSpec(text=text, path=Path(value[1:]), in_buffer=in_buffer, count=count)
    forms = "by its bytes, as struct=@file.npy, or by its fields, as struct=i32=64,f32=0.5,f32[3]=0,*f32[64],null"
    if not value or value.startswith("@"):
        raise InputError(f"argument {text!r}: a structure is given {forms}")
    if in_buffer and count is None:
        raise InputError(f"argument {text!r} needs a number of structures, as struct[100]=i32[1]=0..9,f32[3]")
    fields: list[FieldSpec] = []
    for part in re.split(r",(?![^\[(]*[\])])", value):
        pointed = part.strip().removeprefix("*")
        field = parse_argument(pointed)
        if pointed != part.strip():
            if not isinstance(field, BufferSpec):
                raise InputError(f"argument {text!r}: {part!r} is no pointer to a buffer, as *f32[64] is")
            fields.append(PointerSpec(text=part, buffer=field))
        elif isinstance(field, NullSpec):
            fields.append(PointerSpec(text=part))
        elif not isinstance(field, ScalarSpec | BufferSpec) or (isinstance(field, ScalarSpec) and not field.element):
            raise InputError(f"argument {text!r}: field {field.text!r} has no type; a structure is given {forms}")
        else:
            fields.append(field)
    return StructureSpec(text=text, fields=tuple(fields), in_buffer=in_buffer, count=count)


def _tensor_map(text: str, described: str) -> TensorMapSpec:
    first, *options = described.split(":")
    match = _TENSOR_BUFFER.fullmatch(first)
    if match is None or not match[2].strip():
        raise InputError(f"argument {text!r}: a tensor map needs its array, as in tensormap=f16[512,64]:box=128,64")
    shape = _expressions(text, match[2])
    elements = "*".join(f"({part})" for part in match[2].split(","))
    buffer = parse_argument(f"{match[1]}[{elements}]" + ("" if match[3] is None else f"={match[3]}"))
    assert isinstance(buffer, BufferSpec)
    found: dict[str, str] = {}
    for option in options:
        name, _, value = option.partition("=")
        if name.strip() not in ("box", "strides", "elements", "swizzle") or not value.strip():
            raise InputError(f"argument {text!r}: {option!r} is none of box=…, strides=…, elements=…, swizzle=…")
        found[name.strip()] = value.strip()
    if "box" not in found:
        raise InputError(f"argument {text!r}: a tensor map needs the box that one copy moves, as in :box=128,64")
    swizzle = {"none": "0"}.get(found.get("swizzle", "none"), found.get("swizzle", "0"))
    if swizzle not in ("0", "32", "64", "128"):
        raise InputError(f"argument {text!r}: swizzle={swizzle} is none of none, 32, 64, 128")
    return TensorMapSpec(
        text=text,
        buffer=replace(buffer, text=text),
        shape=shape,
        box=_expressions(text, found["box"]),
        strides_bytes=_expressions(text, found["strides"]) if "strides" in found else None,
        element_strides=_expressions(text, found["elements"]) if "elements" in found else None,
        swizzle_bytes=int(swizzle),
    )


def _texture(text: str, kind: str, described: str) -> TextureSpec:
    first, *options = (part.strip() for part in described.split(":"))
    match = _TENSOR_BUFFER.fullmatch(first)
    if match is None or not match[2].strip():
        raise InputError(f"argument {text!r}: a {kind} object needs its array, as in {kind}=f32[512,512]")
    shape = _expressions(text, match[2])
    arrays = [option for option in options if option in _EXTENTS]
    modes = [option for option in options if option in _ADDRESS_MODES]
    channels = [option for option in options if re.fullmatch(r"channels\s*=\s*[124]", option)]
    known = (*arrays, *modes, *channels, *(_SAMPLING if kind == "texture" else ()))
    wrong = [option for option in options if option not in known]
    if wrong or max(len(arrays), len(modes), len(channels)) > 1 or (modes and kind == "surface"):
        accepted = "channels=1|2|4, " + ", ".join(name for name in _EXTENTS if name)
        accepted += f", {', '.join((*_ADDRESS_MODES, *_SAMPLING))}" if kind == "texture" else ""
        raise InputError(f"argument {text!r}: options {options} are not understood; accepted are {accepted}")
    by_axes = _EXTENTS[arrays[0] if arrays else "array" if kind == "surface" else ""]
    if len(shape) not in by_axes:
        axes = " or ".join(map(str, by_axes))
        raise InputError(f"argument {text!r}: {len(shape)} axes given, a {arrays[0] if arrays else kind} has {axes}")
    count = int(channels[0][-1]) if channels else 1
    elements = "*".join([*(f"({part})" for part in match[2].split(",")), str(count)])
    buffer = parse_argument(f"{match[1]}[{elements}]" + ("" if match[3] is None else f"={match[3]}"))
    assert isinstance(buffer, BufferSpec)
    if buffer.element.value in _NO_TEXELS:
        raise InputError(f"argument {text!r}: texels of {buffer.element.value} are not known to textures")
    return TextureSpec(
        text=text,
        buffer=replace(buffer, text=text),
        shape=shape,
        extent=by_axes[len(shape)],
        channels=count,
        in_memory=arrays == ["memory"],
        address_mode=_ADDRESS_MODES[modes[0]] if modes else AddressMode.CLAMP,
        linear="linear" in options,
        normalized="normalized" in options,
        as_float="float" in options,
    )


def _fill(text: str, element: ElementType, rest: str | None) -> Fill:
    if rest is None:
        return Fill(kind=FillKind.RANDOM)
    rest = rest.strip()
    if rest == "arange":
        return Fill(kind=FillKind.ARANGE)
    if rest.startswith("@") and len(rest) > 1:
        return Fill(kind=FillKind.FILE, path=Path(rest[1:]))
    low, ranged, high = rest.partition("..")
    first = _number(text, element, low)
    if not ranged:
        return Fill(kind=FillKind.CONSTANT, low=first)
    last = _number(text, element, high)
    if not (math.isfinite(first) and math.isfinite(last)):
        raise InputError(f"argument {text!r}: a range has finite ends, not {low}..{high}")
    if last < first:
        raise InputError(f"argument {text!r}: the bounds {low}..{high} are in the wrong order")
    return Fill(kind=FillKind.BOUNDED, low=first, high=last)


def _number(text: str, element: ElementType, part: str) -> float:
    try:
        value = float(part)
    except ValueError:
        raise InputError(f"argument {text!r}: {part!r} is no number, arange, LOW..HIGH or @FILE.npy") from None
    if not element.is_float and math.isfinite(value) and _INTEGER.fullmatch(part.strip()):
        value = int(part)  # a float holds 53 bits of it
    elif not element.is_float and not value.is_integer():
        raise InputError(f"argument {text!r}: {part!r} is no integer, and the elements are {element.value}")
    require_fits(text, element, value)
    return value


def _expressions(text: str, parts: str) -> tuple[Expression, ...]:
    return tuple(_expression(text, part) for part in parts.split(","))


def _expression(text: str, part: str) -> Expression:
    try:
        return parse_expression(part)
    except InputError as error:
        raise InputError(f"argument {text!r}: {error}") from None
