"""Closed-form counts of the naive kernel: strided reads by each thread, then one tree in shared memory for each output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...core.constants import WARP_SIZE, ceil_div
from .accesses import SharedTraffic, Traffic, global_traffic, lane_matrix, sectors_of
from .geometry import naive_threads, tree_width
from .problem import Conv1d
from .tally import Tally, straight_instructions


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStep:
    """One halving: partners that still have a value to add, and the warps that issue for them."""

    threads: int

    @property
    def warps(self) -> int:
        """Warps with a thread at work."""
        return int(ceil_div(self.threads, WARP_SIZE))


def tree_steps(threads: int) -> tuple[TreeStep, ...]:
    """Steps of the tree over a block's threads, which need not be a power of two.

    >>> [step.threads for step in tree_steps(6)]  # 6 = 4 + 2, then 2 + 2, then 1 + 1
    [2, 2, 1]
    """
    steps, width = [], tree_width(threads)
    while width:
        steps.append(TreeStep(threads=min(width, threads - width)))
        width //= 2
    return tuple(steps)


def _column_reads(row_words: int, columns: range, in_channels: int, units: int, repeats: int) -> Traffic:
    """Each thread reads its row word by word, straight from global memory."""
    threads, active = lane_matrix(in_channels)
    first = np.concatenate([threads * row_words + column for column in columns])
    return global_traffic(first, np.tile(active, (len(columns), 1)), in_channels * row_words, units, repeats)


def _loads(problem: Conv1d) -> Traffic:
    """All global loads: inputs, weights that meet an input, and the bias once for each output."""
    channels, blocks = problem.in_channels, problem.blocks
    inputs = _column_reads(problem.length, range(problem.length), channels, problem.batch, problem.out_channels)
    weights = _column_reads(problem.filter_width, problem.used_taps, channels, problem.out_channels, problem.batch)
    biases = blocks * problem.output_length
    return inputs + weights + Traffic(requests=biases, sectors=biases, lines=biases)


def single_stores(problem: Conv1d) -> Traffic:
    """Thread 0 stores output after output."""
    stores = problem.blocks * problem.output_length
    return Traffic(requests=stores, sectors=stores, lines=stores)


def tree_traffic(problem: Conv1d) -> tuple[SharedTraffic, SharedTraffic]:
    """Shared loads and stores of one block; consecutive words, hence without conflicts."""
    threads = naive_threads(problem)
    warps = ceil_div(threads, WARP_SIZE)
    tree = sum(step.warps for step in tree_steps(threads))
    loads = problem.output_length * (2 * tree + 1)
    stores = problem.output_length * (warps + tree)
    return (
        SharedTraffic(requests=loads, wavefronts=loads, ideal=loads),
        SharedTraffic(requests=stores, wavefronts=stores, ideal=stores),
    )


def naive_arithmetic(problem: Conv1d) -> dict[str, int]:
    """Executed warp instructions of one block; integer and control are fitted to compiled kernels of sm_80."""
    threads, outputs = naive_threads(problem), problem.output_length
    warps, steps = ceil_div(threads, WARP_SIZE), tree_steps(threads)
    return {
        "fp32_fma": ceil_div(problem.in_channels, WARP_SIZE) * problem.products_per_channel,
        "fp32_other": outputs * (sum(step.warps for step in steps) + 1),
        "barriers": outputs * warps * (len(steps) + 2),
        "integer": warps * (20 + outputs * (len(steps) + 2)),
        "control": 5 * warps,
    }


def naive_tally(problem: Conv1d) -> Tally:
    """Everything that the naive kernel executes."""
    shared_loads, shared_stores = tree_traffic(problem)
    instructions, warps = naive_arithmetic(problem), ceil_div(problem.in_channels, WARP_SIZE)
    return Tally(
        blocks=problem.blocks,
        input_sectors=problem.blocks * sectors_of(problem.input_words),
        weight_sectors=problem.blocks * sectors_of(problem.weight_words),
        global_loads=_loads(problem),
        global_stores=single_stores(problem),
        shared_loads_per_block=shared_loads,
        shared_stores_per_block=shared_stores,
        instructions_per_block=instructions,
        warps_per_block=warps,
        round_trips=2,
        chains=1,
        loop_instructions=straight_instructions(instructions, shared_loads, shared_stores, warps),
    )
