"""Which of the family's four kernels runs: straight-line code where a thread's rows fit its registers, else loops."""

from __future__ import annotations

from enum import Enum

from ...core.constants import FLOAT_BYTES, MAX_THREADS_PER_BLOCK, WARP_SIZE, round_up
from ...gpus.gpu import Gpu
from .configuration import Conv1dConfiguration
from .geometry import staging_words, threads_per_block, warp_sum_words
from .problem import Conv1d

MAX_UNROLLED_INSTRUCTIONS = 12_000
"""Straight-line code of one thread: beyond this the compiler takes minutes and the code leaves every cache."""
INSTRUCTIONS_PER_SUM = 20
"""Additions, shuffles or barriers that bring one output's sums together."""
OTHER_REGISTERS = 32
"""Registers that a thread needs beside its rows; with 16 the compiler was seen to use local memory."""


class Kernel(Enum):
    """The kernels by the names of their sources."""

    NAIVE = "conv1d_naive"
    NAIVE_ROLLED = "conv1d_naive_rolled"
    OPTIMIZED = "conv1d_optimized"
    TILED = "conv1d_tiled"


def largest_registers(threads: int, gpu: Gpu) -> int:
    """Registers of a thread that let a block of so many threads run at all."""
    unit = gpu.register_allocation_unit // WARP_SIZE
    per_thread = gpu.registers_per_block // int(round_up(threads, WARP_SIZE)) // unit * unit
    return min(gpu.max_registers_per_thread, per_thread)


def kernel_of(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> Kernel:
    """The kernel that runs a configuration.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> four = Conv1dConfiguration(channels_per_thread=4)
    >>> [kernel_of(Conv1d(length=length), four, load_gpu("h200")).name for length in (4, 8, 4096)]
    ['OPTIMIZED', 'OPTIMIZED', 'TILED']
    """
    if configuration.channels_per_thread is None:
        return Kernel.NAIVE if _naive_unrolls(problem, gpu) else Kernel.NAIVE_ROLLED
    return Kernel.OPTIMIZED if _optimized_unrolls(problem, configuration.channels_per_thread, gpu) else Kernel.TILED


def _compilable(problem: Conv1d, channels: int) -> bool:
    unrolled = channels * problem.products_per_channel + INSTRUCTIONS_PER_SUM * problem.output_length
    return unrolled <= MAX_UNROLLED_INSTRUCTIONS


def _naive_unrolls(problem: Conv1d, gpu: Gpu) -> bool:
    if problem.in_channels > MAX_THREADS_PER_BLOCK or not _compilable(problem, 1):
        return False
    rows = problem.length + problem.filter_width
    return rows + OTHER_REGISTERS <= largest_registers(problem.in_channels, gpu)


def _optimized_unrolls(problem: Conv1d, channels_per_thread: int, gpu: Gpu) -> bool:
    threads = threads_per_block(problem, channels_per_thread)
    if threads > MAX_THREADS_PER_BLOCK or not _compilable(problem, channels_per_thread):
        return False
    words = staging_words(problem, channels_per_thread) + warp_sum_words(problem, channels_per_thread)
    rows = (problem.length + problem.filter_width) * channels_per_thread
    held = rows + problem.output_length // 2 + OTHER_REGISTERS
    return FLOAT_BYTES * words <= gpu.shared_bytes_per_block_opt_in and held <= largest_registers(threads, gpu)
