"""Kernel arguments as texts: ``f32[1048576]``, ``i32[1000]=0..999``, ``f32[64]=@weights.npy``, ``i32=512``, ``512``, ``null``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from hashlib import sha256
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..core.constants import round_up
from ..errors import InputError
from .contents import Computed, Contents, Repeated
from .expression import Expression, Value, parse_expression
from .tensor_map import TensorTiling, tensor_tiling
from .texture import AddressMode, Extent, TexelKind, Texture, checked

MAX_BUFFER_BYTES = 2**38
"""Bytes of one buffer: more than any GPU has. Of these only what the kernel reads or writes is held."""
RANDOM_PERIOD = 1_048_583
"""Random contents repeat after so many elements (a prime, so that no row length divides it): drawing more only costs time."""
CONSTANT_PERIOD = 4096
"""Equal elements that are made at once."""
RANDOM_INTEGERS = (0, 127)
"""Bounds of random integers without bounds of their own: every type holds them."""
_FORMS = (
    "f32[1048576], f32[64]=0, i32[64]=arange, i32[1000]=0..999, f32[64]=@file.npy, i32=512, f32=0.5, 512, null, "
    "struct=@file.npy, struct=i32=64,f32=0.5, tensormap=f16[512,64]:box=128,64:swizzle=128, texture=f32[512,512]:linear, "
    "surface=f32[512,512]"
)
_SPEC = re.compile(r"\s*([A-Za-z_]\w*)\s*(?:\[(.*?)\])?\s*(?:=(?!=)(.*))?", re.DOTALL)
_COMMA = re.compile(r",(?![^(]*\))")
"""Between the extents of two axes."""
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


class ElementType(Enum):
    """Types of elements and scalars, by the names of the command line."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    I8 = "i8"
    U8 = "u8"
    I16 = "i16"
    U16 = "u16"
    I32 = "i32"
    U32 = "u32"
    I64 = "i64"
    U64 = "u64"

    @property
    def is_float(self) -> bool:
        """Whether values may have fractions."""
        return self.value.startswith(("f", "b"))

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of what memory holds; NumPy has no bfloat16, whose bits are held as ``uint16``.

        >>> ElementType.F16.dtype, ElementType.BF16.dtype
        (dtype('float16'), dtype('uint16'))
        """
        if self is ElementType.BF16:
            return np.dtype(np.uint16)
        return np.dtype(f"{self.value[0]}{int(self.value[1:]) // 8}")

    @property
    def number_dtype(self) -> np.dtype[Any]:
        """NumPy's type to compute values in before `encoded`."""
        return np.dtype(np.float32) if self is ElementType.BF16 else self.dtype

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest finite value."""
        if self is ElementType.BF16:
            highest = 2.0**128 - 2.0**120  # 8 bits of mantissa
            return -highest, highest
        limits: Any = np.finfo(self.dtype) if self.is_float else np.iinfo(self.dtype)
        return (float(limits.min), float(limits.max)) if self.is_float else (int(limits.min), int(limits.max))

    def encoded(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Values of `number_dtype` as memory holds them.

        >>> [hex(bits) for bits in ElementType.BF16.encoded(np.float32([1.0, -2.5]))]
        ['0x3f80', '0xc020']
        """
        if self is not ElementType.BF16:
            return numbers
        bits = np.atleast_1d(numbers).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
        return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16).reshape(numbers.shape)

    def scalar(self, value: float) -> np.generic:
        """A value as NumPy scalar of this type."""
        found: np.generic = self.encoded(np.array([value], self.number_dtype))[0]
        return found


class FillKind(Enum):
    """What a buffer holds before the launch."""

    RANDOM = "random"
    CONSTANT = "constant"
    ARANGE = "arange"
    BOUNDED = "bounded"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fill:
    """Contents of a buffer: the kind, with a constant, bounds (inclusive for integers) or a file where it needs them."""

    kind: FillKind
    low: float = 0
    high: float = 0
    path: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferSpec:
    """A buffer: elements, how many (None: as many as the file has), contents, and extents where there are several axes."""

    text: str
    element: ElementType
    count: Expression | None
    fill: Fill
    shape: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSpec:
    """A scalar: its type, None for that of the parameter, and value."""

    text: str
    element: ElementType | None
    value: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class NullSpec:
    """A null pointer."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureSpec:
    """A structure handed over by value: a file whose bytes are the structure's, or its fields in order."""

    text: str
    path: Path | None = None
    fields: tuple[ScalarSpec | BufferSpec, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMapSpec:
    """A tensor map: its buffer, extents of the array and of the box (outermost first), strides, swizzle."""

    text: str
    buffer: BufferSpec
    shape: tuple[Expression, ...]
    box: tuple[Expression, ...]
    strides_bytes: tuple[Expression, ...] | None = None
    element_strides: tuple[Expression, ...] | None = None
    swizzle_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TextureSpec:
    """A texture or surface object: its array's texels, extents (outermost first), and how it is seen."""

    text: str
    buffer: BufferSpec
    shape: tuple[Expression, ...]
    extent: Extent
    channels: int
    in_memory: bool
    address_mode: AddressMode
    linear: bool
    normalized: bool
    as_float: bool


ArgumentSpec = BufferSpec | ScalarSpec | NullSpec | StructureSpec | TensorMapSpec | TextureSpec


def spec_identity(spec: ArgumentSpec) -> str:
    """A text that is the same where a spec means the same: of a file its contents count, not its name."""
    path = spec.fill.path if isinstance(spec, BufferSpec) else spec.path if isinstance(spec, StructureSpec) else None
    if path is None:
        return spec.text
    try:
        digest = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"argument {spec.text!r}: {path} cannot be read: {error}") from error
    return f"{spec.text.partition('@')[0]}@{digest}"


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
    if match is not None and match[1] == _STRUCTURE and match[2] is None:
        return _structure(text, (match[3] or "").strip())
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


