"""Types of elements and scalars, by the names of the command line: ``f32``, ``bf16``, ``u8``."""

from __future__ import annotations

import math
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError


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


def require_fits(text: str, element: ElementType, value: float) -> None:
    """Refuse a value that the type cannot hold; the message begins with the argument's text.

    Raises:
        InputError: the value is beyond the type's limits; infinities and NaN fit every type with fractions.

    >>> require_fits("u8=255", ElementType.U8, 255)
    """
    lowest, highest = element.limits
    if not element.is_float:
        if not lowest <= value <= highest:
            raise InputError(f"argument {text!r}: {int(value)} does not fit {element.value}")
    elif math.isfinite(value) and abs(value) > highest:
        raise InputError(f"argument {text!r}: {value:g} is beyond {highest:g}, the largest {element.value}")
