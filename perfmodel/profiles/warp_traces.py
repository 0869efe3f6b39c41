"""What the warps of a few blocks issue, in order, with what their memory instructions ask for: the input of the SM model."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES, WARP_SIZE
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, issue_table
from ..machine_code.program import MachineCode
from ..memory.access_counts import AccessCounts, InstructionCount
from ..program.instruction import Space
from ..simulator.access import Action, WarpAccess
from ..simulator.sass.simulation import units_of
from ..simulator.schedule import BlockPath

TRACED_BLOCKS = 4
"""Blocks whose warps are followed."""
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDemand:
    """What a request of each memory instruction asks for on average; one element for each instruction, 0 for the others.

    Attributes:
        wavefronts: Passes of the data pipe of shared memory.
        lines: Distinct lines of 128 bytes, global and local.
        sectors: Distinct sectors of 32 bytes, likewise.
        first_touches: Part of the loaded sectors that the block has not touched before.
        requests: Executions by the traced blocks.
    """

    wavefronts: Floats
    lines: Floats
    sectors: Floats
    first_touches: Floats
    requests: Floats


class WarpTraces(Struct, frozen=True, kw_only=True):
    """The instructions that the warps of some blocks issue, in order.

    It is one value to records of n candidates (`core.batched`), not a record of such values.

    Warp w of traced block b runs the stretches ``offsets[b * warps_per_block + w]`` up to the next offset; a stretch is
    ``length`` instructions from index ``first`` on.

    Attributes:
        table: Pipes, control bits and register reads of each instruction.
        memory: What the memory instructions ask for.
        first: First instruction of each stretch.
        length: Its number of instructions.
        offsets: Shape ``(blocks * warps_per_block + 1,)``.
        warps_per_block: Warps of a block.
        instructions_per_block: Warp instructions of a block on average; more than the stretches hold where a way was too
            long to be kept.
    """

    table: IssueTable
    memory: MemoryDemand
    first: Integers
    length: Integers
    offsets: Integers
    warps_per_block: int
    instructions_per_block: float

    @property
    def blocks(self) -> int:
        """How many blocks were followed."""
        return (len(self.offsets) - 1) // self.warps_per_block

    def executions(self) -> Integers:
        """How often the traced warps issue each instruction, shape ``(instructions,)``."""
        change = np.zeros(len(self.table) + 1, np.int64)
        np.add.at(change, self.first, 1)
        np.add.at(change, self.first + self.length, -1)
        return np.cumsum(change)[:-1]

    def to_bytes(self) -> bytes:
        """The traces as a compressed NumPy archive."""
        archive = io.BytesIO()
        own = {name: getattr(self, name) for name in _OWN}
        arrays: dict[str, Any] = asdict(self.table) | _prefixed(self.memory) | own
        np.savez_compressed(archive, **arrays)
        return archive.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> WarpTraces:
        """The traces that `to_bytes` wrote."""
        with np.load(io.BytesIO(data)) as archive:
            table = IssueTable(**{name: archive[name] for name in IssueTable.__dataclass_fields__})
            memory = MemoryDemand(**{name: archive[f"memory_{name}"] for name in MemoryDemand.__dataclass_fields__})
            own = {name: archive[name] for name in _OWN}
        own["warps_per_block"], own["instructions_per_block"] = (
            int(own["warps_per_block"]),
            float(own["instructions_per_block"]),
        )
        return cls(table=table, memory=memory, **own)


_OWN = ("first", "length", "offsets", "warps_per_block", "instructions_per_block")


def _prefixed(memory: MemoryDemand) -> dict[str, Floats]:
    return {f"memory_{name}": value for name, value in asdict(memory).items()}


@dataclass(slots=True)
class FirstTouches:
    """An observer that counts the sectors each load asks for, and those that its block has not touched before."""

    sectors: dict[int, list[int]] = field(default_factory=dict)
    """By instruction: sectors asked for, those asked for the first time."""
    _known: set[tuple[int, int]] = field(default_factory=set)

    def access(self, access: WarpAccess) -> None:
        """Take note of one global load; a lane that reads across sectors counts by its first."""
        if access.site.space is not Space.GLOBAL or access.site.action not in (Action.LOAD, Action.ASYNC_COPY):
            return
        warps = access.of_warps
        rows, lanes = np.nonzero(warps.active)
        sectors = (warps.addresses[rows, lanes] // np.uint64(SECTOR_BYTES)).astype(np.int64)
        asked = np.unique(np.stack([rows, sectors]), axis=1)
        touched = set(zip(warps.block[asked[0]].tolist(), asked[1].tolist(), strict=True))
        fresh = touched - self._known
        self._known |= fresh
        counts = self.sectors.setdefault(access.site.instruction_index, [0, 0])
        counts[0] += asked.shape[1]
        counts[1] += len(fresh)


def traced_blocks(launch: Launch, count: int = TRACED_BLOCKS) -> Integers:
    """Linear indices of blocks at equal distances over the grid; all of a small one.

    >>> traced_blocks(Launch(grid_x=100, block_x=32)).tolist()
    [19, 39, 59, 79]
    """
    blocks = int(launch.blocks)
    if blocks <= count:
        return np.arange(blocks)
    return np.linspace(0, blocks - 1, count + 2)[1:-1].astype(np.int64)


class WarpObserver:
    """An observer of the blocks whose warps are followed: what their memory instructions ask for."""

    def __init__(self) -> None:
        self.counts, self.touches = AccessCounts(), FirstTouches()

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        self.counts.access(access)
        self.touches.access(access)


def traces_of(
    code: MachineCode,
    launch: Launch,
    observer: WarpObserver,
    followed: Mapping[int, tuple[BlockPath, NDArray[np.int64]]],
) -> WarpTraces:
    """The traces of blocks that a run has executed: their ways through the code, and visits of each unit by each warp."""
    lengths = np.array([len(unit) for unit in units_of(code)], np.int64)
    warps = -(-int(launch.threads_per_block) // WARP_SIZE)
    blocks = sorted(followed)
    first, length, offsets = _stretches([followed[block][0] for block in blocks], lengths, warps)
    return WarpTraces(
        table=issue_table(code),
        memory=_demand(len(code.instructions), observer.counts.instructions(), observer.touches),
        first=first,
        length=length,
        offsets=offsets,
        warps_per_block=warps,
        instructions_per_block=float(sum((followed[block][1] @ lengths).sum() for block in blocks)) / len(blocks),
    )


def _stretches(paths: Sequence[BlockPath], lengths: Integers, warps: int) -> tuple[Integers, Integers, Integers]:
    """First instruction, length and the offsets of each warp's stretches, from the ways of blocks through units."""
    ends = np.cumsum(lengths)
    starts = ends - lengths
    first, length, offsets = [], [], [0]
    for path in paths:
        steps = np.array([(step[0], step[1]) for step in path.steps], np.int64).reshape(-1, 2)
        begin, count = starts[steps[:, 0]], ends[steps[:, 1]] - starts[steps[:, 0]]
        taken = np.ones((len(steps), warps), np.bool_)
        for row, step in zip(taken, path.steps, strict=True):
            if step[2] is not None:
                row[:] = step[2]
        taken &= count[:, None] > 0
        for warp in range(warps):
            first.append(begin[taken[:, warp]])
            length.append(count[taken[:, warp]])
            offsets.append(offsets[-1] + len(first[-1]))
    return np.concatenate(first), np.concatenate(length), np.array(offsets, np.int64)


def _demand(instructions: int, counts: Sequence[InstructionCount], touches: FirstTouches) -> MemoryDemand:
    wavefronts, lines, sectors, fresh, requests = np.zeros((5, instructions))
    for count in counts:
        index = count.instruction
        copied_to_shared = count.action is Action.ASYNC_COPY and count.space is Space.SHARED
        if count.space is Space.SHARED:
            wavefronts[index] = count.wavefronts / count.requests
        if not copied_to_shared:
            requests[index] = count.requests
        if count.space in (Space.GLOBAL, Space.LOCAL):
            lines[index], sectors[index] = count.lines / count.requests, count.sectors / count.requests
    for index, (asked, first) in touches.sectors.items():
        fresh[index] = first / asked
    return MemoryDemand(wavefronts=wavefronts, lines=lines, sectors=sectors, first_touches=fresh, requests=requests)
