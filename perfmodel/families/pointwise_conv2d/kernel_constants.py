"""Compile-time constants of the kernel for each configuration: the one home of everything that the source leaves open."""

from __future__ import annotations

from dataclasses import dataclass

from ...definitions import FLOAT_BYTES, round_up
from .blocking import Integers, Tiles
from .fetch import MAX_VECTOR_WORDS, Fetch
from .problem import PointwiseConv2d
from .shared_layout import Operand, Pitches, pitches


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedLayout:
    """Where both operands of one configuration lie in a stage of shared memory."""

    width: Pitches
    height: Pitches
    stage_bytes: int

    def input(self, filters_along_width: bool) -> Pitches:
        """The operand that holds the input."""
        return self.height if filters_along_width else self.width


def operand_of(tile: Tiles, fetched: Fetch, index: int, *, along_width: bool) -> Operand:
    """The width or the height operand of the configuration at ``index``."""
    filters = bool(tile.filters_along_width[index]) == along_width
    return Operand(
        channel_lanes=int(tile.channel_lanes[index]),
        slab_channels=int(fetched.slab_channels[index]),
        words=int((tile.block_width if along_width else tile.block_height)[index]),
        read_words=int((tile.thread_width if along_width else tile.warp_height)[index]),
        read_vector=int((fetched.width_vector if along_width else fetched.height_vector)[index]),
        spread=along_width,
        transposed=filters,
        fetch_vector=int((fetched.filter_vector if filters else fetched.input_vector)[index]),
        store_lanes=int((fetched.filter_channel_lanes if filters else fetched.position_lanes)[index]),
        store_step=int((fetched.filter_step if filters else fetched.channel_step)[index]),
        asynchronous=fetched.asynchronous,
    )


def shared_layout(tile: Tiles, fetched: Fetch, index: int) -> SharedLayout:
    """Pitches of the width and the height operand of the configuration at ``index``, and the bytes of a stage."""
    width = pitches(operand_of(tile, fetched, index, along_width=True))
    height = pitches(operand_of(tile, fetched, index, along_width=False))
    channels = int(fetched.slab_channels[index])
    stage = round_up(round_up(width.words(channels), MAX_VECTOR_WORDS) + height.words(channels), MAX_VECTOR_WORDS)
    return SharedLayout(width=width, height=height, stage_bytes=stage * FLOAT_BYTES)


def defines(
    problem: PointwiseConv2d, tile: Tiles, fetched: Fetch, stages: Integers, index: int
) -> tuple[tuple[str, int], ...]:
    """Macros of the configuration at ``index``; problems that agree in them share one compiled kernel."""
    layout = shared_layout(tile, fetched, index)
    stored = layout.input(bool(tile.filters_along_width[index])).accesses
    return (
        ("LAYOUT", 1 if tile.filters_along_width[index] else 2),
        ("CHANNEL_LANES", int(tile.channel_lanes[index])),
        ("SLAB_GROUPS", int(fetched.slab_groups[index])),
        ("ASYNC_COPY", int(fetched.asynchronous)),
        ("STAGES", int(stages[index])),
        ("THREAD_W", int(tile.thread_width[index])),
        ("WARP_H", int(tile.warp_height[index])),
        ("WIDTH_VECTOR", layout.width.accesses.read_vector),
        ("HEIGHT_VECTOR", layout.height.accesses.read_vector),
        ("FILTER_VECTOR", int(fetched.filter_vector[index])),
        ("FILTER_LANES", int(fetched.filter_channel_lanes[index])),
        ("FILTER_STEP", int(fetched.filter_step[index])),
        ("INPUT_VECTOR", int(fetched.input_vector[index])),
        ("STORE_VECTOR", stored.store_vector),
        ("INPUT_INTERLEAVE", stored.interleave),
        ("POSITION_LANES", int(fetched.position_lanes[index])),
        ("WIDTH_PITCH", layout.width.pitch),
        ("WIDTH_PAD", layout.width.pad),
        ("WIDTH_PAD_EVERY", layout.width.pad_every),
        ("HEIGHT_PITCH", layout.height.pitch),
        ("HEIGHT_PAD", layout.height.pad),
        ("HEIGHT_PAD_EVERY", layout.height.pad_every),
        ("ONE_IMAGE", int(problem.batch == 1)),
        ("CHANNEL_TAIL", int(problem.in_channels % int(fetched.slab_channels[index]) != 0)),
        ("FILTER_TAIL", int(problem.out_channels % int(tile.filter_tile[index]) != 0)),
    )
