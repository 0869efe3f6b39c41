"""PTX without loads whose value a register holds already, as the assembler leaves it.

The assembler sees that addresses are equal where the front end, which computed them in two ways, did not. Which loads read
the same addresses is found by executing some blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...launch.launch import KernelCall, Launch
from ...program.instruction import Instruction, Space
from ...program.kernel import Kernel
from ...program.types import width_bytes
from ...ptx.operands import vector
from ...simulator.access import WarpAccess
from ...simulator.simulation import Budget, Mode, simulate
from .load_order import Load, LoadOrder, rewritten

_OBSERVED_BYTES = 2**26
"""Memory for the addresses of all loads of the blocks that are watched."""
_MIXER = np.uint64(0x9E3779B97F4A7C15)


@dataclass(slots=True)
class _Addresses:
    """An observer that keeps, for each load and thread, a hash of the addresses that it read, 0 where it read none."""

    rows: Mapping[int, int]
    warps: int
    seen: dict[int, NDArray[np.uint64]] = field(default_factory=dict)

    def access(self, access: WarpAccess) -> None:
        """Mix the addresses of one load into what was seen of it."""
        if access.writes or access.site.space is not Space.GLOBAL:
            return
        number = access.site.instruction_index
        if number not in self.seen:
            self.seen[number] = np.zeros((len(self.rows) * self.warps, WARP_SIZE), np.uint64)
        seen = self.seen[number]
        warps = access.of_warps
        at = np.array([self.rows[block] for block in warps.block.tolist()]) * self.warps + warps.warp
        before = seen[at]
        seen[at] = np.where(warps.active, before * _MIXER + warps.addresses + np.uint64(1), before)


def without_repeated_loads(kernel: Kernel, launch: Launch, call: KernelCall, budget: Budget | None = None) -> Kernel:
    """The kernel with one load of those that read the same addresses, one of which has been executed before the others.

    Blocks at the corners and in the middle of the grid are executed to see addresses.
    """
    code = LoadOrder(kernel)
    if len(code.loads) < 2:
        return code.kernel
    seen = _seen(kernel, launch, call, budget, len(code.loads))
    numbers = [code.kernel.blocks[load.block].first + load.place for load in code.loads]
    reached = [(load, seen[number]) for load, number in zip(code.loads, numbers, strict=True) if number in seen]
    repeated = _repeated(code, reached)
    return rewritten(code.kernel, {id(load.instruction): _moves(code, load, first) for load, first in repeated}, {})


def _seen(
    kernel: Kernel, launch: Launch, call: KernelCall, budget: Budget | None, loads: int
) -> dict[int, NDArray[np.uint64]]:
    warps = ceil_div(int(launch.threads_per_block), WARP_SIZE)
    most = max(1, _OBSERVED_BYTES // (loads * warps * WARP_SIZE * 8))
    blocks = np.array(launch.corners_and_middle()[:most], np.int64)
    addresses = _Addresses({block: row for row, block in enumerate(blocks.tolist())}, warps)
    simulate(kernel, launch, call, mode=Mode.TRACE, blocks=blocks, budget=budget, observers=[addresses])
    return addresses.seen


def _repeated(code: LoadOrder, reached: list[tuple[Load, NDArray[np.uint64]]]) -> list[tuple[Load, Load]]:
    """Loads with the one before them, itself none of these, that has read their addresses in every lane that they read in."""
    if not reached:
        return []
    hashes = np.stack([found for _, found in reached])
    kept = np.zeros(len(reached), np.bool_)
    repeated = []
    for index, (load, own) in enumerate(reached):
        row, lane = np.argwhere(own)[0]
        alike = np.flatnonzero(kept & (hashes[:, row, lane] == own[row, lane])).tolist()
        first = next((i for i in alike if code.keeps(reached[i][0], load) and _covers(hashes[i], own)), None)
        kept[index] = first is None
        if first is not None:
            repeated.append((load, reached[first][0]))
    return repeated


def _covers(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> bool:
    return bool(((second == 0) | (first == second)).all())


def _moves(code: LoadOrder, load: Load, first: Load) -> list[Instruction]:
    """What stands for a load whose value the registers of another one hold."""
    pairs = zip(vector(load.instruction.operand(0)), vector(first.instruction.operand(0)), strict=True)
    return [replace(load.instruction, opcode=f"mov.{_kind(code.kernel, pair[0])}", operands=pair) for pair in pairs]


def _kind(kernel: Kernel, register: str) -> str:
    return f"b{8 * width_bytes(kernel.register_types[register])}"
