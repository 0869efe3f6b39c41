"""The taps of ``dynamic_index`` where the compiler keeps them in local memory instead of selecting among registers.

Which it does depends on the architecture and on the code around the index, not on the index alone; ``docs/local_memory.md``
is the generated table. The closed form follows what NVRTC 12.9 did with this kernel.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...gpus.gpu import Gpu
from .exchange_plans import executed_plan
from .problem import Conv2d
from .strips import Flags, Strips

Floats = NDArray[np.float64]

_SECTORS_OF_A_WORD_PER_LANE = 4
_WIDEST_SELECTION = 8
"""Taps among which sm_60 and sm_90 onwards select by registers."""
_WIDEST_SELECTION_OF_SHARED_ROWS = 11
"""The same where the outputs of a thread share rows."""


def in_local_memory(problem: Conv2d, sizes: Strips, gpu: Gpu) -> Flags:
    """Where the register array of ``dynamic_index`` is expected on the stack."""
    if (7, 0) <= gpu.compute_capability < (9, 0):
        return sizes.dynamic_index & (problem.filter_width > 2)
    widest = np.where(sizes.rows, _WIDEST_SELECTION_OF_SHARED_ROWS, _WIDEST_SELECTION)
    return sizes.dynamic_index & (problem.filter_width > widest)


def local_accesses(problem: Conv2d, sizes: Strips, gpu: Gpu) -> tuple[Floats, Floats, Floats]:
    """Warp-level requests to local memory, load sectors and store sectors.

    Each exchange loads one element by a lane-dependent index. Lanes that differ in bit 3 or 4 lie in different sectors
    anyway; for the lower bits a request touches the sectors of both candidates. Each tap that is a candidate is stored once
    for a row.
    """
    plan = executed_plan(problem.filter_width)
    rows = np.where(in_local_memory(problem, sizes, gpu), sizes.passes * sizes.step_rows, 0)
    candidates = len({tap for step in plan.steps for tap in (step.tap - step.mask, step.tap + step.mask)})
    load_sectors = sum(_SECTORS_OF_A_WORD_PER_LANE * (1 if step.mask >= 8 else 2) for step in plan.steps)
    return (
        np.asarray(rows * (plan.shuffles + candidates), np.float64),
        np.asarray(rows * load_sectors, np.float64),
        np.asarray(rows * candidates * _SECTORS_OF_A_WORD_PER_LANE, np.float64),
    )
