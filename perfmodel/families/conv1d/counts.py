"""Closed-form counts of the four kernels, following the phases of each one by one.

Memory requests, sectors, lines, wavefronts and multiply-adds are exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ...core.constants import SHARED_BANKS, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ..accesses import (
    WORDS_PER_LINE,
    GlobalAccesses,
    Integers,
    SharedAccesses,
    Starts,
    combined,
    global_accesses,
    no_starts,
    progression,
    run_of_words,
    shared_accesses,
    warps_of,
)
from .configuration import Conv1dConfiguration
from .launch import (
    Kernel,
    Tiling,
    kernel_of,
    naive_threads,
    odd,
    owners,
    pad_period_words,
    threads_per_block,
    tiling,
    tree_width,
)
from .problem import Conv1d

UNROLLED_TAPS = 4
"""Taps of the rolled naive kernel whose loads are under way together."""
_PLACES_AT_ONCE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one candidate executes: global accesses of the launch, shared accesses and instructions of one block.

    ``instructions`` by the names of ``Counts``, those that follow from the algorithm; ``passes`` are those of a warp through
    code that loads from global memory.
    """

    blocks: int
    input_loads: GlobalAccesses
    weight_loads: GlobalAccesses
    bias_loads: GlobalAccesses
    stores: GlobalAccesses
    shared_loads: SharedAccesses
    shared_stores: SharedAccesses
    instructions: Mapping[str, int]
    passes: int

    @property
    def known_instructions(self) -> int:
        """Instructions and shared requests of a block."""
        return sum(self.instructions.values()) + self.shared_loads.requests + self.shared_stores.requests

    @property
    def global_requests(self) -> int:
        """Requests of the launch to global memory."""
        loads = self.input_loads + self.weight_loads + self.bias_loads
        return loads.requests + self.stores.requests


