"""Closed-form counts of a launch. Memory requests, sectors, wavefronts and multiply-adds are exact.

Per block: S slabs, each fetched once and published once (one barrier), or copied asynchronously once, which counts as an
asynchronous copy and neither as a load nor as a store; ⌈C / C_num⌉ groups of channels, each read once by
each of the four warps, which then issue Warp_H·T_num FMA. The reduction sends half of a lane's sums to its partner in each
of log2(C_num) steps.

A global access depends on the block and the slab in four ways: how many of its filters, positions and channels exist, where its
run of positions passes from one image to the next, and where its base lies within a 128-byte line. All blocks and slabs fall
into few such classes; each is enumerated lane by lane.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...memory.async_copy import WIDEST_COPY_WORDS, copy_passes, copy_sectors, uncached_copy_sectors
from ..accesses import (
    WORDS_PER_SECTOR,
    Classes,
    GlobalAccesses,
    SharedAccesses,
    Starts,
    classes_of,
    global_accesses,
    paired,
)
from .blocking.shared_layout import Operand, interleaved, layout_of, pitches_of, reads_of, stores_of
from .blocking.tiles import THREADS_PER_BLOCK, WARP_COLUMNS, WARPS_PER_BLOCK, Flags, Floats, Integers, Tiles
from .launch import Candidates, KernelConstants, constants_of, operands_of
from .problem import PointwiseConv2d
from .traffic import l2_read_sectors


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryAccesses:
    """All memory accesses of one configuration's launch."""

    filters: GlobalAccesses = field(default_factory=GlobalAccesses)
    inputs: GlobalAccesses = field(default_factory=GlobalAccesses)
    outputs: GlobalAccesses = field(default_factory=GlobalAccesses)
    shared_loads: SharedAccesses = field(default_factory=SharedAccesses)
    shared_stores: SharedAccesses = field(default_factory=SharedAccesses)
    copies: SharedAccesses = field(default_factory=SharedAccesses)


def memory_accesses(problem: PointwiseConv2d, chosen: Candidates) -> list[MemoryAccesses]:
    """Memory accesses of every candidate that the plan allows, none for the others; equal kernels are counted once."""
    entries = [MemoryAccesses()] * len(chosen.planned)
    planned = np.flatnonzero(chosen.planned)
    filters, inputs = (operands_of(chosen.tile, chosen.fetched, planned, filters=own) for own in (True, False))
    for index, *operands in zip(planned.tolist(), filters, inputs, strict=True):
        entries[index] = _memory(problem, constants_of(problem, chosen, index), *operands)
    return entries


@lru_cache(maxsize=4096)
def _memory(problem: PointwiseConv2d, kernel: KernelConstants, filters: Operand, inputs: Operand) -> MemoryAccesses:
    across = ceil_div(problem.positions, kernel.position_tile)
    down = ceil_div(problem.out_channels, kernel.filter_tile)
    loads, stores, copies = _shared(problem, kernel, (filters, inputs))
    return MemoryAccesses(
        filters=_filter_loads(problem, kernel) * across,
        inputs=_input_loads(problem, kernel) * down,
        outputs=_output_stores(problem, kernel),
        shared_loads=loads * (across * down),
        shared_stores=stores * (across * down),
        copies=copies * (across * down),
    )


def _shared(
    problem: PointwiseConv2d, kernel: KernelConstants, operands: tuple[Operand, ...]
) -> tuple[SharedAccesses, SharedAccesses, SharedAccesses]:
    """Loads, stores and asynchronous copies of one block; the last group and the last slab may have fewer channels."""
    groups = ceil_div(problem.in_channels, kernel.channel_lanes)
    slabs = ceil_div(problem.in_channels, kernel.slab_channels)
    of_last_group = problem.in_channels - (groups - 1) * kernel.channel_lanes
    of_last_slab = problem.in_channels - (slabs - 1) * kernel.slab_channels
    loads = stores = copies = SharedAccesses()
    for operand in operands:
        pitches = pitches_of(operand)
        layout = layout_of(pitches)
        last_reads = reads_of(operand, pitches.accesses, layout, of_last_group)
        loads += (pitches.reads * (groups - 1) + last_reads) * WARPS_PER_BLOCK
        if operand.asynchronous:
            copies += pitches.stores * (slabs - 1) + stores_of(operand, pitches.accesses, layout, of_last_slab)
        else:
            stores += pitches.stores * slabs
    return loads, stores, copies


