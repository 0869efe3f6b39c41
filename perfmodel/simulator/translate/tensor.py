"""Tensor-core, bulk-copy and cluster instructions: traced where the ISA documents what they access, never executed."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import Instruction, Space
from ...ptx.operands import names
from ..access import Action
from .emitter import Emitter
from .memory import space_of

ROW_BYTES = 16
"""One row of an 8 x 8 matrix of 16-bit elements; a quarter warp gives the addresses of its eight rows (PTX ISA 9.7.14)."""


def refuse(e: Emitter, i: Instruction) -> None:
    """Instructions that have no execution here."""
    raise i.error("tensor-core, bulk-copy and cluster instructions are counted, not executed")


def emit_product(e: Emitter, i: Instruction) -> None:
    """Matrix products move registers alone: tracing passes over them as long as nothing of their result is an address."""
    if not e.pool.trace or (i.name == "wmma" and "mma" not in i.parts) or e.wanted(names(i.operand(0))):
        refuse(e, i)


def emit_matrix_move(e: Emitter, i: Instruction) -> None:
    """``ldmatrix`` and ``stmatrix``: the first eight lanes for each matrix give the addresses of its rows."""
    loads = i.name == "ldmatrix"
    count = next((int(part[1:]) for part in i.parts if part in ("x1", "x2", "x4")), None)
    if not e.pool.trace or count is None or space_of(i) is not Space.SHARED or "b16" not in i.parts:
        refuse(e, i)
    if loads and e.wanted(names(i.operand(0))):
        refuse(e, i)
    base, offset = e.address(i, 1 if loads else 0)
    site = e.pool.site(e.instruction_index, i, Action.LOAD if loads else Action.STORE, Space.SHARED, ROW_BYTES)
    rows = e.pool.constant(np.full((1, 1), 8 * (count or 0), np.uint32))
    lanes = e.temporary(f"C.special['%laneid']<{rows}" + ("" if e.guard == "None" else f"&{e.guard}"))
    e.line(f"touch(C,{site},{e.instruction_index},Space.SHARED,{base},{offset},{ROW_BYTES},{lanes})")


REFUSED = [
    "movmatrix",
    "tcgen05",
    "mbarrier",
    "clusterlaunchcontrol",
    "tensormap",
    "multimem",
    "mapa",
    "getctarank",
    "elect",
    "wgmma",
    "setmaxnreg",
]
"""Instructions that neither mode passes over."""
EMITTERS = {
    "mma": emit_product,
    "wmma": emit_product,
    "ldmatrix": emit_matrix_move,
    "stmatrix": emit_matrix_move,
    **dict.fromkeys(REFUSED, refuse),
}
