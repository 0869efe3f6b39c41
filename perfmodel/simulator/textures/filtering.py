"""What a texture instruction gives: texels as numbers, filtered, and as the bits of its registers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...launch.texture import TexelKind, Texture
from .texels import FRACTION_BITS, Texels

Words = NDArray[np.uint32]
Floats = NDArray[np.float64]
COMPONENTS = 4
_MISSING = (0.0, 0.0, 0.0, 1.0)
"""What components give that a texel has not."""
_WHOLE = 1 << FRACTION_BITS
_LARGEST_SIGNED, _LARGEST_UNSIGNED = 32_767.0, 65_535.0
_MANTISSA_BITS = {16: 10, 32: 23}
"""Bits of a filtered floating-point number behind its first, by those of a channel."""


def _gives_floats(texture: Texture) -> bool:
    return texture.kind is TexelKind.FLOAT or texture.as_float


def _numbers(texture: Texture, raw: NDArray[Any]) -> Floats:
    """Channels as numbers: normalized integers from 0 or -1 to 1."""
    values = raw.astype(np.float64)
    if not texture.as_float:
        return values
    largest = float(np.iinfo(raw.dtype).max)
    numbers: Floats = np.maximum(values / largest, -1.0)
    return numbers


def components(texture: Texture, texels: Texels, raw: NDArray[Any], border: Sequence[float]) -> list[Words]:
    """The four components that each lane gets, as bits.

    Args:
        texture: format and filter.
        texels: of n lanes.
        raw: channels of the texels as memory holds them, shape ``(n, k, channels)``; of those outside anything.
        border: what those outside are instead.
    """
    found: list[Words] = []
    for component in range(COMPONENTS):
        if component >= texture.channels:
            found.append(_bits(texture, np.full(len(raw), _MISSING[component])))
            continue
        own = raw[:, :, component]
        if texels.weight is None:
            numbers = _numbers(texture, own[:, 0])
            bits = own[:, 0].view(np.uint32) if own.dtype == np.float32 else _bits(texture, numbers)
            outside = _bits(texture, np.array([border[component]]))
            found.append(np.where(texels.inside[:, 0], bits, outside))
        else:
            numbers = np.where(texels.inside, _scaled(texture, own), border[component] * _scale(texture))
            found.append(_filtered(texture, numbers, texels.weight).astype(np.float32).view(np.uint32))
    return found


def _scale(texture: Texture) -> float:
    """What 1 is in the units in which texels are filtered: of integers 16 bits with or without a sign."""
    if not texture.as_float:
        return 1.0
    return _LARGEST_SIGNED if texture.kind is TexelKind.SIGNED else _LARGEST_UNSIGNED


def _scaled(texture: Texture, raw: NDArray[Any]) -> Floats:
    """Channels in the units in which they are filtered."""
    values = raw.astype(np.float64)
    if not texture.as_float:
        return values
    largest = float(np.iinfo(raw.dtype).max)
    return np.rint(values * (_scale(texture) / largest))


def _filtered(texture: Texture, numbers: Floats, weight: NDArray[np.int64]) -> Floats:
    """The weighted sum of neighbours, rounded as the format says; one without a weight is not looked at."""
    total: Floats = np.where(weight == 0, 0.0, numbers * weight).sum(axis=1) / _WHOLE
    if texture.as_float:
        return np.maximum(np.floor(total + 0.5) / _scale(texture), -1.0)
    return _rounded(total, _MANTISSA_BITS[texture.channel_bits])


def _rounded(numbers: Floats, bits: int) -> Floats:
    """Numbers with so many bits behind the first; halves away from zero.

    >>> _rounded(np.array([1 + 2**-11, -1 - 2**-11, 1 + 2**-12]), 10).tolist()
    [1.0009765625, -1.0009765625, 1.0]
    """
    dropped = 52 - bits
    half, mask = np.uint64(1 << dropped - 1), np.uint64(2**64 - (1 << dropped))
    finite = np.isfinite(numbers)
    rounded = ((numbers.view(np.uint64) + half) & mask).view(np.float64)
    return np.where(finite, rounded, numbers)


def gathered_component(
    texture: Texture, texels: Texels, raw: NDArray[Any], border: Sequence[float], component: int
) -> list[Words]:
    """One component of the four texels of ``tld4``, as bits."""
    parts = [Texels(texels.column, texels.row, None, texels.inside[:, k : k + 1]) for k in range(COMPONENTS)]
    return [components(texture, part, raw[:, k : k + 1], border)[component] for k, part in enumerate(parts)]


def _bits(texture: Texture, numbers: Floats) -> Words:
    """Numbers as the bits of a register."""
    if _gives_floats(texture):
        return numbers.astype(np.float32).view(np.uint32)
    return numbers.astype(np.int64).astype(np.uint32)
