"""Exact requests, sectors and lines of the kernel's global accesses: blocks and slabs that look alike are counted once.

An access depends on the block and the slab in four ways: how many of its filters, positions and channels exist, where its
run of positions passes from one image to the next, and where its base lies within a 128-byte line (tensors themselves start at a
line). All blocks and slabs fall into few such classes; each is enumerated lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...memory.async_copy import LINE_WORDS, SECTOR_WORDS, WIDEST_COPY_WORDS
from .blocking import THREADS_PER_BLOCK, WARP_COLUMNS
from .classes import Classes, Floats, Integers, Touched, by_shape, combined, joined, touched
from .problem import PointwiseConv2d
from .shared_layout import interleaved

MAX_RUNS = 512
"""Runs of positions that are enumerated for each number of existing positions; more of them are sampled evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """One configuration's tile, fetch and accesses as plain integers (see ``Tiles``, ``Fetch`` and ``Accesses``).

    ``asynchronous`` copies of filters that do not exist read the last one that does; of positions, one that lies a multiple
    of 32 back. ``column_vector``: outputs along the width that lie side by side in a thread.
    """

    asynchronous: bool
    filters_along_width: bool
    channel_lanes: int
    slab_channels: int
    thread_width: int
    warp_height: int
    filter_tile: int
    position_tile: int
    column_vector: int
    filter_vector: int
    filter_cached: bool
    filter_interleave: int
    input_vector: int
    position_lanes: int
    input_interleave: int
    filter_pitch: int
    input_pitch: int
    input_pad: int
    input_pad_every: int


def _slabs(problem: PointwiseConv2d, geometry: Geometry, channel_words: int) -> Classes:
    """Classes of slabs: existing channels, and the words from the first slab modulo a line."""
    first = np.arange(0, problem.in_channels, geometry.slab_channels)
    left = np.minimum(problem.in_channels - first, geometry.slab_channels)
    return Classes.of(left, first * channel_words % LINE_WORDS)


