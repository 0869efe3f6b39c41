"""Counts of a whole launch: of classes of blocks that provably do the same, of all blocks, or of a stratified sample.

The block in the middle of the grid is executed first and stands for all others; those that would not do the same leave its
class (`BlockClasses`), and one of each kind of them is executed next. Where values loaded from memory decide what a block does,
or nearly every block is of a kind of its own, all blocks are executed. Where that costs too much, blocks are drawn at random
from each of the strata that the grid is cut into, and the counts have a standard error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...ir.instruction import Space
from ...launch.launch import Buffer, KernelCall, Launch
from ...memory.access_counts import BLOCK_TOTALS, AccessCounts, ClassCounts, InstructionCount, instruction_counts
from ...simulator.access import Observer, Site
from ...simulator.block_classes.classes import BlockClasses, NotFollowedError
from ...simulator.chosen_blocks import ChosenBlocks
from ...simulator.execution import (
    Code,
    decided_by_order,
    execute_code,
    instructions_of_places,
    loads_decide,
    shared_decides,
    steering_instructions,
    undetermined_instructions,
)
from ...simulator.faults import Fault, FaultError, FaultKind
from ...simulator.global_memory import Segment
from ...simulator.schedule import BlockPath
from ...simulator.simulation import MAX_BLOCKS, Budget, Mode, Simulation
from ...simulator.steering import OrderOfThreads
from ...simulator.textures.fetching import TEXTURE_INSTRUCTIONS
from ...simulator.undetermined import Cause, Undetermined
from ..totals import launch_counts
from .first_stores import FirstStores
from .launch_shape import launch_shape
from .watched_block import WatchedBlock, middle_block

_FEW_BLOCKS = 32
"""Grids of at most so many blocks are executed wholly: together they cost little more than one."""
_LANES = 65_536
"""Lanes of the executed blocks of one run at most."""
_ROUNDS = 24
_OWN_KIND = 0.5
"""Blocks are executed each where they are of more than so many kinds for each block."""
ALL_BLOCKS_INSTRUCTIONS = 10**8
"""Warp instructions that executing every block may take; a larger launch is sampled."""
_TEXTURE_COST = 100
"""What a texture or surface instruction takes to execute, in other instructions."""
_PILOT_BLOCKS = 64
"""Blocks from which it is learnt what blocks cost; of twice as many all are executed at once."""
FAR_LONGER = 2.0
"""Times the instructions of the followed blocks from which on the longest block is followed, too."""
_REPLICATES = 16
"""Blocks drawn from each stratum; the first of each stratum make one estimate, the second another, and so on."""
_MIX = 0x9E3779B97F4A7C15
_WHOLE = 2
"""Where a sample would have one of so many blocks, all are executed."""
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
    splits by division split (`launch_shape`). ``checked`` are the blocks that were checked for races, bounds and barriers;
    ``unchecked_alike`` says that each other block provably does what one of them does. ``watched`` is the block in the middle,
    for the critical path. ``longest`` is a block that does far more than those that are followed, with its observer.
    """

    kernel: Code
    counts: Counts
    visits: NDArray[np.float64]
    instructions: tuple[InstructionCount, ...]
    shape: tuple[int, ...]
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """Blocks that are executed in any case, linear indices in ascending order, and what makes their observer.

    The observer is made anew where blocks have to be executed in another way than it was tried first. With ``follow`` the ways
    of the blocks' warps are kept. ``spaces`` are those whose accesses the observer looks at, all when None.
    """

    blocks: NDArray[np.int64]
    make: Callable[[], Observer]
    follow: bool = False
    spaces: tuple[Space, ...] | None = None


