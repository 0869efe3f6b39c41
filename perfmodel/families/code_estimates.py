"""What compiled kernels of the families execute, about: `data/calibrations/code_estimates.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..core.numbers import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeEstimates:
    """The numbers; the file says what each one means."""

    prologue_instructions: int
    direct_idle_warp_instructions: int
    direct_tested_load_instructions: float
    direct_store_instructions: int
    plane_copy_instructions: int
    plane_tap_copy_instructions: int
    plane_row_instructions: int
    tiled_load_instructions: float
    tiled_loads_in_flight: int
    conv1d_rolled_loop_instructions: int
    conv1d_sum_instructions: int
    conv1d_other_registers: int
    pointwise_prologue_instructions: int
    pointwise_slab_instructions: int
    pointwise_fetch_instructions: int
    pointwise_store_instructions: int
    pointwise_shuffle_step_instructions: int
    blocked_prologue_instructions: int
    blocked_store_instructions: int
    blocked_slab_instructions: int
    blocked_copy_instructions: int
    blocked_other_registers: int
    product_other_registers: int
    product_large_tile_registers: int
    product_sector_copy_cost: float


@cache
def code_estimates() -> CodeEstimates:
    """The numbers that the package ships.

    >>> code_estimates().prologue_instructions
    60
    """
    return numbers("code_estimates", CodeEstimates)
