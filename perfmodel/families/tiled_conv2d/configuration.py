"""The configuration and its space: block, outputs of a thread, and how the patch is kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...errors import InputError
from ..base import Product, Space
from ..sizes import require_integers

BLOCK_SIZES_X = (1, 2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)
BLOCK_SIZES_Y = (1, 2, 4, 8, 16, 32)
TILE_SIZES = (1, 2, 3, 4, 5, 6, 7, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledConv2dConfiguration:
    """Threads of a block, outputs of a thread along both sides, and how the patch of a block is read; the flags are 0 or 1.

    With ``use_shmem`` it lies in shared memory, with ``use_padding`` in padded rows. With ``read_only`` loads are by
    ``__ldg``. Without ``use_shmem`` padding has no effect and is ``None``.

    >>> TiledConv2dConfiguration(use_shmem=0, use_padding=1)
    Traceback (most recent call last):
    perfmodel.errors.InputError: use_padding=1 must be none when use_shmem=0
    """

    block_size_x: int = 32
    block_size_y: int = 4
    tile_size_x: int = 2
    tile_size_y: int = 2
    use_padding: int | None = 0
    read_only: int = 0
    use_shmem: int = 1

    def __post_init__(self) -> None:
        require_integers(1, block_size_x=self.block_size_x, block_size_y=self.block_size_y)
        require_integers(1, tile_size_x=self.tile_size_x, tile_size_y=self.tile_size_y)
        for name in ("read_only", "use_shmem"):
            if getattr(self, name) not in (0, 1):
                raise InputError(f"{name}={getattr(self, name)!r} must be 0 or 1")
        if self.use_padding not in ((0, 1) if self.use_shmem else (None,)):
            accepted = "0 or 1" if self.use_shmem else "none when use_shmem=0"
            raise InputError(f"use_padding={self.use_padding!r} must be {accepted}")


def space() -> Space[TiledConv2dConfiguration]:
    """Block and tile sizes with padding and read-only loads, and without a shared patch."""
    sizes: dict[str, tuple[Any, ...]] = {
        "block_size_x": BLOCK_SIZES_X,
        "block_size_y": BLOCK_SIZES_Y,
        "tile_size_x": TILE_SIZES,
        "tile_size_y": TILE_SIZES,
    }
    patch = sizes | {"use_padding": (0, 1), "read_only": (0, 1), "use_shmem": (1,)}
    direct = sizes | {"use_padding": (None,), "read_only": (0, 1), "use_shmem": (0,)}
    return Space(tuple(Product(TiledConv2dConfiguration, values) for values in (patch, direct)))
