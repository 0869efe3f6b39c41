"""Exact requests, sectors and lines of the kernel's global accesses: blocks and slabs that look alike are counted once.

An access depends on the block and the slab in four ways: how many of its filters, positions and channels exist, where its
run of positions passes from one image to the next, and where its base lies within a 128-byte line (tensors themselves start at a
line). All blocks and slabs fall into few such classes; each is enumerated lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...definitions import FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from .blocking import THREADS_PER_BLOCK, WARP_COLUMNS
from .problem import PointwiseConv2d
from .shared_layout import filter_threads, interleaved

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

LINE_WORDS = LINE_BYTES // FLOAT_BYTES
SECTOR_WORDS = SECTOR_BYTES // FLOAT_BYTES
MAX_RUNS = 512
"""Runs of positions that are enumerated for each number of existing positions; more of them are sampled evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """One configuration's tile, fetch and accesses as plain integers (see ``Tiles``, ``Fetch`` and ``Accesses``).

    ``asynchronous`` copies of filters and positions that do not exist read the last one that does.
    """

    asynchronous: bool
    filters_along_width: bool
    channel_lanes: int
    slab_channels: int
    thread_width: int
    warp_height: int
    filter_tile: int
    position_tile: int
    width_vector: int
    filter_vector: int
    filter_channel_lanes: int
    filter_step: int
    input_vector: int
    position_lanes: int
    input_interleave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """Warp-level requests, 32-byte sectors and 128-byte lines of one kind of access in the whole launch."""

    requests: int
    sectors: float
    lines: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Classes:
    """Distinct rows of integer columns ``(m, columns)`` and how often each occurs ``(m,)``."""

    rows: Integers
    weight: Floats

    @classmethod
    def of(cls, *columns: Integers) -> Classes:
        """The distinct rows of columns of equal length."""
        rows, counts = np.unique(np.stack(np.broadcast_arrays(*columns), axis=1), axis=0, return_counts=True)
        return cls(rows=rows.astype(np.int64), weight=counts.astype(np.float64))


