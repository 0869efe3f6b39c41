"""Closed-form counts of the optimized kernel, following its phases one by one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import SHARED_BANKS, WARP_SIZE, ceil_div
from .accesses import (
    Integers,
    SharedTraffic,
    Traffic,
    global_traffic,
    lane_matrix,
    row_accesses,
    sectors_of,
    shared_traffic,
)
from .geometry import combining_threads, owners, pad_period_words, threads_per_block, warps_per_block, widest_vector
from .problem import Conv1d
from .tally import Tally, straight_instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """Sizes of one block of one candidate; every owner has the certain channels, every owner but the last has all."""

    problem: Conv1d
    channels_per_thread: int
    owners: int
    threads: int
    warps: int
    certain_channels: int


def _block(problem: Conv1d, channels_per_thread: int) -> _Block:
    return _Block(
        problem=problem,
        channels_per_thread=channels_per_thread,
        owners=owners(problem, channels_per_thread),
        threads=threads_per_block(problem, channels_per_thread),
        warps=warps_per_block(problem, channels_per_thread),
        certain_channels=problem.in_channels % channels_per_thread or channels_per_thread,
    )


def _passes(block: _Block, words: int, width: int) -> tuple[Integers, NDArray[np.bool_]]:
    """First words of a copy of ``words`` words by the whole block, ``width`` at a time: all requests of all passes."""
    threads, _ = lane_matrix(block.threads)
    passes = np.arange(ceil_div(words, width * block.threads))[:, None, None]
    first = width * (passes * block.threads + threads)
    return first.reshape(-1, WARP_SIZE), (first < words).reshape(-1, WARP_SIZE)


def _input_loads(block: _Block) -> Traffic:
    problem = block.problem
    first, active = _passes(block, problem.input_words, widest_vector(problem.input_words))
    return global_traffic(first, active, problem.input_words, problem.batch, problem.out_channels)


def _weight_loads(block: _Block) -> Traffic:
    problem = block.problem
    first, active = _passes(block, problem.weight_words, 1)
    return global_traffic(first, active, problem.weight_words, problem.out_channels, problem.batch)


def _stores_to_shared(block: _Block) -> SharedTraffic:
    problem = block.problem
    width = widest_vector(problem.input_words)
    period = pad_period_words(problem.length, block.channels_per_thread)
    first, active = _passes(block, problem.input_words, width)
    total = SharedTraffic()
    for i in range(width):
        total += shared_traffic(first + i + (first + i) // period, active)
    return total + shared_traffic(*_passes(block, problem.weight_words, 1))


def _row_reads(block: _Block, words_per_channel: int, read: range, vector: int, pitch: int, pad: bool) -> SharedTraffic:
    """Reads of each thread's row, ``pitch`` words after the previous thread's.

    Of each channel the words in ``read``, at most ``vector`` at once; with ``pad`` a word's pad depends on its place.
    """
    certain = block.certain_channels * words_per_channel
    row_words = block.channels_per_thread * words_per_channel
    total = SharedTraffic()
    for begin, end, readers in ((0, certain, block.owners), (certain, row_words, block.owners - 1)):
        threads, active = lane_matrix(readers)
        accesses = row_accesses(begin, end, vector)
        for width in (1, 2, 4):
            words = [word for word, w in accesses if w == width and (w > 1 or word % words_per_channel in read)]
            place = (threads * pitch + np.array(words, np.int64)[:, None, None]).reshape(-1, WARP_SIZE)
            everywhere = np.tile(active, (len(words), 1))
            total += shared_traffic(place + place // SHARED_BANKS if pad else place, everywhere, width)
    return total


def _loads_from_shared(block: _Block) -> SharedTraffic:
    problem = block.problem
    row_words = problem.length * block.channels_per_thread
    columns = range(problem.length)
    if row_words >= SHARED_BANKS:
        staged = _row_reads(block, problem.length, columns, widest_vector(row_words + 1), row_words + 1, pad=False)
    else:
        staged = _row_reads(block, problem.length, columns, 1, row_words, pad=True)
    weight_words = problem.filter_width * block.channels_per_thread
    vector = widest_vector(weight_words) if len(problem.used_taps) == problem.filter_width else 1
    return staged + _row_reads(block, problem.filter_width, problem.used_taps, vector, weight_words, pad=False)


def _combination(block: _Block) -> tuple[SharedTraffic, SharedTraffic]:
    """Stores and loads of the warps' sums; a block of one warp has none."""
    if block.warps == 1:
        return SharedTraffic(), SharedTraffic()
    outputs = block.problem.output_length
    stores = block.warps * outputs // widest_vector(outputs)
    loads = block.warps * ceil_div(outputs, WARP_SIZE)
    return (
        SharedTraffic(requests=stores, wavefronts=stores, ideal=stores),
        SharedTraffic(requests=loads, wavefronts=loads, ideal=loads),
    )


