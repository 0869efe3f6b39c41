"""The configuration: which of the nine kernels, what distinguishes them, and the tiles and channels of a block."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache

from ...core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from ...errors import InputError
from ..base import Product, Space, take_choices
from .problem import IMAGES, MAPS, WINDOW, Ssim


class Version(Enum):
    """Steps of one optimisation, each a kernel; the order is that in which they follow from one another."""

    NAIVE = "naive"
    V1 = "v1"
    V2 = "v2"
    V3_0 = "v3_0"
    V3_1 = "v3_1"
    V3 = "v3"
    V4_1 = "v4_1"
    V4 = "v4"
    V4_Z4 = "v4_z4"


class BlockChannels(Enum):
    """Which of an image's channels a block has."""

    ALL = "all"
    """It walks through them."""
    ONE = "one"
    """Each has blocks of its own."""


LOW_TILES = (48, 32, 20, 12)
"""Rows of outputs of lower tiles than a version's own: more blocks, which read more rows twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SsimConfiguration:
    """One version of the kernel, and how images are divided into blocks.

    ``version``: one of nine kernels, which fixes the block. ``block_channels``: a block computes all channels of an image one
    after the other (``all``), or one (``one``). ``tile_height``: rows of outputs of a block; ``None`` is the version's own, and
    only ``v4_1`` takes others.

    >>> SsimConfiguration(version=Version.V4_1, block_channels=BlockChannels.ONE, tile_height=32).tile_height
    32
    """

    version: Version = Version.V4_1
    block_channels: BlockChannels = BlockChannels.ALL
    tile_height: int | None = None

    def __post_init__(self) -> None:
        take_choices(self)
        if self.tile_height is None:
            return
        if self.version is not CUT_LOWER:
            raise InputError(f"tile_height={self.tile_height} must be none when version={self.version.value}")
        if self.tile_height not in LOW_TILES:
            allowed = ", ".join(map(str, LOW_TILES))
            raise InputError(f"tile_height={self.tile_height} must be none or one of {allowed}")


CUT_LOWER = Version.V4_1
"""The version whose tiles may be lower; its loops have no need of a height of their own."""


class Rows(Enum):
    """Where a block keeps what the horizontal pass made, until the vertical pass has used it."""

    SHARED = "shared memory, one map after the other, with barriers"
    LOCAL = "an array with run-time index, in local memory"
    REGISTERS = "registers that an unrolled loop names"
    FLOW = "partial sums that move from register to register"


class Copy(Enum):
    """How pixels get to shared memory, and what happens outside of the image."""

    LOAD = "loaded and stored, guarded"
    GUARDED = "asynchronous copy, guarded; zeros are stored"
    ZERO_FILL = "asynchronous copy of every pixel, filled with zeros"


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """One kernel: outputs and warps of a block, and the ways named by ``Rows`` and ``Copy``.

    ``stages``: rows of both images in shared memory at once, 0 where it holds the whole patch. ``clears_scratch``: zeros are
    written before each map. ``block_channels``: which channels a block has.
    """

    tile_width: int
    tile_height: int
    warps: int = 1
    rows: Rows = Rows.SHARED
    copy: Copy = Copy.LOAD
    stages: int = 0
    clears_scratch: bool = False
    block_channels: BlockChannels = BlockChannels.ALL

    def channels_of_block(self, problem: Ssim) -> int:
        """Channels that a block filters, one after the other."""
        return problem.channels if self.block_channels is BlockChannels.ALL else 1

    @property
    def columns(self) -> int:
        """Outputs of a thread in a row."""
        return self.tile_width // WARP_SIZE

    @property
    def neighbours(self) -> bool:
        """Whether a thread's columns are neighbours, accessed in pairs; else they lie 32 apart."""
        return self.rows is not Rows.SHARED

    @property
    def patch_width(self) -> int:
        """Columns of input that a tile needs."""
        return self.tile_width + WINDOW - 1

    @property
    def patch_height(self) -> int:
        """Rows of input that a tile needs."""
        return self.tile_height + WINDOW - 1

    @property
    def segments(self) -> int:
        """Warp accesses of one float a lane that cover a row of the patch."""
        return int(ceil_div(self.patch_width, WARP_SIZE))

    @property
    def barriers_per_channel(self) -> int:
        """Barriers of a block for each channel.

        >>> DESIGNS[Version.NAIVE].barriers_per_channel  # 2 loads, 5 × (clear, rows, columns), 1 product
        18
        >>> DESIGNS[Version.V1].barriers_per_channel  # 1 load, 5 × (rows, columns), 1 product
        12
        """
        if self.rows is not Rows.SHARED:
            return 0
        return 2 + MAPS * 3 + 1 if self.clears_scratch else 1 + MAPS * 2 + 1

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: both patches and the scratch of one map, or the ring of rows."""
        if self.rows is not Rows.SHARED:
            return self.stages * IMAGES * self.patch_width * FLOAT_BYTES
        return self.patch_height * (IMAGES * self.patch_width + self.tile_width) * FLOAT_BYTES


DESIGNS: dict[Version, Design] = {
    Version.NAIVE: Design(tile_width=32, tile_height=32, warps=32, clears_scratch=True),
    Version.V1: Design(tile_width=32, tile_height=32, warps=32),
    Version.V2: Design(tile_width=64, tile_height=8, warps=8),
    Version.V3_0: Design(tile_width=64, tile_height=32, rows=Rows.LOCAL, copy=Copy.GUARDED, stages=4),
    Version.V3_1: Design(tile_width=64, tile_height=72, rows=Rows.REGISTERS, copy=Copy.GUARDED, stages=8),
    Version.V3: Design(tile_width=64, tile_height=72, rows=Rows.REGISTERS, copy=Copy.ZERO_FILL, stages=8),
    Version.V4_1: Design(tile_width=64, tile_height=72, rows=Rows.FLOW, copy=Copy.ZERO_FILL, stages=4),
    Version.V4: Design(tile_width=64, tile_height=72, rows=Rows.FLOW, copy=Copy.GUARDED, stages=4),
    Version.V4_Z4: Design(tile_width=64, tile_height=72, rows=Rows.FLOW, copy=Copy.ZERO_FILL, stages=4),
}


@lru_cache(maxsize=128)
def design_of(configuration: SsimConfiguration) -> Design:
    """The design of a configuration.

    >>> design_of(SsimConfiguration(tile_height=20)).patch_height  # 5 rows more above and below
    30
    """
    design = replace(DESIGNS[configuration.version], block_channels=configuration.block_channels)
    lower = configuration.tile_height
    return design if lower is None else replace(design, tile_height=lower)


def space(problem: Ssim) -> Space[SsimConfiguration]:
    """All versions, one also with lower tiles; blocks of one channel only where there are several."""
    channels = tuple(BlockChannels) if problem.channels > 1 else (BlockChannels.ALL,)
    cuts = (((version,), (None, *LOW_TILES) if version is CUT_LOWER else (None,)) for version in Version)
    return Space(
        tuple(
            Product(SsimConfiguration, {"version": versions, "block_channels": channels, "tile_height": heights})
            for versions, heights in cuts
        )
    )
