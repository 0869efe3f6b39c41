"""Totals of every memory-like instruction over the blocks executed, and the hook that hands addresses on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..definitions import LINE_BYTES, WARP_SIZE
from .module import Instruction, SourceLine, Space
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
    instruction: Instruction
    action: Action
    space: Space
    width_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionCount:
    """Totals of one PTX instruction over the blocks executed.

    ``requests`` counts warp-level executions with an active lane; ``conflict_free_wavefronts`` the wavefronts that
    would do without bank conflicts. Sectors and lines are distinct ones, summed over requests; for local memory, of the
    interleaved layout.
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

    def record(self, site_index: int, plan: Plan, offset: int, positions: NDArray[np.int64]) -> None:
        """Count one access; ``positions`` are the places of the plan's rows among the blocks executed."""
        site = self.sites[site_index]
        key = (site.space, site.action is Action.LOAD, site.width_bytes, offset % LINE_BYTES)
        if key not in plan.statistics:
            plan.statistics[key] = self._statistics(site, plan, offset)
        total, per_row = plan.statistics[key]
        self.totals[site_index] += total
        if self.by_block is not None:
            kind = (site.action, site.space)
            table = self.by_block.setdefault(kind, np.zeros((self._blocks, _FIELDS), np.int64))
            table[positions] += per_row

    def _statistics(self, site: Site, plan: Plan, offset: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The fields of `BLOCK_TOTALS` of one access: summed, shape ``(6,)``, and by block of the plan, ``(rows, 6)``."""
        patterns = plan.patterns
        zero = np.zeros(len(patterns.inverse), np.int64)
        if site.space is Space.SHARED:
            fields = [zero, zero, *patterns.wavefronts(site.width_bytes, offset, site.action is not Action.LOAD)]
        elif site.space is Space.LOCAL:
            footprint = patterns.local_footprint(site.width_bytes, offset)
            fields = [footprint.sectors, footprint.lines, footprint.lines, footprint.lines]
        else:
            footprint = patterns.footprint(offset)
            fields = [footprint.sectors, footprint.lines, zero, zero]
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
                requests, lanes, sectors, lines, wavefronts, ideal = (int(value) for value in row)
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
                    )
                )
        return tuple(sorted(found, key=lambda count: (count.instruction, count.space.value)))
