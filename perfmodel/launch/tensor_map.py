"""Tensor maps (``CUtensorMap``): what a bulk tensor copy knows of the array that it reads or writes."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from ..errors import InputError

TENSOR_MAP_BYTES = 128
"""Size of ``CUtensorMap`` (CUDA driver API, tensor map object management)."""
MAX_RANK = 5
SWIZZLES_BYTES = (0, 32, 64, 128)
_MAX_BOX = 256
_MAX_ELEMENT_STRIDE = 8
_ALIGNMENT_BYTES = 16
_MAGIC = b"PMTM"
_FORM = struct.Struct("<4sQBBB5I4Q5H5B")
ELEMENTS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "tf32")
"""Types of elements, by the names of the command line; ``tf32``: FP32 numbers, which copies to shared memory round to TF32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorTiling:
    """Extents of an array in global memory and of the box that one copy moves, outermost first as NumPy's shapes.

    Args:
        element: type of the elements, one of `ELEMENTS`.
        shape: elements along each axis.
        strides_bytes: bytes from one index to the next, of all axes but the innermost.
        box: elements along each axis of the box.
        element_strides: of each axis, every how many-th element is copied.
        swizzle_bytes: width of the pattern that spreads 16-byte pieces over the banks of shared memory; 0 for none.
    """

    element: str
    shape: tuple[int, ...]
    strides_bytes: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    swizzle_bytes: int = 0

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return int(re.sub(r"\D+", "", self.element, count=1)) // 8

    @property
    def element_dtype(self) -> np.dtype[Any]:
        """NumPy's type of the elements; bfloat16 as its bits."""
        if self.element == "tf32":
            return np.dtype("f4")
        return np.dtype("u2") if self.element == "bf16" else np.dtype(f"{self.element[0]}{self.element_bytes}")

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def copied(self) -> tuple[int, ...]:
        """Elements along each axis that one copy moves."""
        return tuple(-(-extent // step) for extent, step in zip(self.box, self.element_strides, strict=True))

    @property
    def box_bytes(self) -> int:
        """Bytes that one copy writes to shared memory, and that it reports to its ``mbarrier``."""
        return prod(self.copied) * self.element_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes from one row of the box to the next in shared memory: where rows are swizzled, the pattern's width."""
        return self.swizzle_bytes or self.copied[-1] * self.element_bytes

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that a box takes."""
        return prod(self.copied[:-1]) * self.row_bytes

    def encoded(self, address: int) -> bytes:
        """The 128 bytes that stand for the map of the array at an address; the driver's own form is not documented."""
        packed = _FORM.pack(
            _MAGIC,
            address,
            self.rank,
            ELEMENTS.index(self.element),
            self.swizzle_bytes,
            *_filled(self.shape, MAX_RANK),
            *_filled(self.strides_bytes, MAX_RANK - 1),
            *_filled(self.box, MAX_RANK),
            *_filled(self.element_strides, MAX_RANK),
        )
        return packed.ljust(TENSOR_MAP_BYTES, b"\0")


def _filled(values: tuple[int, ...], length: int) -> list[int]:
    return [*values, *[0] * (length - len(values))]


def decoded(data: bytes) -> tuple[int, TensorTiling] | None:
    """Address of the array and its tiling from what `TensorTiling.encoded` gives; None where it is something else.

    >>> tiling = tensor_tiling("f16", (64, 32), box=(8, 32), swizzle_bytes=64)
    >>> decoded(tiling.encoded(4096)) == (4096, tiling)
    True
    """
    magic, address, rank, element, swizzle, *numbers = _FORM.unpack_from(data.ljust(_FORM.size, b"\0"))
    if magic != _MAGIC or not 1 <= rank <= MAX_RANK or element >= len(ELEMENTS):
        return None
    shape, strides, box, steps = numbers[:5], numbers[5:9], numbers[9:14], numbers[14:19]
    return address, TensorTiling(
        element=ELEMENTS[element],
        shape=tuple(shape[:rank]),
        strides_bytes=tuple(strides[: rank - 1]),
        box=tuple(box[:rank]),
        element_strides=tuple(steps[:rank]),
        swizzle_bytes=swizzle,
    )


def tensor_tiling(
    element: str,
    shape: tuple[int, ...],
    *,
    box: tuple[int, ...],
    strides_bytes: tuple[int, ...] | None = None,
    element_strides: tuple[int, ...] | None = None,
    swizzle_bytes: int = 0,
) -> TensorTiling:
    """A tiling that the driver accepts (CUDA driver API, ``cuTensorMapEncodeTiled``); strides are those without gaps when None.

    Raises:
        InputError: the driver would refuse it; the text says why.

    >>> tensor_tiling("f16", (128, 64), box=(64, 64), swizzle_bytes=128).strides_bytes
    (128,)
    """
    if not 1 <= len(shape) <= MAX_RANK:
        raise InputError(f"a tensor map has 1 to {MAX_RANK} axes, not {len(shape)}")
    if element not in ELEMENTS:
        raise InputError(f"elements {element!r} of a tensor map are none of {' '.join(ELEMENTS)}")
    tiling = TensorTiling(
        element=element,
        shape=shape,
        strides_bytes=(),
        box=box,
        element_strides=(1,) * len(shape) if element_strides is None else element_strides,
        swizzle_bytes=swizzle_bytes,
    )
    dense = tuple(prod(shape[axis:]) * tiling.element_bytes for axis in range(1, len(shape)))
    tiling = replace(tiling, strides_bytes=dense if strides_bytes is None else strides_bytes)
    _check(tiling)
    return tiling


def _check(tiling: TensorTiling) -> None:
    rank, inner_bytes = tiling.rank, (tiling.copied[-1] if len(tiling.box) == len(tiling.element_strides) else 0)
    inner_bytes *= tiling.element_bytes
    if len(tiling.box) != rank or len(tiling.element_strides) != rank or len(tiling.strides_bytes) != rank - 1:
        raise InputError(f"a tensor map of {rank} axes needs a box of {rank} extents and {rank - 1} strides")
    if min(tiling.shape) < 1 or max(tiling.shape) >= 2**32:
        raise InputError(f"extents {tiling.shape} of a tensor map must lie in 1 … {2**32 - 1}")
    if not all(1 <= extent <= _MAX_BOX for extent in tiling.box):
        raise InputError(f"extents {tiling.box} of a box must lie in 1 … {_MAX_BOX}")
    if not all(1 <= step <= _MAX_ELEMENT_STRIDE for step in tiling.element_strides):
        raise InputError(f"strides {tiling.element_strides} of elements must lie in 1 … {_MAX_ELEMENT_STRIDE}")
    if any(stride % _ALIGNMENT_BYTES or not 0 < stride < 2**40 for stride in tiling.strides_bytes):
        raise InputError(
            f"strides {tiling.strides_bytes} of a tensor map must be multiples of {_ALIGNMENT_BYTES} bytes"
        )
    if inner_bytes % _ALIGNMENT_BYTES:
        raise InputError(f"the box's rows of {inner_bytes} bytes must be a multiple of {_ALIGNMENT_BYTES} bytes")
    if tiling.swizzle_bytes not in SWIZZLES_BYTES:
        raise InputError(f"swizzle {tiling.swizzle_bytes} is not one of {SWIZZLES_BYTES} bytes")
    if tiling.swizzle_bytes and inner_bytes > tiling.swizzle_bytes:
        raise InputError(f"the box's rows of {inner_bytes} bytes exceed the swizzle of {tiling.swizzle_bytes} bytes")
