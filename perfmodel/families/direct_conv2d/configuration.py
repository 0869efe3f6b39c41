"""The configuration: what a thread reuses of what has been loaded, how much it computes, and the block."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...core.constants import WARP_SIZE
from ...errors import InputError
from ..sizes import require_integers

MOST_ROWS_PER_THREAD = 1024
"""More rows save no more loads worth naming."""


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
        _require_effect("exchange", self.exchange, self.reuse.columns, self.reuse)
        _require_effect("accumulators", self.accumulators, self.reuse.rows, self.reuse)


def _require_effect(name: str, value: Enum | None, effective: bool, reuse: Reuse) -> None:
    if effective and value is None:
        raise InputError(f"{name}=none must name a method when reuse={reuse.value}")
    if not effective and value is not None:
        raise InputError(f"{name}={value.value} must be none when reuse={reuse.value}")
