"""What the warps of a few blocks issue, in order, with what their memory instructions ask for: the input of the SM model."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from ..core.constants import LINE_BYTES, MAX_THREADS_PER_BLOCK, SECTORS_PER_LINE, WARP_SIZE
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, issue_table
from ..machine_code.program import MachineCode
from ..memory.access_counts import AccessCounts, InstructionCount, patterns_of
from ..memory.trace import lines_of_rows, sectors_of
from ..program.instruction import Space
from ..simulator.access import Action, WarpAccess
from ..simulator.sass.simulation import units_of
from ..simulator.schedule import BlockPath
from .access_patterns import AccessPatterns, PatternObserver

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
        first_touches_of_warps: Part that the warp has not touched before; warps that read the same in step all wait for it.
        requests: Executions by the traced blocks.
    """

    wavefronts: Floats
    lines: Floats
    sectors: Floats
    first_touches: Floats
    first_touches_of_warps: Floats
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
        instructions: Warp instructions of each block, shape ``(blocks,)``; more than the stretches hold where a way was too
            long to be kept.
        observed: Blocks, from the first on, that ``memory`` was averaged over; one behind them is the longest of the launch.
        whole_grid: Whether all blocks of the launch were followed; else the first and the last are those of the grid.
        patterns: How the lanes of the memory instructions lie; None in traces that were recorded without.
    """

    table: IssueTable
    memory: MemoryDemand
    first: Integers
    length: Integers
    offsets: Integers
    warps_per_block: int
    instructions: Floats
    observed: int
    whole_grid: bool
    patterns: AccessPatterns | None = None

    @property
    def blocks(self) -> int:
        """How many blocks were followed."""
        return (len(self.offsets) - 1) // self.warps_per_block

    def of_blocks(self, blocks: Sequence[int]) -> WarpTraces:
        """The traces of some of the followed blocks, by their numbers among them."""
        first, length, offsets = [], [], [0]
        for block in blocks:
            for warp in range(block * self.warps_per_block, (block + 1) * self.warps_per_block):
                own = slice(self.offsets[warp], self.offsets[warp + 1])
                first.append(self.first[own])
                length.append(self.length[own])
                offsets.append(offsets[-1] + len(first[-1]))
        return structs.replace(
            self,
            first=np.concatenate(first),
            length=np.concatenate(length),
            offsets=np.array(offsets, np.int64),
            instructions=self.instructions[list(blocks)],
        )

    def executions(self) -> Integers:
        """How often the warps of the observed blocks issue each instruction, shape ``(instructions,)``."""
        end = self.offsets[self.observed * self.warps_per_block]
        change = np.zeros(len(self.table) + 1, np.int64)
        np.add.at(change, self.first[:end], 1)
        np.add.at(change, (self.first + self.length)[:end], -1)
        return np.cumsum(change)[:-1]

    def to_bytes(self) -> bytes:
        """The traces as a compressed NumPy archive."""
        archive = io.BytesIO()
        own = {name: getattr(self, name) for name in _OWN}
        arrays: dict[str, Any] = asdict(self.table) | _prefixed("memory", self.memory) | own
        if self.patterns is not None:
            arrays |= _prefixed("patterns", self.patterns)
        np.savez_compressed(archive, **arrays)
        return archive.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> WarpTraces:
        """The traces that `to_bytes` wrote."""
        with np.load(io.BytesIO(data)) as archive:
            table = IssueTable(**{name: archive[name] for name in IssueTable.__dataclass_fields__})
            memory = MemoryDemand(**{name: archive[f"memory_{name}"] for name in MemoryDemand.__dataclass_fields__})
            own = {name: archive[name] for name in _OWN}
            seen = {name: archive[f"patterns_{name}"] for name in _PATTERNS if f"patterns_{name}" in archive}
        own["warps_per_block"], own["whole_grid"] = int(own["warps_per_block"]), bool(own["whole_grid"])
        own["observed"] = int(own["observed"])
        return cls(table=table, memory=memory, patterns=AccessPatterns(**seen) if seen else None, **own)


_OWN = ("first", "length", "offsets", "warps_per_block", "instructions", "observed", "whole_grid")


_PATTERNS = tuple(AccessPatterns.__dataclass_fields__)


def _prefixed(prefix: str, record: MemoryDemand | AccessPatterns) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in asdict(record).items()}


@dataclass(slots=True)
class FirstTouches:
    """An observer that counts the sectors each load asks for, and those that its block has not touched before."""

    sectors: dict[int, list[int]] = field(default_factory=dict)
    """By instruction: sectors asked for, those that are new to the block, those that are new to the warp."""
    _blocks: dict[int, int] = field(default_factory=dict)
    _known: set[int] = field(default_factory=set)
    _known_by_warp: set[int] = field(default_factory=set)
    _last: dict[int, tuple[int, Integers]] = field(default_factory=dict)
    """By instruction: what it touched last, and by how many lines that was moved."""

    def access(self, access: WarpAccess) -> None:
        """Take note of one global load."""
        if access.site.space is not Space.GLOBAL or access.site.action not in (Action.LOAD, Action.ASYNC_COPY):
            return
        instruction = access.site.instruction_index
        of_block, of_warp, moved = self._touched(access)
        counts = self.sectors.setdefault(instruction, [0, 0, 0])
        counts[0] += len(of_warp)
        before = self._last.get(instruction)
        if before is None or before[0] != moved or not np.array_equal(before[1], of_warp):
            shift = moved * SECTORS_PER_LINE * _BLOCKS
            counts[1] += _added(self._known, of_block + shift)
            counts[2] += _added(self._known_by_warp, of_warp + shift * _WARPS)
            self._last[instruction] = moved, of_warp

    def _touched(self, access: WarpAccess) -> tuple[Integers, Integers, int]:
        """Numbers of the sectors that each block, and each of its warps, asks for, but for the lines to move them by."""
        plan, offset = access.pattern
        key = (FirstTouches, access.site.width_bytes, offset % LINE_BYTES)
        held = plan.cache.get(key)
        if held is None or held[0] is not access.blocks:
            lines = patterns_of(plan).lines(access.site.width_bytes, offset % LINE_BYTES)
            row, warp, line, words = lines_of_rows(plan, lines)
            entry, sector = np.nonzero(sectors_of(words)[:, None] >> np.arange(SECTORS_PER_LINE) & 1)
            blocks = [self._blocks.setdefault(one, len(self._blocks)) for one in access.blocks.tolist()]
            of_block = (line[entry] * SECTORS_PER_LINE + sector) * _BLOCKS + np.array(blocks)[row[entry]]
            held = plan.cache[key] = access.blocks, np.unique(of_block), of_block * _WARPS + warp[entry]
        return held[1], held[2], offset // LINE_BYTES


_BLOCKS, _WARPS = 64, MAX_THREADS_PER_BLOCK // WARP_SIZE
"""Room for the numbers of followed blocks and of their warps beside a sector's."""


