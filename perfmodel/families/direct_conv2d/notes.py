"""What a reader should know of a configuration before trusting its name."""

from __future__ import annotations

import numpy as np

from ...core.constants import WARP_SIZE
from ...gpus.gpu import Gpu
from ..base import Batch
from .configuration import DirectConv2dConfiguration
from .problem import Conv2d
from .source import TAPS_IN_REGISTERS_LIMIT, filter_in_constant, tap_plan
from .stack_array import in_local_memory
from .strips import strips

_WORTH_TELLING = 0.1
"""Share of idle lanes from which on they matter."""


def notes(problem: Conv2d, configuration: DirectConv2dConfiguration, gpu: Gpu) -> tuple[str, ...]:
    """Idle lanes, where the filter lies, over-reading, and register arrays in local memory.

    >>> from perfmodel.families.direct_conv2d import Reuse
    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> plain = DirectConv2dConfiguration(
    ...     reuse=Reuse.NONE, exchange=None, accumulators=None, rows_per_thread=1, block_x=32, block_y=8)
    >>> notes(Conv2d(height=14, width=14, filter_height=3, filter_width=3, padding=1), plain, load_gpu("h200"))
    ('56 % of the lanes have no output: 14 columns are computed by warps of 32',)
    """
    sizes = strips(problem, Batch.of([configuration]))
    found = []
    idle = 1 - problem.output_width / (sizes.across * WARP_SIZE)
    if idle > _WORTH_TELLING:
        found.append(
            f"{100 * idle:.0f} % of the lanes have no output: {problem.output_width} columns are computed by warps of {WARP_SIZE}"
        )
    if not filter_in_constant(problem):
        when = "once for a channel" if problem.filter_taps <= TAPS_IN_REGISTERS_LIMIT else "at each use"
        found.append(f"the filters exceed constant memory and are loaded from global memory {when}")
    plan = tap_plan(problem, configuration.exchange)
    if plan is not None and plan.over_reads:
        found.append(f"lanes load as far as offset {plan.load_offsets[-1]}, beyond the last tap, to save loads")
    if bool(np.any(in_local_memory(problem, sizes, gpu))):
        found.append("the compiler is expected to keep the dynamically indexed taps in local memory")
    return tuple(found)
