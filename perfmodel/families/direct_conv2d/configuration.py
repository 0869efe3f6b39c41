"""The configuration and its space: what a thread reuses of what has been loaded, how much it computes, and the block."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...core.constants import WARP_SIZE
from ...errors import InputError
from ..base import Product, Space
from ..sizes import require_integers
from .problem import Conv2d

MOST_ROWS_PER_THREAD = 1024
"""More rows save no more loads worth naming."""
BLOCK_SIZES_X = (32, 64, 128, 256)
BLOCK_SIZES_Y = (1, 2, 4, 8, 16)
LOOPED_ROWS = (1, 2, 4, 8)


class Reuse(Enum):
    """Which neighbours share what has been loaded."""

    NONE = "none"
    """Every output loads all its taps."""
    COLUMN = "column"
    """The lanes of a warp exchange the taps of a row."""
    ROW = "row"
    """The outputs of a thread share the rows that it loads."""
    COLUMN_ROW = "column_row"
    """Both."""

    @property
    def columns(self) -> bool:
        """Whether lanes exchange taps."""
        return self in (Reuse.COLUMN, Reuse.COLUMN_ROW)

    @property
    def rows(self) -> bool:
        """Whether the outputs of a thread share rows."""
        return self in (Reuse.ROW, Reuse.COLUMN_ROW)


class Exchange(Enum):
    """How a lane picks the register that it publishes to another lane."""

    DYNAMIC_INDEX = "dynamic_index"
    """A register array indexed by an expression of the lane."""
    PACK_SHIFT = "pack_shift"
    """Both candidates in 64 bits, shifted by 0 or 32."""
    SELECT = "select"
    """A conditional expression."""
    ROTATE = "rotate"
    """Two loads a row, and for each tap a conditional expression and an indexed shuffle."""


class Accumulators(Enum):
    """How a thread that reuses rows keeps its partial sums."""

    UNROLLED = "unrolled"
    """One register for each of its outputs, straight-line code."""
    ROLLING = "rolling"
    """A window of as many registers as a row reaches outputs, moved down in a loop."""


SHARED_ROWS = {Accumulators.UNROLLED: (2, 4, 8, 16), Accumulators.ROLLING: (4, 8, 16, 32, 64, 128)}


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectConv2dConfiguration:
    """One way to run the direct kernel; ``None`` where a field has no effect.

    >>> DirectConv2dConfiguration(reuse=Reuse.COLUMN, exchange=Exchange.SELECT, accumulators=None,
    ...                           rows_per_thread=1, block_x=32, block_y=8).block_x
    32
    """

    reuse: Reuse
    exchange: Exchange | None
    accumulators: Accumulators | None
    rows_per_thread: int
    block_x: int
    block_y: int

    def __post_init__(self) -> None:
        require_integers(1, rows_per_thread=self.rows_per_thread, block_x=self.block_x, block_y=self.block_y)
        if self.rows_per_thread > MOST_ROWS_PER_THREAD:
            raise InputError(f"rows_per_thread={self.rows_per_thread} must be at most {MOST_ROWS_PER_THREAD}")
        if self.block_x % WARP_SIZE:
            raise InputError(f"block_x={self.block_x} must be a multiple of {WARP_SIZE}")
        for name, effective in (("exchange", self.reuse.columns), ("accumulators", self.reuse.rows)):
            value: Enum | None = getattr(self, name)
            if effective and value is None:
                raise InputError(f"{name}=none must name a method when reuse={self.reuse.value}")
            if not effective and value is not None:
                raise InputError(f"{name}={value.value} must be none when reuse={self.reuse.value}")


def space(problem: Conv2d) -> Space[DirectConv2dConfiguration]:
    """Reuse modes with their methods, rows and blocks; exchanges only for filters wide enough to need one.

    Sharing rows begins with two outputs of a thread: with one it is the code without.
    """

    def product(
        reuse: Reuse, accumulators: Accumulators | None, rows_per_thread: tuple[int, ...]
    ) -> Product[DirectConv2dConfiguration]:
        return Product(
            DirectConv2dConfiguration,
            {
                "reuse": (reuse,),
                "exchange": tuple(Exchange) if reuse.columns else (None,),
                "accumulators": (accumulators,),
                "rows_per_thread": rows_per_thread,
                "block_x": BLOCK_SIZES_X,
                "block_y": BLOCK_SIZES_Y,
            },
        )

    modes: list[tuple[Reuse, Accumulators | None, tuple[int, ...]]]
    modes = [(reuse, None, LOOPED_ROWS) for reuse in (Reuse.NONE, Reuse.COLUMN)]
    modes += [(reuse, how, rows) for how, rows in SHARED_ROWS.items() for reuse in (Reuse.ROW, Reuse.COLUMN_ROW)]
    return Space(tuple(product(*mode) for mode in modes if problem.filter_width > 2 or not mode[0].columns))