def _copied(words: Integers, active: Flags, starts: Starts, vector: int, target: Integers | None) -> GlobalAccesses:
    """What asynchronous copies of ``vector`` words a lane read; ``target``: the words that those past L1 write.

    Words and targets have shape ``(requests, 32)`` and count from a whole sector.
    """
    accesses = global_accesses(words, active, starts)
    if target is None:
        passes = copy_passes(words, active, vector).sum() * starts.sum()
        return replace(accesses, read_wavefronts=int(passes))
    used = active.any(axis=1)
    places = np.flatnonzero(starts)
    shape = (len(places), int(used.sum()), WARP_SIZE)
    source = (words[used] + places[:, None, None]).reshape(-1, WARP_SIZE)
    to = np.broadcast_to(target[used], shape).reshape(-1, WARP_SIZE)
    lanes = np.broadcast_to(active[used], shape).reshape(-1, WARP_SIZE)
    counted, uncached = (
        int(each.reshape(shape[:2]).sum(axis=1) @ starts[places])
        for each in (copy_sectors(source, to, lanes, vector), uncached_copy_sectors(source, to, lanes))
    )
    return replace(accesses, sectors=counted, uncached_sectors=uncached)


def _filter_tiles(problem: PointwiseConv2d, kernel: KernelConstants, filter_words: int) -> Classes:
    """Classes of filter tiles: existing filters; a filter has ``filter_words`` words."""
    first = np.arange(0, problem.out_channels, kernel.filter_tile)
    return classes_of(first * filter_words, np.minimum(problem.out_channels - first, kernel.filter_tile))


def _slabs(problem: PointwiseConv2d, kernel: KernelConstants, channel_words: int) -> Classes:
    """Classes of slabs: existing channels; a channel has ``channel_words`` words."""
    first = np.arange(0, problem.in_channels, kernel.slab_channels)
    return classes_of(first * channel_words, np.minimum(problem.in_channels - first, kernel.slab_channels))


def _position_tiles(problem: PointwiseConv2d, kernel: KernelConstants, channels: int) -> Classes:
    """Classes of position tiles: existing positions, and positions up to the next image."""
    tile, image = kernel.position_tile, problem.image_positions
    first = np.arange(0, problem.positions, tile)
    within = first % image
    base = first // image * channels * image + within
    return classes_of(base, np.minimum(problem.positions - first, tile), np.minimum(image - within, tile))


def _words_of_run(
    problem: PointwiseConv2d, kernel: KernelConstants, channels: int, position: Integers, until: int
) -> Integers:
    """Words from a tile's first position to the given ones, whose image ends after ``until`` positions."""
    image = problem.image_positions
    if until >= kernel.position_tile:
        return position
    at = image - until + position
    return at // image * channels * image + at % image - (image - until)


def _copied_words(problem: PointwiseConv2d, first: int, position: Integers, vector: int) -> Integers:
    """Words from the last tile's first position to what is copied for the given ones, those beyond the image included.

    A vector beyond the last position is replaced by one whole warps' widths before it, on the same banks, if there is one.
    """
    last, wanted, image = problem.positions - vector, first + position, problem.image_positions
    back = ceil_div(np.maximum(wanted - last, 0), WARP_SIZE) * WARP_SIZE
    at = np.where(back <= wanted, wanted - back, last)
    start = first // image * problem.in_channels * image + first % image
    words: Integers = at // image * problem.in_channels * image + at % image - start
    return words


