"""Configuration of the pointwise convolution, one choice at each of the four levels of blocking, and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...core.constants import ceil_div
from ...errors import InputError
from ..base import Product, Space, take_choices
from ..matrix.bulk_tiles import BULK_FILTERS, BULK_POSITIONS, BULK_WARPS, OF_BULK, bulk_copies_fit
from ..matrix.choices import CHANNEL_SLICES, CHANNEL_SPLIT, OF_TENSORS, even_parts, tensor_choices
from ..sizes import require_integers
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
    PRODUCT = "product"
    """A thread has a tile of both, as matrix products are computed; its sizes are given, not derived from the GPU."""
    TENSOR = "tensor"
    """A warp has a tile of both, and tensor cores multiply; each factor is the sum of two TF32 numbers, as exact as FP32."""
    BULK = "bulk"
    """In half precision and TF32, on Hopper: bulk tensor copies bring tiles for warpgroups, and blocks go through several."""


OF_TILES = ("filter_split", "block_width_split", "blocks_per_sm", "channel_lanes")
"""Fields that have an effect where the four levels of tiles follow from layer and GPU."""
OF_PRODUCTS = (
    "filters_per_thread",
    "positions_per_thread",
    "filter_threads",
    "position_threads",
    "channel_slices",
    "channel_split",
)
"""Fields that have an effect with ``layout=product``."""
FIELDS = tuple(dict.fromkeys((*OF_TILES, *OF_PRODUCTS, *OF_TENSORS)))
OWN_FIELDS = {Layout.PRODUCT: OF_PRODUCTS, Layout.TENSOR: OF_TENSORS, Layout.BULK: OF_BULK}
"""Fields that have an effect where not those of `OF_TILES` do."""
FILTERS_PER_THREAD = (4, 8)
POSITIONS_PER_THREAD = (4, 8)
THREADS_ALONG = (8, 16, 32)
"""Threads of a block along filters or positions, beside those that cut the layer into few even parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseConfiguration:
    """One way to run a pointwise convolution; ``None`` where a field has no effect.

    ``layout`` is the design. ``L1``, ``L2``: tiles sized to the layer and the GPU, with the filters along their width or height.
    ``product``: a matrix product with a tile of outputs a thread. ``tensor``: one on tensor cores, as exact as FP32.
    ``bulk``: one by warpgroups on Hopper, in half precision or TF32, with tiles copied by TMA.

    ``filter_split``: an SM tile holds out_channels / filter_split filters (a power of two). ``block_width_split``: a block
    tile is the SM tile's width divided by 1 or 2. ``blocks_per_sm``: blocks that share an SM and its SM tile.
    ``channel_lanes``: lanes that share one output, each summing every channel_lanes-th channel.

    With ``layout=product`` a thread computes ``filters_per_thread`` × ``positions_per_thread`` outputs, a block has
    ``filter_threads`` × ``position_threads`` such threads for each of ``channel_slices`` parts of a slab of channels, and the
    ``channel_split`` blocks of a cluster divide the channels of one tile.

    With ``layout=tensor`` a warp computes ``warp_filters`` × ``warp_positions`` outputs, and a block has ``filter_warps`` ×
    ``position_warps`` such warps for each slice. With ``layout=bulk`` a warpgroup computes ``warp_filters`` × 4 ·
    ``warp_positions`` outputs, and a block has ``position_warps`` warps that multiply.

    >>> PointwiseConfiguration(channel_lanes=3)
    Traceback (most recent call last):
    perfmodel.errors.InputError: channel_lanes=3 must be one of 1, 2, 4, 8, 16, 32
    """

    layout: Layout = Layout.L1
    filter_split: int | None = 1
    block_width_split: int | None = 1
    blocks_per_sm: int | None = 2
    channel_lanes: int | None = 8
    filters_per_thread: int | None = None
    positions_per_thread: int | None = None
    filter_threads: int | None = None
    position_threads: int | None = None
    channel_slices: int | None = None
    channel_split: int | None = None
    warp_filters: int | None = None
    warp_positions: int | None = None
    filter_warps: int | None = None
    position_warps: int | None = None

    def __post_init__(self) -> None:
        take_choices(self)
        own = OWN_FIELDS.get(self.layout, OF_TILES)
        for name in FIELDS:
            if name not in own and getattr(self, name) is not None:
                raise InputError(f"{name}={getattr(self, name)} must be none when layout={self.layout.value}")
        if own is not OF_TILES:
            require_integers(1, **{name: getattr(self, name) for name in own})
            return
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