@dataclass(slots=True)
class _Totals:
    """What has been counted: visits of places, and totals of accesses by site."""

    visits: NDArray[np.float64]
    sites: dict[int, tuple[Site, NDArray[np.float64]]] = field(default_factory=dict)

    def add(self, site: Site, totals: NDArray[Any]) -> None:
        """Add totals of one site."""
        _, before = self.sites.get(site.number, (site, np.zeros(len(BLOCK_TOTALS))))
        self.sites[site.number] = (site, before + totals)

    def instructions(self) -> tuple[InstructionCount, ...]:
        """Records of the instructions that were reached."""
        return instruction_counts(self.sites.values())

    def counts(self, kernel: Code) -> Counts:
        """Under the project's names."""
        found = self.instructions()
        return launch_counts(kernel, found, np.rint(self.visits).astype(np.int64), found)


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
    return _LaunchCounter(kernel, launch, call, seed, budget, guests, checked).count(all_blocks)


class _LaunchCounter:
    """Executes blocks of one launch until all are counted."""

    def __init__(
        self,
        kernel: Code,
        launch: Launch,
        call: KernelCall,
        seed: int,
        budget: Budget | None,
        guests: Sequence[Guest],
        checked: NDArray[np.int64] | None,
    ) -> None:
        self._kernel, self._launch, self._call = kernel, launch, call
        self._seed, self._budget = seed, budget
        self._lengths = np.array([len(place) for place in instructions_of_places(kernel)])
        self._costs = np.array([sum(_cost(i.name) for i in place) for place in instructions_of_places(kernel)])
        self._total = _Totals(np.zeros(len(self._lengths)))
        self._blocks = int(np.prod(launch.grid, dtype=np.int64))
        self._stores = FirstStores(self._blocks)
        self._guests, self._checked = guests, checked
        self._segments: tuple[Segment, ...] = ()
        self._notes: list[str] = []
        self._undetermined = {one.cause: one for one in undetermined_instructions(kernel)}
        """Why counts need not be the hardware's."""
        self._shared_decides = shared_decides(kernel)
        if self._shared_decides and launch.blocks_per_cluster > 1:
            self._found(Undetermined(Cause.UNWATCHED, kernel.name))
        self._restart()

    def _restart(self) -> None:
        """Forget what executed blocks have shown to those that look at single blocks."""
        self._watched = WatchedBlock(middle_block(self._launch))
        self._observers = [ChosenBlocks(guest.make(), guest.blocks, guest.spaces) for guest in self._guests]
        wanted = [np.array([self._watched.block]), *(guest.blocks for guest in self._guests)]
        self._unseen = np.unique(np.concatenate([*wanted, *([] if self._checked is None else [self._checked])]))
        """Blocks that someone still wants to see."""
        self._faults: dict[tuple[FaultKind, int], Fault] = {}
        self._undecided = False
        self._seen = np.zeros(0, np.int64)
        """Blocks that have been checked."""
        self._all_checked = self._checked is not None
        """Whether all blocks that were counted have been."""
        self._followed: dict[int, tuple[BlockPath, NDArray[np.int64]]] = {}
        self._longest = (-1, 0.0)
        """The executed block with most instructions, and how many."""
        self._executed = 0

    def count(self, all_blocks: bool) -> LaunchCounts:
        """All blocks' counts."""
        errors = None
        ordered = decided_by_order(self._kernel)
        # where blocks may wait for one another, some are tried first
        few = max(_FEW_BLOCKS, 0 if ordered else len(self._unseen))
        if all_blocks or self._launch.cooperative or self._blocks <= few:
            self._execute_all(np.arange(self._blocks), check=True)
        else:
            errors = self._count_rest(self._by_classes())
        alike = self._all_checked
        if len(self._unseen):
            self._run(self._unseen, [])
        self._notes += [one.note for one in self._undetermined.values()]
        return LaunchCounts(
            kernel=self._kernel,
            counts=self._total.counts(self._kernel),
            visits=self._total.visits,
            instructions=self._total.instructions(),
            shape=self._shape(),
            exact=errors is None and not self._undetermined,
            standard_errors=errors,
            notes=tuple(self._notes),
            blocks_executed=min(self._executed, self._blocks),
            checked=self._seen,
            unchecked_alike=alike,
            watched=self._watched,
            observers=tuple(chosen.observer for chosen in self._observers),
            segments=self._segments,
            faults=tuple(self._faults.values()),
            undecided=self._undecided,
            followed=self._followed,
            longest=self._longest_followed(),
        )

    def _shape(self) -> tuple[int, ...]:
        plain = tuple(extent for extent in self._launch.grid if extent > 1) or (1,)
        if self._blocks <= _FEW_BLOCKS or not self._stores.complete:
            return plain
        return launch_shape(self._launch.grid, self._stores.of, np.random.default_rng(self._seed))

    def _run(
        self,
        blocks: NDArray[np.int64],
        observers: list[Observer],
        classes: BlockClasses | None = None,
        *,
        check: bool = False,
    ) -> Simulation:
        """Trace some blocks; whoever wants to see one of them for the first time does. With ``check`` all are checked."""
        fresh = np.intersect1d(blocks, self._unseen)
        watched = [self._watched] if self._watched.block in fresh else []
        for chosen in self._observers:
            chosen.take(fresh)
        guests = self._observers if len(fresh) else []
        checked = None if self._checked is None else blocks if check else np.intersect1d(fresh, self._checked)
        if checked is not None:
            self._seen = np.union1d(self._seen, checked)
        # where shared values decide what is counted, every block is looked at for races
        raced = blocks if self._shared_decides and len(observers) else checked
        self._all_checked = self._all_checked and check
        followed = [
            block for guest in self._guests if guest.follow for block in np.intersect1d(fresh, guest.blocks).tolist()
        ]
        run = execute_code(
            self._kernel,
            self._launch,
            self._call,
            mode=Mode.TRACE,
            blocks=blocks,
            budget=self._budget,
            observers=[*observers, *guests, *watched],
            check=raced is not None and len(raced) > 0,
            raced=raced,
            visits_by_block=True,
            visits_by_warp=[*(one.block for one in watched), *followed],
            classes=classes,
        )
        if not run.completed:
            raise FaultError(run.faults[-1])
        for one in watched:
            one.take_visits(run.visits_by_warp)
        assert run.visits_by_block is not None
        instructions = run.visits_by_block @ self._lengths
        if len(instructions) and instructions.max() > self._longest[1]:
            self._longest = (int(run.blocks[instructions.argmax()]), float(instructions.max()))
        self._followed |= {block: (run.paths[block], run.visits_by_warp[block]) for block in followed}
        for open_one in (*run.undetermined, *self._of_shared_memory(run.faults)):
            self._found(open_one)
        for fault in run.faults if checked is not None else ():
            self._faults.setdefault((fault.kind, fault.instruction_index), fault)
        self._undecided = self._undecided or run.undecided
        self._segments = run.segments
        self._unseen = np.setdiff1d(self._unseen, fresh)
        return run

    def _found(self, one: Undetermined) -> None:
        self._undetermined.setdefault(one.cause, one)

    def _of_shared_memory(self, faults: Sequence[Fault]) -> Iterator[Undetermined]:
        """What races, and reads of what nobody has written, leave open where shared values decide what is executed."""
        causes = {FaultKind.SHARED_RACE: Cause.SHARED_RACE, FaultKind.UNINITIALISED_SHARED: Cause.UNWRITTEN}
        for fault in faults if self._shared_decides else ():
            if fault.kind in causes:
                yield Undetermined(causes[fault.kind], fault.text)

    def _longest_followed(self) -> tuple[int, BlockPath, NDArray[np.int64], Any] | None:
        """The way and the visits of the longest block and what its guest saw, where those that are followed do far less."""
        block, instructions = self._longest
        followed = [float((visits @ self._lengths).sum()) for _, visits in self._followed.values()]
        if block in self._followed or not followed or instructions <= FAR_LONGER * max(followed):
            return None
        observer = next(guest.make() for guest in self._guests if guest.follow)
        run = execute_code(
            self._kernel,
            self._launch,
            self._call,
            mode=Mode.TRACE,
            blocks=np.array([block]),
            budget=self._budget,
            observers=[observer],
            visits_by_warp=[block],
        )
        return block, run.paths[block], run.visits_by_warp[block], observer

    # ---- all blocks

    def _execute_all(self, blocks: NDArray[np.int64], *, check: bool) -> None:
        accesses = AccessCounts()
        order = self._order_of_threads(blocks)
        run = self._run(blocks, [accesses, self._stores, *order], check=check)
        buffer = order[0].buffer() if order else None
        if buffer is not None:
            self._found(Undetermined(Cause.THREADS, repr(buffer)))
        self._total.visits += run.visits
        for site, totals in accesses.tables():
            self._total.add(site, totals.sum(axis=0))
        self._stores.note(blocks)
        self._executed += len(blocks)

    def _order_of_threads(self, blocks: NDArray[np.int64]) -> list[OrderOfThreads]:
        """Who looks whether blocks decide by what others write, where they decide by what they load."""
        if not loads_decide(self._kernel) or decided_by_order(self._kernel):
            return []
        segments = self._segments or self._pilot(blocks[:1]).segments
        return [OrderOfThreads(steering_instructions(self._kernel), segments)]

    # ---- classes

    def _by_classes(self) -> NDArray[np.int64]:
        """Count classes of blocks, and give the blocks that are in none."""
        if self._blocks > MAX_BLOCKS:
            return np.arange(self._blocks)
        blocks, keys = np.arange(self._blocks), np.zeros(self._blocks, np.uint64)
        total = _Totals(np.zeros(len(self._lengths)))
        buffers: tuple[set[int], set[int]] = (set(), set())
        for turn in range(_ROUNDS):
            kinds, first, group = np.unique(keys, return_index=True, return_inverse=True)
            if turn and len(kinds) > max(_OWN_KIND * len(blocks), 1):
                break
            at_once = max(_LANES // int(self._launch.threads_per_block), 1)
            executed = first
            if not turn:
                # one block stands for all others; those that are wanted anyhow stand for themselves
                alone = np.setdiff1d(self._unseen, [self._watched.block])[: at_once - 1]
                group[alone] = 1 + np.arange(len(alone))
                executed = np.append(self._watched.block, alone)
            left: list[tuple[NDArray[np.int64], NDArray[np.uint64]]] = []
            for begin in range(0, len(executed), at_once):
                chosen = (group >= begin) & (group < begin + at_once)
                places = np.cumsum(chosen) - 1
                classes = BlockClasses(blocks[chosen], group[chosen] - begin, places[executed[begin : begin + at_once]])
                try:
                    self._run_classes(classes, total)
                except NotFollowedError:
                    return self._none_by_classes()
                buffers = (buffers[0] | classes.read, buffers[1] | classes.written)
                left.append(
                    (classes.blocks[classes.left], classes.keys[classes.left] + np.uint64(begin * _MIX % 2**64))
                )
            blocks = np.concatenate([part[0] for part in left])
            keys = np.concatenate([part[1] for part in left])
            if not len(blocks):
                break
        if buffers[0] and (len(blocks) or buffers[0] & buffers[1]):
            # what decides may be what another block has written
            return self._none_by_classes()
        self._total = total
        return blocks

    def _none_by_classes(self) -> NDArray[np.int64]:
        """Forget the classes; gives all blocks."""
        self._stores = FirstStores(self._blocks)
        self._restart()
        return np.arange(self._blocks)

    def _run_classes(self, classes: BlockClasses, total: _Totals) -> None:
        accesses = ClassCounts(classes)
        run = self._run(classes.blocks[classes.executed], [accesses, self._stores], classes, check=True)
        assert run.visits_by_block is not None
        total.visits += classes.sizes() @ run.visits_by_block
        for site, totals in accesses.totals():
            total.add(site, totals)
        self._stores.note_classes(classes)
        self._executed += classes.count

    # ---- what is in no class

    def _count_rest(self, blocks: NDArray[np.int64]) -> Counts | None:
        """Count blocks one by one, or from a sample of them; gives the standard errors of a sample."""
        if not len(blocks):
            return None
        held = self._fraction_held()
        few = _REPLICATES if decided_by_order(self._kernel) else 2 * _PILOT_BLOCKS
        if len(blocks) <= _REPLICATES or (held >= 1.0 and len(blocks) <= few):
            self._execute_all(blocks, check=True)
            return None
        rng = np.random.default_rng(self._seed)
        pilot = np.sort(rng.choice(blocks, min(_PILOT_BLOCKS, len(blocks)), replace=False))
        cost = float(self._costs @ self._pilot(pilot).visits) / len(pilot)
        affordable = max(int(ALL_BLOCKS_INSTRUCTIONS / max(cost, 1.0)), _PILOT_BLOCKS)
        if held >= 1.0 and _WHOLE * affordable >= len(blocks) <= MAX_BLOCKS:
            self._execute_all(blocks, check=cost * len(blocks) <= CHECKED_INSTRUCTIONS)
            return None
        return self._sample(blocks, min(affordable, int(held * len(blocks))) // _REPLICATES, rng)

    def _fraction_held(self) -> float:
        """What part of the launch may be executed at once, so that the buffers it touches can be held; 1 or more where all may.

        Blocks are taken to touch equal shares of the buffers, where loaded values decide anything.
        """
        if not loads_decide(self._kernel):
            return 1.0
        bytes_of_buffers = sum(p.array.nbytes for p in self._call.parameters if isinstance(p, Buffer))
        return _SHARE_OF_MEMORY * (self._budget or Budget()).memory_bytes / max(bytes_of_buffers, 1)

    def _pilot(self, blocks: NDArray[np.int64]) -> Simulation:
        """Trace blocks that nobody looks at, to learn what they cost."""
        return execute_code(self._kernel, self._launch, self._call, mode=Mode.TRACE, blocks=blocks, budget=self._budget)

    def _sample(self, blocks: NDArray[np.int64], strata: int, rng: np.random.Generator) -> Counts:
        """Estimate the totals of some blocks from as many strata of neighbours, with the standard errors.

        Each replicate has one block of every stratum and makes an estimate of its own; how far these lie apart is the error.
        """
        strata = max(min(strata, len(blocks) // _REPLICATES), 1)
        bounds = np.linspace(0, len(blocks), strata + 1).astype(np.int64)
        drawn = np.concatenate(
            [
                blocks[begin + rng.choice(end - begin, _REPLICATES, replace=False)]
                for begin, end in pairwise(bounds.tolist())
            ]
        )
        weight = np.repeat(np.diff(bounds), _REPLICATES).astype(np.float64)
        accesses = AccessCounts(len(drawn))
        run = self._run(drawn, [accesses])
        assert run.visits_by_block is not None
        by_block = run.visits_by_block

        def weighed(weights: NDArray[np.float64]) -> _Totals:
            total = _Totals(self._total.visits + weights @ by_block, dict(self._total.sites))
            for site, table in accesses.tables():
                total.add(site, weights @ table)
            return total

        replicate = np.tile(np.arange(_REPLICATES), strata)
        estimates = [
            weighed(np.where(replicate == number, weight, 0.0)).counts(self._kernel) for number in range(_REPLICATES)
        ]
        self._total = weighed(weight / _REPLICATES)
        unseen = np.sqrt((1.0 - len(drawn) / len(blocks)) / _REPLICATES)
        errors = Counts(
            **{
                name: float(np.std([getattr(one, name) for one in estimates], ddof=1) * unseen)
                for name, value in estimates[0].items()
                if not np.isnan(value)
            }
        )
        self._executed += len(drawn)
        self._stores.incomplete()
        self._notes.append(
            f"counts are estimated from {len(drawn)} blocks drawn from {strata} strata of {len(blocks)} blocks that differ, "
            f"with a standard error of {_share(errors, self._total.counts(self._kernel)):.2g} % of the executed instructions"
        )
        return errors


def _cost(name: str) -> int:
    """What an instruction takes to execute, in those that are no texture instructions."""
    return _TEXTURE_COST if name in TEXTURE_INSTRUCTIONS else 1


def _share(errors: Counts, counts: Counts) -> float:
    return 100.0 * float(errors.warp_instructions) / max(float(counts.warp_instructions), 1.0)
