"""Conversions that NumPy does otherwise than the hardware (PTX ISA 9.7.9.21)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.types import ScalarType
from .floats import convert_directed, rectify, to_bfloat16


def float_to_integer(values: NDArray[Any], target: ScalarType) -> NDArray[Any]:
    """Integral floats as integers, clamped to the range of the type.

    NaN becomes 0, from double precision and to 64 bits the top bit alone.

    >>> float_to_integer(np.array([3e9, -1.0, np.nan], np.float32), np.uint32).tolist()
    [3000000000, 0, 0]
    """
    limits: np.iinfo[Any] = np.iinfo(np.dtype(target).str)
    wide = values.astype(np.float64)
    high = np.float64(limits.max)
    inside = np.where((wide > limits.min) & (wide < high), wide, 0.0)
    result = inside.astype(target)
    result = np.where(wide >= high, target(limits.max), result)
    result = np.where(wide <= limits.min, target(limits.min), result)
    if values.dtype != np.float64 and limits.bits < 64:
        return result
    top = np.array(1 << (limits.bits - 1), np.dtype(f"u{limits.bits // 8}")).view(target)
    return np.where(np.isnan(wide), top, result)


def clamp_integer(values: NDArray[Any], target: ScalarType) -> NDArray[Any]:
    """Integers clamped to the range of a type."""
    limits: np.iinfo[Any] = np.iinfo(np.dtype(target).str)
    own: np.iinfo[Any] = np.iinfo(values.dtype)
    low, high = max(limits.min, own.min), min(limits.max, own.max)
    clamped: NDArray[Any] = np.clip(values, values.dtype.type(low), values.dtype.type(high)).astype(target)
    return clamped


def truncate_bfloat16(values: NDArray[Any]) -> NDArray[np.uint16]:
    """Bits of the bfloat16 next to a float towards zero."""
    single = values.astype(np.float32)
    bits = (single.view(np.uint32) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(single), np.uint16(0x7FFF), bits)


def pack_halves(
    high: NDArray[np.float32], low: NDArray[np.float32], half: bool, relu: bool, truncate: bool
) -> NDArray[np.uint32]:
    """Two floats as packed half-precision (``half``) or bfloat16 values."""
    words = []
    for values in (low, high):
        chosen = rectify(values) if relu else values
        if half:
            rounded = convert_directed(chosen, np.float16, "rz") if truncate else chosen.astype(np.float16)
            words.append(rounded.view(np.uint16).astype(np.uint32))
        else:
            words.append((truncate_bfloat16(chosen) if truncate else to_bfloat16(chosen)).astype(np.uint32))
    return words[0] | (words[1] << np.uint32(16))
