"""Candidate sets: the source's 144 tuples and the wider set with finer filter splits, in which no kernel stands twice."""

from __future__ import annotations

from ..base import Batch, Product, Space
from .configuration import BLOCK_WIDTH_SPLITS, BLOCKS_PER_SM, CHANNEL_LANES, Layout, PointwiseConfiguration
from .problem import PointwiseConv2d

SOURCE_FILTER_SPLITS = (1, 2)
MIN_SPLIT_FILTERS = 16
"""The filter extent of an SM tile is not split below this."""


def source_tuples(blocks_per_sm: tuple[int, ...] = BLOCKS_PER_SM) -> Batch[PointwiseConfiguration]:
    """The source's tuples: two layouts, K or K/2, two block widths, the numbers of blocks per SM, six of channel lanes.

    >>> len(source_tuples()), len(source_tuples((2, 4)))
    (144, 96)
    """
    product = Product(
        PointwiseConfiguration,
        {
            "layout": tuple(Layout),
            "filter_split": SOURCE_FILTER_SPLITS,
            "block_width_split": BLOCK_WIDTH_SPLITS,
            "blocks_per_sm": blocks_per_sm,
            "channel_lanes": CHANNEL_LANES,
        },
    )
    return product.batch(0, len(product))


def filter_splits(problem: PointwiseConv2d) -> tuple[int, ...]:
    """K, K/2 and finer splits of the filter extent, so that small layers fill a large GPU.

    >>> filter_splits(PointwiseConv2d(out_channels=128))
    (1, 2, 4, 8)
    """
    splits = list(SOURCE_FILTER_SPLITS)
    while problem.out_channels >= 2 * splits[-1] * MIN_SPLIT_FILTERS:
        splits.append(2 * splits[-1])
    return tuple(splits)


def full_space(problem: PointwiseConv2d) -> Space[PointwiseConfiguration]:
    """Every distinct tile. In L1 only the product of both splits matters, in L2 only their quotient.

    So of the tuples that give one and the same kernel, (2, 1) and (1, 2) in L1 or (2, 2) and (1, 1) in L2, one stands for all.

    >>> len(full_space(PointwiseConv2d(out_channels=32))), len(full_space(PointwiseConv2d(out_channels=64)))
    (108, 144)
    """
    splits = filter_splits(problem)
    rest = {"blocks_per_sm": BLOCKS_PER_SM, "channel_lanes": CHANNEL_LANES}

    def product(
        layout: Layout, filter_split: tuple[int, ...], block_width_split: int
    ) -> Product[PointwiseConfiguration]:
        return Product(
            PointwiseConfiguration,
            {
                "layout": (layout,),
                "filter_split": filter_split,
                "block_width_split": (block_width_split,),
                **rest,
            },
        )

    return Space(
        (
            product(Layout.L1, (1,), 1),
            product(Layout.L1, splits, 2),
            product(Layout.L2, (1,), 2),
            product(Layout.L2, splits, 1),
        )
    )
