"""What single blocks of a launch did: totals of each executed block as one row, and where it stores first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...launch.launch import KernelCall, Launch
from ...memory.access_counts import BLOCK_TOTALS, AccessCounts, InstructionCount, instruction_counts
from ...program.instruction import Space
from ...simulator.access import Action, Site, WarpAccess
from ...simulator.execution import Code, execute_code, instructions_of_places
from ...simulator.simulation import Budget, Mode
from ..totals import CountedRun, counted_run
from .watched_block import WatchedBlock, middle_block

Key = tuple[Action, Space]
_ALIGNED = ("sectors", "lines", "uncached_sectors")


@dataclass(slots=True)
class _FirstStores:
    """Lowest address that each block stores to, of all blocks observed."""

    lowest: dict[int, int] = field(default_factory=dict)

    def access(self, access: WarpAccess) -> None:
        """Keep the lowest address of a store."""
        if not access.writes or access.site.space is not Space.GLOBAL:
            return
        warps = access.of_warps
        lowest = np.where(warps.active, warps.addresses, np.iinfo(np.uint64).max).min(axis=1)
        for number, address in zip(warps.block.tolist(), lowest.tolist(), strict=True):
            self.lowest[number] = min(address, self.lowest.get(number, address))


class BlockRows:
    """Executes blocks in trace mode and lays their totals out as rows: behaviour first, then what alignment changes."""

    def __init__(self, kernel: Code, launch: Launch, call: KernelCall, budget: Budget | None) -> None:
        self._arguments = (kernel, launch, call)
        self._budget = budget
        self.kernel = kernel
        self._lengths = np.array([len(place) for place in instructions_of_places(kernel)])
        self.blocks = len(self._lengths)
        self.widths: set[tuple[Action, Space, int]] = set()
        self.fields = [*[n for n in BLOCK_TOTALS if n not in _ALIGNED], *_ALIGNED]
        self.known: dict[int, NDArray[np.float64]] = {}
        self._tables: list[tuple[NDArray[np.int64], tuple[tuple[Site, NDArray[np.int64]], ...]]] = []
        self._stores = _FirstStores()
        self.watched = WatchedBlock(middle_block(launch))
        self._all_keys = [(action, space) for action in Action for space in Space]

    def run_all(self) -> CountedRun:
        """Counts of all blocks."""
        run = counted_run(
            *self._arguments,
            mode=Mode.TRACE,
            budget=self._budget,
            observers=[self.watched],
            visits_by_warp=[self.watched.block],
        )
        self.watched.take_visits(run.visits_by_warp)
        return run

    def at(self, linear: NDArray[np.int64]) -> NDArray[np.float64]:
        """Rows of blocks by linear index; those not known yet are executed in one call."""
        missing = np.array([block for block in dict.fromkeys(linear.tolist()) if block not in self.known], np.int64)
        if len(missing):
            self.known.update(zip(missing.tolist(), self._execute(missing), strict=True))
        return np.array([self.known[block] for block in linear.tolist()])

    def first_stores(self, linear: NDArray[np.int64]) -> NDArray[np.int64]:
        """Lowest address that blocks store to, -1 for those that store nothing."""
        self.at(linear)
        return np.array([self._stores.lowest.get(block, -1) for block in linear.tolist()], dtype=np.int64)

    def _execute(self, linear: NDArray[np.int64]) -> NDArray[np.float64]:
        kernel, launch, call = self._arguments
        watch = not self.watched.executed
        blocks = np.append(linear, self.watched.block) if watch and self.watched.block not in linear else linear
        accesses = AccessCounts(len(blocks))
        run = execute_code(
            kernel,
            launch,
            call,
            mode=Mode.TRACE,
            blocks=blocks,
            budget=self._budget,
            observers=[accesses, self._stores, *([self.watched] if watch else [])],
            visits_by_block=True,
            visits_by_warp=[self.watched.block] if watch else (),
        )
        if watch:
            self.watched.take_visits(run.visits_by_warp)
        assert run.visits_by_block is not None
        self._tables.append((linear, accesses.tables()))
        self.widths |= {(site.action, site.space, site.width_bytes) for site, _ in accesses.tables()}
        by_block = accesses.by_block()
        empty = np.zeros((len(blocks), len(BLOCK_TOTALS)))
        tables = [by_block.get(key, empty) for key in self._all_keys]
        columns = [BLOCK_TOTALS.index(name) for name in self.fields]
        behaviour = [table[:, columns[: -len(_ALIGNED)]] for table in tables]
        aligned = [table[:, columns[-len(_ALIGNED) :]] for table in tables]
        rows = np.concatenate([run.visits_by_block, *behaviour, *aligned], axis=1).astype(np.float64)
        return rows[: len(linear)]

    def by_instruction(self, weights: Mapping[int, float]) -> tuple[InstructionCount, ...]:
        """Totals by instruction over the blocks executed, each block with its weight."""
        totals: dict[int, tuple[Site, NDArray[np.float64]]] = {}
        for blocks, tables in self._tables:
            weight = np.array([weights.get(block, 0.0) for block in blocks.tolist()])
            for site, table in tables:
                _, before = totals.get(site.number, (site, np.zeros(len(BLOCK_TOTALS))))
                totals[site.number] = (site, before + weight @ table[: len(blocks)])
        return instruction_counts(totals.values())

    @property
    def grid(self) -> tuple[int, int, int]:
        """Blocks along x, y, z."""
        return self._arguments[1].grid

    @property
    def behaviour(self) -> slice:
        """Columns that control flow decides."""
        return slice(0, self.blocks + len(self._all_keys) * (len(BLOCK_TOTALS) - len(_ALIGNED)))

    @property
    def alignment(self) -> slice:
        """Columns that addresses modulo a line decide."""
        return slice(self.behaviour.stop, self.behaviour.stop + len(self._all_keys) * len(_ALIGNED))

    def headline(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Executed instructions, then requests and sectors by action and space, of each row: what an error is stated for."""
        fields = len(self.fields) - len(_ALIGNED)
        requests = rows[:, self.blocks + self.fields.index("requests") : self.behaviour.stop : fields]
        sectors = rows[:, self.alignment][:, :: len(_ALIGNED)]
        return np.concatenate([rows[:, : self.blocks] @ self._lengths[:, None], requests, sectors], axis=1)

    def totals(self, row: NDArray[np.float64]) -> dict[Key, dict[str, float]]:
        """Totals by action and space of a summed row; those without a request are left out."""
        first = len(self.fields) - len(_ALIGNED)
        behaviour = row[self.blocks : self.behaviour.stop].reshape(-1, first)
        aligned = row[self.alignment].reshape(-1, len(_ALIGNED))
        joined = np.concatenate([behaviour, aligned], axis=1)
        return {
            key: dict(zip(self.fields, values.tolist(), strict=True))
            for key, values in zip(self._all_keys, joined, strict=True)
            if values[self.fields.index("requests")]
        }
