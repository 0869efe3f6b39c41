"""Compile-time constants of the kernel for each configuration: the one home of everything that the source leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES, round_up
from ...memory.async_copy import SECTOR_WORDS
from .blocking import Integers, Tiles
from .fetch import Fetch
from .problem import PointwiseConv2d
from .shared_layout import Operand, Pitches, pitches


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayout:
    """Where both operands of one configuration lie in a stage of shared memory."""

    filters: Pitches
    inputs: Pitches
    stage_bytes: int


def operand_of(tile: Tiles, fetched: Fetch, index: int, *, filters: bool) -> Operand:
    """The filters or the input of the configuration at ``index``."""
    along_width = bool(tile.filters_along_width[index]) == filters
    channels = int(fetched.slab_channels[index])
    extent = int((tile.filter_tile if filters else tile.position_tile)[index])
    return Operand(
        filters=filters,
        channel_lanes=int(tile.channel_lanes[index]),
        lines=extent if filters else channels,
        words=channels if filters else extent,
        read_words=int((tile.thread_width if along_width else tile.warp_height)[index]),
        read_vector=1 if filters else int(fetched.read_vector[index]),
        spread=along_width,
        fetch_vector=int((fetched.filter_vector if filters else fetched.input_vector)[index]),
        store_lanes=int((fetched.row_vectors if filters else fetched.position_lanes)[index]),
        asynchronous=fetched.asynchronous,
    )


def shared_layout(tile: Tiles, fetched: Fetch, index: int) -> SharedLayout:
    """Pitches of the filters and the input of the configuration at ``index``, and the bytes of a stage."""
    rows, planes = (operand_of(tile, fetched, index, filters=filters) for filters in (True, False))
    filters, inputs = pitches(rows), pitches(planes)
    stage = sum(
        round_up(found.words(operand.lines), SECTOR_WORDS) for found, operand in ((filters, rows), (inputs, planes))
    )
    return SharedLayout(filters=filters, inputs=inputs, stage_bytes=stage * FLOAT_BYTES)


def defines(
    problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, stages: Integers, index: int
) -> tuple[tuple[str, int], ...]:
    """Macros of the configuration at ``index``; problems that agree in them share one compiled kernel."""
    layout = shared_layout(tile, fetched, index)
    inputs = layout.inputs
    return (
        ("LAYOUT", 1 if tile.filters_along_width[index] else 2),
        ("CHANNEL_LANES", int(tile.channel_lanes[index])),
        ("SLAB_GROUPS", int(fetched.slab_groups[index])),
        ("ASYNC_COPY", int(fetched.asynchronous)),
        ("STAGES", int(stages[index])),
        ("THREAD_W", int(tile.thread_width[index])),
        ("WARP_H", int(tile.warp_height[index])),
        ("FILTER_VECTOR", int(fetched.filter_vector[index])),
        ("FILTER_CACHED", int(fetched.filter_cached[index])),
        ("FILTER_INTERLEAVE", layout.filters.accesses.interleave),
        ("FILTER_ROW", layout.filters.pitch),
        ("INPUT_VECTOR", int(fetched.input_vector[index])),
        ("READ_VECTOR", inputs.accesses.read_vector),
        ("STORE_VECTOR", inputs.accesses.store_vector),
        ("INPUT_INTERLEAVE", inputs.accesses.interleave),
        ("POSITION_LANES", int(fetched.position_lanes[index])),
        ("INPUT_PITCH", inputs.pitch),
        ("INPUT_PAD", inputs.pad),
        ("INPUT_PAD_EVERY", inputs.pad_every),
        ("ONE_IMAGE", int(problem.batch == 1)),
        ("CHANNEL_TAIL", int(problem.in_channels % int(fetched.slab_channels[index]) != 0)),
        ("FILTER_TAIL", int(problem.out_channels % int(tile.filter_tile[index]) != 0)),
    )
