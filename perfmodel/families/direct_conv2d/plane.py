"""The design for depthwise layers of small images, whose blocks hold whole planes: launch, counts, what is compiled."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np
from numpy.typing import NDArray

from ...compiler.request import CompileRequest
from ...core.constants import (
    FLOAT_BYTES,
    MAX_GRID_X,
    SECTORS_PER_LINE,
    SHARED_BANKS,
    VECTOR_WORDS,
    WARP_SIZE,
    ceil_div,
    round_up,
)
from ...core.counts import Counts
from ...gpus.gpu import Gpu
from ...launch.launch import Launch
from ...memory.bank_conflicts import load_wavefronts
from ...profiles.kernel_profile import KernelProfile
from ..accesses import WORDS_PER_SECTOR
from ..base import Batch, Check, within_limits
from ..code_estimates import code_estimates
from ..compiled_members import Traits, compiled_numbers, completed_profile, requests_of
from ..kernel_files import kernel_folder, kernel_text
from ..lanes import over_unique
from .configuration import DirectConv2dConfiguration
from .launch import filter_macros
from .problem import Conv2d

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

KERNEL = "plane_conv2d"
MOST_SUMS = 64
"""Outputs of a thread."""
MOST_VALUES = 160
"""Sums, taps and one row of elements, which stay in registers."""
FEW_PLANES = 8
"""Fewer are not cut down to a multiple of four: a quarter of the threads and more would have no tile."""
MOST_FMA = 2048
"""Straight-line multiply-adds of a thread."""
FEW_BLOCKS = 2
"""Blocks for each SM up to which threads store their outputs themselves: then a launch is a chain of latencies, of which a pass
through shared memory is one; with more blocks the sectors that are stored in parts take longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """Sizes of n configurations, arrays of shape ``(n,)``: planes of a block and tiles of a plane."""

    rows: Integers
    columns: Integers
    threads: Integers
    across: Integers
    tiles: Integers
    planes: Integers
    direct: Flags
    """Whether threads store their outputs themselves."""

    def blocks(self, problem: Conv2d) -> Integers:
        """Blocks of the launch."""
        return np.asarray(ceil_div(problem.output_planes, self.planes), np.int64)

    def tile_rows(self, problem: Conv2d) -> Integers:
        """Input rows of a tile."""
        return np.asarray((self.rows - 1) * problem.stride + problem.filter_height, np.int64)

    def shared_bytes(self, problem: Conv2d) -> Integers:
        """Input, filters and what passes through of the output, and zeros in place of a row outside."""
        of_input, of_output = (round_up(self.planes * plane, VECTOR_WORDS) for plane in _plane_words(problem))
        images = of_input + np.where(self.direct, 0, of_output)
        filters = self.planes * round_up(problem.filter_taps, VECTOR_WORDS)
        zeros = SHARED_BANKS - 1 + problem.width
        words = np.where(self.tiles > self.across, round_up(images + filters, SHARED_BANKS) + zeros, images + filters)
        return np.asarray(FLOAT_BYTES * words, np.int64)


def _plane_words(problem: Conv2d) -> tuple[int, int]:
    return problem.height * problem.width, problem.output_height * problem.output_width


