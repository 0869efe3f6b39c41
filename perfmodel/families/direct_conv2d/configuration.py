"""The configuration and its space: what a thread reuses of what has been loaded, how much it computes, and the block."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...core.constants import WARP_SIZE, ceil_div
from ...errors import InputError
from ..base import Product, Space, take_choices
from ..blocked import choices
from ..matrix.choices import OF_TENSORS, TENSOR_FILTERS, tensor_choices
from ..sizes import require_integers
from .problem import Conv2d

MOST_ROWS_PER_THREAD = 1024
"""More rows save no more loads worth naming."""
PLANE_BLOCKS = (64, 128, 256)
PLANE_ROWS = (1, 2, 4, 7)
WIDEST_TILE = 28
"""Output columns of a thread that has rows of a plane."""
WIDEST_PLANE = 64
"""Output columns up to which warps of one row each leave lanes idle that count."""
OF_BLOCKED = ("columns_per_thread", "channels_per_thread", "channel_threads", "channel_slices")
"""Fields of the blocked design."""
OF_THREADS = ("rows_per_thread", "block_x", "block_y")
"""Fields that have an effect but on tensor cores, where warps have tiles (`OF_TENSORS`)."""
OF_TILES = tuple(dict.fromkeys((*OF_BLOCKED, *OF_TENSORS)))
"""Fields that some designs do not have."""
BLOCK_SIZES_X = (32, 64, 128, 256)
BLOCK_SIZES_Y = (1, 2, 4, 8, 16)
LOOPED_ROWS = (1, 2, 4, 8)
FEWEST_SHARED_CHANNELS = 3
MOST_SHARED_TAPS = 49
"""Input channels from which on and taps up to which dense layers have the blocked design alone (`always_blocked`)."""


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
    PLANE = "plane"
    """Depthwise; a block copies whole planes to shared memory, a thread keeps rows of one for neighbouring outputs."""
    BLOCKED = "block"
    """The blocked design: blocks copy tiles to shared memory; a thread keeps values for outputs of several channels, too."""
    TENSOR = "tensor"
    """Dense; the warps of a block share what is copied to shared memory, and tensor cores multiply, as exactly as FP32."""

    @property
    def columns(self) -> bool:
        """Whether lanes exchange taps."""
        return self in (Reuse.COLUMN, Reuse.COLUMN_ROW)

    @property
    def rows(self) -> bool:
        """Whether the outputs of a thread share rows."""
        return self in (Reuse.ROW, Reuse.COLUMN_ROW)


STRAIGHT = (Reuse.NONE, Reuse.COLUMN, Reuse.ROW, Reuse.COLUMN_ROW)
"""Modes of one kernel, whose warps are 32 columns of one row; the others have kernels of their own."""


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
    """One way to run a direct convolution; ``None`` where a field has no effect.

    ``reuse`` is the design. ``none``: each output loads all its taps. ``column``: the lanes of a warp exchange the taps of a row
    by shuffles. ``row``: the outputs of a thread share the rows that it loads. ``column_row``: both. ``plane``: a block of a
    depthwise layer copies whole planes to shared memory. ``block``: a block copies tiles of input and filters to shared memory.
    ``tensor``: the same, on tensor cores.

    ``exchange`` is how a lane picks the register that it shuffles: an indexed array (``dynamic_index``), a 64-bit shift
    (``pack_shift``), a conditional (``select``), or two loads a row and an indexed shuffle a tap (``rotate``).
    ``accumulators``: a register for each output of a thread (``unrolled``), or a window of registers in a loop (``rolling``).

    A block has ``block_x`` × ``block_y`` threads along columns and rows, and a thread computes ``rows_per_thread`` outputs; with
    ``reuse=plane`` or ``block`` it computes ``rows_per_thread`` × ``columns_per_thread`` neighbouring outputs. With
    ``reuse=block`` it does so for ``channels_per_thread`` output channels, and the block has ``channel_threads`` ×
    ``channel_slices`` planes of such threads: the former divide the output channels, the latter the input channels, whose
    partial sums are added at the end.

    On tensor cores a warp computes ``warp_filters`` output channels at ``warp_positions`` positions, a block has
    ``filter_warps`` × ``position_warps`` such warps for each of ``channel_slices`` parts of the sums, and the ``channel_split``
    blocks of a cluster divide the input channels of one tile.

    >>> DirectConv2dConfiguration(reuse=Reuse.COLUMN, exchange=Exchange.SELECT, accumulators=None,
    ...                           rows_per_thread=1, block_x=32, block_y=8).block_x
    32
    """

    reuse: Reuse
    exchange: Exchange | None = None
    accumulators: Accumulators | None = None
    rows_per_thread: int | None = None
    block_x: int | None = None
    block_y: int | None = None
    columns_per_thread: int | None = None
    channels_per_thread: int | None = None
    channel_threads: int | None = None
    channel_slices: int | None = None
    channel_split: int | None = None
    warp_filters: int | None = None
    warp_positions: int | None = None
    filter_warps: int | None = None
    position_warps: int | None = None

    def __post_init__(self) -> None:
        take_choices(self)
        blocks, tensors, planes = (self.reuse is one for one in (Reuse.BLOCKED, Reuse.TENSOR, Reuse.PLANE))
        effects = {"exchange": self.reuse.columns, "accumulators": self.reuse.rows}
        effects |= dict.fromkeys(OF_THREADS, not tensors) | dict.fromkeys(OF_TILES, False)
        effects |= dict.fromkeys(OF_BLOCKED, blocks) | {"columns_per_thread": blocks or planes}
        if tensors:
            effects |= dict.fromkeys(OF_TENSORS, True)
        sizes = (*OF_THREADS, *OF_TILES)
        for name, effective in effects.items():
            value = getattr(self, name)
            if effective and value is None:
                kind = "an integer" if name in sizes else "a method"
                raise InputError(f"{name}=none must name {kind} when reuse={self.reuse.value}")
            if not effective and value is not None:
                given = value.value if isinstance(value, Enum) else value
                raise InputError(f"{name}={given} must be none when reuse={self.reuse.value}")
        require_integers(1, **{name: getattr(self, name) for name in sizes if effects[name]})
        if self.rows_per_thread is not None and self.rows_per_thread > MOST_ROWS_PER_THREAD:
            raise InputError(f"rows_per_thread={self.rows_per_thread} must be at most {MOST_ROWS_PER_THREAD}")
        if planes and self.block_y != 1:
            raise InputError(f"block_y={self.block_y} must be 1 when reuse={self.reuse.value}")
        if self.block_x is not None and self.block_x % WARP_SIZE and not blocks:
            raise InputError(f"block_x={self.block_x} must be a multiple of {WARP_SIZE}")


def _planes(problem: Conv2d) -> Product[DirectConv2dConfiguration]:
    """Tiles of whole rows of a plane, of few even parts of them, or of a column or two, whose stores lie side by side."""
    height, width = problem.output_height, problem.output_width
    parts = {1, min(2, width), *(ceil_div(width, count) for count in range(1, 9))}
    rows = {*PLANE_ROWS, *(height,) * (height <= max(PLANE_ROWS))}
    fields = {
        "reuse": (Reuse.PLANE,),
        "exchange": (None,),
        "accumulators": (None,),
        "rows_per_thread": tuple(sorted(rows)),
        "block_x": PLANE_BLOCKS,
        "block_y": (1,),
        "columns_per_thread": tuple(sorted(part for part in parts if part <= WIDEST_TILE)),
    }
    return Product(DirectConv2dConfiguration, dict.fromkeys(OF_TILES, (None,)) | fields)


def _tensor_products(problem: Conv2d) -> list[Product[DirectConv2dConfiguration]]:
    """Matrix products on tensor cores, one product of fields for each warp tile; none of layers that leave most of one idle.

    Where channels lie closest and there is no other design, of such layers, too.
    """
    idle = 2 * problem.out_channels < TENSOR_FILTERS and not problem.precision.channels_last
    if problem.depthwise or idle:
        return []
    none = dict.fromkeys(("exchange", "accumulators", *OF_THREADS, *OF_TILES), (None,))
    last = problem.precision.channels_last
    choices = tensor_choices(problem.out_channels, problem.positions, channels_last=last)
    return [Product(DirectConv2dConfiguration, {"reuse": (Reuse.TENSOR,)} | none | fields) for fields in choices]


def space(problem: Conv2d, *, tensor_cores: bool, whole: bool = False) -> Space[DirectConv2dConfiguration]:
    """What is worth looking at: where the blocked design always wins (`always_blocked`), none of the designs `STRAIGHT`.

    In half precision and TF32 only tensor cores compute, of which a check tells other GPUs. ``whole``: all designs that can
    compute the problem.
    """
    if problem.precision.channels_last:
        return Space(tuple(_tensor_products(problem)))
    blocks, on_tensor_cores = _blocks(problem), _tensor_products(problem) if tensor_cores else []
    straight = [] if blocks and always_blocked(problem) and not whole else _straight(problem)
    planes = [_planes(problem)] if problem.depthwise and problem.output_width <= WIDEST_PLANE else []
    return Space((*straight, *blocks, *on_tensor_cores, *planes))


def always_blocked(problem: Conv2d) -> bool:
    """Whether the blocked design has won on every measured problem of this kind: several channels and a small filter.

    On an H200 they were 1.4 to 16 times as fast as the fastest of `STRAIGHT`, on all 14 dense problems of which both were
    measured: 3 to 512 channels in and 7 to 512 out, filters of 3 × 3 to 7 × 7, 7 to 640 columns.
    """
    return problem.in_channels >= FEWEST_SHARED_CHANNELS and problem.filter_taps <= MOST_SHARED_TAPS


def _blocks(problem: Conv2d) -> list[Product[DirectConv2dConfiguration]]:
    """The blocked design, one product for each tile of a thread; none of depthwise layers."""
    fields = {"reuse": (Reuse.BLOCKED,), "exchange": (None,), "accumulators": (None,)}
    fields |= dict.fromkeys(OF_TENSORS, (None,))
    found = [] if problem.depthwise else choices(problem.layer)
    return [Product(DirectConv2dConfiguration, fields | some.values()) for some in found]


def _straight(problem: Conv2d) -> list[Product[DirectConv2dConfiguration]]:
    """Reuse modes with their methods, rows and blocks; exchanges only for filters wide enough to need one.

    Sharing rows begins with two outputs of a thread: with one it is the code without.
    """

    def of_mode(
        reuse: Reuse,
        accumulators: Accumulators | None,
        rows_per_thread: tuple[int, ...],
        block_x: tuple[int, ...] = BLOCK_SIZES_X,
        block_y: tuple[int, ...] = BLOCK_SIZES_Y,
    ) -> Product[DirectConv2dConfiguration]:
        fields = {
            "reuse": (reuse,),
            "exchange": tuple(Exchange) if reuse.columns else (None,),
            "accumulators": (accumulators,),
            "rows_per_thread": rows_per_thread,
            "block_x": block_x,
            "block_y": block_y,
        }
        return Product(DirectConv2dConfiguration, fields | dict.fromkeys(OF_TILES, (None,)))

    modes: list[tuple[Reuse, Accumulators | None, tuple[int, ...]]]
    modes = [(reuse, None, LOOPED_ROWS) for reuse in (Reuse.NONE, Reuse.COLUMN)]
    modes += [(reuse, how, rows) for how, rows in SHARED_ROWS.items() for reuse in (Reuse.ROW, Reuse.COLUMN_ROW)]
    return [of_mode(*mode) for mode in modes if problem.filter_width > 2 or not mode[0].columns]
