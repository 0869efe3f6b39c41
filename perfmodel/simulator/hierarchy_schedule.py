"""Which blocks run together on an SM, and which blocks of a grid are executed to learn what its caches see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..gpu import Gpu
from ..launch import Launch
from ..occupancy import l1_cache_bytes, occupancy

_SAMPLED_SMS = 3
_WAVES = 2
_MAX_RESIDENT = 16
_CHECKED_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Schedule:
    """Blocks that each sampled SM runs in turn, ``together`` at once, and the blocks whose footprint is taken."""

    runs: list[NDArray[np.int64]]
    together: int
    centre: tuple[int, int, int]
    neighbours: list[int | None]
    checked: NDArray[np.int64]

    def all_blocks(self) -> NDArray[np.int64]:
        """All blocks that are executed, in order."""
        return np.unique(np.concatenate([*self.runs, self.footprint_blocks()]))

    def footprint_blocks(self) -> NDArray[np.int64]:
        """Blocks whose words are kept: the one in the middle, its neighbours, and some that check the rule."""
        return np.unique([*(b for b in self.neighbours if b is not None), *self.checked.tolist()])


def residency(launch: Launch, gpu: Gpu, resources: Resources) -> tuple[int, int]:
    """Blocks that run together on an SM, and the L1 that is left beside their shared memory."""
    shared = resources.static_shared_bytes + int(launch.dynamic_shared_bytes)
    found = occupancy(
        gpu,
        threads_per_block=int(launch.threads_per_block),
        registers_per_thread=resources.registers_per_thread,
        shared_bytes_per_block=shared,
        static_shared_bytes_per_block=resources.static_shared_bytes,
    )
    return max(1, int(found.blocks_per_sm)), int(l1_cache_bytes(gpu, found.shared_bytes_per_sm))


def schedule_blocks(launch: Launch, gpu: Gpu, resident: int, rng: np.random.Generator) -> Schedule:
    """Sampled SMs run every n-th block of a stretch of the grid, n being the number of SMs."""
    total = int(launch.blocks)
    together = min(resident, _MAX_RESIDENT)
    per_wave = gpu.sm_count * together
    begins = rng.integers(0, max(total - _WAVES * per_wave, 0) + 1, _SAMPLED_SMS)
    runs = []
    for begin in begins.tolist():
        sm = int(rng.integers(0, min(gpu.sm_count, total)))
        blocks = begin + sm + gpu.sm_count * np.arange(_WAVES * together, dtype=np.int64)
        runs.append(blocks[blocks < total])
    gx, gy, gz = launch.grid
    centre = (gx // 2, gy // 2, gz // 2)
    neighbours: list[int | None] = [_linear(centre, launch)]
    for axis in range(3):
        step = list(centre)
        step[axis] -= 1
        neighbours.append(_linear((step[0], step[1], step[2]), launch) if step[axis] >= 0 else None)
    return Schedule(runs, together, centre, neighbours, rng.integers(0, total, _CHECKED_BLOCKS))


def _linear(position: tuple[int, int, int], launch: Launch) -> int:
    gx, gy, _ = launch.grid
    return (position[2] * gy + position[1]) * gx + position[0]


def position_of(block: int, launch: Launch) -> tuple[int, int, int]:
    """Block index along x, y, z of a linear index.

    >>> position_of(7, Launch(grid_x=3, grid_y=2, grid_z=2, block_x=32))
    (1, 0, 1)
    """
    gx, gy, _ = launch.grid
    return block % gx, block // gx % gy, block // (gx * gy)