def _threads_along(extent: int, even: bool) -> tuple[int, ...]:
    """Threads that hold so many vectors of outputs, or a few even parts of them.

    >>> _threads_along(25, even=False), _threads_along(25, even=True)
    ((5, 7, 8, 9, 13, 16, 25, 32), (6, 8, 10, 14, 16, 26, 32))
    """
    parts = even_parts(extent) | set(THREADS_ALONG)
    if even:
        parts = {part + part % 2 for part in parts}
    most = max(2, 2 * extent)
    return tuple(sorted(part for part in parts if part <= min(max(THREADS_ALONG), most)))


def _products(problem: PointwiseConv2d) -> list[Product[PointwiseConfiguration]]:
    """Matrix products, one product of fields for each thread tile."""
    return [
        Product(
            PointwiseConfiguration,
            {
                "layout": (Layout.PRODUCT,),
                **dict.fromkeys(FIELDS, (None,)),
                "filters_per_thread": (filters,),
                "positions_per_thread": (positions,),
                "filter_threads": _threads_along(ceil_div(problem.out_channels, filters), even=True),
                "position_threads": _threads_along(ceil_div(problem.positions, positions), even=False),
                "channel_slices": CHANNEL_SLICES,
                "channel_split": CHANNEL_SPLIT,
            },
        )
        for filters in FILTERS_PER_THREAD
        for positions in POSITIONS_PER_THREAD
    ]


def tile_space(problem: PointwiseConv2d) -> Space[PointwiseConfiguration]:
    """Every distinct tile that follows from layer and GPU.

    In L1 only the product of both splits matters, in L2 only their quotient. So of the candidates that give one and the same
    kernel, (2, 1) and (1, 2) in L1 or (2, 2) and (1, 1) in L2, one stands for all.

    >>> len(tile_space(PointwiseConv2d(out_channels=32))), len(tile_space(PointwiseConv2d(out_channels=64)))
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
                    **dict.fromkeys(FIELDS, (None,)),
                    "filter_split": filter_split,
                    "block_width_split": (block_width_split,),
                    "blocks_per_sm": BLOCKS_PER_SM,
                    "channel_lanes": CHANNEL_LANES,
                },
            )
            for layout, filter_split, block_width_split in choices
        )
    )


def _tensor_products(problem: PointwiseConv2d) -> list[Product[PointwiseConfiguration]]:
    """Matrix products on tensor cores, one product of fields for each warp tile."""
    none = {"layout": (Layout.TENSOR,), **dict.fromkeys(FIELDS, (None,))}
    last = problem.precision.channels_last
    choices = tensor_choices(problem.out_channels, problem.positions, channels_last=last)
    return [Product(PointwiseConfiguration, none | fields) for fields in choices]


def _bulk_products(problem: PointwiseConv2d) -> list[Product[PointwiseConfiguration]]:
    """Matrix products of warpgroups whose factors bulk tensor copies bring."""
    fields = {"warp_filters": BULK_FILTERS, "warp_positions": BULK_POSITIONS, "position_warps": BULK_WARPS}
    none = {"layout": (Layout.BULK,), **dict.fromkeys(FIELDS, (None,))}
    return [Product(PointwiseConfiguration, none | fields)]


def pointwise_space(problem: PointwiseConv2d, *, tensor_cores: bool, warpgroups: bool) -> Space[PointwiseConfiguration]:
    """Tiles that follow from layer and GPU, matrix products, and those on tensor cores where the GPU has such.

    Only those on tensor cores compute in half precision and TF32, of which a check tells other GPUs; those of warpgroups, too.
    """
    if problem.precision.channels_last:
        in_bulk = _bulk_products(problem) if warpgroups and bulk_copies_fit(problem) else []
        return Space((*_tensor_products(problem), *in_bulk))
    on_tensor_cores = _tensor_products(problem) if tensor_cores else []
    return Space((*tile_space(problem).products, *_products(problem), *on_tensor_cores))
