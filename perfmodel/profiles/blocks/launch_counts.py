"""Counts of a whole launch: of classes of blocks that provably do the same, of all blocks, or of a stratified sample.

Classes come first (`counted_classes`). Where values loaded from memory decide what a block does, or nearly every block is of a
kind of its own, all blocks are executed. Where that costs too much, a sample of them is (`sampled_blocks`), and the counts have a
standard error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...launch.launch import KernelCall, Launch
from ...memory.access_counts import AccessCounts, InstructionCount
from ...simulator.execution import Code, decided_by_order, instructions_of_places, loads_decide
from ...simulator.faults import Fault
from ...simulator.global_memory import Segment
from ...simulator.schedule import BlockPath
from ...simulator.simulation import MAX_BLOCKS, Budget
from ...simulator.textures.fetching import TEXTURE_INSTRUCTIONS
from .block_runs import BlockRuns, Guest
from .counted_classes import counted_classes
from .first_stores import FirstStores
from .launch_shape import launch_shape
from .sampled_blocks import REPLICATES, sampled_blocks
from .totals_of_blocks import BlockTotals, idle_blocks
from .watched_block import WatchedBlock

_FEW_BLOCKS = 32
"""Grids of at most so many blocks are executed wholly: together they cost little more than one."""
ALL_BLOCKS_INSTRUCTIONS = 10**8
"""Warp instructions that executing every block may take; a larger launch is sampled."""
_TEXTURE_COST = 100
"""What a texture or surface instruction takes to execute, in other instructions."""
_PILOT_BLOCKS = 64
"""Blocks from which it is learnt what blocks cost; of twice as many all are executed at once."""
_WHOLE = 2
"""Where a sample would have one of so many blocks, all are executed."""
_FEW_WORK = 0.5
"""Part of the blocks below which those that access memory are looked at apart from the others."""
_SHARE_OF_MEMORY = 0.5
"""Of the memory that a simulation may use, for the buffers that it touches."""
CHECKED_INSTRUCTIONS = 2 * 10**6
"""Warp instructions of blocks that are executed one by one up to which all of them are checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounts:
    """Counts of a whole launch.

    ``visits`` says how often each place of the code was executed by a warp, ``instructions`` has the totals of each memory
    instruction. ``exact`` says that they are proved for every block; else ``notes`` says why not, and ``standard_errors`` has
    those of the counts where blocks were sampled. ``shape`` has the grid's extents, x first, with an axis that the kernel
    splits by division split (`launch_shape`). ``working`` are the blocks that may access memory, by linear index in order, where
    most are known not to; None elsewhere. ``idle_instructions`` are the warp instructions of the others. ``checked`` are
    the blocks that were checked for races, bounds and barriers; ``unchecked_alike`` says that each other block provably does what
    one of them does. ``watched`` is the block in the middle, of those that work, for the critical path. ``longest`` is a block
    that does far more than those that are followed, with its observer.
    """

    kernel: Code
    counts: Counts
    visits: NDArray[np.float64]
    instructions: tuple[InstructionCount, ...]
    shape: tuple[int, ...]
    working: NDArray[np.int64] | None
    idle_instructions: float
    exact: bool
    standard_errors: Counts | None
    notes: tuple[str, ...]
    blocks_executed: int
    checked: NDArray[np.int64]
    unchecked_alike: bool
    watched: WatchedBlock
    observers: tuple[Any, ...]
    segments: tuple[Segment, ...]
    faults: tuple[Fault, ...]
    undecided: bool
    followed: Mapping[int, tuple[BlockPath, NDArray[np.int64]]]
    longest: tuple[int, BlockPath, NDArray[np.int64], Any] | None


def count_launch(
    kernel: Code,
    launch: Launch,
    call: KernelCall,
    *,
    all_blocks: bool = False,
    seed: int = 0,
    budget: Budget | None = None,
    guests: Sequence[Guest] = (),
    checked: NDArray[np.int64] | None = None,
) -> LaunchCounts:
    """Count a whole launch, and execute each block that is executed once for all who want to see it.

    Args:
        kernel: machine code, or PTX.
        launch: a single launch of it.
        call: its arguments.
        all_blocks: execute every block, whatever that takes.
        seed: of the blocks that are drawn where they are sampled.
        budget: of each simulation.
        guests: who else wants to see which blocks.
        checked: blocks that are checked for races, bounds and barriers; None checks bounds alone.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.
    """
    return _LaunchCounter(BlockRuns(kernel, launch, call, budget, guests, checked), seed).count(all_blocks)


