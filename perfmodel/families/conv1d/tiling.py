"""Sizes of the tiled kernel: outputs of a block, taps at once, channels staged at once. The one home of these formulas."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES, WARP_SIZE, ceil_div, round_up
from .geometry import owners, threads_per_block
from .problem import Conv1d

MAX_TILE = 16
"""Outputs of a thread: with ``MAX_TAPS`` of the filter and the inputs they meet, registers of blocks of 1,024 threads."""
MAX_TAPS = 8
STAGING_BYTES = 16_384
"""Shared memory to fill with channels where a thread owns several: a third of what leaves any GPU two blocks an SM."""


def odd(words: int) -> int:
    """The pitch of staged rows: 32 rows at an odd distance lie in 32 banks.

    >>> odd(8), odd(9)
    (9, 9)
    """
    return words | 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Taps that are staged and added at once: where they begin among the used taps, and how many."""

    first: int
    taps: int


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
    def steps(self) -> tuple[Step, ...]:
        """Steps through the taps of one chunk; the last may be shorter."""
        return tuple(
            Step(first=first, taps=min(self.taps, self.used_taps - first))
            for first in range(0, self.used_taps, self.taps)
        )

    @property
    def staging_words(self) -> int:
        """Dynamic shared words: the inputs of a chunk, then its weights, each up to a whole pass of the threads."""
        inputs = self.chunk_channels * odd(self.tile + self.taps - 1)
        weights = self.chunk_channels * odd(self.taps)
        return int(round_up(inputs, self.threads) + round_up(weights, self.threads))

    @property
    def warp_sum_words(self) -> int:
        """Static shared words: a sum of each output for each warp."""
        return self.warps * self.tile


def staged_words_of_a_channel(tile: int, taps: int) -> int:
    """Shared words that one channel takes in a step.

    >>> staged_words_of_a_channel(16, 5)  # 20 inputs and 5 weights, the pitch of the inputs is 21
    26
    """
    return odd(tile + taps - 1) + odd(taps)


def _balanced(total: int, largest: int) -> int:
    """Size of parts of at most ``largest`` that differ least.

    >>> _balanced(17, 16), _balanced(9, 8), _balanced(4, 16)
    (9, 5, 4)
    """
    return int(ceil_div(total, ceil_div(total, largest)))


def tiling(problem: Conv1d, channels_per_thread: int) -> Tiling:
    """How the tiled kernel cuts a problem with one choice of channels per thread.

    >>> cut = tiling(Conv1d(in_channels=5000, length=20000), 40)  # 125 owners, 26 words of each channel
    >>> cut.tile, cut.tiles, cut.staged_per_thread, cut.chunks
    (16, 1250, 1, 40)
    """
    used_taps, owning = len(problem.used_taps), owners(problem, channels_per_thread)
    tile = _balanced(problem.output_length, MAX_TILE)
    taps = _balanced(used_taps, MAX_TAPS)
    fitting = STAGING_BYTES // (FLOAT_BYTES * owning * staged_words_of_a_channel(tile, taps))
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