def _output_stores(block: _Block) -> Traffic:
    problem = block.problem
    outputs, units = problem.output_length, problem.blocks
    if block.warps > 1:
        first, active = lane_matrix(outputs)
        return global_traffic(first, active, outputs, units, 1)
    width = widest_vector(outputs)
    first = np.repeat(np.arange(0, outputs, width)[:, None], WARP_SIZE, axis=1)
    first_lane = np.broadcast_to(np.arange(WARP_SIZE) == 0, first.shape)
    return global_traffic(first, first_lane, outputs, units, 1)


def _bias_loads(block: _Block) -> Traffic:
    requests = ceil_div(combining_threads(block.problem, block.channels_per_thread), WARP_SIZE) * block.problem.blocks
    return Traffic(requests=requests, sectors=requests, lines=requests)


def shuffle_steps(block_owners: int) -> int:
    """Steps of the sum over a warp: halvings from 16 lanes on that are below the number of owners.

    >>> shuffle_steps(256), shuffle_steps(2), shuffle_steps(1)
    (5, 1, 0)
    """
    return min(block_owners - 1, WARP_SIZE - 1).bit_length()


def _arithmetic(block: _Block) -> dict[str, int]:
    """Executed warp instructions of one block that follow from the algorithm alone."""
    problem, outputs = block.problem, block.problem.output_length
    sums = block.warps * outputs * shuffle_steps(block.owners)
    combining = ceil_div(outputs, WARP_SIZE) * block.warps if block.warps > 1 else outputs
    return {
        "fp32_fma": block.warps * problem.products_per_channel * block.channels_per_thread,
        "fp32_other": sums + combining,
        "shuffles": sums,
        "barriers": block.warps * (4 if block.warps > 1 else 3),
    }


def _integer_estimate(block: _Block) -> int:
    """Address arithmetic of one thread, fitted to compiled kernels of sm_80 (within about a fifth for whole warps)."""
    problem, row_words = block.problem, block.problem.length * block.channels_per_thread
    weight_words = problem.filter_width * block.channels_per_thread
    pads_within_row = row_words if row_words % 4 and row_words not in (1, 2) else 0
    return round(30 + 0.55 * (row_words + weight_words) + 0.7 * problem.output_length + 3 * pads_within_row)


def optimized_tally(problem: Conv1d, channels_per_thread: int) -> Tally:
    """Everything that the optimized kernel executes with one choice of channels per thread."""
    block = _block(problem, channels_per_thread)
    combination_stores, combination_loads = _combination(block)
    shared_loads = _loads_from_shared(block) + combination_loads
    shared_stores = _stores_to_shared(block) + combination_stores
    instructions = _arithmetic(block) | {
        "integer": block.warps * _integer_estimate(block),
        "control": 2 * block.warps,
    }
    return Tally(
        blocks=problem.blocks,
        input_sectors=problem.blocks * sectors_of(problem.input_words),
        weight_sectors=problem.blocks * sectors_of(problem.weight_words),
        global_loads=_input_loads(block) + _weight_loads(block) + _bias_loads(block),
        global_stores=_output_stores(block),
        shared_loads_per_block=shared_loads,
        shared_stores_per_block=shared_stores,
        instructions_per_block=instructions,
        warps_per_block=block.warps,
        round_trips=1,
        chains=problem.output_length,
        loop_instructions=straight_instructions(instructions, shared_loads, shared_stores, block.warps),
    )