def _segments(word: Integers, active: NDArray[np.bool_], base: Integers, words: int) -> Integers:
    """Distinct segments of ``words`` words over the lanes of each request, summed, for each base; shape of ``base``."""
    segment = np.where(active, (word + base[:, None, None]) // words, -1)
    segment.sort(axis=2)
    fresh = (segment[:, :, 1:] != segment[:, :, :-1]).sum(axis=(1, 2)) + (segment[:, :, 0] >= 0).sum(axis=1)
    total: Integers = fresh
    return total


def _touched(word: Integers, active: NDArray[np.bool_], base: Integers, weight: Floats) -> Touched:
    """Access of shape ``(requests, 32)`` repeated at the given bases."""
    used = active.any(axis=1)
    word, active = word[used], active[used]
    return Touched(
        requests=round(float(weight.sum())) * len(word),
        sectors=float(_segments(word, active, base, SECTOR_WORDS) @ weight),
        lines=float(_segments(word, active, base, LINE_WORDS) @ weight),
    )


def _total(parts: list[Touched]) -> Touched:
    return Touched(
        requests=sum(part.requests for part in parts),
        sectors=sum(part.sectors for part in parts),
        lines=sum(part.lines for part in parts),
    )


def _combined(first: Classes, second: Classes, keys: Callable[[Integers, Integers], Integers]) -> Classes:
    """Classes of all pairs, keyed anew; ``keys`` maps rows ``(m, 1, c)`` and ``(1, n, d)`` to ``(m, n, columns)``."""
    paired = keys(first.rows[:, None, :], second.rows[None, :, :])
    weight = np.broadcast_to(first.weight[:, None] * second.weight[None, :], paired.shape[:2]).reshape(-1)
    rows, inverse = np.unique(paired.reshape(-1, paired.shape[2]), axis=0, return_inverse=True)
    return Classes(rows=rows, weight=np.bincount(inverse.reshape(-1), weights=weight).astype(np.float64))


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


def _by_shape(classes: Classes, count: Callable[[Integers, Integers, Floats], Touched]) -> Touched:
    """Sum of ``count(shape, bases, weights)`` over the classes, whose last column is the base and the others the shape."""
    shapes, inverse = np.unique(classes.rows[:, :-1], axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    parts = []
    for index, shape in enumerate(shapes):
        chosen = inverse == index
        parts.append(count(shape, classes.rows[chosen, -1], classes.weight[chosen]))
    return _total(parts)


def _run_words(problem: PointwiseConv2d, geometry: Geometry, channels: int, position: Integers, until: int) -> Integers:
    """Words from a tile's first position to the given ones, whose image ends after ``until`` positions."""
    image = problem.image_positions
    start = image - until if until < geometry.position_tile else 0
    if until >= geometry.position_tile:
        return position
    at = start + position
    return at // image * channels * image + at % image - start


def filter_loads(problem: PointwiseConv2d, geometry: Geometry) -> Touched:
    """Loads of the filters by all blocks of all slabs."""
    vector, step = geometry.filter_vector, geometry.filter_step
    group, row = filter_threads(geometry.filter_channel_lanes, step)
    down = np.arange(0, geometry.filter_tile, step)[:, None, None]
    across = np.arange(0, geometry.slab_channels, THREADS_PER_BLOCK // step * vector)[:, None]
    shape = (len(down), len(across), THREADS_PER_BLOCK)
    row = np.broadcast_to(row + down, shape).reshape(-1, WARP_SIZE)
    channel = np.broadcast_to(group * vector + across, shape).reshape(-1, WARP_SIZE)
    present = (row < geometry.filter_tile) & (channel < geometry.slab_channels)

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        existing = np.minimum(row, shape[0] - 1) if geometry.asynchronous else row
        active = present & (existing < shape[0]) & (channel < shape[1])
        return _touched(existing * problem.in_channels + channel, active, base, weight)

    first = np.arange(0, problem.out_channels, geometry.filter_tile)
    left = np.minimum(problem.out_channels - first, geometry.filter_tile)
    tiles = Classes.of(left, first * problem.in_channels % LINE_WORDS)
    classes = _combined(tiles, _slabs(problem, geometry, 1), _joined)
    blocks = -(-problem.positions // geometry.position_tile)
    return _by_shape(Classes(rows=classes.rows, weight=classes.weight * blocks), count)


def _joined(tile: Integers, slab: Integers) -> Integers:
    """Shape columns of both, then the sum of their bases modulo a line."""
    shape = np.broadcast_shapes(tile.shape[:2], slab.shape[:2])
    columns = [*np.moveaxis(tile[..., :-1], -1, 0), *np.moveaxis(slab[..., :-1], -1, 0)]
    columns.append((tile[..., -1] + slab[..., -1]) % LINE_WORDS)
    return np.stack([np.broadcast_to(column, shape) for column in columns], axis=-1)


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

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        existing = np.minimum(position, shape[0] - vector) if geometry.asynchronous else position
        run = _run_words(problem, geometry, problem.in_channels, existing, int(shape[1]))
        active = present & (existing < shape[0]) & (channel < shape[2])
        return _touched(run + channel * problem.image_positions, active, base, weight)

    runs = _position_runs(problem, geometry, problem.in_channels, LINE_WORDS)
    classes = _combined(runs, _slabs(problem, geometry, problem.image_positions), _joined)
    blocks = -(-problem.out_channels // geometry.filter_tile)
    return _by_shape(Classes(rows=classes.rows, weight=classes.weight * blocks), count)


def output_stores(problem: PointwiseConv2d, geometry: Geometry) -> Touched:
    """Stores of all blocks, after the sums of an output have been added over its lanes."""
    filters, position, within = _stored_outputs(geometry)

    def count(shape: Integers, base: Integers, weight: Floats) -> Touched:
        run = _run_words(problem, geometry, problem.out_channels, position, int(shape[1]))
        active = within & (position < shape[0]) & (filters < shape[2])
        return _touched(run + filters * problem.image_positions, active, base, weight)

    first = np.arange(0, problem.out_channels, geometry.filter_tile)
    left = np.minimum(problem.out_channels - first, geometry.filter_tile)
    tiles = Classes.of(left, first * problem.image_positions % SECTOR_WORDS)
    runs = _position_runs(problem, geometry, problem.out_channels, SECTOR_WORDS)
    classes = _combined(runs, tiles, _joined)
    rows = classes.rows.copy()
    rows[:, -1] %= SECTOR_WORDS
    return _by_shape(Classes(rows=rows, weight=classes.weight), count)


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
    vector = geometry.width_vector
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
