"""What the warps of a few blocks issue, in order, with what their memory instructions ask for: the input of the SM model."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
from msgspec import Struct, structs
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE, WARP_SIZE
from ..ir.instruction import Space
from ..launch.launch import Launch
from ..machine_code.issue_table import IssueTable, issue_table
from ..machine_code.program import MachineCode
from ..memory.access_counts import AccessCounts
from ..memory.bank_conflicts import load_wavefronts, store_wavefronts
from ..simulator.access import LANE_GROUPS, Action, WarpAccess
from ..simulator.sass.simulation import units_of
from ..simulator.schedule import BlockPath
from .access_patterns import AccessPatterns, PatternObserver
from .constant_walks import NO_WALKS, ConstantObserver, ConstantWalks
from .load_streams import LoadObserver, LoadStreams, joined
from .phase_streams import NO_PHASES, PhaseStreams, phase_streams
from .totals import texture_passes

_OBJECTS = (Space.TEXTURE, Space.SURFACE)
_COUNTED = (Action.LOAD, Action.STORE, Action.SURFACE_WRITE)
TRACED_BLOCKS = 4
"""Blocks whose warps are followed."""
_GOLDEN_SECTION = (math.sqrt(5.0) - 1.0) / 2.0
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDemand:
    """What a request of each memory instruction asks for on average; one element for each instruction, 0 for the others.

    Attributes:
        wavefronts: Passes that the banks need for its words, of shared memory and of L1; distinct words of constant memory.
        lines: Distinct lines of 128 bytes, global and local.
        sectors: Distinct sectors of 32 bytes, likewise.
        first_stores: Part of the stored sectors that the block has not stored before.
        partial_sectors: Sectors that a store writes in part.
        requests: Executions by the traced blocks.
        past_l1: Sectors that L2 sends for an asynchronous copy past L1; 0 where that is not known.
    """

    wavefronts: Floats
    lines: Floats
    sectors: Floats
    first_stores: Floats
    partial_sectors: Floats
    requests: Floats
    past_l1: Floats


class WarpTraces(Struct, frozen=True, kw_only=True):
    """The instructions that the warps of some blocks issue, in order.

    It is one value to records of n candidates (`core.batched`), not a record of such values.

    Warp w of traced block b runs the stretches ``offsets[b * warps_per_block + w]`` up to the next offset; a stretch is
    ``length`` instructions from index ``first`` on.

    Attributes:
        table: Pipes, control bits and register reads of each instruction.
        memory: What the memory instructions ask for.
        loads: Requests of global loads one by one.
        constants: Reads of constants by index, of the observed blocks.
        phases: What warps do with ``mbarrier`` objects and bulk copies.
        first: First instruction of each stretch.
        length: Its number of instructions.
        offsets: Shape ``(blocks * warps_per_block + 1,)``.
        warps_per_block: Warps of a block.
        instructions: Warp instructions of each block, shape ``(blocks,)``; more than the stretches hold where a way was too
            long to be kept.
        observed: Blocks, from the first on, that ``memory`` was averaged over; one behind them is the longest of the launch.
        whole_grid: Whether all blocks of the launch were followed; else the first and the last are those of the grid.
        working: Blocks of the launch that these stand for, where most end at once and are left out of all this; 0 where for all.
        idle_instructions: Warp instructions of the blocks that are left out.
        patterns: How the lanes of the memory instructions lie; None in traces that were recorded without.
        active_lanes: Lanes that execute each instruction, on average over the visits of the observed blocks, shape
            ``(instructions,)``; None likewise.
    """

    table: IssueTable
    memory: MemoryDemand
    loads: LoadStreams
    first: Integers
    length: Integers
    offsets: Integers
    warps_per_block: int
    instructions: Floats
    observed: int
    whole_grid: bool
    working: int = 0
    idle_instructions: float = 0.0
    patterns: AccessPatterns | None = None
    active_lanes: Floats | None = None
    constants: ConstantWalks = NO_WALKS
    phases: PhaseStreams = NO_PHASES

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
            loads=self.loads.of_blocks(blocks),
            phases=self.phases.of_blocks(blocks),
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
        if self.active_lanes is not None:
            arrays["active_lanes"] = self.active_lanes
        arrays |= _prefixed("constants", self.constants)
        if self.working:
            arrays |= {"working": self.working, "idle_instructions": self.idle_instructions}
        if len(self.phases):
            arrays |= _prefixed("phases", self.phases)
        arrays |= _prefixed(
            "loads", replace(self.loads, **{name: _steps(getattr(self.loads, name)) for name in _RISING})
        )
        np.savez_compressed(archive, **arrays)
        return archive.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> WarpTraces:
        """The traces that `to_bytes` wrote."""
        with np.load(io.BytesIO(data)) as archive:
            table = _table(archive)
            memory = MemoryDemand(**_with_later("memory", MemoryDemand, "past_l1", archive))
            loads = LoadStreams(**_with_later("loads", LoadStreams, "common", archive))
            own = {name: archive[name] for name in _OWN}
            seen = {name: archive[f"patterns_{name}"] for name in _PATTERNS if f"patterns_{name}" in archive}
            lanes = archive.get("active_lanes")
            working = int(archive.get("working", 0))
            idle_instructions = float(archive.get("idle_instructions", 0.0))
            constants = (
                ConstantWalks(**_unprefixed("constants", ConstantWalks, archive))
                if "constants_lines" in archive
                else NO_WALKS
            )
            known = "phases_instruction" in archive
            phases = PhaseStreams(**_unprefixed("phases", PhaseStreams, archive)) if known else NO_PHASES
        own["warps_per_block"], own["whole_grid"] = int(own["warps_per_block"]), bool(own["whole_grid"])
        own["observed"] = int(own["observed"])
        loads = replace(loads, **{name: np.cumsum(getattr(loads, name)) for name in _RISING})
        patterns = AccessPatterns(**seen) if seen else None
        return cls(
            table=table,
            memory=memory,
            loads=loads,
            patterns=patterns,
            active_lanes=lanes,
            constants=constants,
            phases=phases,
            working=working,
            idle_instructions=idle_instructions,
            **own,
        )


_OWN = ("first", "length", "offsets", "warps_per_block", "instructions", "observed", "whole_grid")


_PATTERNS = tuple(AccessPatterns.__dataclass_fields__)
_RISING = ("group", "offsets", "group_offsets")
"""Of the loads what mostly rises by small steps, which are what is kept on disk."""


def _steps(values: Integers) -> Integers:
    return np.diff(values, prepend=0)


_ABSENT = {
    "constant_line": -1,
    "generic_bytes": 0,
    "product_bytes": 0,
    "past_l1": -1,
    "kept_for": 0,
    "shared_bytes": 0,
    "global_bytes": 0,
}
"""Fields of the issue table that older archives do not have, and what stands for them."""


def _table(archive: Mapping[str, Any]) -> IssueTable:
    known = {name: archive[name] for name in IssueTable.__dataclass_fields__ if name in archive}
    added = {name: np.full(len(known["pipe"]), none) for name, none in _ABSENT.items() if name not in known}
    return IssueTable(**{"kept_reads": np.zeros_like(known["bank_reads"]), **known}, **added)


def _prefixed(
    prefix: str, record: MemoryDemand | LoadStreams | AccessPatterns | ConstantWalks | PhaseStreams
) -> dict[str, Any]:
    return {f"{prefix}_{name}": value for name, value in asdict(record).items()}


def _unprefixed(prefix: str, kind: Any, archive: Mapping[str, Any]) -> dict[str, Any]:
    return {name: archive[f"{prefix}_{name}"] for name in kind.__dataclass_fields__}


def _with_later(prefix: str, kind: Any, later: str, archive: Mapping[str, Any]) -> dict[str, Any]:
    """The same where older archives lack one field (``later``): it is zero there, for each of ``sectors``."""
    known = {name: archive[f"{prefix}_{name}"] for name in kind.__dataclass_fields__ if f"{prefix}_{name}" in archive}
    return {later: np.zeros_like(known["sectors"]), **known}


def traced_blocks(launch: Launch, count: int = TRACED_BLOCKS) -> Integers:
    """Linear indices of blocks all over the grid, the first and the last among them; all of a small one.

    They lie at multiples of the golden section, so that they are not all of one column of blocks whatever the grid's width.

    >>> traced_blocks(Launch(grid_x=100, block_x=32)).tolist()
    [0, 23, 46, 61, 84, 99]
    """
    blocks = int(launch.blocks)
    if blocks <= count + 2:
        return np.arange(blocks)
    places = np.sort(np.arange(1, count + 1) * _GOLDEN_SECTION % 1.0)
    return np.unique([0, *(places * (blocks - 1)).astype(np.int64).tolist(), blocks - 1])


@dataclass(slots=True)
class DataPasses:
    """An observer of what the averages of a launch do not say: passes by banks of L1, words of constants, sectors of stores."""

    found: dict[int, list[int]] = field(default_factory=dict)
    """By instruction: passes or words, partly written sectors, sectors that the block has not stored before."""
    _stored: set[tuple[int, int]] = field(default_factory=set)

    def access(self, access: WarpAccess) -> None:
        """Take note of one access to global or constant memory."""
        site = access.site
        if site.space not in (Space.GLOBAL, Space.CONSTANT) or site.action not in _COUNTED:
            return
        plan, moved = access.pattern
        key = (DataPasses, site.space, site.action, site.width_bytes, moved % LINE_BYTES)
        pattern: _PassesOfPattern | None = plan.cache.get(key)
        if pattern is None:
            pattern = plan.cache[key] = _passes_of(access, moved // LINE_BYTES)
        counts = self.found.setdefault(site.instruction_index, [0, 0, 0])
        counts[0] += pattern.passes
        counts[1] += pattern.partial_sectors
        known: set[tuple[int, int, bytes]] = plan.cache.setdefault((DataPasses, id(self)), set())
        place = (moved, site.width_bytes, access.blocks.tobytes())
        if not len(pattern.sectors) or place in known:
            return
        if len(known) < _MOST_KNOWN:
            known.add(place)
        before = len(self._stored)
        sectors = pattern.sectors + np.int64(moved // LINE_BYTES * SECTORS_PER_LINE)
        self._stored.update(zip(access.blocks[pattern.rows].tolist(), sectors.tolist(), strict=True))
        counts[2] += len(self._stored) - before


@dataclass(frozen=True, slots=True)
class _PassesOfPattern:
    """What an access counts wherever its lanes lie by whole lines: passes or words, partly written sectors, stored sectors.

    Sectors are counted from the line that the access is moved by; ``rows``: of the plan.
    """

    passes: int
    partial_sectors: int
    rows: Integers
    sectors: Integers


_NO_SECTORS = np.zeros(0, np.int64)
_MOST_KNOWN = 4096
"""Places of one pattern that are remembered to be stored; more would only hold memory."""


def _passes_of(access: WarpAccess, lines: int) -> _PassesOfPattern:
    site, warps = access.site, access.of_warps
    rows, lanes = np.nonzero(warps.active)
    addresses = warps.addresses[rows, lanes]
    if site.space is Space.CONSTANT:
        return _PassesOfPattern(
            len(_distinct(rows, addresses // np.uint64(BANK_BYTES))[0]), 0, _NO_SECTORS, _NO_SECTORS
        )
    passes = partial = 0
    if site.action is not Action.SURFACE_WRITE:  # its passes are those of groups of lanes
        count = load_wavefronts if site.action is Action.LOAD else store_wavefronts
        passes = int(count(warps.addresses, warps.active, site.width_bytes)[0].sum())
    if site.action is Action.LOAD:
        return _PassesOfPattern(passes, 0, _NO_SECTORS, _NO_SECTORS)
    if site.width_bytes < SECTOR_BYTES:
        partial = _partial_sectors(warps.addresses, warps.active, site.width_bytes)
    of_rows, sectors = _distinct(rows, addresses // np.uint64(SECTOR_BYTES))
    row = {block: number for number, block in enumerate(access.blocks.tolist())}
    own = np.array([row[block] for block in warps.block[of_rows].tolist()], np.int64)
    return _PassesOfPattern(passes, partial, own, sectors.astype(np.int64) - lines * SECTORS_PER_LINE)


def _distinct(rows: Integers, places: NDArray[np.uint64]) -> tuple[Integers, NDArray[np.uint64]]:
    """Each place of a row once: rows and places."""
    order = np.lexsort((places, rows))
    rows, places = rows[order], places[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = (rows[1:] != rows[:-1]) | (places[1:] != places[:-1])
    return rows[first].astype(np.int64), places[first]


def _partial_sectors(addresses: NDArray[np.uint64], active: NDArray[np.bool_], width_bytes: int) -> int:
    """Sectors of which the lanes of a warp write a part.

    >>> lanes = np.arange(32, dtype=np.uint64)[None]
    >>> [_partial_sectors(lanes * np.uint64(step), np.ones((1, 32), bool), 4) for step in (4, 8, 128)]
    [0, 8, 32]
    """
    rows, lanes = np.nonzero(active)
    of_rows, places = _distinct(rows, addresses[rows, lanes] // np.uint64(width_bytes))
    sectors = np.stack([of_rows.astype(np.uint64), places // np.uint64(SECTOR_BYTES // width_bytes)])
    _, lanes_of_sector = np.unique(sectors, axis=1, return_counts=True)
    return int((lanes_of_sector * width_bytes < SECTOR_BYTES).sum())


class WarpObserver:
    """An observer of the blocks whose warps are followed: what their memory instructions ask for.

    ``patterns``: keep how their lanes lie, too, which advice needs and times do not.
    """

    def __init__(self, *, patterns: bool = True) -> None:
        self.counts, self.passes, self.loads = AccessCounts(), DataPasses(), LoadObserver()
        self.patterns, self.constants = PatternObserver() if patterns else None, ConstantObserver()

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        self.counts.access(access)
        self.passes.access(access)
        self.loads.access(access)
        if self.patterns is not None:
            self.patterns.access(access)
        self.constants.access(access)


def traces_of(
    code: MachineCode,
    launch: Launch,
    observer: WarpObserver,
    followed: Mapping[int, tuple[BlockPath, NDArray[np.int64]]],
    longest: tuple[int, BlockPath, NDArray[np.int64], WarpObserver] | None = None,
    *,
    working: int = 0,
    idle_instructions: float = 0.0,
) -> WarpTraces:
    """The traces of blocks that a run has executed: their ways through the code, and visits of each unit by each warp.

    ``longest``: a block that does far more, with an observer of its own. ``working`` and ``idle_instructions``: as in the
    traces.
    """
    lengths = np.array([len(unit) for unit in units_of(code)], np.int64)
    warps = -(-int(launch.threads_per_block) // WARP_SIZE)
    ways = [followed[block] for block in sorted(followed)]
    active_lanes = _active_lanes(ways, lengths)
    memory = _demand(len(code.instructions), observer)
    loads = observer.loads.streams(sorted(followed), warps)
    if longest is not None:
        block, path, visits, of_longest = longest
        ways.append((path, visits))
        memory = _completed(memory, _demand(len(code.instructions), of_longest))
        loads = joined([loads, of_longest.loads.streams([block], warps)])
    first, length, offsets = _stretches([path for path, _ in ways], lengths, warps)
    return WarpTraces(
        table=issue_table(code),
        memory=memory,
        loads=loads,
        first=first,
        length=length,
        offsets=offsets,
        warps_per_block=warps,
        instructions=np.array([(visits @ lengths).sum() for _, visits in ways], np.float64),
        observed=len(followed),
        whole_grid=len(followed) == (working or int(launch.blocks)),
        working=working,
        idle_instructions=idle_instructions,
        patterns=None
        if observer.patterns is None
        else observer.patterns.patterns(len(code.instructions), sorted(followed)),
        active_lanes=active_lanes,
        constants=observer.constants.walks(sorted(followed)),
        phases=phase_streams([path.phases for path, _ in ways], warps),
    )


def _active_lanes(ways: Sequence[tuple[BlockPath, Integers]], lengths: Integers) -> Floats:
    """Lanes that execute each instruction, on average over the visits of some blocks."""
    lanes = np.sum([path.lanes for path, _ in ways], axis=0)
    visits = np.sum([visits.sum(axis=0) for _, visits in ways], axis=0)
    return np.repeat(lanes / np.maximum(visits, 1), lengths)


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


def _demand(instructions: int, observer: WarpObserver) -> MemoryDemand:
    wavefronts, copied, lines, sectors, first_stores, partial, requests, past_l1 = np.zeros((8, instructions))
    for count in observer.counts.instructions():  # a generic access has one for each space that it reached
        index = count.instruction
        if count.action is Action.ASYNC_COPY and count.space is Space.SHARED:
            copied[index] = count.wavefronts / count.requests
            continue
        if count.action in LANE_GROUPS:
            passes = texture_passes([count])
            wavefronts[index] += passes
        elif count.space in _OBJECTS:
            requests[index] += count.requests
            continue
        else:
            requests[index] += count.requests
        if count.space is Space.SHARED:
            wavefronts[index] += count.wavefronts
        elif count.space in (Space.GLOBAL, Space.LOCAL):
            lines[index] += count.lines
            sectors[index] += count.sectors
            if count.action is Action.ASYNC_COPY:
                past_l1[index] += count.uncached_sectors
    for index, (passes, partly_written, stored) in observer.passes.found.items():
        wavefronts[index] += passes
        partial[index] = partly_written
        first_stores[index] = stored / max(sectors[index], 1.0)
    divisor = np.maximum(requests, 1)
    return MemoryDemand(
        wavefronts=wavefronts / divisor + copied,
        lines=lines / divisor,
        sectors=sectors / divisor,
        first_stores=first_stores,
        partial_sectors=partial / divisor,
        requests=requests,
        past_l1=past_l1 / divisor,
    )


def _completed(memory: MemoryDemand, longest: MemoryDemand) -> MemoryDemand:
    """What instructions ask for, of those that only the longest block executes what they ask for there."""
    names = MemoryDemand.__dataclass_fields__
    both = {name: np.where(memory.requests > 0, getattr(memory, name), getattr(longest, name)) for name in names}
    return MemoryDemand(**both)
