"""Totals of every memory-like instruction over the blocks executed, and the hook that hands addresses on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..copy_sectors import WIDEST_COPY_WORDS
from ..definitions import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from ..source_line import SourceLine
from .module import ExecutedInstruction, Space
from .plan import Plan


class Action(Enum):
    """What an instruction does with memory, or that it exchanges values within a warp."""

    LOAD = "load"
    STORE = "store"
    REDUCTION = "reduction"
    ASYNC_COPY = "async copy"
    SHUFFLE = "shuffle"
    VOTE = "vote"


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction as it accesses one space."""

    instruction_index: int
    instruction: ExecutedInstruction
    action: Action
    space: Space
    width_bytes: int

    @property
    def passes_l1_by(self) -> bool:
        """Whether it asks L2 for all that it reads: a load past L1, or a copy of 16 bytes (PTX ISA, ``cp.async.cg``)."""
        if self.action is Action.LOAD:
            return self.space is Space.GLOBAL and self.instruction.loads_past_l1
        copied = self.action is Action.ASYNC_COPY and self.width_bytes == WIDEST_COPY_WORDS * BANK_BYTES
        return copied and self.space is Space.GLOBAL and self.instruction.copies_past_l1


Target = tuple[Plan, int]
"""Shared addresses that asynchronous copies write: a plan with the mask of what they read, and an offset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionCount:
    """Totals of one PTX instruction over the blocks executed.

    ``requests`` counts warp-level executions with an active lane; ``conflict_free_wavefronts`` the wavefronts that
    would do without bank conflicts; wavefronts of what asynchronous copies read are passes through L1. Sectors and lines
    are distinct ones, summed over requests; for local memory, of the interleaved layout; for asynchronous copies those of
    `copy_sectors`. ``uncached_sectors`` are what those that pass L1 by ask of L2.
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


class AccessObserver(Protocol):
    """Receives every global access in program order."""

    def access(
        self,
        instruction: int,
        space: Space,
        store: bool,
        width: int,
        block: NDArray[np.int64],
        warp: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        active: NDArray[np.bool_],
    ) -> None:
        """One instruction of ``n`` warps: linear block and warp, shape ``(n,)``; addresses and mask, ``(n, 32)``."""


BLOCK_TOTALS = (
    "requests",
    "lanes",
    "sectors",
    "lines",
    "wavefronts",
    "conflict_free_wavefronts",
    "uncached_sectors",
)
_FIELDS = len(BLOCK_TOTALS)


class Recorder:
    """Sums accesses by site, and by block where that is asked for."""

    def __init__(self, sites: list[Site], observer: AccessObserver | None, blocks: int, per_block: bool) -> None:
        self.sites = sites
        self.observer = observer
        self.totals = np.zeros((len(sites), _FIELDS), np.int64)
        self.by_block: dict[tuple[Action, Space], NDArray[np.int64]] | None = {} if per_block else None
        self._blocks = blocks

    def record(
        self, site_index: int, plan: Plan, offset: int, positions: NDArray[np.int64], target: Target | None = None
    ) -> None:
        """Count one access; ``positions`` are the places of the plan's rows among the blocks executed.

        ``target`` is where an asynchronous copy writes what it reads here.
        """
        site = self.sites[site_index]
        kind = (Action.LOAD, Action.ASYNC_COPY, site.action).index(site.action)
        onto = None
        if target is not None and site.passes_l1_by:
            plan = plan.in_rows_of(target[0])
            onto = (target[0], target[1] % SECTOR_BYTES)
        key = (site.space, kind, site.width_bytes, offset % LINE_BYTES, onto, site.passes_l1_by)
        if key not in plan.statistics:
            plan.statistics[key] = self._statistics(site, plan, offset, onto)
        total, per_row = plan.statistics[key]
        self.totals[site_index] += total
        if self.by_block is not None:
            table = self.by_block.setdefault((site.action, site.space), np.zeros((self._blocks, _FIELDS), np.int64))
            table[positions] += per_row

    def _statistics(
        self, site: Site, plan: Plan, offset: int, target: Target | None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fields of `BLOCK_TOTALS` of one access: summed, shape ``(7,)``, and by block of the plan, ``(rows, 7)``."""
        patterns = plan.patterns
        zero = np.zeros(len(patterns.inverse), np.int64)
        if site.space is Space.SHARED:
            fields = [zero, zero, *patterns.wavefronts(site.width_bytes, offset, site.action is not Action.LOAD), zero]
        elif site.space is Space.LOCAL:
            footprint = patterns.local_footprint(site.width_bytes, offset)
            fields = [footprint.sectors, footprint.lines, footprint.lines, footprint.lines, zero]
        else:
            footprint = patterns.footprint(offset)
            sectors, passes, uncached = footprint.sectors, zero, zero
            if target is not None:
                copied = patterns.copied(offset, target[0].patterns, target[1])
                sectors, uncached = copied.counted, copied.uncached
            elif site.action is Action.ASYNC_COPY:
                passes = patterns.copy_passes(site.width_bytes)
            elif site.passes_l1_by:
                uncached = sectors
            fields = [sectors, footprint.lines, passes, zero, uncached]
        per_warp = np.stack([zero + 1, plan.lanes, *fields], axis=1)
        per_row = plan.per_row(per_warp) if self.by_block is not None else np.zeros((1, _FIELDS), np.int64)
        return plan.total(per_warp), per_row

    def observe(self, site_index: int, plan: Plan, offset: int, block_ids: NDArray[np.int64]) -> None:
        """Hand one global access to the observer."""
        if self.observer is None:
            return
        site = self.sites[site_index]
        warps = plan.threads // WARP_SIZE
        addresses = np.broadcast_to(plan.base, plan.shape) + np.uint64(offset % 2**64)
        active = np.ones(plan.shape, np.bool_) if plan.mask is None else np.broadcast_to(plan.mask, plan.shape)
        addresses, active = addresses.reshape(-1, WARP_SIZE), active.reshape(-1, WARP_SIZE)
        running = active.any(axis=1)
        block = np.repeat(block_ids, warps)
        warp = np.tile(np.arange(warps), len(block_ids))
        store = site.action in (Action.STORE, Action.REDUCTION)
        self.observer.access(
            site.instruction_index,
            site.space,
            store,
            site.width_bytes,
            block[running],
            warp[running],
            addresses[running],
            active[running],
        )

    def count_warps(self, site_index: int, warps: int, lanes: int) -> None:
        """Count an instruction that exchanges values within warps."""
        self.totals[site_index, 0] += warps
        self.totals[site_index, 1] += lanes

    def instruction_counts(self) -> tuple[InstructionCount, ...]:
        """Totals of the sites that were reached, in program order."""
        found = []
        for site, row in zip(self.sites, self.totals, strict=True):
            if row[0]:
                requests, lanes, sectors, lines, wavefronts, ideal, uncached = (int(value) for value in row)
                found.append(
                    InstructionCount(
                        instruction=site.instruction_index,
                        opcode=site.instruction.opcode,
                        action=site.action,
                        space=site.space,
                        width_bytes=site.width_bytes,
                        ptx_line=site.instruction.line,
                        source=site.instruction.source,
                        requests=requests,
                        lanes=lanes,
                        sectors=sectors,
                        lines=lines,
                        wavefronts=wavefronts,
                        conflict_free_wavefronts=ideal,
                        uncached_sectors=uncached,
                    )
                )
        return tuple(sorted(found, key=lambda count: (count.instruction, count.space.value)))
