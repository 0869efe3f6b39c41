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

    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    BOOL = "bool"
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
        return self.value.startswith(("f", "bf"))

    @property
    def _mantissa_bits(self) -> int:
        """Of the types that NumPy has not; 0 of the others."""
        return {"bf16": 7, "f8e4m3": 3, "f8e5m2": 2}.get(self.value, 0)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's type of what memory holds; of types that NumPy has not, unsigned integers hold the bits.

        >>> ElementType.F16.dtype, ElementType.BF16.dtype, ElementType.F8E4M3.dtype
        (dtype('float16'), dtype('uint16'), dtype('uint8'))
        """
        if self._mantissa_bits:
            return np.dtype(np.uint16 if self is ElementType.BF16 else np.uint8)
        if self is ElementType.BOOL:
            return np.dtype(np.bool_)
        return np.dtype(f"{self.value[0]}{int(self.value[1:]) // 8}")

    @property
    def number_dtype(self) -> np.dtype[Any]:
        """NumPy's type to compute values in before `encoded`."""
        return np.dtype(np.float32) if self._mantissa_bits else self.dtype

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest finite value."""
        if self._mantissa_bits:
            highest = {"bf16": 2.0**128 - 2.0**120, "f8e4m3": 448.0, "f8e5m2": 57344.0}[self.value]
            return -highest, highest
        if self is ElementType.BOOL:
            return 0, 1
        limits: Any = np.finfo(self.dtype) if self.is_float else np.iinfo(self.dtype)
        return (float(limits.min), float(limits.max)) if self.is_float else (int(limits.min), int(limits.max))

    def encoded(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Values of `number_dtype` as memory holds them.

        >>> [hex(bits) for bits in ElementType.BF16.encoded(np.float32([1.0, -2.5]))]
        ['0x3f80', '0xc020']
        >>> [hex(bits) for bits in ElementType.F8E4M3.encoded(np.float32([1.0, -448.0, 0.001, 1.0625]))]
        ['0x38', '0xfe', '0x1', '0x38']
        """
        if not self._mantissa_bits:
            return numbers
        if self is not ElementType.BF16:
            return self._encoded_in_a_byte(numbers)
        bits = np.atleast_1d(numbers).view(np.uint32).astype(np.uint64)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
        return np.where(np.isnan(numbers), 0x7FC0, rounded).astype(np.uint16).reshape(numbers.shape)

    def _encoded_in_a_byte(self, numbers: NDArray[Any]) -> NDArray[np.uint8]:
        """To the nearest value, ties to even; what is beyond the largest becomes it, as conversions on a GPU do."""
        bits = self._mantissa_bits
        code = np.arange(128)
        exponent, fraction = code >> bits, code % (1 << bits) / (1 << bits)
        bias = (1 << (6 - bits)) - 1
        values = np.where(exponent > 0, (1 + fraction) * 2.0 ** (exponent - bias), fraction * 2.0 ** (1 - bias))
        values = values[values <= self.limits[1]]
        size = np.abs(np.asarray(numbers, np.float64))
        upper = np.clip(np.searchsorted(values, size), 1, len(values) - 1)
        below, above = size - values[upper - 1], values[upper] - size
        nearest = np.where((below < above) | ((below == above) & (upper % 2 == 1)), upper - 1, upper)
        found = np.where(np.isnan(numbers), 0x7F, nearest) | (np.signbit(numbers).astype(np.int64) << 7)
        encoded: NDArray[np.uint8] = found.astype(np.uint8)
        return encoded

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
