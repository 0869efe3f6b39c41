"""Warps of a block, slices and clusters worth looking at for matrices of so many filters and positions."""

from __future__ import annotations

from ...core.constants import ceil_div

CHANNEL_SLICES = (1, 2, 4, 8)
CHANNEL_SPLIT = (1, 2, 3, 4, 6, 8)
OF_TENSORS = (
    "warp_filters",
    "warp_positions",
    "filter_warps",
    "position_warps",
    "channel_slices",
    "channel_split",
)
"""Fields of a configuration whose warps multiply on tensor cores."""
WARP_FILTERS = (16, 32, 64)
WARP_POSITIONS = (16, 32, 40, 56, 64)
WARPS_ALONG = (1, 2, 4)
"""Warps of a block along filters or positions, beside those that cut the layer into few even parts."""
MOST_WARPS_ALONG = 8
MOST_EVEN_PARTS = 6
TENSOR_FILTERS, TENSOR_POSITIONS = 16, 8
"""Filters and positions of one product (PTX ISA, ``mma.m16n8k8`` of TF32 numbers, ``mma.m16n8k16`` in half precision)."""
TENSOR_TERM_BYTES = 32
"""What the terms of one filter or position take in one product."""
MOST_WARP_TILES = 16
"""Tiles of 16 filters and 8 positions of a warp, whose sums stay in registers."""
WARP_FILTERS_CHANNELS_LAST = (16, 32, 64, 96, 128)
WARP_POSITIONS_CHANNELS_LAST = (16, 32, 48, 64)
"""Where channels lie closest and a product has 16 positions and 8 filters."""
MOST_WARP_TILES_CHANNELS_LAST = 32
"""Such tiles of a warp, which has no sums of a slab beside those of all slabs."""


def even_parts(extent: int) -> set[int]:
    """Parts of which a few make up the extent.

    >>> sorted(even_parts(25))
    [5, 7, 9, 13, 25]
    """
    return {ceil_div(extent, count) for count in range(1, MOST_EVEN_PARTS + 1)}


def _warps_along(extent: int) -> tuple[int, ...]:
    """Warps that hold so many of their tiles, or a few even parts of them.

    >>> _warps_along(13), _warps_along(1)
    ((1, 2, 3, 4, 5, 7), (1,))
    """
    most = min(MOST_WARPS_ALONG, extent)
    return tuple(sorted(part for part in even_parts(extent) | set(WARPS_ALONG) if part <= most))


def tensor_choices(filters: int, positions: int, *, channels_last: bool = False) -> list[dict[str, tuple[int, ...]]]:
    """Values of the fields `OF_TENSORS`, every combination a candidate; one record for each tile of a warp.

    >>> tensor_choices(64, 64)[0]["filter_warps"]
    (1, 2, 4)
    """
    most_tiles = MOST_WARP_TILES_CHANNELS_LAST if channels_last else MOST_WARP_TILES
    return [
        {
            "warp_filters": (of_warp,),
            "warp_positions": (across,),
            "filter_warps": _warps_along(ceil_div(filters, of_warp)),
            "position_warps": _warps_along(ceil_div(positions, across)),
            "channel_slices": CHANNEL_SLICES,
            "channel_split": CHANNEL_SPLIT,
        }
        for of_warp in (WARP_FILTERS_CHANNELS_LAST if channels_last else WARP_FILTERS)
        for across in (WARP_POSITIONS_CHANNELS_LAST if channels_last else WARP_POSITIONS)
        if of_warp * across <= most_tiles * TENSOR_FILTERS * TENSOR_POSITIONS
    ]
