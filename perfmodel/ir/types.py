"""Value types by their PTX names, and the NumPy types that hold them (PTX ISA 5.2)."""

from __future__ import annotations

from typing import Any

import numpy as np

ScalarType = type[np.generic]

VALUE_TYPES: dict[str, ScalarType] = {
    "pred": np.bool_,
    "b8": np.uint8,
    "u8": np.uint8,
    "s8": np.int8,
    "b16": np.uint16,
    "u16": np.uint16,
    "s16": np.int16,
    "f16": np.float16,
    "bf16": np.uint16,
    "b32": np.uint32,
    "u32": np.uint32,
    "s32": np.int32,
    "f32": np.float32,
    "f16x2": np.uint32,
    "bf16x2": np.uint32,
    "b64": np.uint64,
    "u64": np.uint64,
    "s64": np.int64,
    "f64": np.float64,
}
"""How the value of each PTX type is read in an instruction; packed and bfloat16 values stay bits."""

STORAGE_TYPES: dict[str, ScalarType] = VALUE_TYPES | {
    "s8": np.uint8,
    "s16": np.uint16,
    "s32": np.uint32,
    "s64": np.uint64,
    "f16": np.uint16,
}
"""How a register of each PTX type is held."""


_UNSIGNED: dict[int, ScalarType] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SIGNED: dict[int, ScalarType] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def width_bytes(scalar_type: ScalarType) -> int:
    """Bytes of one value.

    >>> width_bytes(np.float32)
    4
    """
    return int(np.dtype(scalar_type).itemsize)


def unsigned_of(width: int) -> ScalarType:
    """The unsigned integer type of a width in bytes."""
    return _UNSIGNED[width]


def signed_of(width: int) -> ScalarType:
    """The signed integer type of a width in bytes."""
    return _SIGNED[width]


def is_float(scalar_type: ScalarType) -> bool:
    """Whether values are floating point."""
    return issubclass(scalar_type, np.floating)


def is_signed(scalar_type: ScalarType) -> bool:
    """Whether values are signed integers."""
    return issubclass(scalar_type, np.signedinteger)


def constant(value: int | float, scalar_type: ScalarType) -> Any:
    """A uniform value of shape ``(1, 1)``; integers wrap to the width of the type.

    >>> int(constant(-1, np.uint16)[0, 0])
    65535
    """
    if is_float(scalar_type) or scalar_type is np.bool_:
        return np.array([[value]]).astype(scalar_type)
    width = width_bytes(scalar_type)
    bits = np.array([[int(value) & ((1 << (8 * width)) - 1)]], dtype=unsigned_of(width))
    return bits.view(scalar_type)
