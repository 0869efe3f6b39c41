"""Closed-form counts of the rolled naive kernel: one input word and one weight at a time, straight from global memory."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from .accesses import WORDS_PER_LINE, Integers, Traffic, sectors_of
from .alignments import Starts, combined, no_starts, progression, row_traffic
from .counts_naive import naive_arithmetic, single_stores, tree_traffic
from .geometry import naive_threads
from .problem import Conv1d
from .tally import Tally

UNROLLED_TAPS = 4
LOOP_INSTRUCTIONS = 150
_VECTOR = 1 << 20


def _meetings(problem: Conv1d, columns: Integers) -> Integers:
    """Pairs of an output and a tap that meet at each of the given input words."""
    place = columns + problem.padding
    first = np.maximum(0, place - problem.filter_width + 1)
    last = np.minimum(problem.output_length - 1, place)
    found: Integers = np.maximum(0, last - first + 1)
    return found


def _outputs_of_taps(problem: Conv1d, taps: Integers) -> Integers:
    """Outputs in which each of the given taps meets an input word."""
    first = np.maximum(0, problem.padding - taps)
    last = np.minimum(problem.output_length - 1, problem.length + problem.padding - 1 - taps)
    found: Integers = np.maximum(0, last - first + 1)
    return found


def _starts_in_row(problem: Conv1d, words: int, times: Callable[[Conv1d, Integers], Integers]) -> Starts:
    """Starts within a row of ``words`` words, each as often as a thread reads it."""
    found = no_starts()
    for begin in range(0, words, _VECTOR):
        places = np.arange(begin, min(words, begin + _VECTOR), dtype=np.int64)
        found += np.bincount(places % WORDS_PER_LINE, times(problem, places), WORDS_PER_LINE).astype(np.int64)
    return found


def _loads(problem: Conv1d) -> Traffic:
    """Inputs and weights that meet, and the bias once for each output; warps hold 32 consecutive channels."""
    total = Traffic()
    for times, words, rows, repeats in (
        (_meetings, problem.length, problem.batch, problem.out_channels),
        (_outputs_of_taps, problem.filter_width, problem.out_channels, problem.batch),
    ):
        tensors = progression(0, problem.in_channels * words, rows) * repeats
        starts = combined(tensors, _starts_in_row(problem, words, times))
        total += row_traffic(problem.in_channels, np.zeros(1, np.int64), words, starts, WARP_SIZE)
    biases = problem.blocks * problem.output_length
    return total + Traffic(requests=biases, sectors=biases, lines=biases)


def _sectors_beyond_l1(problem: Conv1d, words: int, gpu: Gpu) -> int:
    """Sectors of inputs or weights that the blocks ask L2 for: all again for each output that L1 cannot keep them for."""
    window = 2 * FLOAT_BYTES * problem.in_channels * len(problem.used_taps)
    together = max(gpu.max_warps_per_sm // int(ceil_div(naive_threads(problem), WARP_SIZE)), 1)
    if window * together <= gpu.l1_bytes_per_sm:
        return problem.blocks * sectors_of(words)
    return problem.blocks * problem.output_length * problem.in_channels * sectors_of(len(problem.used_taps))


def naive_rolled_tally(problem: Conv1d, gpu: Gpu) -> Tally:
    """Everything that the rolled naive kernel executes."""
    shared_loads, shared_stores = tree_traffic(problem)
    warps = int(ceil_div(naive_threads(problem), WARP_SIZE))
    rounds = problem.output_length * ceil_div(problem.in_channels, WARP_SIZE)
    products = problem.products_per_channel * ceil_div(problem.in_channels, WARP_SIZE)
    instructions = naive_arithmetic(problem)
    instructions["integer"] += 8 * rounds + products // 2
    instructions["control"] += 4 * rounds + products // 2
    trips = ceil_div(problem.in_channels, naive_threads(problem)) * ceil_div(len(problem.used_taps), UNROLLED_TAPS)
    return Tally(
        blocks=problem.blocks,
        input_sectors=_sectors_beyond_l1(problem, problem.input_words, gpu),
        weight_sectors=_sectors_beyond_l1(problem, problem.weight_words, gpu),
        global_loads=_loads(problem),
        global_stores=single_stores(problem),
        shared_loads_per_block=shared_loads,
        shared_stores_per_block=shared_stores,
        instructions_per_block=instructions,
        warps_per_block=warps,
        round_trips=int(problem.output_length * (trips + 1)),
        chains=1,
        loop_instructions=LOOP_INSTRUCTIONS,
    )
