"""Configuration of the pointwise convolution: one choice at each of the four levels of blocking (SPEC section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...errors import InputError

BLOCK_WIDTH_SPLITS = (1, 2)
BLOCKS_PER_SM = (2, 4, 6)
CHANNEL_LANES = (1, 2, 4, 8, 16, 32)


class Layout(Enum):
    """Which axis of a tile the filters lie along; the positions lie along the other."""

    L1 = "L1"
    """Filters along the width."""
    L2 = "L2"
    """Filters along the height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseConfiguration:
    """One tuple of the search.

    ``filter_split``: an SM tile holds out_channels / filter_split filters (a power of two; the source has 1 and 2).
    ``block_width_split``: a block tile is the SM tile's width divided by 1 or 2. ``blocks_per_sm``: blocks that share an SM
    and its SM tile. ``channel_lanes``: lanes that share one output, each summing every channel_lanes-th channel.

    >>> PointwiseConfiguration(channel_lanes=3)
    Traceback (most recent call last):
    perfmodel.errors.InputError: channel_lanes=3 must be one of 1, 2, 4, 8, 16, 32
    """

    layout: Layout = Layout.L1
    filter_split: int = 1
    block_width_split: int = 1
    blocks_per_sm: int = 2
    channel_lanes: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.layout, Layout):
            raise InputError(f"layout={self.layout!r} must be one of L1, L2")
        _require_one_of("block_width_split", self.block_width_split, BLOCK_WIDTH_SPLITS)
        _require_one_of("blocks_per_sm", self.blocks_per_sm, BLOCKS_PER_SM)
        _require_one_of("channel_lanes", self.channel_lanes, CHANNEL_LANES)
        split = self.filter_split
        if isinstance(split, bool) or not isinstance(split, int) or split < 1 or split & (split - 1):
            raise InputError(f"filter_split={split!r} must be a power of two: 1, 2, 4, 8 …")


def _require_one_of(name: str, value: object, accepted: tuple[int, ...]) -> None:
    if isinstance(value, bool) or value not in accepted:
        raise InputError(f"{name}={value!r} must be one of {', '.join(map(str, accepted))}")
