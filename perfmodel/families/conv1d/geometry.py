"""Sizes that follow from channels_per_thread: threads, pad period, shared words. The one home of these formulas."""

from __future__ import annotations

from ...core.constants import MAX_THREADS_PER_BLOCK, SHARED_BANKS, WARP_SIZE, ceil_div, round_up
from .problem import Conv1d


def owners(problem: Conv1d, channels_per_thread: int) -> int:
    """Threads of the optimized kernel that own channels; the last of them may own fewer than the others."""
    return int(ceil_div(problem.in_channels, channels_per_thread))


def threads_per_block(problem: Conv1d, channels_per_thread: int) -> int:
    """Threads of the optimized kernel: the owners, and what fills their last warp, so that shuffles find every lane.

    >>> threads_per_block(Conv1d(in_channels=2, length=16), 1)  # the original shuffles with 30 lanes missing
    32
    """
    return int(round_up(owners(problem, channels_per_thread), WARP_SIZE))


def warps_per_block(problem: Conv1d, channels_per_thread: int) -> int:
    """Warps of the optimized kernel."""
    return threads_per_block(problem, channels_per_thread) // WARP_SIZE


def combining_threads(problem: Conv1d, channels_per_thread: int) -> int:
    """Threads that add the bias, combine the warps' sums and store outputs; in a block of one warp it is the first."""
    threads = threads_per_block(problem, channels_per_thread)
    return 1 if threads == WARP_SIZE else min(problem.output_length, threads)


def pad_period_words(length: int, channels_per_thread: int) -> int:
    """Words of the staged input after which one word is left unused (SPEC section 3).

    >>> pad_period_words(8, 4), pad_period_words(4, 4), pad_period_words(33, 1)
    (32, 32, 33)
    """
    return max(SHARED_BANKS, length * channels_per_thread)


def staging_words(problem: Conv1d, channels_per_thread: int) -> int:
    """Shared words that the padded input needs, and after it the weights: the corrected size of SPEC section 3.

    >>> staging_words(Conv1d(in_channels=256, length=16), 2)  # 256 * 16 words and a pad after every 32 but the last
    4223
    """
    padded_input = problem.input_words + (problem.input_words - 1) // pad_period_words(
        problem.length, channels_per_thread
    )
    return max(padded_input, problem.weight_words)


def warp_sum_words(problem: Conv1d, channels_per_thread: int) -> int:
    """Shared words of the warps' sums up to the next float4, where the staging starts; a block of one warp needs none.

    >>> warp_sum_words(Conv1d(in_channels=320, length=13, filter_width=3, padding=1), 1)  # 10 warps, 13 outputs
    132
    """
    warps = warps_per_block(problem, channels_per_thread)
    return int(round_up(warps * problem.output_length, 4)) if warps > 1 else 0


def widest_vector(words: int) -> int:
    """Widest access in words (4, 2 or 1) to which rows of that many words stay aligned.

    >>> widest_vector(20), widest_vector(6), widest_vector(5)
    (4, 2, 1)
    """
    return 4 if words % 4 == 0 else 2 if words % 2 == 0 else 1


def naive_threads(problem: Conv1d) -> int:
    """Threads of the naive kernels: one for each channel, or for each 1,024th where there are more."""
    return min(problem.in_channels, MAX_THREADS_PER_BLOCK)


def tree_width(threads: int) -> int:
    """Partners in the first step of the naive kernels' tree: the largest power of two below the threads, 0 for one.

    >>> [tree_width(threads) for threads in (1, 2, 5, 8)]
    [0, 1, 4, 4]
    """
    return 1 << (threads - 1).bit_length() - 1 if threads > 1 else 0
