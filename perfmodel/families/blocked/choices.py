"""Blocks and threads worth looking at for a layer."""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import product

from ...core.constants import ceil_div
from .layer import Layer

ROWS = (1, 2, 4, 7)
"""Of a thread: images of networks have a multiple of seven rows as often as of four."""
COLUMNS = (1, 2, 4)
COLUMNS_OF_ONE_ROW = (1, 2, 4, 8)
"""Of filters of one row, of which a thread reads elements again along columns alone."""
CHANNELS = (4, 8)
SUMS = (8, 64)
"""Fewest and most outputs of a thread."""
THREADS = (64, 512)
"""Fewest and most threads of a block."""
CHANNEL_THREADS = (1, 2, 4, 8, 16)
CHANNEL_SLICES = (1, 2, 4, 8, 16)
MOST_IDLE_SLICES = 0.25
"""Part of the slices' turns up to which the last one may be without a channel."""
IMAGES = (2, 4, 8)
MOST_BLOCK_X = 64
MOST_BLOCK_Y = 64
GROUP_CHANNELS = 4
"""Input channels in straight-line code, whose taps always fill whole vectors."""
WIDE_BLOCK_X = (4, 8, 16, 32)
"""For rows that have many tiles, of which an uneven last one costs little."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """Values of each field of `Blocking`; every combination is a candidate."""

    rows_per_thread: tuple[int, ...]
    block_x: tuple[int, ...]
    block_y: tuple[int, ...]
    columns_per_thread: tuple[int, ...]
    channel_slices: tuple[int, ...]
    channels_per_thread: tuple[int, ...] = CHANNELS
    channel_threads: tuple[int, ...] = CHANNEL_THREADS

    def values(self, channels_per_thread: str = "channels_per_thread") -> dict[str, tuple[int, ...]]:
        """By the fields of a configuration, in which the channels of a thread may have another name."""
        named = {field.name: getattr(self, field.name) for field in fields(self)}
        return {channels_per_thread if name == "channels_per_thread" else name: value for name, value in named.items()}


def _parts(extent: int) -> tuple[int, ...]:
    """The extent, its half, quarter and so on, rounded up, down to 1.

    >>> _parts(14)
    (14, 7, 4, 2, 1)
    """
    return tuple(dict.fromkeys(ceil_div(extent, 1 << shift) for shift in range(extent.bit_length() + 1)))


def _slices(layer: Layer) -> tuple[int, ...]:
    """Slices of the input channels that have nearly the same number of them.

    >>> _slices(Layer(in_channels=80, out_channels=8, height=1, width=8, filter_width=1))  # 20 groups; 16 take turns twice
    (1, 2, 4, 8)
    """
    groups = layer.in_channels // GROUP_CHANNELS if layer.in_channels % GROUP_CHANNELS == 0 else layer.in_channels
    return tuple(n for n in CHANNEL_SLICES if groups >= (1 - MOST_IDLE_SLICES) * ceil_div(groups, n) * n)


def choices(layer: Layer) -> list[Choices]:
    """Tiles that divide rows and columns of the output evenly, or hold several images; one record for each thread tile.

    Layers of fewer output channels than a thread has got none.
    """
    if layer.out_channels < min(CHANNELS):
        return []
    found = []
    for rows, columns in product(ROWS, COLUMNS_OF_ONE_ROW if layer.filter_height == 1 else COLUMNS):
        of_rows, of_columns = ceil_div(layer.output_height, rows), ceil_div(layer.output_width, columns)
        if rows > layer.output_height or columns >= 2 * layer.output_width:
            continue
        several = tuple(count * of_rows for count in IMAGES if count < 2 * layer.images)
        wide = WIDE_BLOCK_X if of_columns > MOST_BLOCK_X else ()
        found.append(
            Choices(
                rows_per_thread=(rows,),
                block_x=tuple(sorted({part for part in (*_parts(of_columns), *wide) if part <= MOST_BLOCK_X})),
                block_y=tuple(part for part in (*several, *_parts(of_rows)) if part <= MOST_BLOCK_Y),
                columns_per_thread=(columns,),
                channel_slices=_slices(layer),
            )
        )
    return found