def _position_runs(problem: PointwiseConv2d, geometry: Geometry, channels: int, modulus: int) -> Classes:
    """Classes of position tiles: existing positions, positions up to the next image, base modulo ``modulus`` words."""
    tile, image = geometry.position_tile, problem.image_positions
    first = np.arange(0, problem.positions, tile)
    left = np.minimum(problem.positions - first, tile)
    within = first % image
    base = (first // image * channels * image + within) % modulus
    found = Classes.of(left, np.minimum(image - within, tile), base)
    return _thinned(found)


def _thinned(classes: Classes) -> Classes:
    """At most ``MAX_RUNS`` runs for each number of existing positions, whose weights stand for all of them."""
    keep, weight = [], []
    for left in np.unique(classes.rows[:, 0]):
        index = np.flatnonzero(classes.rows[:, 0] == left)
        chosen = index if len(index) <= MAX_RUNS else index[np.linspace(0, len(index) - 1, MAX_RUNS).astype(np.int64)]
        scale = classes.weight[index].sum() / classes.weight[chosen].sum()
        keep.append(chosen)
        weight.append(classes.weight[chosen] * scale)
    return Classes(rows=classes.rows[np.concatenate(keep)], weight=np.concatenate(weight))


def _run_words(problem: PointwiseConv2d, geometry: Geometry, channels: int, position: Integers, until: int) -> Integers:
    """Words from a tile's first position to the given ones, whose image ends after ``until`` positions."""
    image = problem.image_positions
    start = image - until if until < geometry.position_tile else 0
    if until >= geometry.position_tile:
        return position
    at = start + position
    return at // image * channels * image + at % image - start


def _copied_words(problem: PointwiseConv2d, first: int, position: Integers, vector: int) -> Integers:
    """Words from the last tile's first position to what is copied for the given ones, those beyond the image included.

    A vector beyond the last position is replaced by one whole warps' widths before it, on the same banks, if there is one.
    """
    last, wanted = problem.positions - vector, first + position
    back = -(-np.maximum(wanted - last, 0) // WARP_SIZE) * WARP_SIZE
    copied = np.where(back <= wanted, wanted - back, last)

    def word(at: Integers | int) -> Integers | int:
        return (
            at // problem.image_positions * problem.in_channels * problem.image_positions + at % problem.image_positions
        )

    return np.asarray(word(copied) - word(first), np.int64)


def filter_loads(problem: PointwiseConv2d, geometry: Geometry) -> Touched:
    """Loads of the filters by all blocks of all slabs."""
    vector = geometry.filter_vector
    lanes = geometry.slab_channels // vector
    thread = np.arange(THREADS_PER_BLOCK)
    step = THREADS_PER_BLOCK // lanes
    down = np.arange(0, geometry.filter_tile, step)[:, None]
    row = (interleaved(thread // lanes, step, geometry.filter_interleave) + down).reshape(-1, WARP_SIZE)
    channel = np.broadcast_to(thread % lanes * vector, (len(down), THREADS_PER_BLOCK)).reshape(-1, WARP_SIZE)
    present = row < geometry.filter_tile
    past_l1 = geometry.asynchronous and vector == WIDEST_COPY_WORDS and not geometry.filter_cached

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        existing = np.minimum(row, shape[0] - 1) if geometry.asynchronous else row
        active = present & (existing < shape[0]) & (channel < shape[1])
        place = existing * problem.in_channels + channel
        target = row * geometry.filter_pitch + channel if past_l1 else None
        return touched(place, active, base, weight, vector * geometry.asynchronous, target)

    first = np.arange(0, problem.out_channels, geometry.filter_tile)
    left = np.minimum(problem.out_channels - first, geometry.filter_tile)
    tiles = Classes.of(left, first * problem.in_channels % LINE_WORDS)
    classes = combined(tiles, _slabs(problem, geometry, 1), joined)
    blocks = -(-problem.positions // geometry.position_tile)
    return by_shape(Classes(rows=classes.rows, weight=classes.weight * blocks), count)


def input_loads(problem: PointwiseConv2d, geometry: Geometry) -> Touched:
    """Loads of the input by all blocks of all slabs."""
    thread = np.arange(THREADS_PER_BLOCK)
    lanes, vector = geometry.position_lanes, geometry.input_vector
    step = THREADS_PER_BLOCK // lanes
    down = np.arange(0, geometry.slab_channels, step)[:, None, None]
    across = np.arange(0, geometry.position_tile, THREADS_PER_BLOCK * vector)[:, None]
    shape = (len(down), len(across), THREADS_PER_BLOCK)
    group = interleaved(thread // lanes, min(geometry.slab_channels, step), geometry.input_interleave)
    channel = np.broadcast_to(group + down, shape).reshape(-1, WARP_SIZE)
    position = np.broadcast_to(thread % lanes * vector + across, shape).reshape(-1, WARP_SIZE)
    present = (position < geometry.position_tile) & (channel < geometry.slab_channels)
    past_l1 = geometry.asynchronous and vector == WIDEST_COPY_WORDS

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        if geometry.asynchronous and shape[0] < geometry.position_tile:
            run = _copied_words(problem, problem.positions - int(shape[0]), position, vector)
            existing = present
        else:
            run = _run_words(problem, geometry, problem.in_channels, position, int(shape[1]))
            existing = present & (position < shape[0])
        active = existing & (channel < shape[2])
        place = run + channel * problem.image_positions
        target = channel * geometry.input_pitch + channel // geometry.input_pad_every * geometry.input_pad + position
        return touched(place, active, base, weight, vector * geometry.asynchronous, target if past_l1 else None)

    runs = _position_runs(problem, geometry, problem.in_channels, LINE_WORDS)
    classes = combined(runs, _slabs(problem, geometry, problem.image_positions), joined)
    blocks = -(-problem.out_channels // geometry.filter_tile)
    return by_shape(Classes(rows=classes.rows, weight=classes.weight * blocks), count)


def output_stores(problem: PointwiseConv2d, geometry: Geometry) -> Touched:
    """Stores of all blocks, after the sums of an output have been added over its lanes."""
    filters, position, within = _stored_outputs(geometry)

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        run = _run_words(problem, geometry, problem.out_channels, position, int(shape[1]))
        active = within & (position < shape[0]) & (filters < shape[2])
        return touched(run + filters * problem.image_positions, active, base, weight)

    first = np.arange(0, problem.out_channels, geometry.filter_tile)
    left = np.minimum(problem.out_channels - first, geometry.filter_tile)
    tiles = Classes.of(left, first * problem.image_positions % SECTOR_WORDS)
    runs = _position_runs(problem, geometry, problem.out_channels, SECTOR_WORDS)
    classes = combined(runs, tiles, joined)
    rows = classes.rows.copy()
    rows[:, -1] %= SECTOR_WORDS
    return by_shape(Classes(rows=rows, weight=classes.weight), count)


def _stored_outputs(geometry: Geometry) -> tuple[Integers, Integers, NDArray[np.bool_]]:
    """Filter and position within the block tile, and whether it is an output of the lane, shapes ``(requests, 32)``."""
    lanes = geometry.channel_lanes
    elements = WARP_SIZE // lanes
    outputs = geometry.warp_height * geometry.thread_width
    lane = np.arange(WARP_SIZE)
    warp = np.arange(4)[:, None, None]
    index = np.arange(-(-outputs // lanes))[:, None] * lanes + lane // elements
    positions = geometry.warp_height if geometry.filters_along_width else geometry.thread_width
    major, minor = index // positions, index % positions
    along, down = (major, minor) if geometry.filters_along_width else (minor, major)
    vector = geometry.column_vector
    column = (along // vector * elements + lane % elements) * vector + along % vector
    column = column + warp % WARP_COLUMNS * geometry.thread_width * elements
    row = down + warp // WARP_COLUMNS * geometry.warp_height
    shape = np.broadcast_shapes(column.shape, row.shape)
    column, row = (
        np.broadcast_to(column, shape).reshape(-1, WARP_SIZE),
        np.broadcast_to(row, shape).reshape(-1, WARP_SIZE),
    )
    within = np.broadcast_to(index < outputs, shape).reshape(-1, WARP_SIZE)
    return (column, row, within) if geometry.filters_along_width else (row, column, within)
