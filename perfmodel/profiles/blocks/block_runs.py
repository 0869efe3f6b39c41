"""Runs of blocks of one launch: each block that someone wants to see is shown to them when it is first executed.

Besides what is counted, a run shows the blocks that guests ask for, the block in the middle, which blocks were checked, and what
is not decided by the program and its data alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.instruction import Space
from ...launch.launch import KernelCall, Launch
from ...simulator.access import Observer
from ...simulator.block_classes.classes import BlockClasses
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
from ...simulator.simulation import Budget, Mode, Simulation
from ...simulator.steering import OrderOfThreads
from ...simulator.undetermined import Cause, Undetermined
from .watched_block import WatchedBlock, middle_block

_FAR_LONGER = 2.0
"""Times the instructions of the followed blocks from which on the longest block is followed, too."""


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


class BlockRuns:
    """Executes blocks of one launch, in several runs.

    Args:
        kernel: machine code, or PTX.
        launch: a single launch of it.
        call: its arguments.
        budget: of each simulation.
        guests: who wants to see which blocks.
        checked: blocks that are checked for races, bounds and barriers; None checks bounds alone.
    """

    def __init__(
        self,
        kernel: Code,
        launch: Launch,
        call: KernelCall,
        budget: Budget | None,
        guests: Sequence[Guest],
        checked: NDArray[np.int64] | None,
    ) -> None:
        self.kernel, self.launch, self.call, self.budget = kernel, launch, call, budget
        self._guests, self._checked = guests, checked
        self.lengths = np.array([len(place) for place in instructions_of_places(kernel)])
        """Instructions of each place of the code."""
        self.segments: tuple[Segment, ...] = ()
        """Buffers of the last run."""
        self._undetermined: dict[Cause, Undetermined] = {}
        self._shared_decides = shared_decides(kernel)
        if self._shared_decides and launch.blocks_per_cluster > 1:
            self._found(Undetermined(Cause.UNWATCHED, kernel.name))
        self.restart()

    def restart(self) -> None:
        """Forget what executed blocks have shown to those that look at single blocks."""
        self.watched = WatchedBlock(middle_block(self.launch))
        self._shown = [ChosenBlocks(guest.make(), guest.blocks, guest.spaces) for guest in self._guests]
        wanted = [np.array([self.watched.block]), *(guest.blocks for guest in self._guests)]
        self.unseen = np.unique(np.concatenate([*wanted, *([] if self._checked is None else [self._checked])]))
        """Blocks that someone still wants to see."""
        self._faults: dict[tuple[FaultKind, int], Fault] = {}
        self.undecided = False
        self.seen = np.zeros(0, np.int64)
        """Blocks that have been checked."""
        self.all_checked = self._checked is not None
        """Whether all blocks that were executed have been."""
        self.followed: dict[int, tuple[BlockPath, NDArray[np.int64]]] = {}
        """Ways and visits of the blocks of guests that follow them."""
        self._longest = (-1, 0.0)
        """The executed block with most instructions, and how many."""

    def undetermined(self, visits: NDArray[np.float64]) -> tuple[Undetermined, ...]:
        """Why counts need not be the hardware's, where the launch visits each place of the code so often."""
        found: dict[Cause, Undetermined] = {}
        for one in undetermined_instructions(self.kernel):
            if visits[one.place] and (not one.only_with or visits[list(one.only_with)].any()):
                found.setdefault(one.reason.cause, one.reason)
        return tuple((found | self._undetermined).values())

    @property
    def faults(self) -> tuple[Fault, ...]:
        """What is wrong in the blocks that were checked, once for each instruction."""
        return tuple(self._faults.values())

    @property
    def observers(self) -> tuple[Any, ...]:
        """The observer of each guest."""
        return tuple(chosen.observer for chosen in self._shown)

    def run(
        self,
        blocks: NDArray[np.int64],
        observers: list[Observer],
        classes: BlockClasses | None = None,
        *,
        check: bool = False,
    ) -> Simulation:
        """Trace some blocks; whoever wants to see one of them for the first time does. With ``check`` all are checked."""
        fresh = np.intersect1d(blocks, self.unseen)
        watched = [self.watched] if self.watched.block in fresh else []
        for chosen in self._shown:
            chosen.take(fresh)
        guests = self._shown if len(fresh) else []
        checked = None if self._checked is None else blocks if check else np.intersect1d(fresh, self._checked)
        if checked is not None:
            self.seen = np.union1d(self.seen, checked)
        # where shared values decide what is counted, every block is looked at for races
        raced = blocks if self._shared_decides and len(observers) else checked
        self.all_checked = self.all_checked and check
        followed = [
            block for guest in self._guests if guest.follow for block in np.intersect1d(fresh, guest.blocks).tolist()
        ]
        run = execute_code(
            self.kernel,
            self.launch,
            self.call,
            mode=Mode.TRACE,
            blocks=blocks,
            budget=self.budget,
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
        instructions = run.visits_by_block @ self.lengths
        if len(instructions) and instructions.max() > self._longest[1]:
            self._longest = (int(run.blocks[instructions.argmax()]), float(instructions.max()))
        self.followed |= {block: (run.paths[block], run.visits_by_warp[block]) for block in followed}
        for open_one in (*run.undetermined, *self._of_shared_memory(run.faults)):
            self._found(open_one)
        for fault in run.faults if checked is not None else ():
            self._faults.setdefault((fault.kind, fault.instruction_index), fault)
        self.undecided = self.undecided or run.undecided
        self.segments = run.segments
        self.unseen = np.setdiff1d(self.unseen, fresh)
        return run

    def run_each(self, blocks: NDArray[np.int64], observers: list[Observer], *, check: bool) -> Simulation:
        """Trace blocks that are all counted, and look whether they decide by what others write."""
        order = self._order_of_threads(blocks)
        run = self.run(blocks, [*observers, *order], check=check)
        buffer = order[0].buffer() if order else None
        if buffer is not None:
            self._found(Undetermined(Cause.THREADS, repr(buffer)))
        return run

    def pilot(self, blocks: NDArray[np.int64]) -> Simulation:
        """Trace blocks that nobody looks at, to learn what they cost."""
        return execute_code(self.kernel, self.launch, self.call, mode=Mode.TRACE, blocks=blocks, budget=self.budget)

    def longest_followed(self) -> tuple[int, BlockPath, NDArray[np.int64], Any] | None:
        """The way and the visits of the longest block and what its guest saw, where those that are followed do far less."""
        block, instructions = self._longest
        followed = [float((visits @ self.lengths).sum()) for _, visits in self.followed.values()]
        if block in self.followed or not followed or instructions <= _FAR_LONGER * max(followed):
            return None
        observer = next(guest.make() for guest in self._guests if guest.follow)
        run = self._again([block], observer)
        return block, run.paths[block], run.visits_by_warp[block], observer

    def look_at(self, working: NDArray[np.int64]) -> None:
        """Watch and follow blocks at the same places among those that work as were watched and followed in the whole grid."""

        def places(blocks: NDArray[np.int64]) -> NDArray[np.int64]:
            return np.unique(working[blocks * (len(working) - 1) // max(int(self.launch.blocks) - 1, 1)])

        self.watched = WatchedBlock(int(places(np.array([self.watched.block]))[0]))
        run = self._again([self.watched.block], self.watched)
        self.watched.take_visits(run.visits_by_warp)
        for number, guest in enumerate(self._guests):
            if guest.follow:
                blocks = places(guest.blocks)
                shown = self._shown[number] = ChosenBlocks(guest.make(), blocks, guest.spaces)
                shown.take(blocks)
                run = self._again(blocks.tolist(), shown)
                self.followed = {block: (run.paths[block], run.visits_by_warp[block]) for block in blocks.tolist()}

    def _again(self, blocks: list[int], observer: Observer) -> Simulation:
        """Trace some blocks for one observer alone, and follow their warps."""
        run = execute_code(
            self.kernel,
            self.launch,
            self.call,
            mode=Mode.TRACE,
            blocks=np.array(blocks, np.int64),
            budget=self.budget,
            observers=[observer],
            visits_by_warp=blocks,
        )
        if not run.completed:
            raise FaultError(run.faults[-1])
        return run

    def _found(self, one: Undetermined) -> None:
        self._undetermined.setdefault(one.cause, one)

    def _of_shared_memory(self, faults: Sequence[Fault]) -> Iterator[Undetermined]:
        """What races, and reads of what nobody has written, leave open where shared values decide what is executed."""
        causes = {FaultKind.SHARED_RACE: Cause.SHARED_RACE, FaultKind.UNINITIALISED_SHARED: Cause.UNWRITTEN}
        for fault in faults if self._shared_decides else ():
            if fault.kind in causes:
                yield Undetermined(causes[fault.kind], fault.text)

    def _order_of_threads(self, blocks: NDArray[np.int64]) -> list[OrderOfThreads]:
        """Who looks whether blocks decide by what others write, where they decide by what they load."""
        if not loads_decide(self.kernel) or decided_by_order(self.kernel):
            return []
        segments = self.segments or self.pilot(blocks[:0]).segments  # where buffers lie is known before any block runs
        return [OrderOfThreads(steering_instructions(self.kernel), segments)]