class _LaunchCounter:
    """Chooses which blocks of one launch are executed, until all are counted."""

    def __init__(self, runs: BlockRuns, seed: int) -> None:
        self._runs, self._seed = runs, seed
        self._costs = np.array([sum(_cost(i.name) for i in place) for place in instructions_of_places(runs.kernel)])
        self._total = BlockTotals.of(len(self._costs))
        self._blocks = int(np.prod(runs.launch.grid, dtype=np.int64))
        self._stores = FirstStores(self._blocks)
        self._notes: list[str] = []
        self._executed = 0
        self._idle: list[NDArray[np.int64]] = []
        self._idle_visits = np.zeros(len(self._costs))

    def count(self, all_blocks: bool) -> LaunchCounts:
        """All blocks' counts."""
        errors, runs = None, self._runs
        # where blocks may wait for one another, some are tried first
        few = max(_FEW_BLOCKS, 0 if decided_by_order(runs.kernel) else len(runs.unseen))
        if all_blocks or runs.launch.cooperative or self._blocks <= few:
            self._execute_all(np.arange(self._blocks), check=True)
        else:
            errors = self._count_rest(self._by_classes())
        alike = runs.all_checked
        if len(runs.unseen):
            runs.run(runs.unseen, [])
        working = self._working()
        if working is not None:
            runs.look_at(working)
        undetermined = runs.undetermined(self._total.visits)
        self._notes += [one.note for one in undetermined]
        return LaunchCounts(
            kernel=runs.kernel,
            counts=self._total.counts(runs.kernel),
            visits=self._total.visits,
            instructions=self._total.instructions(),
            shape=self._shape(),
            working=working,
            idle_instructions=0.0 if working is None else float(self._idle_visits @ runs.lengths),
            exact=errors is None and not undetermined,
            standard_errors=errors,
            notes=tuple(self._notes),
            blocks_executed=min(self._executed, self._blocks),
            checked=runs.seen,
            unchecked_alike=alike,
            watched=runs.watched,
            observers=runs.observers,
            segments=runs.segments,
            faults=runs.faults,
            undecided=runs.undecided,
            followed=runs.followed,
            longest=runs.longest_followed(),
        )

    def _shape(self) -> tuple[int, ...]:
        grid = self._runs.launch.grid
        plain = tuple(extent for extent in grid if extent > 1) or (1,)
        if self._blocks <= _FEW_BLOCKS or not self._stores.complete:
            return plain
        return launch_shape(grid, self._stores.of, np.random.default_rng(self._seed))

    def _working(self) -> NDArray[np.int64] | None:
        """Blocks that may access memory, where they are few; blocks of a cluster have places together, whether they do or not."""
        if not self._idle:
            return None
        idle = np.zeros(self._blocks, np.bool_)
        for blocks in self._idle:
            idle[blocks] = True
        few = 0 < np.count_nonzero(~idle) < _FEW_WORK * self._blocks and self._runs.launch.blocks_per_cluster == 1
        return np.flatnonzero(~idle) if few else None

    def _by_classes(self) -> NDArray[np.int64]:
        """Count classes of blocks, and give the blocks that are in none."""
        if self._blocks > MAX_BLOCKS:
            return np.arange(self._blocks)
        found = counted_classes(self._runs, self._blocks, len(self._costs))
        if found is None:
            self._runs.restart()
            found = counted_classes(self._runs, self._blocks, len(self._costs), idle=True)
        if found is None:
            self._runs.restart()
            return np.arange(self._blocks)
        self._total, self._stores, self._executed = found.totals, found.stores, found.executed
        self._idle += found.idle
        self._idle_visits += found.idle_visits
        return found.rest

    def _execute_all(self, blocks: NDArray[np.int64], *, check: bool) -> None:
        accesses = AccessCounts()
        run = self._runs.run_each(blocks, [accesses, self._stores], check=check)
        self._total.visits += run.visits
        for site, totals in accesses.tables():
            self._total.add(site, totals.sum(axis=0))
        assert run.visits_by_block is not None
        idle = idle_blocks(self._runs.lengths, run.visits_by_block, [site for site, _ in accesses.tables()])
        self._idle.append(blocks[idle])
        self._idle_visits += run.visits_by_block[idle].sum(axis=0)
        self._stores.note(blocks)
        self._executed += len(blocks)

    def _count_rest(self, blocks: NDArray[np.int64]) -> Counts | None:
        """Count blocks one by one, or from a sample of them; gives the standard errors of a sample."""
        if not len(blocks):
            return None
        held = self._fraction_held()
        few = REPLICATES if decided_by_order(self._runs.kernel) else 2 * _PILOT_BLOCKS
        if len(blocks) <= REPLICATES or (held >= 1.0 and len(blocks) <= few):
            self._execute_all(blocks, check=True)
            return None
        rng = np.random.default_rng(self._seed)
        pilot = np.sort(rng.choice(blocks, min(_PILOT_BLOCKS, len(blocks)), replace=False))
        cost = float(self._costs @ self._runs.pilot(pilot).visits) / len(pilot)
        affordable = max(int(ALL_BLOCKS_INSTRUCTIONS / max(cost, 1.0)), _PILOT_BLOCKS)
        if held >= 1.0 and _WHOLE * affordable >= len(blocks) <= MAX_BLOCKS:
            self._execute_all(blocks, check=cost * len(blocks) <= CHECKED_INSTRUCTIONS)
            return None
        strata = min(affordable, int(held * len(blocks))) // REPLICATES
        sample = sampled_blocks(self._runs, self._total, blocks, strata, rng)
        self._total = sample.totals
        self._executed += sample.drawn
        self._stores.incomplete()
        self._notes.append(sample.note)
        return sample.standard_errors

    def _fraction_held(self) -> float:
        """What part of the launch may be executed at once, so that the buffers it touches can be held; 1 or more where all may.

        Blocks are taken to touch equal shares of the buffers, where loaded values decide anything.
        """
        if not loads_decide(self._runs.kernel):
            return 1.0
        bytes_of_buffers = sum(buffer.array.nbytes for buffer in self._runs.call.buffers)
        return _SHARE_OF_MEMORY * (self._runs.budget or Budget()).memory_bytes / max(bytes_of_buffers, 1)


def _cost(name: str) -> int:
    """What an instruction takes to execute, in those that are no texture instructions."""
    return _TEXTURE_COST if name in TEXTURE_INSTRUCTIONS else 1