def _structure(text: str, value: str) -> StructureSpec:
    """A structure from what stands behind ``struct=``."""
    if len(value) > 1 and value.startswith("@"):
        return StructureSpec(text=text, path=Path(value[1:]))
    forms = "by its bytes, as struct=@file.npy, or by its fields, as struct=i32=64,f32=0.5,f32[3]=0"
    if not value or value.startswith("@"):
        raise InputError(f"argument {text!r}: a structure is given {forms}")
    fields = [parse_argument(part) for part in re.split(r",(?![^\[(]*[\])])", value)]
    for field in fields:
        if not isinstance(field, ScalarSpec | BufferSpec) or (isinstance(field, ScalarSpec) and field.element is None):
            raise InputError(f"argument {text!r}: field {field.text!r} has no type; a structure is given {forms}")
    return StructureSpec(text=text, fields=tuple(f for f in fields if isinstance(f, ScalarSpec | BufferSpec)))


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
    if buffer.element in (ElementType.F64, ElementType.BF16, ElementType.I64, ElementType.U64):
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


def seen_texture(spec: TextureSpec, names: Mapping[str, Value]) -> Texture:
    """How a texture or surface object sees its array; extents may use names of a tuning space.

    Raises:
        InputError: CUDA would create no such object.

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


def _expressions(text: str, parts: str) -> tuple[Expression, ...]:
    return tuple(_expression(text, part) for part in parts.split(","))


def tensor_map_tiling(spec: TensorMapSpec, names: Mapping[str, Value]) -> TensorTiling:
    """The tiling of a tensor map; extents may use names of a tuning space.

    Raises:
        InputError: the driver would refuse it.

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


def _expression(text: str, part: str) -> Expression:
    try:
        return parse_expression(part)
    except InputError as error:
        raise InputError(f"argument {text!r}: {error}") from None


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
    _require_fits(text, element, value)
    return value


def _require_fits(text: str, element: ElementType, value: float) -> None:
    lowest, highest = element.limits
    if not element.is_float:
        if not lowest <= value <= highest:
            raise InputError(f"argument {text!r}: {int(value)} does not fit {element.value}")
    elif math.isfinite(value) and abs(value) > highest:
        raise InputError(f"argument {text!r}: {value:g} is beyond {highest:g}, the largest {element.value}")


def buffer_contents(spec: BufferSpec, rng: np.random.Generator, names: Mapping[str, Value]) -> NDArray[Any] | Contents:
    """What a buffer holds before the launch; sizes may use names of a tuning space.

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
    low, high = (fill.low, fill.high) if fill.kind is FillKind.BOUNDED else RANDOM_INTEGERS
    return rng.integers(int(low), int(high), count, dtype=dtype, endpoint=True)


def _loaded(text: str, path: Path) -> NDArray[Any]:
    try:
        with path.open("rb") as stream:
            array = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile, TokenError) as error:
        raise InputError(f"argument {text!r}: {path} cannot be read: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"argument {text!r}: {path} holds several arrays; one is needed")
    return array


def _from_file(spec: BufferSpec, names: Mapping[str, Value]) -> NDArray[Any]:
    assert spec.fill.path is not None
    array = _loaded(spec.text, spec.fill.path)
    if array.dtype != spec.element.dtype:
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {array.dtype}, not {spec.element.dtype}")
    if spec.count is not None and array.size != spec.count.integer(names):
        wanted = spec.count.integer(names)
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {array.size} elements, not {wanted}")
    return array


def structure_value(spec: StructureSpec, rng: np.random.Generator, names: Mapping[str, Value]) -> np.generic:
    """The structure's bytes as one scalar; fields lie where C++ puts them, each at a multiple of its element's size.

    >>> structure_value(parse_argument("struct=i8=1,f64=0.5"), np.random.default_rng(0), {}).nbytes
    16
    """
    if spec.path is not None:
        content = np.ascontiguousarray(_loaded(spec.text, spec.path)).tobytes()
    else:
        content, widest = b"", 1
        for field in spec.fields:
            if isinstance(field, BufferSpec):
                value = np.asarray(buffer_contents(field, rng, names))
            else:
                assert field.element is not None
                value = np.asarray(scalar_value(field, field.element, names))
            content = content.ljust(round_up(len(content), value.dtype.itemsize), b"\0") + value.tobytes()
            widest = max(widest, value.dtype.itemsize)
        content = content.ljust(round_up(len(content), widest), b"\0")
    found: np.generic = np.frombuffer(content, dtype=np.dtype((np.void, len(content))))[0]
    return found


def scalar_value(spec: ScalarSpec, element: ElementType, names: Mapping[str, Value]) -> np.generic:
    """The scalar as NumPy value of a type: its own, or for one without a type that of its parameter.

    >>> scalar_value(parse_argument("2 * N"), ElementType.U8, {"N": 100})
    np.uint8(200)
    """
    if element.is_float:
        number = spec.value.value(names)
        if isinstance(number, str):
            raise InputError(f"argument {spec.text!r}: {number!r} is no number")
        return element.scalar(number)
    whole = spec.value.integer(names)
    _require_fits(spec.text, element, whole)
    return element.scalar(whole)
