"""Closed-form counts of the naive kernel: strided reads by each thread, then one tree in shared memory for each output."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...definitions import WARP_SIZE, ceil_div
from .accesses import SharedTraffic, Traffic, global_traffic, lane_matrix
from .geometry import tree_width
from .problem import Conv1d
from .tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeStep:
    """One halving: partners that still have a value to add, and the warps that issue for them."""

    threads: int

    @property
    def warps(self) -> int:
        """Warps with a thread at work."""
        return int(ceil_div(self.threads, WARP_SIZE))


def tree_steps(problem: Conv1d) -> tuple[TreeStep, ...]:
    """Steps of the tree over the channels, which need not be a power of two.

    >>> [step.threads for step in tree_steps(Conv1d(in_channels=6))]  # 6 = 4 + 2, then 2 + 2, then 1 + 1
    [2, 2, 1]
    """
    steps, width = [], tree_width(problem)
    while width:
        steps.append(TreeStep(threads=min(width, problem.in_channels - width)))
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


def _stores(problem: Conv1d) -> Traffic:
    """Thread 0 stores output after output."""
    stores = problem.blocks * problem.output_length
    return Traffic(requests=stores, sectors=stores, lines=stores)


def _shared(problem: Conv1d) -> tuple[SharedTraffic, SharedTraffic]:
    """Shared loads and stores of one block; consecutive words, hence without conflicts."""
    warps = ceil_div(problem.in_channels, WARP_SIZE)
    tree = sum(step.warps for step in tree_steps(problem))
    loads = problem.output_length * (2 * tree + 1)
    stores = problem.output_length * (warps + tree)
    return (
        SharedTraffic(requests=loads, wavefronts=loads, ideal=loads),
        SharedTraffic(requests=stores, wavefronts=stores, ideal=stores),
    )


def _arithmetic(problem: Conv1d) -> dict[str, int]:
    """Executed warp instructions of one block; integer and control are fitted to compiled kernels of sm_80."""
    warps, outputs = ceil_div(problem.in_channels, WARP_SIZE), problem.output_length
    steps = tree_steps(problem)
    return {
        "fp32_fma": warps * problem.products_per_channel,
        "fp32_other": outputs * (sum(step.warps for step in steps) + 1),
        "barriers": outputs * warps * (len(steps) + 2),
        "integer": warps * (20 + outputs * (len(steps) + 2)),
        "control": 5 * warps,
    }


def naive_tally(problem: Conv1d) -> Tally:
    """Everything that the naive kernel executes."""
    shared_loads, shared_stores = _shared(problem)
    return Tally(
        global_loads=_loads(problem),
        global_stores=_stores(problem),
        shared_loads_per_block=shared_loads,
        shared_stores_per_block=shared_stores,
        instructions_per_block=_arithmetic(problem),
        warps_per_block=ceil_div(problem.in_channels, WARP_SIZE),
    )
