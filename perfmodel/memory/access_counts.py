"""Requests, sectors, lines and wavefronts of the blocks executed: an observer of a run."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES
from ..ir.instruction import SourceLine, Space
from ..simulator.access import Action, Site, WarpAccess
from ..simulator.block_classes.classes import BlockClasses, RowSteps
from ..simulator.plan import Plan
from .async_copy import WIDEST_COPY_WORDS
from .bank_conflicts import atomic_wavefronts, comparison_wavefronts, load_wavefronts, store_wavefronts
from .coalescing import WarpPatterns


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionCount:
    """Totals of one PTX instruction over the blocks executed.

    ``requests`` counts warp-level executions with an active lane; ``conflict_free_wavefronts`` the wavefronts that
    would do without bank conflicts; wavefronts of what asynchronous copies read are passes through L1. Sectors and lines
    are distinct ones, summed over requests; for local memory, of the interleaved layout; for asynchronous copies those of
    `copy_sectors`. ``uncached_sectors`` are what accesses past L1 ask of L2; of atomics on global memory, the operations
    (`sector_operations`).
    """

    instruction: int
    opcode: str
    action: Action
    space: Space
    width_bytes: int
    ptx_line: int
    source: SourceLine | None
    requests: int
    lanes: int
    sectors: int
    lines: int
    wavefronts: int
    conflict_free_wavefronts: int
    uncached_sectors: int = 0


BLOCK_TOTALS = (
    "requests",
    "lanes",
    "sectors",
    "lines",
    "wavefronts",
    "conflict_free_wavefronts",
    "uncached_sectors",
)
"""What is added up, by instruction and by block."""
_FIELDS = len(BLOCK_TOTALS)
READS = (
    Action.LOAD,
    Action.ASYNC_COPY,
    Action.BULK_READ,
    Action.TEXTURE_READ,
    Action.TEXTURE_HALF_READ,
    Action.SURFACE_READ,
)
_BANKED = (Space.SHARED, Space.LOCAL)
"""Spaces whose wavefronts and interleaved sectors do not change when all addresses move by whole banks."""


def patterns_of(plan: Plan) -> WarpPatterns:
    """Patterns of the active warps of a plan that is no shift of another (`WarpAccess.pattern`), kept with it."""
    assert plan.root is plan
    patterns: WarpPatterns | None = plan.cache.get(WarpPatterns)
    if patterns is None:
        patterns = plan.cache[WarpPatterns] = WarpPatterns(*plan.warp_rows)
    return patterns


def passes_l1(site: Site) -> bool:
    """Whether it asks L2 for all that it reads: a load past L1, or a copy of 16 bytes (PTX ISA, ``cp.async.cg``)."""
    if site.action is Action.BULK_READ:
        return True
    if site.action is Action.LOAD:
        return site.space is Space.GLOBAL and site.instruction.loads_past_l1
    copied = site.action is Action.ASYNC_COPY and site.width_bytes == WIDEST_COPY_WORDS * BANK_BYTES
    return copied and site.space is Space.GLOBAL and site.instruction.copies_past_l1


def counts_lanes(site: Site) -> bool:
    """Whether it adds 1 for each lane (``ATOMS.POPC.INC``): lanes on one word are counted and added together."""
    return "POPC" in site.instruction.opcode.split(".")


def compares(site: Site) -> bool:
    """Whether it swaps where a comparison holds (``ATOMS.CAST``, which additions of floating-point numbers repeat)."""
    return not {"CAS", "CAST"}.isdisjoint(site.instruction.opcode.split("."))


class _Counter:
    """What accesses touch, kept with the plans whose addresses theirs are a shift of."""

    def __init__(self) -> None:
        self._of_sites: dict[int, tuple[str, int, bool]] = {}
        """Of each site what its accesses are counted by: space, action and width, what its offsets count modulo, past L1."""

    def counted(self, access: WarpAccess, residue: int, by_block: bool) -> NDArray[np.int64]:
        """The fields of `BLOCK_TOTALS` of one access moved by some bytes, by block or of all blocks."""
        site, (plan, offset) = access.site, access.pattern
        offset += residue
        of_site = self._of_sites.get(site.number)
        if of_site is None:
            kind = "lanes counted" if counts_lanes(site) else "compared" if compares(site) else site.action.value
            modulus = 1 if site.space is Space.GENERIC else BANK_BYTES if site.space in _BANKED else LINE_BYTES
            of_site = self._of_sites[site.number] = (
                f"{site.space.value} {kind} {site.width_bytes}",
                modulus,
                passes_l1(site),
            )
        kind, modulus, past_l1 = of_site
        onto = None
        if access.target is not None and past_l1:
            target, target_offset = access.target
            plan = plan.in_rows_of(target)
            onto = (target.root, (target_offset + target.shift) % SECTOR_BYTES)
        key = (kind, offset % modulus, onto, past_l1, by_block)
        found: NDArray[np.int64] | None = plan.cache.get(key)
        if found is None:
            per_warp = _of_warps(site, plan, offset, onto)
            found = plan.cache[key] = plan.per_row(per_warp) if by_block else plan.total(per_warp)
        return found


class AccessCounts(_Counter):
    """Adds accesses up by instruction and, for so many executed ``blocks``, by block too.

    >>> from perfmodel.ir.instruction import Instruction
    >>> load = Instruction("ld.global.f32", ("%f1", "[%rd1]"), None, False, 1, None)
    >>> site = Site(0, 0, load, Action.LOAD, Space.GLOBAL, 4)
    >>> plan = Plan(np.arange(32, dtype=np.uint64)[None] * np.uint64(4), None, rows=1, threads=32)
    >>> counts = AccessCounts()
    >>> counts.access(WarpAccess(site, plan, 0, np.zeros(1, np.int64), np.zeros(1, np.int64)))
    >>> [(one.requests, one.lanes, one.sectors, one.lines) for one in counts.instructions()]
    [(1, 32, 4, 1)]
    """

    def __init__(self, blocks: int | None = None) -> None:
        super().__init__()
        self._blocks = blocks
        self._tables: dict[int, tuple[Site, NDArray[np.int64]]] = {}
        self._batch: NDArray[np.int64] | None = None
        self._waiting: dict[tuple[int, int], list[Any]] = {}
        """Site, counts of one access and how often it occurred, in the batch at hand."""

    def access(self, access: WarpAccess) -> None:
        """Count one access."""
        site = access.site
        counted = self.counted(access, 0, self._blocks is not None)
        batch = access.positions
        if batch is not self._batch:
            self._add_up()
            self._batch = batch
        waiting = self._waiting.get((site.number, id(counted)))
        if waiting is None:
            self._waiting[site.number, id(counted)] = [site, counted, 1]
        else:
            waiting[2] += 1

    def _add_up(self) -> None:
        """Add what accesses of one batch were found to do to the tables, each as often as it occurred."""
        rows: Any = 0
        if self._blocks is not None and self._batch is not None:
            rows = self._batch
            if len(rows) and (np.diff(rows) == 1).all():
                rows = slice(int(rows[0]), int(rows[-1]) + 1)
        for site, counted, times in self._waiting.values():
            if site.number not in self._tables:
                self._tables[site.number] = (site, np.zeros((self._blocks or 1, _FIELDS), np.int64))
            self._tables[site.number][1][rows] += counted * times
        self._waiting.clear()

    def tables(self) -> tuple[tuple[Site, NDArray[np.int64]], ...]:
        """Each instruction with its totals by block, shape ``(blocks, 7)``; the columns are `BLOCK_TOTALS`."""
        self._add_up()
        return tuple(self._tables.values())

    def by_block(self) -> dict[tuple[Action, Space], NDArray[np.int64]]:
        """Totals by block of each action and space, shape ``(blocks, 7)``, exchanges within warps left out."""
        sums: dict[tuple[Action, Space], NDArray[np.int64]] = {}
        for site, table in self.tables():
            if site.space is not Space.GENERIC:
                key = (site.action, site.space)
                sums[key] = sums[key] + table if key in sums else table
        return sums

    def instructions(self) -> tuple[InstructionCount, ...]:
        """Totals of the instructions that were reached, in program order."""
        return instruction_counts((site, table.sum(axis=0)) for site, table in self.tables())


class ClassCounts(_Counter):
    """Adds accesses of a run of `BlockClasses` up by instruction, for all blocks of the classes.

    Sectors and lines of a block follow from those of its class's executed block and from how far its addresses are shifted
    modulo a line.
    """

    def __init__(self, classes: BlockClasses) -> None:
        super().__init__()
        self._classes = classes
        self._tables: dict[tuple[int, Hashable], tuple[Site, RowSteps, dict[int, NDArray[np.int64]]]] = {}
        self._waiting: dict[tuple[int, int], list[Any]] = {}
        """Table, counts of one access and how often it occurred."""

    def access(self, access: WarpAccess) -> None:
        """Count one access, for each distance from a line at which a block of the classes may do it."""
        site, steps = access.site, access.plan.steps_of_rows
        key = (site.number, tuple((id(function), c.tobytes()) for function, c in steps))
        if key not in self._tables:
            shape = (self._classes.count, _FIELDS)
            found = np.flatnonzero(self._classes.residues(steps, LINE_BYTES).any(axis=0)).tolist()
            self._tables[key] = (site, steps, {residue: np.zeros(shape, np.int64) for residue in found})
        for residue, table in self._tables[key][2].items():
            counted = self.counted(access, residue, True)
            waiting = self._waiting.get((id(table), id(counted)))
            if waiting is None:
                self._waiting[id(table), id(counted)] = [table, counted, 1]
            else:
                waiting[2] += 1

    def totals(self) -> Iterator[tuple[Site, NDArray[np.int64]]]:
        """Totals of all blocks that have stayed in the classes, shape ``(7,)``; an instruction may come more than once."""
        for table, counted, times in self._waiting.values():
            table += counted * times
        self._waiting.clear()
        for site, steps, tables in self._tables.values():
            blocks = self._classes.residues(steps, LINE_BYTES)
            yield site, sum((blocks[:, r] @ table for r, table in tables.items()), np.zeros(_FIELDS, np.int64))


def instruction_counts(totals: Iterable[tuple[Site, NDArray[Any]]]) -> tuple[InstructionCount, ...]:
    """Records of instructions with a request, in program order, from totals of shape ``(7,)``."""
    counts = [
        InstructionCount(
            instruction=site.instruction_index,
            opcode=site.instruction.opcode,
            action=site.action,
            space=site.space,
            width_bytes=site.width_bytes,
            ptx_line=site.instruction.line,
            source=site.instruction.source,
            **{name: round(value) for name, value in zip(BLOCK_TOTALS, row.tolist(), strict=True)},
        )
        for site, row in totals
        if row[0] > 0
    ]
    return tuple(sorted(counts, key=lambda count: (count.instruction, count.space.value)))


def _of_warps(site: Site, plan: Plan, offset: int, target: tuple[Plan, int] | None) -> NDArray[np.int64]:
    """The fields of `BLOCK_TOTALS` of one access of each active warp of the plan's pattern rows, shape ``(warps, 7)``."""
    lanes = plan.lanes
    zero = np.zeros(len(lanes), np.int64)
    fields = [zero] * 5
    if site.space is Space.SHARED:
        passes = load_wavefronts if site.action is Action.LOAD else store_wavefronts
        if site.action is Action.REDUCTION and not counts_lanes(site):
            passes = comparison_wavefronts if compares(site) else atomic_wavefronts
        fields[2:4] = patterns_of(plan).wavefronts(site.width_bytes, offset, passes)
    elif site.space is Space.LOCAL:
        touched = patterns_of(plan).local_footprint(site.width_bytes, offset)
        fields[:4] = [touched.sectors, touched.lines, touched.lines, touched.lines]
    elif site.space is not Space.GENERIC:
        patterns = patterns_of(plan)
        touched = patterns.footprint(offset)
        fields[:2] = [touched.sectors, touched.lines]
        if target is not None:
            copied = patterns.copied(offset, patterns_of(target[0]), target[1])
            fields[0], fields[4] = copied.counted, copied.uncached
        elif site.action is Action.ASYNC_COPY:
            fields[2] = patterns.copy_passes(site.width_bytes)
        elif passes_l1(site):
            fields[4] = touched.sectors
        elif site.action is Action.REDUCTION:
            fields[4] = patterns.atomic_operations(offset)
    return np.stack([zero + 1, lanes, *fields], axis=1)
