"""Kernel arguments as texts: ``f32[1048576]``, ``i32[1000]=0..999``, ``f32[64]=@weights.npy``, ``i32=512``."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from tokenize import TokenError
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .expression import Expression, Value, parse_expression

MAX_BUFFER_BYTES = 2**32
RANDOM_PERIOD = 1_048_583
"""Random contents repeat after so many elements (a prime, so that no row length divides it): drawing more only costs time."""
RANDOM_INTEGERS = (0, 127)
"""Bounds of random integers without bounds of their own: every type holds them."""
_FORMS = "f32[1048576], f32[64]=0, i32[64]=arange, i32[1000]=0..999, f32[64]=@file.npy, i32=512, f32=0.5"
_SPEC = re.compile(r"\s*(\w+)\s*(?:\[(.*?)\])?\s*(?:=(.*))?", re.DOTALL)


class ElementType(Enum):
    """Types of elements and scalars, by the names of the command line."""

    F16 = "f16"
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
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type.

        >>> ElementType.F16.dtype
        dtype('float16')
        """
        kind, bits = self.value[0], int(self.value[1:])
        return np.dtype(f"{kind}{bits // 8}")

    def scalar(self, value: float) -> np.generic:
        """A value as NumPy scalar of this type."""
        found: np.generic = self.dtype.type(value)
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
    """A buffer: elements, how many (None: as many as the file has), contents."""

    text: str
    element: ElementType
    count: Expression | None
    fill: Fill


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarSpec:
    """A scalar: its type and value."""

    text: str
    element: ElementType
    value: Expression


ArgumentSpec = BufferSpec | ScalarSpec


def parse_argument(text: str) -> ArgumentSpec:
    """An argument from its text; ``InputError`` names the text and shows the accepted forms.

    >>> parse_argument("i32[1000]=0..999").fill.high
    999.0
    >>> parse_argument("f32=0.5").value.value({})
    0.5
    """
    match = _SPEC.fullmatch(text)
    known = {kind.value: kind for kind in ElementType}
    if match is None or match[1] not in known:
        problem = "" if match is None else f": unknown type {match[1]!r} (types: {' '.join(known)})"
        raise InputError(f"argument {text!r} is not understood{problem}; accepted are {_FORMS}")
    element, count, rest = known[match[1]], match[2], match[3]
    if count is None:
        if rest is None or not rest.strip():
            raise InputError(f"argument {text!r}: a scalar needs a value, a buffer a size; accepted are {_FORMS}")
        return ScalarSpec(text=text, element=element, value=_expression(text, rest))
    fill = _fill(text, element, rest)
    if not count.strip() and fill.kind is not FillKind.FILE:
        raise InputError(f"argument {text!r} needs a number of elements")
    return BufferSpec(text=text, element=element, count=_expression(text, count) if count.strip() else None, fill=fill)


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
    if element.value[0] != "f" and not value.is_integer():
        raise InputError(f"argument {text!r}: {part!r} is no integer, and the elements are {element.value}")
    _require_fits(text, element, value)
    return value


def _require_fits(text: str, element: ElementType, value: float) -> None:
    if element.value[0] != "f":
        limits = np.iinfo(element.dtype)
        if not limits.min <= value <= limits.max:
            raise InputError(f"argument {text!r}: {value:.0f} does not fit {element.value}")
    elif math.isfinite(value) and abs(value) > (largest := float(np.finfo(element.dtype).max)):
        raise InputError(f"argument {text!r}: {value:g} is beyond {largest:g}, the largest {element.value}")


def buffer_contents(spec: BufferSpec, rng: np.random.Generator, names: Mapping[str, Value]) -> NDArray[Any]:
    """The array that a buffer holds before the launch; sizes may use names of a tuning space.

    >>> buffer_contents(parse_argument("i32[N]=arange"), np.random.default_rng(0), {"N": 3}).tolist()
    [0, 1, 2]
    """
    if spec.fill.kind is FillKind.FILE:
        return _from_file(spec, names)
    assert spec.count is not None
    count = spec.count.integer(names)
    dtype = spec.element.dtype
    if count < 1 or count * dtype.itemsize > MAX_BUFFER_BYTES:
        raise InputError(f"argument {spec.text!r}: {count} elements; at least 1 and at most 4 GiB are accepted")
    return _filled(spec.fill, dtype, count, rng)


def _filled(fill: Fill, dtype: np.dtype[Any], count: int, rng: np.random.Generator) -> NDArray[Any]:
    if fill.kind in (FillKind.RANDOM, FillKind.BOUNDED):
        return _repeated(_drawn(fill, dtype, min(count, RANDOM_PERIOD), rng), count)
    if fill.kind is FillKind.CONSTANT:
        return _alike(dtype.type(fill.low), count)
    return np.arange(count, dtype=np.int64).astype(dtype)


def _alike(element: Any, count: int) -> NDArray[Any]:
    """The element over and over; zeros are left to the system, whose fresh memory holds them."""
    return np.full(count, element) if any(element.tobytes()) else np.zeros(count, element.dtype)


def _repeated(period: NDArray[Any], count: int) -> NDArray[Any]:
    """The period over and over, in one pass over memory (``np.resize`` makes two)."""
    found = np.empty(count, period.dtype)
    for start in range(0, count, len(period)):
        part = found[start : start + len(period)]
        part[:] = period[: len(part)]
    return found


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


def _from_file(spec: BufferSpec, names: Mapping[str, Value]) -> NDArray[Any]:
    assert spec.fill.path is not None
    try:
        with spec.fill.path.open("rb") as stream:
            array = np.load(stream, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, BadZipFile, TokenError) as error:
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} cannot be read: {error}") from error
    if not isinstance(array, np.ndarray) or array.dtype != spec.element.dtype:
        found = array.dtype if isinstance(array, np.ndarray) else "no single array"
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {found}, not {spec.element.dtype}")
    if spec.count is not None and array.size != spec.count.integer(names):
        wanted = spec.count.integer(names)
        raise InputError(f"argument {spec.text!r}: {spec.fill.path} holds {array.size} elements, not {wanted}")
    return array


def scalar_value(spec: ScalarSpec, names: Mapping[str, Value]) -> np.generic:
    """The scalar as NumPy value of its type.

    >>> scalar_value(parse_argument("u8=2 * N"), {"N": 100})
    np.uint8(200)
    """
    if spec.element.value[0] == "f":
        number = spec.value.value(names)
        if isinstance(number, str):
            raise InputError(f"argument {spec.text!r}: {number!r} is no number")
        return spec.element.scalar(number)
    whole = spec.value.integer(names)
    _require_fits(spec.text, spec.element, whole)
    return spec.element.scalar(whole)
