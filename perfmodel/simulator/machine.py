"""State of a batch of blocks: registers, memories, observers; and `Lanes`, the view of it that generated code works on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE, ceil_div
from ..ir.instruction import ExecutedInstruction, Space
from ..ir.types import ScalarType
from ..launch.device_heap import DeviceHeap
from ..launch.launch import Launch
from .access import Action, Observers, Site, WarpAccess
from .block_classes.classes import BlockClasses
from .block_classes.stored import StoredSteps
from .block_classes.values import FollowedValue
from .faults import FATAL, Fault, FaultError, FaultKind, fault_of
from .global_memory import GlobalMemory
from .phases import PhaseLog
from .plan import Families, Mask, Plan, both, rows_and_warps
from .printed_text import PrintedText
from .race_detector import RaceDetector
from .special_registers import FollowedRegisters, special_registers

Values = NDArray[Any]
MAX_PLANS = 48
"""Analysed base registers that are kept; more would only hold memory."""
SHARED_ALIGNMENT_BYTES = 16
CLUSTER_RANK_UNIT = 2**24
"""Addresses of a cluster's shared memory hold the rank of the block above so many bytes, as ``SR_CgaCtaId`` shows."""
BARRIERS = 16
"""Named barriers of a block (PTX ISA 9.7.13.1)."""


@dataclass(slots=True)
class Environment:
    """What all batches of a launch share."""

    launch: Launch
    instructions: Sequence[ExecutedInstruction]
    memory: GlobalMemory
    constant_bank: NDArray[np.uint8]
    parameter_bank: NDArray[np.uint8]
    symbol_addresses: dict[str, int]
    shared_bytes: int
    local_bytes: int
    sites: list[Site]
    observers: Observers = ()
    check: bool = False
    raced: NDArray[np.int64] | None = None
    """Blocks that are watched for races; all when None."""
    max_faults: int = 0
    cluster_blocks: int = 1
    """Blocks of a cluster; those of one follow one another in a batch."""
    faults: list[Fault] = field(default_factory=list)
    undecided: bool = False
    clock: int = 0
    families: Families = field(default_factory=Families)
    printed: PrintedText | None = None
    """Where the text goes that lanes print; it is dropped when None."""
    phases: Mapping[int, PhaseLog] = field(default_factory=dict)
    """Of the blocks of which it is noted, what their warps do with ``mbarrier`` objects."""
    heap: DeviceHeap | None = None
    """The heap of ``malloc``, where the kernel calls it."""
    _symbols: dict[tuple[str, ScalarType], Values] = field(default_factory=dict)

    def symbol(self, name: str, scalar_type: ScalarType) -> Values:
        """Address of a variable within its own state space, uniform."""
        key = (name, scalar_type)
        if key not in self._symbols:
            self._symbols[key] = np.full((1, 1), self.symbol_addresses[name], scalar_type)
        return self._symbols[key]

    def report(self, fault: Fault) -> None:
        """Keep a fault (each kind once for each instruction, up to the cap), or stop at a fatal one."""
        if fault.kind in FATAL:
            self.faults.append(fault)
            raise FaultError(fault)
        if len(self.faults) < self.max_faults and not any(
            known.kind is fault.kind and known.instruction_index == fault.instruction_index for known in self.faults
        ):
            self.faults.append(fault)