def tally(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> Tally:
    """Everything that one configuration executes.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> tally(Conv1d(), Conv1dConfiguration(channels_per_thread=4), load_gpu("h200")).shared_loads
    SharedAccesses(requests=176, wavefronts=296, ideal=296)
    """
    kernel, channels = kernel_of(problem, configuration, gpu), configuration.channels_per_thread
    if channels is None:
        return _naive(problem, rolled=kernel is Kernel.NAIVE_ROLLED)
    return _tiled(problem, tiling(problem, channels)) if kernel is Kernel.TILED else _optimized(problem, channels)


# The naive kernels: strided reads by each thread, then one tree in shared memory for each output.


def tree_steps(threads: int) -> list[int]:
    """Threads that add in each step of the tree over a block's threads, which need not be a power of two.

    >>> tree_steps(6)  # 6 = 4 + 2, then 2 + 2, then 1 + 1
    [2, 2, 1]
    """
    width = tree_width(threads)
    return [min(width >> step, threads - (width >> step)) for step in range(width.bit_length())]


def _products_of_columns(problem: Conv1d, columns: Integers) -> Integers:
    """Outputs that each of the given input words enters."""
    place = columns + problem.padding
    first = np.maximum(0, place - problem.filter_width + 1)
    outputs: Integers = np.maximum(0, np.minimum(problem.output_length - 1, place) - first + 1)
    return outputs


def _products_of_taps(problem: Conv1d, taps: Integers) -> Integers:
    """Outputs in which each of the given taps is multiplied by an input word."""
    first = np.maximum(0, problem.padding - taps)
    last = np.minimum(problem.output_length - 1, problem.length + problem.padding - 1 - taps)
    outputs: Integers = np.maximum(0, last - first + 1)
    return outputs


def _naive_loads(problem: Conv1d, rolled: bool) -> list[GlobalAccesses]:
    """Inputs and weights word by word, each once or, when rolled, for each product."""
    loads = []
    for products, words, rows, repeats in (
        (_products_of_columns, problem.length, problem.batch, problem.out_channels),
        (_products_of_taps, problem.filter_width, problem.out_channels, problem.batch),
    ):
        within_row = no_starts()
        for begin in range(0, words, _PLACES_AT_ONCE):
            places = np.arange(begin, min(words, begin + _PLACES_AT_ONCE), dtype=np.int64)
            times = products(problem, places) if rolled else products(problem, places) > 0
            within_row += np.bincount(places % WORDS_PER_LINE, times, WORDS_PER_LINE).astype(np.int64)
        starts = combined(progression(0, problem.in_channels * words, rows) * repeats, within_row)
        loads.append(_rows(problem.in_channels, np.zeros(1, np.int64), words, starts, WARP_SIZE))
    return loads


def _rows(channels: int, places: Integers, row_words: int, starts: Starts, threads: int) -> GlobalAccesses:
    """Loads of the words at ``places`` of each of ``channels`` rows, from row to row without a gap.

    Every pass of the threads is a whole one: those behind the last word load that word. After 32 rows the lanes are at the
    same places and at the same words of a line.
    """
    used = channels * len(places)
    idle_warps = ceil_div(used, threads) * (threads // WARP_SIZE) - ceil_div(used, WARP_SIZE)
    total = GlobalAccesses.of_one_word(int(idle_warps) * int(starts.sum()))
    repeats, rest = divmod(channels, WARP_SIZE)
    for rows, number in ((WARP_SIZE, repeats), (rest, 1)):
        if rows and number:
            words = (np.arange(rows)[:, None] * row_words + places).ravel()
            lanes, _ = warps_of(len(words))
            total += global_accesses(words[np.minimum(lanes, len(words) - 1)], lanes >= 0, starts * number)
    return total


def _naive(problem: Conv1d, rolled: bool) -> Tally:
    threads, outputs = naive_threads(problem), problem.output_length
    warps, channel_warps = int(ceil_div(threads, WARP_SIZE)), int(ceil_div(problem.in_channels, WARP_SIZE))
    steps = tree_steps(threads)
    adding = sum(int(ceil_div(step, WARP_SIZE)) for step in steps)
    products = problem.products_per_channel * channel_warps
    instructions = {
        "fp32_fma": products,
        "fp32_other": outputs * (adding + 1),
        "barriers": outputs * warps * (len(steps) + 2),
    }
    # The tree's words are consecutive, hence without conflicts.
    loads = SharedAccesses.without_conflicts(outputs * (2 * adding + 1))
    stores = SharedAccesses.without_conflicts(outputs * (warps + adding))
    input_loads, weight_loads = _naive_loads(problem, rolled)
    trips = ceil_div(problem.in_channels, threads) * ceil_div(len(problem.used_taps), UNROLLED_TAPS)
    return Tally(
        blocks=problem.blocks,
        input_loads=input_loads,
        weight_loads=weight_loads,
        bias_loads=GlobalAccesses.of_one_word(problem.blocks * outputs),
        stores=GlobalAccesses.of_one_word(problem.blocks * outputs),
        shared_loads=loads,
        shared_stores=stores,
        instructions=instructions,
        passes=int(outputs * (trips + 1)) if rolled else 2,
    )


# The optimized kernel: inputs and weights staged in shared memory, a row of several channels for each thread.


def widest_vector(words: int) -> int:
    """Widest access in words (4, 2 or 1) to which rows of that many words stay aligned.

    >>> widest_vector(20), widest_vector(6), widest_vector(5)
    (4, 2, 1)
    """
    return 4 if words % 4 == 0 else 2 if words % 2 == 0 else 1


def row_accesses(first: int, last: int, alignment: int) -> list[tuple[int, int]]:
    """Accesses (first word, width) by which a thread reads words first … last − 1 of a row aligned to ``alignment``.

    >>> row_accesses(0, 7, 4)
    [(0, 4), (4, 2), (6, 1)]
    """
    accesses, word = [], first
    while word < last:
        width = alignment
        while word % width or word + width > last:
            width //= 2
        accesses.append((word, width))
        word += width
    return accesses


def shuffle_steps(block_owners: int) -> int:
    """Steps of the sum over a warp: halvings from 16 lanes on that are below the number of owners.

    >>> shuffle_steps(256), shuffle_steps(2), shuffle_steps(1)
    (5, 1, 0)
    """
    return min(block_owners - 1, WARP_SIZE - 1).bit_length()


def _row_reads(
    problem: Conv1d, channels: int, words_per_channel: int, read: range, vector: int, pitch: int, pad: bool
) -> SharedAccesses:
    """Reads of each thread's row of ``channels`` channels, ``pitch`` words after the previous thread's.

    Of each channel the words in ``read``, at most ``vector`` at once; with ``pad`` a word's pad depends on its place. Every
    owner has the first channels, every owner but the last has all.
    """
    certain = (problem.in_channels % channels or channels) * words_per_channel
    readers = owners(problem, channels)
    total = SharedAccesses()
    for begin, end, number in ((0, certain, readers), (certain, channels * words_per_channel, readers - 1)):
        threads, active = warps_of(number)
        accesses = row_accesses(begin, end, vector)
        for width in (1, 2, 4):
            words = [word for word, w in accesses if w == width and (w > 1 or word % words_per_channel in read)]
            if words:
                place = (threads * pitch + np.array(words, np.int64)[:, None, None]).reshape(-1, WARP_SIZE)
                everywhere = np.concatenate([active] * len(words))
                total += shared_accesses(place + place // SHARED_BANKS if pad else place, everywhere, width)
    return total


def _staged_reads(problem: Conv1d, channels: int) -> SharedAccesses:
    """Reads of every thread's inputs and weights."""
    row_words, columns = problem.length * channels, range(problem.length)
    weight_words, taps = problem.filter_width * channels, problem.used_taps
    if row_words >= SHARED_BANKS:
        vector, pitch, pad = widest_vector(row_words + 1), row_words + 1, False
    else:
        vector, pitch, pad = 1, row_words, True
    tap_vector = widest_vector(weight_words) if len(taps) == problem.filter_width else 1
    return _row_reads(problem, channels, problem.length, columns, vector, pitch, pad) + _row_reads(
        problem, channels, problem.filter_width, taps, tap_vector, weight_words, False
    )


def _staging_stores(problem: Conv1d, channels: int) -> SharedAccesses:
    """Stores of the padded input, word by word of each vector that was loaded, and of the weights."""
    width, period = widest_vector(problem.input_words), pad_period_words(problem.length, channels)
    threads, active = warps_of(problem.input_words // width)
    total = shared_accesses(*warps_of(problem.weight_words))
    for word in range(width):
        place = threads * width + word
        total += shared_accesses(place + place // period, active)
    return total


def _optimized(problem: Conv1d, channels: int) -> Tally:
    outputs, blocks = problem.output_length, problem.blocks
    threads, block_owners = threads_per_block(problem, channels), owners(problem, channels)
    warps, output_vector = threads // WARP_SIZE, widest_vector(outputs)
    inputs = progression(0, problem.input_words, problem.batch) * problem.out_channels
    weights = progression(0, problem.weight_words, problem.out_channels) * problem.batch
    rows = progression(0, outputs, blocks)
    loads, stores = _staged_reads(problem, channels), _staging_stores(problem, channels)
    if warps > 1:  # the warps' sums pass through shared memory, and as many threads as outputs combine and store them
        combining = int(ceil_div(outputs, WARP_SIZE))
        loads += SharedAccesses.without_conflicts(warps * combining)
        stores += SharedAccesses.without_conflicts(warps * outputs // output_vector)
        bias_requests, additions, barriers = min(combining, warps), combining * warps, 4
        output_stores = run_of_words(outputs, 1, rows)
    else:  # the first thread stores all outputs
        bias_requests, additions, barriers = 1, outputs, 3
        first = np.repeat(np.arange(0, outputs, output_vector)[:, None], WARP_SIZE, axis=1)
        output_stores = global_accesses(first, np.broadcast_to(np.arange(WARP_SIZE) == 0, first.shape), rows)
    sums = warps * outputs * shuffle_steps(block_owners)
    instructions = {
        "fp32_fma": warps * problem.products_per_channel * channels,
        "fp32_other": sums + additions,
        "shuffles": sums,
        "barriers": warps * barriers,
    }
    return Tally(
        blocks=blocks,
        input_loads=run_of_words(problem.input_words, widest_vector(problem.input_words), inputs),
        weight_loads=run_of_words(problem.weight_words, 1, weights),
        bias_loads=GlobalAccesses.of_one_word(bias_requests * blocks),
        stores=output_stores,
        shared_loads=loads,
        shared_stores=stores,
        instructions=instructions,
        passes=1,
    )


# The tiled kernel: every chunk of channels and step of taps is staged, read and added alike.


def _chunks(problem: Conv1d, cut: Tiling) -> Iterator[tuple[int, int, int]]:
    """Runs of equal chunks: first channel, channels of each, number."""
    whole, rest = divmod(problem.in_channels, cut.chunk_channels)
    if whole:
        yield 0, cut.chunk_channels, whole
    if rest:
        yield whole * cut.chunk_channels, rest, 1


def _windows(problem: Conv1d, cut: Tiling, first_tap: int, taps: int) -> dict[int | None, Starts]:
    """Starts of the tiles' staged rows by the column of the first word; None for all that lie inside the row.

    Rows wholly on padding, which load one word again and again, count as those that begin just there.
    """
    pitch = odd(cut.tile + taps - 1)
    origin = problem.used_taps.start + first_tap - problem.padding
    inner_first = min(cut.tiles, max(0, ceil_div(-origin, cut.tile)))
    inner_last = min(cut.tiles, max(inner_first, (problem.length - pitch - origin) // cut.tile + 1))
    left = min(inner_first, max(0, -(pitch + origin) // cut.tile))
    right = max(inner_last, min(cut.tiles, ceil_div(problem.length - origin, cut.tile)))
    windows: dict[int | None, Starts] = defaultdict(no_starts)
    windows[None] += progression(origin + inner_first * cut.tile, cut.tile, inner_last - inner_first)
    windows[-pitch] += progression(0, 0, left)
    windows[problem.length] += progression(0, 0, cut.tiles - right)
    for tile in (*range(left, inner_first), *range(inner_last, right)):
        windows[min(problem.length, max(-pitch, origin + tile * cut.tile))] += progression(0, 0, 1)
    return windows


def _tiled_loads(problem: Conv1d, cut: Tiling) -> tuple[GlobalAccesses, GlobalAccesses]:
    """Inputs of the tiles, the nearest ones in the place of padding, and weights; between rows the last word once more."""
    windows: dict[tuple[int, int | None], Starts] = defaultdict(no_starts)
    steps: dict[int, Starts] = defaultdict(no_starts)
    for first_tap, taps in cut.steps:
        steps[taps] += progression(problem.used_taps.start + first_tap, 0, 1)
        for column, starts in _windows(problem, cut, first_tap, taps).items():
            if starts.any():
                windows[taps, column] += starts
    elements = progression(0, problem.input_words, problem.batch) * problem.out_channels
    filters = progression(0, problem.weight_words, problem.out_channels) * problem.batch * cut.tiles
    input_loads = weight_loads = GlobalAccesses()
    for first, channels, number in _chunks(problem, cut):
        inputs, weights = (
            combined(tensor, progression(first * words, cut.chunk_channels * words, number))
            for tensor, words in ((elements, problem.length), (filters, problem.filter_width))
        )
        for (taps, column), starts in windows.items():
            places = np.arange(odd(cut.tile + taps - 1))
            columns = places if column is None else np.clip(column + places, 0, problem.length - 1)
            input_loads += _rows(channels, columns, problem.length, combined(inputs, starts), cut.threads)
        for taps, starts in steps.items():
            places = np.minimum(np.arange(odd(taps)), taps - 1)
            weight_loads += _rows(channels, places, problem.filter_width, combined(weights, starts), cut.threads)
    return input_loads, weight_loads


def _tiled_stores(problem: Conv1d, cut: Tiling) -> GlobalAccesses:
    """A request a block."""
    rows, last = progression(0, problem.output_length, problem.blocks), (cut.tiles - 1) * cut.tile
    whole = combined(rows, progression(0, cut.tile, cut.tiles - 1))
    ends = combined(rows, progression(last, 0, 1))
    return run_of_words(cut.tile, 1, whole) + run_of_words(problem.output_length - last, 1, ends)


def _adding_warps(channels: int, cut: Tiling) -> int:
    """Warps that add a channel, over all rounds of the owners through a chunk."""
    whole, rest = divmod(channels, cut.owners)
    return int(whole * ceil_div(cut.owners, WARP_SIZE) + ceil_div(rest, WARP_SIZE))


def _tiled(problem: Conv1d, cut: Tiling) -> Tally:
    # Rows lie at odd distances, so that no shared access has a conflict.
    loads, stores, adding = cut.warps, cut.warps * cut.tile, 0
    for _, channels, number in _chunks(problem, cut):
        adding += number * _adding_warps(channels, cut)
        for _, taps in cut.steps:
            window = cut.tile + taps - 1
            loads += number * _adding_warps(channels, cut) * (window + taps)
            passes = sum(int(ceil_div(channels * odd(words), cut.threads)) for words in (window, taps))
            stores += number * cut.warps * passes
    rounds = cut.chunks * len(cut.steps)
    sums = cut.warps * cut.tile * shuffle_steps(cut.owners)
    input_loads, weight_loads = _tiled_loads(problem, cut)
    return Tally(
        blocks=problem.blocks * cut.tiles,
        input_loads=input_loads,
        weight_loads=weight_loads,
        bias_loads=GlobalAccesses.of_one_word(problem.blocks * cut.tiles),
        stores=_tiled_stores(problem, cut),
        shared_loads=SharedAccesses.without_conflicts(loads),
        shared_stores=SharedAccesses.without_conflicts(stores),
        instructions={
            "fp32_fma": adding * cut.tile * cut.used_taps,
            "fp32_other": sums + cut.warps,
            "shuffles": sums,
            "barriers": cut.warps * (2 * rounds + 1),
        },
        passes=rounds,
    )