def _filter_loads(problem: PointwiseConv2d, kernel: KernelConstants) -> GlobalAccesses:
    """Loads of the filters by one column of blocks of the grid; copies of filters that do not exist read the last one."""
    vector = kernel.filter_vector
    lanes = kernel.slab_channels // vector
    step = THREADS_PER_BLOCK // lanes
    thread = np.arange(THREADS_PER_BLOCK)
    down = np.arange(0, kernel.filter_tile, step)[:, None]
    row = (interleaved(thread // lanes, step, kernel.filter_interleave) + down).reshape(-1, WARP_SIZE)
    channel = np.broadcast_to(thread % lanes * vector, (len(down), THREADS_PER_BLOCK)).reshape(-1, WARP_SIZE)
    past_l1 = vector == WIDEST_COPY_WORDS and not kernel.filter_cached
    target = row * kernel.filter_row + channel if past_l1 else None
    total = GlobalAccesses()
    for (filters, channels), starts in paired(
        _filter_tiles(problem, kernel, problem.in_channels), _slabs(problem, kernel, 1)
    ).items():
        active = (row < kernel.filter_tile) & (channel < channels)
        if kernel.async_copy:
            words = np.minimum(row, filters - 1) * problem.in_channels + channel
            total += _copied(words, active, starts, vector, target)
        else:
            total += global_accesses(row * problem.in_channels + channel, active & (row < filters), starts)
    return total


def _input_loads(problem: PointwiseConv2d, kernel: KernelConstants) -> GlobalAccesses:
    """Loads of the input by one row of blocks of the grid; copies of positions that do not exist read others."""
    thread = np.arange(THREADS_PER_BLOCK)
    lanes, vector = kernel.position_lanes, kernel.input_vector
    step = THREADS_PER_BLOCK // lanes
    down = np.arange(0, kernel.slab_channels, step)[:, None, None]
    across = np.arange(0, kernel.position_tile, THREADS_PER_BLOCK * vector)[:, None]
    shape = (len(down), len(across), THREADS_PER_BLOCK)
    group = interleaved(thread // lanes, min(kernel.slab_channels, step), kernel.input_interleave)
    channel = np.broadcast_to(group + down, shape).reshape(-1, WARP_SIZE)
    position = np.broadcast_to(thread % lanes * vector + across, shape).reshape(-1, WARP_SIZE)
    target = channel * kernel.input_pitch + channel // kernel.input_pad_every * kernel.input_pad + position
    runs = _position_tiles(problem, kernel, problem.in_channels)
    total = GlobalAccesses()
    for (positions, until, channels), starts in paired(runs, _slabs(problem, kernel, problem.image_positions)).items():
        active = (position < kernel.position_tile) & (channel < channels)
        if kernel.async_copy and positions < kernel.position_tile:
            run = _copied_words(problem, problem.positions - positions, position, vector)
        else:
            run = _words_of_run(problem, kernel, problem.in_channels, position, until)
            active &= position < positions
        words = run + channel * problem.image_positions
        if kernel.async_copy:
            total += _copied(words, active, starts, vector, target if vector == WIDEST_COPY_WORDS else None)
        else:
            total += global_accesses(words, active, starts)
    return total


def _output_stores(problem: PointwiseConv2d, kernel: KernelConstants) -> GlobalAccesses:
    """Stores of all blocks, after the sums of an output have been added over its lanes; their lines are not counted."""
    filter_, position, within = _stored_outputs(kernel)
    runs = _position_tiles(problem, kernel, problem.out_channels)
    total = GlobalAccesses()
    for (positions, until, filters), starts in paired(
        runs, _filter_tiles(problem, kernel, problem.image_positions)
    ).items():
        run = _words_of_run(problem, kernel, problem.out_channels, position, until)
        active = within & (position < positions) & (filter_ < filters)
        in_first_sector = np.zeros_like(starts)
        in_first_sector[:WORDS_PER_SECTOR] = starts.reshape(-1, WORDS_PER_SECTOR).sum(axis=0)
        total += global_accesses(run + filter_ * problem.image_positions, active, in_first_sector)
    return total


def _stored_outputs(kernel: KernelConstants) -> tuple[Integers, Integers, Flags]:
    """Filter and position within the block tile, and whether it is an output of the lane, shapes ``(requests, 32)``."""
    lanes, elements, vector = kernel.channel_lanes, kernel.element_lanes, kernel.column_vector
    outputs = kernel.warp_h * kernel.thread_w
    lane, warp = np.arange(WARP_SIZE), np.arange(WARPS_PER_BLOCK)[:, None, None]
    index = np.arange(ceil_div(outputs, lanes))[:, None] * lanes + lane // elements
    along, down = np.divmod(index, kernel.warp_h) if kernel.layout == 1 else np.divmod(index, kernel.thread_w)[::-1]
    column = (along // vector * elements + lane % elements) * vector + along % vector
    column = column + warp % WARP_COLUMNS * kernel.thread_w * elements
    row = down + warp // WARP_COLUMNS * kernel.warp_h
    column, row, within = (each.reshape(-1, WARP_SIZE) for each in np.broadcast_arrays(column, row, index < outputs))
    return (column, row, within) if kernel.layout == 1 else (row, column, within)


def slabs_of(problem: PointwiseConv2d, chosen: Candidates) -> Integers:
    """Channel slabs that a block walks through."""
    count: Integers = ceil_div(problem.in_channels, chosen.fetched.slab_channels)
    return count


def shuffle_steps(tile: Tiles) -> Integers:
    """Shuffles of one warp: ⌈live / 2⌉ in each step, which leaves as many sums alive.

    Where C_num divides the thread tile these are R_o·(1 − 1/C_num), against R_o·log2(C_num) without the halving.
    """
    live, total = tile.accumulators, np.zeros_like(tile.accumulators)
    for step in (1, 2, 4, 8, 16):
        live = np.where(step < tile.channel_lanes, ceil_div(live, 2), live)
        total += np.where(step < tile.channel_lanes, live, 0)
    return total


def _known_instructions(problem: PointwiseConv2d, chosen: Candidates) -> dict[str, Floats]:
    """Executed warp instructions that follow from the algorithm, by class."""
    tile = chosen.tile
    warps, shuffles = (tile.blocks(problem) * WARPS_PER_BLOCK).astype(np.float64), shuffle_steps(tile)
    return {
        "fp32_fma": warps * ceil_div(problem.in_channels, tile.channel_lanes) * tile.accumulators,
        "fp32_other": warps * 3 * shuffles,
        "shuffles": warps * shuffles,
        "barriers": warps * slabs_of(problem, chosen),
    }


def _column(values: list[float]) -> NDArray[np.float64]:
    return np.array(values, np.float64)


def closed_form(problem: PointwiseConv2d, chosen: Candidates, gpu: Gpu) -> Counts:
    """Counts of every candidate's launch, arrays of shape ``(n,)``."""
    entries, asynchronous = memory_accesses(problem, chosen), chosen.fetched.asynchronous
    fetched = [entry.filters + entry.inputs for entry in entries]
    shared = [entry.shared_loads + entry.shared_stores for entry in entries]
    copies = _column([entry.copies.requests for entry in entries])
    requests = {
        "global_store_requests": _column([entry.outputs.requests for entry in entries]),
        "shared_load_requests": _column([entry.shared_loads.requests for entry in entries]),
        "shared_store_requests": _column([entry.shared_stores.requests for entry in entries]),
        "async_copy_requests": copies,
    }
    read = {
        "requests": _column([each.requests for each in fetched]),
        "sectors": _column([each.sectors for each in fetched]),
    }
    others: dict[str, Floats] = {}
    if asynchronous:
        issued = chosen.tile.blocks(problem) * slabs_of(problem, chosen) * WARPS_PER_BLOCK * chosen.fetched.instructions
        others = {f"async_copy_read_{name}": values for name, values in read.items()}
        others["async_copy_read_wavefronts"] = _column([each.read_wavefronts for each in fetched])
        others["async_copy_predicated_off"] = np.where(chosen.planned, issued - copies, 0.0)
    else:
        requests["global_load_requests"] = read["requests"]
        others["global_load_sectors"] = read["sectors"]
        others["global_load_lines"] = _column([each.lines for each in fetched])
    stored_sectors = _column([entry.outputs.sectors for entry in entries])
    read_words = (problem.positions + problem.out_channels) * problem.in_channels
    return Counts(
        **requests,
        **_known_instructions(problem, chosen),
        **others,
        global_store_sectors=stored_sectors,
        shared_load_wavefronts=_column([entry.shared_loads.wavefronts for entry in entries]),
        shared_store_wavefronts=_column([entry.shared_stores.wavefronts for entry in entries]),
        async_copy_wavefronts=_column([entry.copies.wavefronts for entry in entries]),
        shared_bank_conflicts=_column([each.wavefronts - each.ideal for each in shared]),
        l2_read_sectors=l2_read_sectors(
            problem, chosen, gpu, [entry.filters for entry in entries], [entry.inputs for entry in entries]
        ),
        l2_write_sectors=stored_sectors,
        dram_read_bytes=np.full(len(entries), float(FLOAT_BYTES * read_words)),
        dram_write_bytes=np.full(len(entries), float(FLOAT_BYTES * problem.outputs)),
    )
