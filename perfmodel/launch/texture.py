"""Textures and surfaces: how a texture or surface object sees an array, as ``cudaCreateTextureObject`` describes it.

CUDA C++ Programming Guide, texture and surface memory.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from ..core.constants import ceil_div
from ..errors import InputError

GOB_WIDTH_BYTES = 64
GOB_ROWS = 8
"""CUDA arrays lie in blocks of 64 bytes x 8 rows (GOB; Tegra X1 Technical Reference Manual, block linear)."""
CHANNELS = (1, 2, 4)
CUBE_FACES = 6
_FORM = struct.Struct("<16I4fQ")


class TexelKind(IntEnum):
    """What the bits of a channel mean; the numbers are those of ``cudaChannelFormatKind``."""

    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2


class Extent(IntEnum):
    """What kind of array a texture sees."""

    LINEAR = 0
    """Linear memory, read by an integer (``tex1Dfetch``)."""
    LINE = 1
    PLANE = 2
    SPACE = 3
    LAYERED_LINE = 4
    LAYERED_PLANE = 5
    CUBE = 6
    LAYERED_CUBE = 7

    @property
    def is_cube(self) -> bool:
        """Whether a direction picks one of six faces."""
        return self in (Extent.CUBE, Extent.LAYERED_CUBE)

    @property
    def has_rows(self) -> bool:
        """Whether there is a second coordinate."""
        return self not in (Extent.LINEAR, Extent.LINE, Extent.LAYERED_LINE)


class AddressMode(IntEnum):
    """What a coordinate outside of the array reads; the numbers are those of ``cudaTextureAddressMode``."""

    WRAP = 0
    CLAMP = 1
    MIRROR = 2
    BORDER = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Texture:
    """How an object sees an array: extents in texels, format of a texel, and how it is read.

    Args:
        extent: kind of array.
        width: texels of a row.
        height: rows; 1 where there is one.
        depth: slices of an array of three axes; 1 otherwise.
        layers: layers, of cubes the faces of all of them; 1 otherwise.
        kind: what the bits of a channel mean.
        channel_bits: 8, 16 or 32.
        channels: 1, 2 or 4.
        pitch_bytes: bytes from a row to the next in linear memory; 0 for a CUDA array, whose rows lie without gaps here.
        linear: whether neighbouring texels are filtered.
        address_modes: of each axis, x first.
        normalized: whether coordinates run from 0 to 1.
        as_float: whether integers are read as numbers from 0 or -1 to 1.
        border: what is read outside with `AddressMode.BORDER`.
    """

    extent: Extent
    width: int
    height: int = 1
    depth: int = 1
    layers: int = 1
    kind: TexelKind = TexelKind.FLOAT
    channel_bits: int = 32
    channels: int = 1
    pitch_bytes: int = 0
    linear: bool = False
    address_modes: tuple[AddressMode, AddressMode, AddressMode] = (AddressMode.CLAMP,) * 3
    normalized: bool = False
    as_float: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel.

        >>> Texture(extent=Extent.PLANE, width=8, height=8, channels=4).texel_bytes
        16
        """
        return self.channels * self.channel_bits // 8

    @property
    def channel_dtype(self) -> np.dtype[Any]:
        """NumPy's type of a channel."""
        return np.dtype(f"{'iuf'[self.kind]}{self.channel_bits // 8}")

    @property
    def row_bytes(self) -> int:
        """Bytes from a row to the next."""
        return self.pitch_bytes or self.width * self.texel_bytes

    @property
    def size_bytes(self) -> int:
        """Bytes of the array as the program sees it, without gaps but for the pitch."""
        return self.row_bytes * self.height * self.depth * self.layers

    @property
    def is_tiled(self) -> bool:
        """Whether it is a CUDA array, whose texels lie in tiles, and not linear memory."""
        return self.extent is not Extent.LINEAR and not self.pitch_bytes

    @property
    def allocated_bytes(self) -> int:
        """Bytes that the array takes: of CUDA arrays whole tiles.

        >>> Texture(extent=Extent.PLANE, width=20, height=3).allocated_bytes  # 80 bytes a row: 2 tiles of 512
        1024
        """
        if not self.is_tiled:
            return self.size_bytes
        row_tiles = ceil_div(self.width * self.texel_bytes, GOB_WIDTH_BYTES)
        tiles: int = row_tiles * ceil_div(self.height, GOB_ROWS) * self.depth * self.layers
        return tiles * GOB_WIDTH_BYTES * GOB_ROWS

    def encoded(self, address: int) -> bytes:
        """The bytes by which a running program states the object of the array at an address."""
        return _FORM.pack(
            self.extent,
            self.width,
            self.height,
            self.depth,
            self.layers,
            self.kind,
            self.channel_bits,
            self.channels,
            self.pitch_bytes,
            self.linear,
            *self.address_modes,
            self.normalized,
            self.as_float,
            0,
            *self.border,
            address,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundTexture:
    """A texture or surface object: the array that it sees, and where that lies."""

    texture: Texture
    address: int


def decoded(data: bytes) -> BoundTexture:
    """The object from what `Texture.encoded` gives.

    >>> plane = Texture(extent=Extent.PLANE, width=8, height=4, linear=True)
    >>> decoded(plane.encoded(4096)) == BoundTexture(texture=plane, address=4096)
    True
    """
    numbers = _FORM.unpack(data)
    extent, width, height, depth, layers, kind, bits, channels, pitch, linear, x, y, z, normalized, as_float, _ = (
        numbers[:16]
    )
    texture = Texture(
        extent=Extent(extent),
        width=width,
        height=height,
        depth=depth,
        layers=layers,
        kind=TexelKind(kind),
        channel_bits=bits,
        channels=channels,
        pitch_bytes=pitch,
        linear=bool(linear),
        address_modes=(AddressMode(x), AddressMode(y), AddressMode(z)),
        normalized=bool(normalized),
        as_float=bool(as_float),
        border=numbers[16:20],
    )
    return BoundTexture(texture=texture, address=numbers[20])


def checked(texture: Texture) -> Texture:
    """The texture, if CUDA would create an object of it.

    Raises:
        InputError: it would not; the text says why.
    """
    extents = (texture.width, texture.height, texture.depth, texture.layers)
    if min(extents) < 1 or max(extents) >= 2**27:
        raise InputError(f"extents {extents} of a texture must lie in 1 … {2**27 - 1}")
    if texture.channels not in CHANNELS:
        raise InputError(f"texels have 1, 2 or 4 channels, not {texture.channels}")
    if texture.extent.is_cube and (texture.width != texture.height or texture.layers % CUBE_FACES):
        raise InputError(f"a cube has square faces, six for each layer, not {texture.layers} of {extents[:2]}")
    reads_integers = texture.kind is not TexelKind.FLOAT and not texture.as_float
    if texture.linear and reads_integers:
        raise InputError(
            "only floating-point values are filtered: add :float, so that integers are read as numbers up to 1"
        )
    if texture.as_float and (texture.kind is TexelKind.FLOAT or texture.channel_bits > 16):
        raise InputError("only integers of 8 and 16 bits are read as numbers up to 1")
    wraps = {AddressMode.WRAP, AddressMode.MIRROR} & set(texture.address_modes)
    if wraps and not texture.normalized:
        raise InputError("coordinates wrap or mirror only where they are normalized: add :normalized")
    return texture