class Batch:
    """Blocks that run together; arrays have shape ``(1 | blocks, 1 | threads)`` with threads rounded up to whole warps."""

    def __init__(
        self,
        environment: Environment,
        block_ids: NDArray[np.int64],
        positions: NDArray[np.int64],
        classes: BlockClasses | None = None,
    ) -> None:
        self.environment = environment
        self.classes = classes
        """The classes of which these are the executed blocks, where others are followed."""
        self.stored = StoredSteps(classes)
        self.block_ids = block_ids
        self.positions = positions
        """Places of the blocks among those asked for; -1 for those executed with them, which are not counted."""
        self.counted: NDArray[np.int64] | None = np.flatnonzero(positions >= 0) if (positions < 0).any() else None
        """Rows of the blocks asked for; None for all."""
        launch = environment.launch
        self.real_threads = int(np.prod(launch.block))
        self.threads = ceil_div(self.real_threads, WARP_SIZE) * WARP_SIZE
        self.rows = len(block_ids)
        self.thread = np.arange(self.threads)[None, :]
        self.shared_stride = -(-max(1, environment.shared_bytes) // SHARED_ALIGNMENT_BYTES) * SHARED_ALIGNMENT_BYTES
        self.local_stride = -(-max(1, environment.local_bytes) // SHARED_ALIGNMENT_BYTES) * SHARED_ALIGNMENT_BYTES
        self.shared = np.zeros(self.rows * self.shared_stride, np.uint8)
        self.local: NDArray[np.uint8] | None = None
        self.special: dict[str, Any] = (
            special_registers(launch, block_ids, self.threads, environment.shared_bytes)
            if classes is None
            else FollowedRegisters(launch, classes, self.threads, environment.shared_bytes)
        )
        self.barrier_words: NDArray[np.uint64] | None = None
        """Words of ``mbarrier`` objects by block and place, made when first used."""
        self.race_detector: RaceDetector | None = None
        self.barriers = np.zeros(self.rows, np.int32)
        """How many barriers of all its threads each block has passed."""
        self.live: Mask | None = None
        """Lanes that have not ended, while lanes run apart and an instruction asks for them."""

    @property
    def initial_mask(self) -> Mask | None:
        """Lanes that exist: None where the block is whole warps."""
        return None if self.real_threads == self.threads else self.thread < self.real_threads

    def local_memory(self) -> NDArray[np.uint8]:
        """Stacks of all threads, made when first used."""
        if self.local is None:
            self.local = np.zeros(self.rows * self.threads * self.local_stride, np.uint8)
        return self.local


class _Chosen(dict[str, Values]):
    """Special registers of some blocks, taken when they are first read."""

    def __init__(self, of_batch: dict[str, Values], rows: NDArray[np.int64]) -> None:
        super().__init__()
        self._of_batch = of_batch
        self._rows = rows

    def __missing__(self, name: str) -> Values:
        values = self._of_batch[name]
        self[name] = values if values.shape[0] == 1 else values[self._rows]
        return self[name]


class Lanes:
    """Some blocks of a batch, as generated code sees them: which lanes are active, and what instructions do to memory."""

    def __init__(self, batch: Batch, subset: NDArray[np.int64] | None = None) -> None:
        self.batch = batch
        self.environment = batch.environment
        self.subset = subset
        self.threads = batch.threads
        self.thread = batch.thread
        self.rows = batch.rows if subset is None else len(subset)
        self.block_ids = batch.block_ids if subset is None else batch.block_ids[subset]
        self.positions = batch.positions if subset is None else batch.positions[subset]
        self.row_index = np.arange(batch.rows) if subset is None else subset
        self.special = batch.special if subset is None else _Chosen(batch.special, subset)
        self.active: Mask | None = None
        self.guard: Mask | None = None
        """Lanes for which the value that is worked out is kept, where an instruction is guarded."""
        self.arrived = np.zeros((batch.rows, BARRIERS), np.int64)
        """Threads that have arrived at each named barrier without waiting, by block of the batch."""
        self._plans: dict[tuple[int, int, int], Plan] = {}
        self._kept: list[Any] = []

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of an array with a value for every lane."""
        return (self.rows, self.threads)

    def plan(self, base: Any, guard: Mask | None) -> Plan:
        """The analysed addresses of a base register under the active mask and a guard."""
        if guard is not None and guard.size == 1 and guard.item():
            guard = None
        key = (id(base), id(guard), id(self.active))
        plan = self._plans.get(key)
        if plan is None:
            if len(self._plans) >= MAX_PLANS:
                self._plans.clear()
                self._kept.clear()
            resolved = base.resolved() if isinstance(base, FollowedValue) else base
            addresses, steps = (
                (resolved.lanes, resolved.steps) if isinstance(resolved, FollowedValue) else (resolved, None)
            )
            plan = Plan(addresses, both(self.active, guard), self.rows, self.threads, steps)
            plan = self.environment.families.placed(plan)
            self._plans[key] = plan
            self._kept.append((base, guard, self.active))
        return plan

    def observe(self, site: int, plan: Plan, offset: int, target: tuple[Plan, int] | None = None) -> None:
        """Give the record of an access at a site to the observers; ``target`` is where an asynchronous copy writes."""
        environment = self.environment
        classes = self.batch.classes
        if classes is not None and plan.steps and not plan.steps_of_rows:
            plan.steps_of_rows = classes.of_rows(plan.steps, plan.mask)
        if classes is not None:
            accessed = environment.sites[site]
            if accessed.space is Space.GLOBAL and accessed.action in (Action.STORE, Action.REDUCTION):
                end = plan.high + offset + accessed.width_bytes
                classes.note(written=environment.memory.starts_between(plan.low + offset, end))
        if environment.observers:
            blocks, positions, barriers = self.block_ids, self.positions, self.batch.barriers[self.row_index]
            if self.batch.counted is not None and positions.min() < 0:
                kept = np.flatnonzero(positions >= 0)
                plan, blocks, positions, barriers = plan.of_rows(kept), blocks[kept], positions[kept], barriers[kept]
                target = None if target is None else (target[0].of_rows(kept), target[1])
                if not len(kept) or plan.empty:
                    return
            access = WarpAccess(environment.sites[site], plan, offset, blocks, positions, target, barriers)
            for observer in environment.observers:
                observer.access(access)

    def arrive(self, number: NDArray[np.uint32], count: NDArray[np.uint32], guard: Mask | None) -> None:
        """``barrier.arrive``: whole warps arrive at a named barrier and go on."""
        effective = both(self.active, guard)
        here = np.broadcast_to(np.ones((1, 1), np.bool_) if effective is None else effective, self.shape)
        for name in np.unique(np.broadcast_to(number, self.shape)[here]).tolist():
            arriving = here & (number == np.uint32(name))
            self.arrived[self.row_index, name] += rows_and_warps(arriving, self.threads).sum(axis=1) * WARP_SIZE
            if self.batch.race_detector is not None:
                self.batch.race_detector.arrive(self, name, arriving)

    def offset_in_block(self, addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Place within a block's shared memory of addresses of the shared memory of its cluster."""
        return addresses if self.environment.cluster_blocks == 1 else addresses & (CLUSTER_RANK_UNIT - 1)

    def rows_of_cluster(self, rows: NDArray[np.int64], addresses: NDArray[np.int64]) -> NDArray[np.int64]:
        """Row of the batch that addresses of a cluster's shared memory lead to, from rows of these lanes."""
        blocks = self.environment.cluster_blocks
        own = self.row_index[rows]
        return own if blocks == 1 else own - own % blocks + addresses // CLUSTER_RANK_UNIT % blocks

    def row_of_member(self, rows: NDArray[np.int64], rank: int) -> NDArray[np.int64]:
        """Row of the batch of the block with a rank in the cluster of some rows of these lanes."""
        own = self.row_index[rows]
        return np.asarray(own - own % self.environment.cluster_blocks + rank)

    def clock(self, scalar_type: ScalarType) -> Values:
        """A counter that grows with every read (``%clock``, ``%globaltimer``)."""
        self.environment.clock += 1
        return np.full((1, 1), self.environment.clock, scalar_type)

    def fault(self, kind: FaultKind, instruction: int, wrong: Mask, detail: str) -> None:
        """Report a fault of the first lane of a mask that broadcasts to all lanes."""
        full = np.broadcast_to(wrong, self.shape)
        row, thread = (int(k) for k in np.argwhere(full)[0])
        (gx, gy, _), (bx, by, _) = self.environment.launch.grid, self.environment.launch.block
        block = int(self.block_ids[row])
        self.environment.report(
            fault_of(
                kind,
                (block % gx, block // gx % gy, block // (gx * gy)),
                (thread % bx, thread // bx % by, thread // (bx * by)),
                instruction,
                self.environment.instructions[instruction],
                detail,
            )
        )
