"""The warp that a block waits for longest: what it executes, how long it would need alone, how often it waits for L2.

Loads go behind L1 where they touch a sector that their block has not touched before; the others are served by L1, whose
latency is part of the warp's own cycles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..ir.instruction import Instruction
from ..ir.kernel import Kernel
from ..machine_code.instruction import MachineInstruction
from ..machine_code.operands import Immediate
from ..machine_code.program import MachineCode
from ..machine_code.schedule import lone_warp_cycles, round_trips_of_blocks
from ..simulator.execution import Code, executions
from .blocks.watched_block import WatchedBlock


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestWarp:
    """Of the warps of the block in the middle of the grid: the most cycles alone, the most waits for memory behind L1.

    ``instructions`` are those that the warp with the most cycles executes.
    """

    cycles: float
    """NaN where the machine code is not executed."""
    instructions: float
    """Likewise."""
    round_trips: float
    copy_round_trips: float = 0.0
    """Of asynchronous copies: each wait lets some groups of copies run on, over which a latency is spread."""
    read_only_share: float = 0.0
    """Part of the block's global loads that go by the read-only path."""


def slowest_warp(code: Code, watched: WatchedBlock) -> SlowestWarp:
    """Follow each warp of an executed block through the machine code's own schedule.

    Where PTX was executed, a round trip is counted for each of its basic blocks that loads.

    Args:
        code: what was executed of a kernel.
        watched: its block (`LaunchCounts.watched`).
    """
    if not isinstance(code, MachineCode):
        return _of_ptx(code, watched)
    executed = executions(code, watched.visits)
    cycles = lone_warp_cycles(code)
    by_block = executed[:, [block.first for block in code.blocks]]
    of_warps = by_block @ cycles
    longest = int(of_warps.argmax())
    waits = by_block @ round_trips_of_blocks(code, cycles)
    loads = [i.class_name == "global_load" for i in code.instructions]
    return SlowestWarp(
        cycles=float(of_warps[longest]),
        instructions=float(executed[longest].sum()),
        round_trips=float(np.minimum(waits, watched.missing_loads()).max()),
        copy_round_trips=_copy_round_trips([_groups_left(i) for i in code.instructions], executed),
        read_only_share=_share(executed, loads, [i.has("CONSTANT") for i in code.instructions]),
    )


def _of_ptx(kernel: Kernel, watched: WatchedBlock) -> SlowestWarp:
    executed = executions(kernel, watched.visits)
    instructions = [instruction for block in kernel.blocks for instruction in block.instructions]
    loading = np.array([any(map(_loads, block.instructions)) for block in kernel.blocks], np.int64)
    return SlowestWarp(
        cycles=np.nan,
        instructions=np.nan,
        round_trips=float(np.minimum(watched.visits @ loading, watched.missing_loads()).max()),
        copy_round_trips=_copy_round_trips([_groups_left_in_ptx(i) for i in instructions], executed),
        read_only_share=_share(executed, [_loads(i) for i in instructions], ["nc" in i.parts for i in instructions]),
    )


def _loads(instruction: Instruction) -> bool:
    return instruction.name == "ld" and "global" in instruction.parts


def _share(executed: NDArray[np.int64], loads: Sequence[bool], read_only: Sequence[bool]) -> float:
    """Part of the executed loads that go by the read-only path."""
    of_loads = executed.sum(axis=0) * np.array(loads, np.int64)
    return float(of_loads @ np.array(read_only, np.int64)) / max(float(of_loads.sum()), 1.0)


def _copy_round_trips(groups_left: Sequence[int | None], executed: NDArray[np.int64]) -> float:
    """Latencies of asynchronous copies that the warp with most of them waits for.

    A wait that lets the last n groups run on waits for what was asked for n + 1 groups ago, so that so many waits share one
    latency. With a slab in each group this is slabs over slabs in flight; that the last waits of a pipeline let fewer run on
    makes them no longer, as nothing was asked for since.

    Args:
        groups_left: groups of copies that each instruction lets run on, None for those that wait for none.
        executed: executions by warp and instruction.
    """
    waits = executed @ np.array([groups is not None for groups in groups_left], np.int64)
    reached = executed.max(axis=0) > 0
    most = max((n for n, met in zip(groups_left, reached, strict=True) if n is not None and met), default=0)
    return float(np.ceil(waits.max() / (1 + most)))


def _groups_left(instruction: MachineInstruction) -> int | None:
    """Groups of copies that an instruction lets run on (``DEPBAR.LE SB0, n``); None where it does not wait for any."""
    if instruction.name != "DEPBAR" or not instruction.has("LE"):
        return None
    last = instruction.operands[-1]
    return last.value or 0 if isinstance(last, Immediate) else 0


def _groups_left_in_ptx(instruction: Instruction) -> int | None:
    kind = instruction.opcode.removeprefix("cp.async.")
    if kind == "wait_all":
        return 0
    return int(instruction.operand(0), 0) if kind == "wait_group" else None
