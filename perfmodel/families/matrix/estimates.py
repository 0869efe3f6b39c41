"""What a product of matrices executes beside products, loads and copies: `data/calibrations/matrix_products.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ...core.numbers import numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixEstimates:
    """The numbers; the file says what each one means and how far it is off."""

    prologue_instructions: int
    prologue_cycles: int
    slab_instructions: int
    slab_cycles: int
    prologue_control: int
    slab_control: int
    copy_integers: int
    output_integers: int
    uneven_store_sectors: float
    spare_registers: int
    spared_registers: int
    bulk_prologue_cycles: int
    bulk_tile_cycles: int
    bulk_slab_cycles: int
    bulk_wait_instructions: int
    bulk_wait_barriers: int
    bulk_output_instructions: int
    bulk_product_instructions: int


@cache
def matrix_estimates() -> MatrixEstimates:
    """The numbers that the package ships.

    >>> matrix_estimates().copy_integers
    3
    """
    return numbers("matrix_products", MatrixEstimates)