def groups(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Groups:
    """As many planes as the block's threads have tiles for, at least one; fours where they are copied by wider vectors."""
    rows, columns, threads = (
        batch[name].astype(np.int64) for name in ("rows_per_thread", "columns_per_thread", "block_x")
    )
    across = ceil_div(problem.output_width, columns)
    tiles = across * ceil_div(problem.output_height, rows)
    planes = np.clip(threads // tiles, 1, problem.output_planes)
    if any(words % VECTOR_WORDS for words in _plane_words(problem)):
        planes = np.where(planes >= FEW_PLANES, planes // VECTOR_WORDS * VECTOR_WORDS, planes)
    direct = ceil_div(problem.output_planes, planes) <= FEW_BLOCKS * gpu.sm_count
    return Groups(
        rows=rows,
        columns=columns,
        threads=threads,
        across=across,
        tiles=tiles,
        planes=planes,
        direct=np.asarray(direct),
    )


def checks(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> tuple[Check, ...]:
    """Depthwise layers whose planes fit a block's threads and shared memory, and whose tiles fit registers."""
    group = groups(problem, batch, gpu)
    sums = group.rows * group.columns
    values = sums + problem.filter_taps + (group.columns - 1) * problem.stride + problem.filter_width
    shared, most = group.shared_bytes(problem), gpu.shared_bytes_per_block_opt_in
    return within_limits(
        ("depthwise layer where reuse=plane", np.full(len(batch), not problem.depthwise), "dense", "depthwise"),
        ("tiles of a plane", group.tiles > group.threads, group.tiles, group.threads),
        ("outputs per thread where reuse=plane", sums > MOST_SUMS, sums, MOST_SUMS),
        ("values in registers where reuse=plane", values > MOST_VALUES, values, MOST_VALUES),
        ("unrolled multiply-adds", sums * problem.filter_taps > MOST_FMA, sums * problem.filter_taps, MOST_FMA),
        ("rows of a tile", group.rows >= 2 * problem.output_height, group.rows, 2 * problem.output_height - 1),
        ("columns of a tile", group.columns >= 2 * problem.output_width, group.columns, 2 * problem.output_width - 1),
        ("shared bytes of the planes", shared > most, shared, most),
        ("blocks in the grid's x", group.blocks(problem) > MAX_GRID_X, group.blocks(problem), MAX_GRID_X),
    )


def launch_of(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> Launch:
    """One block for each group of planes."""
    group = groups(problem, batch, gpu)
    return Launch(grid_x=group.blocks(problem), block_x=group.threads, dynamic_shared_bytes=group.shared_bytes(problem))


def _vector(words: int, planes: int) -> int:
    """Widest copy of planes of so many words, whose groups begin at multiples of ``planes`` of them."""
    return gcd(VECTOR_WORDS, words * planes)


def _vectors(problem: Conv2d, planes: int) -> tuple[int, int]:
    """Words of a copy of input and of a store of output: no group, the last one neither, ends within one."""
    common = gcd(planes, problem.output_planes)
    of_input, of_output = _plane_words(problem)
    return _vector(of_input, common), _vector(of_output, common)


def _own_vector(problem: Conv2d, columns: int) -> int:
    """Words of a store of a thread's own outputs: all its rows begin at multiples of them."""
    return gcd(VECTOR_WORDS, columns, problem.output_width)


def _own_stores(problem: Conv2d, rows: int, columns: int, across: int, tiles: int, planes: int) -> tuple[float, float]:
    """Requests and sectors of a block whose threads store their own outputs, of a group that begins with a sector."""
    width = _own_vector(problem, columns)
    thread = np.arange(round_up(planes * tiles, WARP_SIZE))
    tile = thread % tiles
    row = (tile // across * rows)[:, None, None] + np.arange(rows)[:, None]
    column = (tile % across * columns)[:, None, None] + np.arange(0, columns, width)
    stored = (thread < planes * tiles)[:, None, None] & (row < problem.output_height) & (column < problem.output_width)
    word = (thread // tiles)[:, None, None] * _plane_words(problem)[1] + row * problem.output_width + column
    requests = (len(thread) // WARP_SIZE, WARP_SIZE, -1)  # warps, lanes, stores of a thread
    stored = stored.reshape(requests)
    sector = np.sort(np.where(stored, word.reshape(requests) // WORDS_PER_SECTOR, -1), axis=1)
    first = np.concatenate([np.ones_like(sector[:, :1], np.bool_), sector[:, 1:] != sector[:, :-1]], axis=1)
    return float(stored.any(axis=1).sum()), float((first & (sector >= 0)).sum())


def _read_vector(problem: Conv2d, across: int) -> int:
    """Words of a read of a row of elements: whole rows begin at multiples of their width."""
    return gcd(VECTOR_WORDS, problem.width) if across == 1 else 1


def _wavefronts(problem: Conv2d, rows: int, columns: int, across: int, tiles: int) -> int:
    """Wavefronts of a warp's read of one vector of elements."""
    lane = np.arange(WARP_SIZE)
    plane, tile = lane // tiles, lane % tiles
    word = plane * problem.height * problem.width + tile // across * rows * problem.stride * problem.width
    word += tile % across * columns * problem.stride
    width = _read_vector(problem, across)
    total, _ = load_wavefronts(
        (word[None] * FLOAT_BYTES).astype(np.uint64), np.ones((1, WARP_SIZE), np.bool_), FLOAT_BYTES * width
    )
    return int(total[0])


def _inside(problem: Conv2d, outputs: int, taps: int, size: int) -> int:
    """Pairs of a tap and one of so many outputs from the image's edge on, in one dimension, that meet an element."""
    at = np.arange(outputs)[:, None] * problem.stride + np.arange(taps) - problem.padding
    return int(((at >= 0) & (at < size)).sum())


def _of_group(problem: Conv2d, rows: int, columns: int, across: int, tiles: int, planes: int) -> tuple[float, ...]:
    """Reads of a thread's elements and their wavefronts, vectors of copies and stores, multiply-adds of a thread."""
    tile_rows = (rows - 1) * problem.stride + problem.filter_height
    inside = min(tile_rows, problem.height) if tiles == across else tile_rows
    width = _read_vector(problem, across)
    of_row = problem.width // width if across == 1 else (columns - 1) * problem.stride + problem.filter_width
    reads = inside * of_row
    per_row, per_column = columns * problem.filter_width, rows * problem.filter_height
    if across == 1:
        per_row = _inside(problem, columns, problem.filter_width, problem.width)
    if tiles == across:
        per_column = _inside(problem, rows, problem.filter_height, problem.height)
    wavefronts = reads * _wavefronts(problem, rows, columns, across, tiles)
    return (reads, wavefronts, *_vectors(problem, planes), per_column * per_row)


def _tap_copies(problem: Conv2d, group: Groups) -> Integers:
    """Requests by which a block copies its filters: a group of threads has the taps of a plane, word by word."""
    taps = problem.filter_taps
    at_once = np.maximum(group.threads // taps, 1)
    whole, rest = group.planes // at_once, group.planes % at_once
    return np.asarray(whole * ceil_div(at_once * taps, WARP_SIZE) + ceil_div(rest * taps, WARP_SIZE), np.int64)


def _stores(problem: Conv2d, group: Groups, blocks: Floats, vector: Floats) -> tuple[Floats, Floats]:
    """Store requests and sectors of the launch: in whole vectors by way of shared memory, or by each thread."""
    of_output = _plane_words(problem)[1]
    requests = np.ceil(group.planes * of_output / vector / WARP_SIZE) * blocks
    sectors = np.full_like(blocks, problem.output_planes * of_output / WORDS_PER_SECTOR)
    if not group.direct.any():
        return requests, sectors

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        found = [_own_stores(problem, *map(int, kind)) for kind in zip(*kinds, strict=True)]
        return tuple(np.array(found, np.float64).T)

    own_requests, own_sectors = over_unique(
        of_kinds, group.rows, group.columns, group.across, group.tiles, group.planes
    )
    of_all = problem.output_planes / group.planes  # the last block may have fewer planes
    return np.where(group.direct, own_requests * of_all, requests), np.where(
        group.direct, own_sectors * of_all, sectors
    )


def _of_groups(problem: Conv2d, group: Groups) -> tuple[Floats, ...]:
    """`_of_group` of every configuration."""

    def of_kinds(*kinds: Integers) -> tuple[Floats, ...]:
        rows = [_of_group(problem, *map(int, kind)) for kind in zip(*kinds, strict=True)]
        return tuple(np.array(rows, np.float64).T)

    return over_unique(of_kinds, group.rows, group.columns, group.across, group.tiles, group.planes)


def closed_form(problem: Conv2d, group: Groups, gpu: Gpu) -> Counts:
    """Counts of n configurations: exact multiply-adds and traffic, accesses but for edges and bank conflicts."""
    reads, read_wavefronts, copy_vector, store_vector, fma = _of_groups(problem, group)
    blocks = group.blocks(problem).astype(np.float64)
    of_last = problem.output_planes - (blocks - 1) * group.planes
    working = (blocks - 1) * ceil_div(group.planes * group.tiles, WARP_SIZE) + ceil_div(
        of_last * group.tiles, WARP_SIZE
    )
    of_input, of_output = _plane_words(problem)
    input_words, output_words = problem.output_planes * of_input, problem.output_planes * of_output
    input_copies = np.ceil(group.planes * of_input / copy_vector / WARP_SIZE) * blocks
    tap_copies = _tap_copies(problem, group) * blocks
    stores, stored = _stores(problem, group, blocks, store_vector)
    copies, passed = input_copies + tap_copies, np.where(group.direct, 0, 1)
    sums = passed * group.rows * group.columns
    tap_reads = ceil_div(problem.filter_taps, VECTOR_WORDS)
    asynchronous = gpu.architecture.asynchronous_copies
    none = np.zeros_like(blocks)
    moved, plain = (copies, none) if asynchronous else (none, copies)
    read_sectors = input_words / WORDS_PER_SECTOR + problem.output_planes * problem.filter_taps / WORDS_PER_SECTOR
    sectors = np.full_like(blocks, read_sectors)
    through_l1 = tap_copies + input_copies * (copy_vector < VECTOR_WORDS)
    return Counts(
        global_load_requests=plain,
        global_load_sectors=none if asynchronous else sectors,
        global_load_lines=none if asynchronous else sectors / SECTORS_PER_LINE,
        global_store_requests=stores,
        global_store_sectors=stored,
        shared_load_requests=working * (reads + tap_reads) + passed * stores,
        shared_load_wavefronts=working * (read_wavefronts + tap_reads * VECTOR_WORDS) + passed * stores * store_vector,
        shared_store_requests=working * sums + plain,
        shared_store_wavefronts=working * sums + plain,
        async_copy_requests=moved,
        async_copy_wavefronts=input_copies * copy_vector + tap_copies if asynchronous else none,
        async_copy_read_requests=moved,
        async_copy_read_wavefronts=through_l1 if asynchronous else none,
        async_copy_read_sectors=sectors if asynchronous else none,
        fp32_fma=working * fma,
        barriers=(1 + passed) * blocks * ceil_div(group.threads, WARP_SIZE),
        l2_read_sectors=sectors,
        l2_write_sectors=stored,
        dram_read_bytes=np.full_like(blocks, FLOAT_BYTES * (input_words + problem.filter_elements)),
        dram_write_bytes=np.full_like(blocks, FLOAT_BYTES * output_words),
    )


def traits(problem: Conv2d, group: Groups, known: Counts) -> Traits:
    """What decides the machine code, nearly all of it straight; ``known`` are the counts of closed forms."""
    reads, _, copy_vector, store_vector, fma = _of_groups(problem, group)
    of_input, of_output = _plane_words(problem)
    input_copies = np.ceil(group.planes * of_input / copy_vector / group.threads)
    tap_copies = ceil_div(group.planes, np.maximum(group.threads // problem.filter_taps, 1))
    passes = np.ceil(group.planes * of_output / store_vector / group.threads)
    own_vector = np.gcd(np.gcd(VECTOR_WORDS, group.columns), problem.output_width)
    sums = group.rows * group.columns
    stores = np.where(group.direct, sums / own_vector, passes)
    tap_reads = ceil_div(problem.filter_taps, VECTOR_WORDS)
    about = code_estimates()
    copying = about.plane_copy_instructions * (input_copies + stores) + about.plane_tap_copy_instructions * tap_copies
    of_rows = about.plane_row_instructions * group.tile_rows(problem) + np.where(group.tiles > 1, sums, 0)
    index = about.prologue_instructions + copying + of_rows
    straight = fma + reads + tap_reads + input_copies + tap_copies + stores + np.where(group.direct, 0, sums + stores)
    return Traits(
        sizes={
            "multiply_adds": fma,
            "reads": reads,
            "values": sums + problem.filter_taps + (group.columns - 1) * problem.stride + problem.filter_width,
            "rows_per_thread": group.rows,
            "columns_per_thread": group.columns,
            "filter_height": problem.filter_height,
            "filter_width": problem.filter_width,
            "input_copies": input_copies,
            "tap_copies": tap_copies,
            "stores": stores,
            "copy_vector": copy_vector,
            "store_vector": store_vector,
            "planes": group.planes,
            "warps": ceil_div(group.threads, WARP_SIZE),
        },
        choices={
            "strides": problem.stride > 1,
            "pads": problem.padding > 0,
            "whole_groups": problem.output_planes % group.planes == 0,
            "direct_stores": group.direct,
            "whole_rows": group.across == 1,
            "whole_columns": group.tiles == group.across,
            "rows_end_within_tile": problem.output_height % group.rows != 0,
            "columns_end_within_tile": problem.output_width % group.columns != 0,
        },
        warp_instructions=straight + index,
        launch_instructions=known.fp32_fma + requests_of(known),
        index_instructions=group.blocks(problem) * ceil_div(group.threads, WARP_SIZE) * index,
        code_instructions=straight + index,
        estimates={"shared_store_wavefronts": known.shared_store_wavefronts},
    )


def profile(problem: Conv2d, batch: Batch[DirectConv2dConfiguration], gpu: Gpu) -> KernelProfile:
    """Counts, registers and critical path of n configurations.

    At compiled fidelity one block is executed, which counts all but the traffic behind L1.
    """
    group, launch = groups(problem, batch, gpu), launch_of(problem, batch, gpu)
    known = closed_form(problem, group, gpu)
    return completed_profile(
        known,
        compiled_numbers(KERNEL, traits(problem, group, known), launch, gpu),
        launch,
        global_round_trips=np.ones(len(batch)),
        first_fill_sectors=known.l2_read_sectors / launch.blocks,
        read_only_share=0.0 if gpu.architecture.asynchronous_copies else 1.0,
    )


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> CompileRequest:
    """Source, kernel and macros; all sizes but that of the batch are among them."""
    group = groups(problem, Batch.of([configuration]), gpu)
    planes, across, direct = int(group.planes[0]), int(group.across[0]), bool(group.direct[0])
    of_input, of_output = _vectors(problem, planes)
    return CompileRequest(
        source=kernel_text(f"{KERNEL}.cu"),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        include_directories=(kernel_folder(),),
        defines=(
            *filter_macros(problem),
            ("HEIGHT", problem.height),
            ("WIDTH", problem.width),
            ("OUTPUT_HEIGHT", problem.output_height),
            ("OUTPUT_WIDTH", problem.output_width),
            ("ROWS_PER_THREAD", int(group.rows[0])),
            ("COLUMNS_PER_THREAD", int(group.columns[0])),
            ("BLOCK_X", int(group.threads[0])),
            ("PLANES", planes),
            ("CHANNELS", problem.in_channels),
            ("WHOLE_GROUPS", int(problem.output_planes % planes == 0)),
            ("INPUT_VECTOR", of_input),
            ("OUTPUT_VECTOR", of_output),
            ("READ_VECTOR", _read_vector(problem, across)),
            ("DIRECT_STORES", int(direct)),
            ("STORE_VECTOR", _own_vector(problem, int(group.columns[0])) if direct else 1),
            ("ASYNC_COPY", int(gpu.architecture.asynchronous_copies)),
        ),
        architecture_specific=True,
    )


def parameters(problem: Conv2d) -> tuple[np.generic, ...]:
    """What follows output, input and filter: planes of the launch."""
    return (np.uint32(problem.output_planes),)
