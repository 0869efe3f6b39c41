"""Which of the four kernels of rows runs a configuration, how it cuts the problem into blocks, and what is compiled for it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES, MAX_THREADS_PER_BLOCK, SHARED_BANKS, WARP_SIZE, ceil_div, round_up
from ...gpus.gpu import Gpu
from ...gpus.occupancy import registers_left
from ...launch.launch import Launch
from ..base import Batch
from ..code_estimates import code_estimates
from ..kernel_files import kernel_text
from .configuration import Conv1dConfiguration
from .problem import Conv1d

MAX_UNROLLED_INSTRUCTIONS = 12_000
"""Straight-line code of one thread: beyond this the compiler takes minutes and the code leaves every cache."""
MAX_TILE = 16
"""Outputs of a thread of the tiled kernel: with ``MAX_TAPS`` and their inputs, registers of blocks of 1,024 threads."""
MAX_TAPS = 8
STAGING_BYTES = 16_384
"""Shared memory to fill with channels where a thread owns several: a third of what leaves any GPU two blocks an SM."""


class Kernel(Enum):
    """The kernels by the names of their sources."""

    NAIVE = "conv1d_naive"
    NAIVE_ROLLED = "conv1d_naive_rolled"
    OPTIMIZED = "conv1d_optimized"
    TILED = "conv1d_tiled"


def kernel_of(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> Kernel:
    """The kernel that runs a configuration: straight-line code where a thread's rows fit its registers, else loops.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> four = Conv1dConfiguration(channels_per_thread=4)
    >>> [kernel_of(Conv1d(length=length), four, load_gpu("h200")).name for length in (4, 8, 4096)]
    ['OPTIMIZED', 'OPTIMIZED', 'TILED']
    """
    channels, row_words = configuration.channels_per_thread, problem.length + problem.filter_width
    if channels is None:
        fits = problem.in_channels <= MAX_THREADS_PER_BLOCK and _unrolls(
            problem, 1, row_words, problem.in_channels, gpu
        )
        return Kernel.NAIVE if fits else Kernel.NAIVE_ROLLED
    threads = threads_per_block(problem, channels)
    shared_bytes = FLOAT_BYTES * (staging_words(problem, channels) + warp_sum_words(problem, channels))
    fits = threads <= MAX_THREADS_PER_BLOCK and shared_bytes <= gpu.shared_bytes_per_block_opt_in
    held = row_words * channels + problem.output_length // 2
    return Kernel.OPTIMIZED if fits and _unrolls(problem, channels, held, threads, gpu) else Kernel.TILED


def _unrolls(problem: Conv1d, channels: int, held: int, threads: int, gpu: Gpu) -> bool:
    """Whether straight-line code for so many channels and held values of a thread can be compiled, and without spills."""
    about = code_estimates()
    unrolled = channels * problem.products_per_channel + about.conv1d_sum_instructions * problem.output_length
    return unrolled <= MAX_UNROLLED_INSTRUCTIONS and held + about.conv1d_other_registers <= largest_registers(
        threads, gpu
    )


def largest_registers(threads: int, gpu: Gpu) -> int:
    """Registers of a thread that let a block of so many threads run at all."""
    return int(registers_left(gpu, gpu.registers_per_block, round_up(threads, WARP_SIZE)))


def naive_threads(problem: Conv1d) -> int:
    """Threads of the naive kernels: one for each channel, or for each 1,024th where there are more."""
    return min(problem.in_channels, MAX_THREADS_PER_BLOCK)


def tree_width(threads: int) -> int:
    """Partners in the first step of the naive kernels' tree: the largest power of two below the threads, 0 for one.

    >>> [tree_width(threads) for threads in (1, 2, 5, 8)]
    [0, 1, 4, 4]
    """
    return 1 << (threads - 1).bit_length() - 1 if threads > 1 else 0


def owners(problem: Conv1d, channels_per_thread: int) -> int:
    """Threads of the optimized kernels that own channels; the last of them may own fewer than the others."""
    return int(ceil_div(problem.in_channels, channels_per_thread))


def threads_per_block(problem: Conv1d, channels_per_thread: int) -> int:
    """Threads of the optimized kernels: the owners, and what fills their last warp, so that shuffles find every lane.

    >>> threads_per_block(Conv1d(in_channels=2, length=16), 1)
    32
    """
    return int(round_up(owners(problem, channels_per_thread), WARP_SIZE))


def pad_period_words(length: int, channels_per_thread: int) -> int:
    """Words of the staged input after which one word is left unused.

    >>> pad_period_words(8, 4), pad_period_words(4, 4), pad_period_words(33, 1)
    (32, 32, 33)
    """
    return max(SHARED_BANKS, length * channels_per_thread)


def staging_words(problem: Conv1d, channels_per_thread: int) -> int:
    """Shared words that the optimized kernel needs for the padded input, and after it for the weights.

    >>> staging_words(Conv1d(in_channels=256, length=16), 2)  # 256 * 16 words and a pad after every 32 but the last
    4223
    """
    period = pad_period_words(problem.length, channels_per_thread)
    return max(problem.input_words + (problem.input_words - 1) // period, problem.weight_words)


def warp_sum_words(problem: Conv1d, channels_per_thread: int) -> int:
    """Shared words of the warps' sums up to the next float4, where the staging starts; a block of one warp needs none.

    >>> warp_sum_words(Conv1d(in_channels=320, length=13, filter_width=3, padding=1), 1)  # 10 warps, 13 outputs
    132
    """
    warps = threads_per_block(problem, channels_per_thread) // WARP_SIZE
    return int(round_up(warps * problem.output_length, 4)) if warps > 1 else 0


def odd(words: int) -> int:
    """The pitch of staged rows of the tiled kernel: 32 rows at an odd distance lie in 32 banks.

    >>> odd(8), odd(9)
    (9, 9)
    """
    return words | 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """How the tiled kernel cuts a problem: ``tiles`` of ``tile`` outputs, ``chunks`` of channels, steps of ``taps`` taps."""

    owners: int
    threads: int
    tile: int
    tiles: int
    taps: int
    used_taps: int
    staged_per_thread: int
    chunks: int

    @property
    def warps(self) -> int:
        """Warps of a block."""
        return self.threads // WARP_SIZE

    @property
    def chunk_channels(self) -> int:
        """Channels of every chunk but perhaps the last."""
        return self.owners * self.staged_per_thread

    @property
    def steps(self) -> list[tuple[int, int]]:
        """Steps through the used taps of one chunk: the first tap and how many, fewer in the last step."""
        return [(first, min(self.taps, self.used_taps - first)) for first in range(0, self.used_taps, self.taps)]

    @property
    def staging_words(self) -> int:
        """Dynamic shared words: the inputs of a chunk, then its weights, each up to a whole pass of the threads."""
        pitches = (odd(self.tile + self.taps - 1), odd(self.taps))
        return sum(int(round_up(self.chunk_channels * pitch, self.threads)) for pitch in pitches)


def _balanced(total: int, largest: int) -> int:
    """Size of parts of at most ``largest`` that differ least.

    >>> _balanced(17, 16), _balanced(9, 8), _balanced(4, 16)
    (9, 5, 4)
    """
    return int(ceil_div(total, ceil_div(total, largest)))


def tiling(problem: Conv1d, channels_per_thread: int) -> Tiling:
    """How the tiled kernel cuts a problem with one choice of channels per thread.

    >>> cut = tiling(Conv1d(in_channels=5000, length=20000), 40)  # 125 owners, 21 + 5 words of each channel
    >>> cut.tile, cut.tiles, cut.staged_per_thread, cut.chunks
    (16, 1250, 1, 40)
    """
    used_taps, owning = len(problem.used_taps), owners(problem, channels_per_thread)
    tile, taps = _balanced(problem.output_length, MAX_TILE), _balanced(used_taps, MAX_TAPS)
    fitting = STAGING_BYTES // (FLOAT_BYTES * owning * (odd(tile + taps - 1) + odd(taps)))
    staged = _balanced(channels_per_thread, max(1, fitting))
    return Tiling(
        owners=owning,
        threads=threads_per_block(problem, channels_per_thread),
        tile=tile,
        tiles=int(ceil_div(problem.output_length, tile)),
        taps=taps,
        used_taps=used_taps,
        staged_per_thread=staged,
        chunks=int(ceil_div(problem.in_channels, owning * staged)),
    )


def _geometry(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> tuple[int, int, int, int]:
    """Blocks, and the threads, static and dynamic shared words of one."""
    channels = configuration.channels_per_thread
    if channels is None:
        threads = naive_threads(problem)
        return problem.blocks, threads, threads, 0
    if kernel_of(problem, configuration, gpu) is Kernel.TILED:
        cut = tiling(problem, channels)
        return problem.blocks * cut.tiles, cut.threads, cut.warps * cut.tile, cut.staging_words
    static, dynamic = warp_sum_words(problem, channels), staging_words(problem, channels)
    return problem.blocks, threads_per_block(problem, channels), static, dynamic


def conv1d_launch(problem: Conv1d, batch: Batch[Conv1dConfiguration], gpu: Gpu) -> Launch:
    """Blocks and threads in one dimension, and their shared memory."""
    geometry = np.array([_geometry(problem, batch.configuration(i), gpu) for i in range(len(batch))], np.int64)
    blocks, threads, static_words, dynamic_words = geometry.reshape(-1, 4).T
    return Launch(
        grid_x=blocks,
        block_x=threads,
        static_shared_bytes=FLOAT_BYTES * static_words,
        dynamic_shared_bytes=FLOAT_BYTES * dynamic_words,
    )


def compile_request(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> CompileRequest:
    """The kernel of a configuration with every size a compile-time constant."""
    kernel = kernel_of(problem, configuration, gpu)
    file_name = f"{kernel.value}.cu"
    return CompileRequest(
        source=kernel_text(file_name),
        kernel=kernel.value,
        file_name=file_name,
        defines=(
            ("BATCH", problem.batch),
            ("IN_CHANNELS", problem.in_channels),
            ("OUT_CHANNELS", problem.out_channels),
            ("LENGTH", problem.length),
            ("FILTER_WIDTH", problem.filter_width),
            ("PADDING", problem.padding),
            ("OUTPUT_LENGTH", problem.output_length),
            *_own_constants(problem, configuration.channels_per_thread, kernel),
        ),
    )


def _own_constants(problem: Conv1d, channels: int | None, kernel: Kernel) -> tuple[tuple[str, int], ...]:
    """Constants beside the problem's."""
    if channels is None:
        threads = naive_threads(problem)
        tree = ("TREE_WIDTH", tree_width(threads))
        return (tree,) if kernel is Kernel.NAIVE else (tree, ("THREADS", threads))
    if kernel is Kernel.TILED:
        cut = tiling(problem, channels)
        return (
            ("FIRST_TAP", problem.used_taps.start),
            ("USED_TAPS", cut.used_taps),
            ("OWNERS", cut.owners),
            ("THREADS", cut.threads),
            ("TILE", cut.tile),
            ("TAPS", cut.taps),
            ("STAGED_PER_THREAD", cut.staged_per_thread),
        )
    return (
        ("CHANNELS_PER_THREAD", channels),
        ("OWNERS", owners(problem, channels)),
        ("THREADS", threads_per_block(problem, channels)),
    )
