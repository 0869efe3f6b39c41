"""Occupancy of a launch with its grid: waves per SM, and the warps that are resident on average (Nsight Compute: achieved)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..core.numbers import numbers
from ..gpus.gpu import Gpu


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fitted:
    """The fitted number; ``data/calibrations/occupancy.toml`` says what it means."""

    block_change_cycles: float


@cache
def _fitted() -> _Fitted:
    return numbers("occupancy", _Fitted)


def waves_per_sm(blocks: Any, blocks_per_sm: Any, gpu: Gpu) -> Any:
    """Blocks of the grid over the blocks that all SMs hold at once; of one launch or of arrays of them.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> round(float(waves_per_sm(4096, 8, load_gpu("h200"))), 2)
    3.88
    """
    return blocks / np.maximum(blocks_per_sm * gpu.sm_count, 1)


def achieved_blocks(blocks: int, blocks_per_sm: int, seconds: float, gpu: Gpu) -> float:
    """Blocks that are resident on average on an SM while it has any; an estimate.

    An SM runs ⌊blocks / SMs⌋ blocks or one more, in rounds of ``blocks_per_sm``. A last round that has the part p of a full one
    is taken to last (1 + p) / 2 of a full round. Between two blocks their place is empty for ``block_change_cycles``.

    Args:
        blocks: of the grid.
        blocks_per_sm: that fit, by theoretical occupancy.
        seconds: device time of the launch.
        gpu: the GPU with its SM clock.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> round(achieved_blocks(32, 8, 500e-6, load_gpu("h200")), 2), round(achieved_blocks(4096, 8, 8e-6, load_gpu("h200")), 1)
    (1.0, 6.7)
    """
    if not blocks_per_sm or not math.isfinite(seconds):
        return 0.0
    average = blocks / gpu.sm_count
    fewest, most = math.floor(average), math.ceil(average)
    with_most = average - fewest if most > fewest else 1.0
    held, rounds = 0.0, 0.0
    for count, weight in ((fewest, 1.0 - with_most), (most, with_most)):
        full, rest = divmod(count, blocks_per_sm)
        last = 0.0 if not rest else 1.0 if not full else (1.0 + rest / blocks_per_sm) / 2
        held += weight * (full * blocks_per_sm + rest * last)
        rounds += weight * (full + last)
    resident = held / rounds
    cycles = max(seconds - gpu.empty_kernel_s, 0.0) * gpu.boost_clock_hz
    of_block = cycles * resident / max(average, 1.0)
    return resident * max(1.0 - _fitted().block_change_cycles / max(of_block, 1.0), 0.0)