def _added(known: set[int], keys: Integers) -> int:
    """Put keys into a set; how many are new."""
    before = len(known)
    known.update(keys.tolist())
    return len(known) - before


def traced_blocks(launch: Launch, count: int = TRACED_BLOCKS) -> Integers:
    """Linear indices of blocks at equal distances over the grid, the first and the last among them; all of a small one.

    >>> traced_blocks(Launch(grid_x=100, block_x=32)).tolist()
    [0, 19, 39, 59, 79, 99]
    """
    blocks = int(launch.blocks)
    return np.arange(blocks) if blocks <= count + 2 else np.linspace(0, blocks - 1, count + 2).astype(np.int64)


class WarpObserver:
    """An observer of the blocks whose warps are followed: what their memory instructions ask for."""

    def __init__(self) -> None:
        self.counts, self.touches, self.patterns = AccessCounts(), FirstTouches(), PatternObserver()

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        self.counts.access(access)
        self.touches.access(access)
        self.patterns.access(access)


def traces_of(
    code: MachineCode,
    launch: Launch,
    observer: WarpObserver,
    followed: Mapping[int, tuple[BlockPath, NDArray[np.int64]]],
    longest: tuple[BlockPath, NDArray[np.int64]] | None = None,
) -> WarpTraces:
    """The traces of blocks that a run has executed: their ways through the code, and visits of each unit by each warp.

    ``longest``: of a block that does far more, whose memory was not looked at.
    """
    lengths = np.array([len(unit) for unit in units_of(code)], np.int64)
    warps = -(-int(launch.threads_per_block) // WARP_SIZE)
    ways = [*(followed[block] for block in sorted(followed)), *([] if longest is None else [longest])]
    first, length, offsets = _stretches([path for path, _ in ways], lengths, warps)
    return WarpTraces(
        table=issue_table(code),
        memory=_demand(len(code.instructions), observer.counts.instructions(), observer.touches),
        first=first,
        length=length,
        offsets=offsets,
        warps_per_block=warps,
        instructions=np.array([(visits @ lengths).sum() for _, visits in ways], np.float64),
        observed=len(followed),
        whole_grid=len(followed) == int(launch.blocks),
        patterns=observer.patterns.patterns(len(code.instructions)),
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
    wavefronts, copied, lines, sectors, fresh, fresh_of_warps, requests = np.zeros((7, instructions))
    for count in counts:  # a generic access has one for each space that it reached
        index = count.instruction
        if count.action is Action.ASYNC_COPY and count.space is Space.SHARED:
            copied[index] = count.wavefronts / count.requests
            continue
        requests[index] += count.requests
        if count.space is Space.SHARED:
            wavefronts[index] += count.wavefronts
        elif count.space in (Space.GLOBAL, Space.LOCAL):
            lines[index] += count.lines
            sectors[index] += count.sectors
    divisor = np.maximum(requests, 1)
    for index, (asked, of_block, of_warp) in touches.sectors.items():
        fresh[index], fresh_of_warps[index] = of_block / asked, of_warp / asked
    return MemoryDemand(
        wavefronts=wavefronts / divisor + copied,
        lines=lines / divisor,
        sectors=sectors / divisor,
        first_touches=fresh,
        first_touches_of_warps=fresh_of_warps,
        requests=requests,
    )
