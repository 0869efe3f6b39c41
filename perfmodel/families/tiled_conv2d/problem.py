"""Problem and configuration of the tiled convolution."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.second_names import renamed
from ...errors import InputError
from ..sizes import require_elements, require_integers

CONSTANT_MEMORY_BYTES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledConv2d:
    """One image and one odd-sized filter; ``height × width`` is the size of the *output*.

    The input is padded by the caller: (height + filter_height − 1) × (width + filter_width − 1).

    >>> TiledConv2d(height=4096, width=4096).input_width
    4110
    """

    height: int = renamed(4096, "image_height")
    width: int = renamed(4096, "image_width")
    filter_height: int = 15
    filter_width: int = 15

    def __post_init__(self) -> None:
        require_integers(1, height=self.height, width=self.width)
        require_integers(1, filter_height=self.filter_height, filter_width=self.filter_width)
        for name in ("filter_height", "filter_width"):
            if getattr(self, name) % 2 == 0:
                raise InputError(f"{name}={getattr(self, name)} must be odd")
        if 4 * self.filter_height * self.filter_width > CONSTANT_MEMORY_BYTES:
            raise InputError(
                f"filter of {self.filter_height} x {self.filter_width} does not fit the {CONSTANT_MEMORY_BYTES:,} bytes "
                "of constant memory"
            )
        require_elements("input", self.input_height, self.input_width)

    @property
    def input_height(self) -> int:
        """Rows of the padded input."""
        return self.height + self.filter_height - 1

    @property
    def input_width(self) -> int:
        """Columns of the padded input."""
        return self.width + self.filter_width - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledConv2dConfiguration:
    """Block and tile sizes; the flags are 0 or 1. Without ``use_shmem`` padding has no effect and is ``None``."""

    block_size_x: int = 32
    block_size_y: int = 4
    tile_size_x: int = 2
    tile_size_y: int = 2
    use_padding: int | None = 0
    read_only: int = 0
    use_shmem: int = 1

    def __post_init__(self) -> None:
        sizes = {name: getattr(self, name) for name in _SIZES}
        require_integers(1, **sizes)
        for name in ("read_only", "use_shmem"):
            if getattr(self, name) not in (0, 1):
                raise InputError(f"{name}={getattr(self, name)!r} must be 0 or 1")
        if self.use_padding not in ((0, 1) if self.use_shmem else (None,)):
            accepted = "0 or 1" if self.use_shmem else "none when use_shmem=0"
            raise InputError(f"use_padding={self.use_padding!r} must be {accepted}")


_SIZES = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y")
