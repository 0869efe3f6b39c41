"""Configuration of the pointwise convolution, one choice at each of the four levels of blocking, and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...errors import InputError
from ..base import Product, Space
from .problem import PointwiseConv2d

BLOCK_WIDTH_SPLITS = (1, 2)
BLOCKS_PER_SM = (2, 4, 6)
CHANNEL_LANES = (1, 2, 4, 8, 16, 32)
MIN_SPLIT_FILTERS = 16
"""The filter extent of an SM tile is not split below this."""


class Layout(Enum):
    """Which axis of a tile the filters lie along; the positions lie along the other."""

    L1 = "L1"
    """Filters along the width."""
    L2 = "L2"
    """Filters along the height."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseConfiguration:
    """One candidate.

    ``filter_split``: an SM tile holds out_channels / filter_split filters (a power of two). ``block_width_split``: a block
    tile is the SM tile's width divided by 1 or 2. ``blocks_per_sm``: blocks that share an SM and its SM tile.
    ``channel_lanes``: lanes that share one output, each summing every channel_lanes-th channel.

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


def filter_splits(problem: PointwiseConv2d) -> tuple[int, ...]:
    """K, K/2 and finer splits of the filter extent, so that small layers fill a large GPU.

    >>> filter_splits(PointwiseConv2d(out_channels=128))
    (1, 2, 4, 8)
    """
    splits = [1, 2]
    while problem.out_channels >= 2 * splits[-1] * MIN_SPLIT_FILTERS:
        splits.append(2 * splits[-1])
    return tuple(splits)


def pointwise_space(problem: PointwiseConv2d) -> Space[PointwiseConfiguration]:
    """Every distinct tile. In L1 only the product of both splits matters, in L2 only their quotient.

    So of the candidates that give one and the same kernel, (2, 1) and (1, 2) in L1 or (2, 2) and (1, 1) in L2, one stands
    for all.

    >>> len(pointwise_space(PointwiseConv2d(out_channels=32))), len(pointwise_space(PointwiseConv2d(out_channels=64)))
    (108, 144)
    """
    splits = filter_splits(problem)
    choices = ((Layout.L1, (1,), 1), (Layout.L1, splits, 2), (Layout.L2, (1,), 2), (Layout.L2, splits, 1))
    return Space(
        tuple(
            Product(
                PointwiseConfiguration,
                {
                    "layout": (layout,),
                    "filter_split": filter_split,
                    "block_width_split": (block_width_split,),
                    "blocks_per_sm": BLOCKS_PER_SM,
                    "channel_lanes": CHANNEL_LANES,
                },
            )
            for layout, filter_split, block_width_split in choices
        )
    )
