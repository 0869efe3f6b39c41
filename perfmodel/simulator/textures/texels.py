"""Which texels a texture instruction reads, and with which weights.

CUDA C++ Programming Guide, appendix on texture fetching; how coordinates and weights are rounded was compared with an H200 bit by
bit (`docs/notes/2026-11-textures.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...launch.texture import (
    CUBE_FACES,
    GOB_ROWS,
    GOB_WIDTH_BYTES,
    AddressMode,
    Extent,
    Texture,
)

Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]
FRACTION_BITS = 8
"""Bits of the fraction of a filter's weight."""
_ONE = 1 << FRACTION_BITS
_HALF = _ONE // 2
_FARTHEST = 2.0**27
"""Coordinates beyond are outside of every texture."""
_CHUNK_BYTES = 16


@dataclass(frozen=True, slots=True)
class Texels:
    """Texels that each of n lanes reads, k of them.

    Attributes:
        column: Its place along x; shape ``(n, k)``.
        row: The number of its row among all rows of all slices and layers.
        weight: In units of ``2 ** -8``; None where one texel is read as it is.
        inside: Whether it lies in the array; others are the border's colour.
    """

    column: Numbers
    row: Numbers
    weight: Numbers | None
    inside: NDArray[np.bool_]

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """Which texels are fetched: those inside that have a weight."""
        return self.inside if self.weight is None else self.inside & (self.weight != 0)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Neighbours along one axis, one or two, of n lanes: index and whether it is inside; and the weight of the second."""

    index: Numbers
    inside: NDArray[np.bool_]
    fraction: Numbers


def _whole(values: NDArray[np.float64]) -> Numbers:
    """Floats as integers; what is no number or far away becomes a place outside of every texture."""
    safe = np.nan_to_num(values, nan=-_FARTHEST, posinf=_FARTHEST, neginf=-_FARTHEST)
    found: Numbers = np.clip(safe, -_FARTHEST, _FARTHEST).astype(np.int64)
    return found


def _within(texture: Texture, axis: int, index: Numbers, size: int) -> tuple[Numbers, NDArray[np.bool_]]:
    """Indices brought into the array as the address mode says, and which of them lie inside."""
    mode = texture.address_modes[axis]
    everywhere = np.ones(index.shape, np.bool_)
    if mode is AddressMode.BORDER:
        return np.clip(index, 0, size - 1), (index >= 0) & (index < size)
    if texture.normalized and mode is AddressMode.WRAP:
        return index % size, everywhere
    if texture.normalized and mode is AddressMode.MIRROR:
        turned = index % (2 * size)
        return np.where(turned < size, turned, 2 * size - 1 - turned), everywhere
    return np.clip(index, 0, size - 1), everywhere


def _axis(texture: Texture, axis: int, coordinate: Floats, size: int, *, filtered: bool) -> _Axis:
    """The neighbours of a coordinate along one axis."""
    place = coordinate.astype(np.float64)
    if texture.normalized:
        if texture.address_modes[axis] is AddressMode.WRAP:
            place = place - np.floor(place)
        place = place * size
    if not filtered:
        index, inside = _within(texture, axis, _whole(np.floor(place)), size)
        return _Axis(index[:, None], inside[:, None], np.zeros(len(index), np.int64))
    fixed = _whole(np.floor(place * _ONE + 0.5)) - _HALF
    first = fixed >> FRACTION_BITS
    pairs = [_within(texture, axis, first + step, size) for step in (0, 1)]
    index = np.stack([index for index, _ in pairs], axis=1)
    inside = np.stack([inside for _, inside in pairs], axis=1)
    clamps = texture.address_modes[axis] is AddressMode.CLAMP or not texture.normalized
    clamped = clamps & (index[:, 0] == index[:, 1]) & inside.all(axis=1)
    return _Axis(index, inside, np.where(clamped, 0, fixed & (_ONE - 1)))


def _rounded(product: Numbers) -> Numbers:
    return (product + _HALF) >> FRACTION_BITS


def _weights(fractions: Sequence[Numbers]) -> Numbers:
    """Weights of the neighbours in units of ``2 ** -8``, x fastest, from those of the second along x, y, z.

    The whole is parted between slices, then between columns, then between rows; each time one part is rounded and the other
    is what is left, so that the sum stays whole.

    >>> _weights([np.array([102]), np.array([209])]).tolist()  # 154 * 47, 102 * 47, 154 * 209, 102 * 209, over 256
    [[28, 19, 126, 83]]
    """
    whole = np.full(len(fractions[0]), _ONE)
    slices = [whole - fractions[2], fractions[2]] if len(fractions) > 2 else [whole]
    parts: list[Numbers] = []
    for of_slice in slices:
        right = _rounded(of_slice * fractions[0])
        left = of_slice - right
        if len(fractions) == 1:
            parts += [left, right]
            continue
        right_below = _rounded(right * fractions[1])
        left_above = _rounded(left * (_ONE - fractions[1]))
        parts += [left_above, right - right_below, left - left_above, right_below]
    return np.stack(parts, axis=1)


def _faces(coordinates: Sequence[Floats]) -> tuple[Numbers, Floats, Floats]:
    """Face of a cube that a direction meets, and where on it, from 0 to 1."""
    x, y, z = (c.astype(np.float64) for c in coordinates)
    size = np.abs(np.stack([x, y, z]))
    along_z = (size[2] >= size[0]) & (size[2] >= size[1])
    along_y = ~along_z & (size[1] >= size[0])
    major = np.where(along_z, z, np.where(along_y, y, x))
    negative = major < 0
    face = np.where(along_z, 4, np.where(along_y, 2, 0)) + negative
    s = np.select([along_z, along_y], [np.where(negative, -x, x), x], np.where(negative, z, -z))
    t = np.select([along_z, along_y], [-y, np.where(negative, -z, z)], -y)
    scale = np.where(major == 0, 1.0, np.abs(major))
    return (
        face.astype(np.int64),
        ((s / scale + 1) / 2).astype(np.float32),
        ((t / scale + 1) / 2).astype(np.float32),
    )


def _layer(texture: Texture, chosen: NDArray[Any], faces: int) -> Numbers:
    return np.clip(chosen.astype(np.int64), 0, texture.layers // faces - 1) * faces


def texels_of(texture: Texture, coordinates: Sequence[Floats], layer: NDArray[Any] | None) -> Texels:
    """The texels that lanes read at their coordinates, x first; of cubes the direction's three.

    >>> plane = Texture(extent=Extent.PLANE, width=4, height=2, linear=True)
    >>> found = texels_of(plane, [np.float32([1.75]), np.float32([0.5])], None)  # between texels 1 and 2 of the first row
    >>> found.column.tolist(), found.weight.tolist(), found.is_read.tolist()
    ([[1, 2, 1, 2]], [[192, 64, 0, 0]], [[True, True, False, False]])
    """
    count = len(coordinates[0])
    slices = np.zeros(count, np.int64)
    if texture.extent.is_cube:
        face, *coordinates = _faces(coordinates)
        slices = face if layer is None else _layer(texture, layer, CUBE_FACES) + face
    elif layer is not None:
        slices = _layer(texture, layer, 1)
    outer = texture.depth if texture.extent is Extent.SPACE else 1
    axes = [
        _axis(texture, axis, coordinate, size, filtered=texture.linear)
        for axis, (coordinate, size) in enumerate(
            zip(coordinates, (texture.width, texture.height, outer), strict=False)
        )
    ]
    row, inside = slices[:, None], np.ones((count, 1), np.bool_)
    if len(axes) > 2:
        row, inside = axes[2].index, axes[2].inside
    row = row * texture.height
    if len(axes) > 1:
        row, inside = _crossed(row, axes[1].index, inside, axes[1].inside)
    column = np.tile(axes[0].index, (1, row.shape[1]))
    row, inside = _crossed(row, np.zeros_like(axes[0].index), inside, axes[0].inside)
    weight = _weights([axis.fraction for axis in axes]) if texture.linear else None
    return Texels(column, row, weight, inside)


def _crossed(
    outer: Numbers, inner: Numbers, outer_inside: NDArray[np.bool_], inner_inside: NDArray[np.bool_]
) -> tuple[Numbers, NDArray[np.bool_]]:
    """Neighbours along outer axes, each with those along a further one."""
    count = len(outer)
    return (
        (outer[:, :, None] + inner[:, None, :]).reshape(count, -1),
        (outer_inside[:, :, None] & inner_inside[:, None, :]).reshape(count, -1),
    )


def gathered(texture: Texture, coordinates: Sequence[Floats]) -> Texels:
    """The four texels that ``tld4`` reads for a bilinear footprint, in the order of its results (PTX ISA, ``tld4``)."""
    pairs = [
        _axis(texture, axis, coordinate, size, filtered=True)
        for axis, (coordinate, size) in enumerate(zip(coordinates, (texture.width, texture.height), strict=True))
    ]
    steps = ((0, 1), (1, 1), (1, 0), (0, 0))
    column = np.stack([pairs[0].index[:, x] for x, _ in steps], axis=1)
    row = np.stack([pairs[1].index[:, y] for _, y in steps], axis=1)
    inside = np.stack([pairs[0].inside[:, x] & pairs[1].inside[:, y] for x, y in steps], axis=1)
    return Texels(column, row, None, inside)


def fetched(texture: Texture, index: Sequence[NDArray[Any]]) -> Texels:
    """The texel at integer coordinates (``tex1Dfetch``); outside of the array it is zero."""
    column = index[0].view(np.int32).astype(np.int64)[:, None]
    row = np.zeros_like(column)
    inside = (column >= 0) & (column < texture.width)
    for place, size in zip(index[1:], (texture.height, texture.depth), strict=False):
        own = place.view(np.int32).astype(np.int64)[:, None]
        inside = inside & (own >= 0) & (own < size)
        row = own if size == texture.height else row + own * texture.height
    column, row = np.where(inside, column, 0), np.where(inside, row, 0)
    return Texels(column, row, None, inside)


def byte_offsets(texture: Texture, column_bytes: Numbers, row: Numbers) -> Numbers:
    """Places in memory, from the array's first byte, of bytes of rows: where the sectors are counted.

    A tile of a CUDA array has 64 bytes x 8 rows; a sector of it 16 bytes x 2 rows, a line 32 bytes x 4 rows (counted on an H200).

    >>> plane = Texture(extent=Extent.PLANE, width=32, height=8)
    >>> [int(byte_offsets(plane, np.int64(x), np.int64(y))) for x, y in ((0, 0), (16, 0), (0, 1), (0, 2), (32, 0), (64, 0))]
    [0, 32, 16, 64, 256, 512]
    """
    if not texture.is_tiled:
        return row * texture.row_bytes + column_bytes
    tiles = -(-(texture.width * texture.texel_bytes) // GOB_WIDTH_BYTES)
    rows_of_tiles = -(-texture.height // GOB_ROWS)
    layer, y = np.divmod(row, texture.height)
    tile = (layer * rows_of_tiles + y // GOB_ROWS) * tiles + column_bytes // GOB_WIDTH_BYTES
    inside = (column_bytes & _CHUNK_BYTES - 1) | (y & 1) << 4 | (column_bytes >> 4 & 1) << 5
    inside = inside | (y >> 1 & 3) << 6 | (column_bytes >> 5 & 1) << 8
    return np.asarray(tile * (GOB_WIDTH_BYTES * GOB_ROWS) + inside)
