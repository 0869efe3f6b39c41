"""Which blocks run together on an SM, and which blocks of a grid are executed to learn what its caches see."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..core.constants import ceil_div
from ..gpus.gpu import Gpu
from ..gpus.occupancy import l1_cache_bytes, occupancy
from ..launch.launch import Launch
from .l1 import WAVES
from .request_coalescing import blocks_of_gpcs, sms_of_gpcs

_SAMPLED_SMS = 3
_LEAST_BLOCKS = 8
_FEW_BLOCKS = 16
_MAX_RESIDENT = 16
_STREAMED_BLOCKS = 256
_STREAMED_THREADS = 1 << 15
"""Blocks whose streams are taken at most, and their threads."""
LATER_PLACES = 1
"""Places of an SM for blocks of later waves that are looked at, at most."""
_GPC_BLOCKS = 128
"""Blocks of a GPC's first wave that are executed at most, where each SM has several."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """Blocks that each sampled SM runs in turn, ``together`` at once, and the blocks whose streams to L2 are taken.

    Where the GPU merges what SMs of a GPC miss together, ``gpcs`` has, for some GPCs, the blocks with which each of their SMs
    begins, and ``later`` for the SMs of one the two blocks that each runs in later waves.
    """

    runs: list[NDArray[np.int64]]
    gpcs: list[list[NDArray[np.int64]]]
    later: list[NDArray[np.int64]]
    together: int
    shape: tuple[int, ...]
    streamed: NDArray[np.int64]

    def of_blocks(self, blocks: NDArray[np.int64]) -> Schedule:
        """The same with the n-th of some blocks for the n-th block of the grid."""
        return replace(
            self,
            runs=[blocks[run] for run in self.runs],
            gpcs=[[blocks[run] for run in sms] for sms in self.gpcs],
            later=[blocks[run] for run in self.later],
            streamed=blocks[self.streamed],
        )

    def of_l1(self) -> NDArray[np.int64]:
        """Blocks that L1 is simulated with, in order."""
        return np.unique(np.concatenate([*self.runs, *(run for sms in self.gpcs for run in sms), *self.later]))

    def all_blocks(self) -> NDArray[np.int64]:
        """All blocks that are executed, in order."""
        return np.unique(np.concatenate([self.of_l1(), self.streamed]))


def residency(launch: Launch, gpu: Gpu, resources: Resources) -> tuple[int, int]:
    """Blocks that run together on an SM, and the L1 that is left beside their shared memory."""
    shared = resources.static_shared_bytes + int(launch.dynamic_shared_bytes)
    resident = occupancy(
        gpu,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=resources.registers_per_thread,
        shared_bytes_per_block=shared,
        static_shared_bytes_per_block=resources.static_shared_bytes,
    )
    return max(1, int(resident.blocks_per_sm)), int(l1_cache_bytes(gpu, resident.shared_bytes_per_sm))


def schedule_blocks(
    launch: Launch, shape: tuple[int, ...], gpu: Gpu, resident: int, rng: np.random.Generator
) -> Schedule:
    """Sampled SMs run one of every n blocks of a stretch of the grid, n being the number of SMs; ``shape`` has the grid's axes.

    Of a small grid every block is looked at.
    Which one of them is the same in the first wave and left to chance in later ones, as it depends on when blocks end: now and
    then an SM gets neighbours.
    """
    total = int(launch.blocks)
    together = min(resident, _MAX_RESIDENT)
    waves = max(WAVES, ceil_div(_LEAST_BLOCKS, together))
    rounds = np.arange(waves * together, dtype=np.int64)
    begins = rng.integers(0, max(total - gpu.sm_count * len(rounds), 0) + 1, _SAMPLED_SMS)
    runs = []
    for begin in begins.tolist():
        places = rng.integers(0, min(gpu.sm_count, total), len(rounds))
        blocks = begin + gpu.sm_count * rounds + np.where(rounds < together, places[0], places)
        runs.append(blocks[blocks < total])
    if total <= min(_FEW_BLOCKS, gpu.sm_count):
        runs = [np.array([block]) for block in range(total)]
    return Schedule(
        runs=runs,
        gpcs=_first_blocks_of_gpcs(total, together, gpu),
        later=_later_blocks_of_gpc(total, resident, gpu, rng),
        together=together,
        shape=shape,
        streamed=rng.permutation(_spread_blocks(shape, int(launch.threads_per_block), rng)),
    )


def _spread_blocks(shape: tuple[int, ...], threads: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Blocks drawn from parts of the grid of about one size, one of each; short axes are divided into single blocks."""
    room = min(_STREAMED_BLOCKS, max(_STREAMED_THREADS // threads, 1))
    bounds: dict[int, NDArray[np.int64]] = {}
    for left, axis in zip(range(len(shape), 0, -1), np.argsort(shape, kind="stable").tolist(), strict=True):
        parts = min(shape[axis], max(int(room ** (1 / left) + 1e-9), 1))
        bounds[axis] = np.arange(parts + 1) * shape[axis] // parts
        room //= parts
    cells = np.meshgrid(*(np.arange(len(bounds[axis]) - 1) for axis in range(len(shape))), indexing="ij")
    drawn = [
        rng.integers(bounds[axis][cell], bounds[axis][cell + 1])
        for axis, cell in enumerate(c.reshape(-1) for c in cells)
    ]
    return np.unique(np.ravel_multi_index(drawn[::-1], shape[::-1])).astype(np.int64)


def _first_blocks_of_gpcs(total: int, together: int, gpu: Gpu) -> list[list[NDArray[np.int64]]]:
    """The blocks with which each SM of the first GPC begins, or of all GPCs where there is one for each SM at most."""
    if gpu.l2_requests_merged == 1:
        return []
    if total < gpu.sm_count:
        ends = np.cumsum(blocks_of_gpcs(total, gpu)).tolist()
        of_gpcs = [np.arange(begin, end) for begin, end in zip([0, *ends], ends, strict=False) if end > begin]
        return [list(blocks.reshape(-1, 1)) for blocks in of_gpcs]
    sms = int(sms_of_gpcs(gpu)[0])
    waves = np.arange(max(min(together, _GPC_BLOCKS // sms), 1), dtype=np.int64)
    runs = [sm + gpu.sm_count * waves for sm in range(sms)]
    return [[run[run < total] for run in runs]]


def _later_blocks_of_gpc(total: int, resident: int, gpu: Gpu, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Blocks of each SM of a GPC, two for each of the places that it has, from the middle of a grid of several waves.

    Places become free in any order, so that of as many consecutive blocks as there are GPCs each has one, whichever.
    """
    sms, places = int(sms_of_gpcs(gpu)[0]), min(resident, LATER_PLACES)
    needed = 2 * places * sms * gpu.gpc_count
    if gpu.l2_requests_merged == 1 or total < resident * gpu.sm_count + needed:
        return []
    begin = (total - needed) // 2
    blocks = begin + gpu.gpc_count * np.arange(2 * places * sms) + rng.integers(0, gpu.gpc_count, 2 * places * sms)
    waves = [rng.permutation(wave) for wave in blocks.reshape(2, -1)]
    return list(np.concatenate([wave.reshape(places, sms) for wave in waves]).T)


def begins_of_blocks(steps: NDArray[np.int64], slots: int) -> NDArray[np.float64]:
    """When each block of a grid begins, in steps: a wave of them when the one before has ended, on average.

    >>> begins_of_blocks(np.array([4, 4, 2, 2]), 2).tolist()
    [0.0, 0.0, 4.0, 4.0]
    """
    wave = np.arange(len(steps)) // slots
    ends = np.cumsum(np.bincount(wave, steps) / np.bincount(wave))
    return np.append(0.0, ends)[wave]
