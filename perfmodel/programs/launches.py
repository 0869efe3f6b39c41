"""A program's launches: executed on its memory, predicted by the model, summed by kernel and shape."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from ..errors import SimulationError
from ..gpus.occupancy import occupancy
from ..launch.arguments import POINTER_BYTES
from ..launch.launch import Allocation, DeviceMemory, KernelCall, Launch
from ..prediction.analyze import prediction_of_launch
from ..prediction.prediction import Prediction
from ..prediction.scenario import Scenario
from ..profiles.executed_profile import Effort, execute
from ..profiles.totals import counted_run
from ..profiles.user_launch import Index3, LaunchConfiguration
from ..simulator.execution import execute_code
from ..simulator.faults import FaultError
from ..simulator.printed_text import PrintedText
from ..simulator.simulation import Mode
from .modules import ProgramKernel
from .repeats import Repeats
from .shared_memory import SharedMemory, Snapshot
from .touched_memory import TouchedAllocations

MAX_PREDICTIONS = 64
"""Launches of one kernel and shape that are predicted; later ones take the prediction of the one whose execution is nearest."""
SAME_BEHAVIOUR = 0.02
"""Executed instructions, sectors and wavefronts by which launches that count as alike may differ, as a fraction of all."""
SNAPSHOT_BYTES = 2**29
"""What a launch writes is kept up to this size while it is executed, so that it can be predicted afterwards."""
WATCHED_CALLS = 4
"""Launches with equal arguments after which they are taken to do the same, as long as they have."""


class Execute(Enum):
    """Which launches of a program are executed."""

    ALL = "all"
    """Every launch: results are right."""
    FIRST = "first"
    """The first one with the same kernel, shape and arguments; later ones are counted and write nothing."""
    NONE = "none"
    """None: launches are predicted and write nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Grid, block, cluster and dynamic shared bytes of a launch."""

    grid: Index3
    block: Index3
    cluster: Index3 = (1, 1, 1)
    shared_bytes: int = 0
    cooperative: bool = False

    def launch(self, static_shared_bytes: int) -> Launch:
        """The launch of a kernel with so much static shared memory."""
        return Launch.of(
            self.grid,
            self.block,
            self.cluster,
            static_shared_bytes=static_shared_bytes,
            dynamic_shared_bytes=self.shared_bytes,
            cooperative=self.cooperative,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Behaviour:
    """What an executed launch did: visits of each place of the code, and sectors and wavefronts of each access, where counted."""

    visits: NDArray[np.int64]
    accesses: Mapping[Hashable, float] | None = None
    accessed: frozenset[Allocation] = frozenset()
    """What was read or written, where counted."""
    written: tuple[Allocation, ...] = ()
    repeatable: bool = False
    """Whether the memory that it accessed and its parameters decide all that it did."""

    def differs(self, other: _Behaviour) -> float:
        """How much of the executed work differs between two launches, as a fraction."""
        total = max(int(other.visits.sum()), 1)
        found = float(np.abs(self.visits - other.visits).sum()) / total
        if self.accesses is None or other.accesses is None:
            return found
        names = self.accesses.keys() | other.accesses.keys()
        differing = sum(abs(self.accesses.get(name, 0.0) - other.accesses.get(name, 0.0)) for name in names)
        return max(found, differing / max(sum(other.accesses.values()), 1.0))


@dataclass(slots=True, kw_only=True)
class _Predicted:
    """One prediction, what its launch did, and for how many launches it stands."""

    prediction: Prediction
    behaviour: _Behaviour | None = None
    calls: int = 0


@dataclass(slots=True)
class Touched:
    """By which parameters launches find memory: positions of those that point to it, and addresses of what none points to."""

    parameters: set[int] = field(default_factory=set)
    addresses: set[int] = field(default_factory=set)

    def note(self, allocations: Iterable[Allocation], pointed: Mapping[int, Allocation]) -> None:
        """Remember how one launch found allocations."""
        for allocation in allocations:
            positions = [position for position, one in pointed.items() if one == allocation]
            self.parameters.update(positions)
            if not positions:
                self.addresses.add(allocation.address)

    def expected(self, pointed: Mapping[int, Allocation], allocations: Iterable[Allocation]) -> list[Allocation]:
        """What a launch is expected to find."""
        found = {pointed[position] for position in self.parameters if position in pointed}
        return [*found, *(one for one in allocations if one.address in self.addresses and one not in found)]


@dataclass(slots=True)
class LaunchGroup:
    """Launches of one kernel with one shape and arguments of the same sizes."""

    kernel: ProgramKernel
    shape: Shape
    predicted: list[_Predicted] = field(default_factory=list)
    by_values: dict[bytes, _Predicted] = field(default_factory=dict)
    """What stands for launches with equal parameters."""
    written: Touched = field(default_factory=Touched)
    """What launches write."""
    accessed: Touched = field(default_factory=Touched)
    """What launches read or write."""
    blocks_wait: bool = False
    """Whether blocks wait for one another, so that they are executed together."""
    varying: bool = False
    """Whether launches with equal arguments have done different things."""

    def add(self, prediction: Prediction, behaviour: _Behaviour | None = None) -> _Predicted:
        """Keep the prediction of a launch."""
        self.predicted.append(_Predicted(prediction=prediction, behaviour=behaviour))
        return self.predicted[-1]

    @property
    def calls(self) -> int:
        """Launches so far."""
        return sum(one.calls for one in self.predicted)

    @property
    def total_s(self) -> float:
        """Predicted time of all of them."""
        return float(sum(one.calls * one.prediction.time.predicted_s for one in self.predicted))


class Launches:
    """All launches of one run of a program."""

    def __init__(self, scenario: Scenario, effort: Effort, mode: Execute, memory: SharedMemory) -> None:
        self.scenario, self.mode, self.memory = scenario, mode, memory
        self._effort = effort
        self.deadline: float | None = None
        """When the run ends at the latest, on the monotonic clock."""
        self.printed = PrintedText()
        """What executed launches have printed since it was last taken."""
        self.overruns: dict[str, None] = {}
        """Accesses past the end of an allocation that hardware lets pass, in order."""
        self._groups: dict[tuple[object, ...], LaunchGroup] = {}
        self._repeats: Repeats[_Predicted] = Repeats(memory, SNAPSHOT_BYTES)

    @property
    def is_late(self) -> bool:
        """Whether the run should have ended."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    @property
    def effort(self) -> Effort:
        """How much is executed for a launch that begins now, in no more time than is left."""
        if self.deadline is None:
            return self._effort
        return replace(self._effort, budget=replace(self._effort.budget, deadline_s=self.deadline))

    @property
    def groups(self) -> Sequence[LaunchGroup]:
        """Kernels and shapes in the order in which they were launched first."""
        return tuple(self._groups.values())

    def fitting_blocks(self, kernel: ProgramKernel, threads: int, dynamic_shared_bytes: int) -> int:
        """Blocks of a kernel that are resident on an SM at once; 0 where not one fits."""
        resources = kernel.compiled.resources
        static = int(resources.static_shared_bytes)
        found = occupancy(
            self.scenario.gpu,
            threads_per_block=threads,
            registers_per_thread=resources.registers_per_thread,
            shared_bytes_per_block=static + dynamic_shared_bytes,
            static_shared_bytes_per_block=static,
        )
        return int(found.blocks_per_sm)

    def run(self, kernel: ProgramKernel, shape: Shape, values: bytes) -> float:
        """Execute and predict one launch; its predicted time in seconds.

        Args:
            kernel: the kernel.
            shape: grid, block, cluster and shared memory.
            values: bytes of its parameters, as the hardware's constant bank holds them.

        Raises:
            PerfmodelError: the kernel cannot be executed, or does something wrong that ends it.
        """
        launch = shape.launch(kernel.compiled.resources.static_shared_bytes)
        group = self._group(kernel, shape, values)
        known = group.by_values.get(values)
        if self.mode is Execute.NONE:
            chosen = known or self._not_executed(group, launch, values)
        elif self.mode is Execute.FIRST and known is not None:
            chosen = known
        elif not group.predicted:
            chosen = self._predicted_first(group, launch, values)
        else:
            name = (kernel.number, shape, values)
            chosen = self._repeats.again(name) or self._compared(group, known, launch, values, name)
        group.by_values[values] = chosen
        chosen.calls += 1
        return chosen.prediction.time.predicted_s

    def _not_executed(self, group: LaunchGroup, launch: Launch, values: bytes) -> _Predicted:
        """The prediction of a launch that is not executed; of one with other parameters where many are there already."""
        if len(group.predicted) >= MAX_PREDICTIONS:
            return group.predicted[-1]
        return group.add(self._prediction(group, launch, values))

    def _predicted_first(self, group: LaunchGroup, launch: Launch, values: bytes) -> _Predicted:
        """Predict a launch, then execute it; the prediction stays where executing it takes too long."""
        found = group.add(self._prediction(group, launch, values))
        try:
            found.behaviour = self._executed(group, launch, values, counted=True)
        except FaultError:
            group.predicted.pop()
            raise
        except (KeyboardInterrupt, SimulationError):
            found.calls += 1
            raise
        return found

    def _group(self, kernel: ProgramKernel, shape: Shape, values: bytes) -> LaunchGroup:
        """The group of a launch: its kernel, shape and the sizes of what its parameters point to."""
        sizes = tuple((position, one.size_bytes) for position, one in self._pointed(kernel, values).items())
        key = (kernel.number, shape, sizes)
        return self._groups.setdefault(key, LaunchGroup(kernel, shape))

    def _compared(
        self, group: LaunchGroup, known: _Predicted | None, launch: Launch, values: bytes, name: Hashable
    ) -> _Predicted:
        """Execute a launch of a known group; the prediction of a launch that did the same, or a new one."""
        settled = known is not None and known.calls >= WATCHED_CALLS and not group.varying
        room = len(group.predicted) < MAX_PREDICTIONS
        before = None
        if room and not settled:
            pointed = self._pointed(group.kernel, values)
            kinds = (group.accessed, group.written)
            tries = (self.memory.snapshot(k.expected(pointed, self.memory.allocations), SNAPSHOT_BYTES) for k in kinds)
            before = next((found for found in tries if found is not None), None)
        done = self._executed(group, launch, values, counted=before is not None)
        chosen = self._alike(group, known, launch, values, before, done)
        if before is not None and done.repeatable and done.accessed <= {one for one, _ in before.contents}:
            self._repeats.keep(name, before, done.written, chosen)
        return chosen

    def _alike(
        self,
        group: LaunchGroup,
        known: _Predicted | None,
        launch: Launch,
        values: bytes,
        before: Snapshot | None,
        done: _Behaviour,
    ) -> _Predicted:
        """The prediction of a launch that did the same as an executed one, or a new one."""
        distances = [one.behaviour.differs(done) if one.behaviour else np.inf for one in group.predicted]
        nearest = group.predicted[int(np.argmin(distances))]
        if min(distances) <= SAME_BEHAVIOUR:
            return nearest
        group.varying = group.varying or known is not None
        if before is None:
            return nearest
        return group.add(self._prediction(group, launch, values, before), done)

    def _prediction(
        self, group: LaunchGroup, launch: Launch, values: bytes, before: Snapshot | None = None
    ) -> Prediction:
        """The prediction of a launch on the memory as it is, or as it was."""
        kernel, shape = group.kernel, group.shape
        gpu, effort = self.scenario.gpu, self.effort
        try:
            memory = self.memory.scratch(kernel.module.variables, before)
            found = execute(kernel.compiled, launch, _call(kernel, values, memory), gpu, effort)
        except FaultError:
            memory = self.memory.scratch(kernel.module.variables, before, in_pages=True)
            found = execute(kernel.compiled, launch, _call(kernel, values, memory), gpu, effort)
        group.blocks_wait = bool(found.profile.launch.cooperative)
        configuration = LaunchConfiguration(grid=shape.grid, block=shape.block, shared=shape.shared_bytes)
        return prediction_of_launch(kernel.name, configuration, found.profile, self.scenario)

    def _pointed(self, kernel: ProgramKernel, values: bytes) -> dict[int, Allocation]:
        """Allocations that parameters point to, by position of the parameter."""
        found = {}
        for position, parameter in enumerate(kernel.parameters):
            if parameter.size_bytes == POINTER_BYTES:
                place = values[parameter.offset : parameter.offset + POINTER_BYTES]
                allocation = self.memory.allocation_at(int.from_bytes(place, "little"))
                if allocation is not None:
                    found[position] = allocation
        return found

    def _executed(self, group: LaunchGroup, launch: Launch, values: bytes, *, counted: bool) -> _Behaviour:
        """Execute all blocks on the program's memory."""
        kernel = group.kernel
        call = _call(kernel, values, self.memory.view(kernel.module.variables))
        budget = self.effort.budget
        launch = replace(launch, cooperative=launch.cooperative or group.blocks_wait)
        if not counted:
            done = execute_code(kernel.code, launch, call, mode=Mode.EXECUTE, budget=budget, printed=self.printed)
            return _Behaviour(visits=done.visits)
        touched = TouchedAllocations((*self.memory.allocations, self.memory.own), kernel.instructions)
        run = counted_run(
            kernel.code, launch, call, mode=Mode.EXECUTE, budget=budget, observers=[touched], printed=self.printed
        )
        pointed = self._pointed(kernel, values)
        written = [one for one in touched.written if one is not self.memory.own]
        accessed = {one for one in touched.accessed if one is not self.memory.own}
        accessed.update(self.memory.unseen_reads(kernel.module.variables.values()))
        group.written.note(written, pointed)
        group.accessed.note(accessed, pointed)
        for text in touched.overruns.values():
            self.overruns.setdefault(f"kernel {kernel.name}: {text}")
        accesses: dict[Hashable, float] = {}
        for one in run.instructions:
            name = (one.instruction, one.action, one.space)
            accesses[name] = accesses.get(name, 0.0) + float(one.sectors + one.wavefronts)
        own = self.memory.own in touched.accessed
        return _Behaviour(
            visits=run.visits,
            accesses=accesses,
            accessed=frozenset(accessed),
            written=tuple(written),
            repeatable=not own and self.printed.is_empty and not kernel.reads_clocks,
        )


def _call(kernel: ProgramKernel, values: bytes, memory: DeviceMemory) -> KernelCall:
    """A launch's parameters as scalars of their sizes."""
    parameters = tuple(np.frombuffer(values, f"V{one.size_bytes}", 1, one.offset)[0] for one in kernel.parameters)
    return KernelCall(parameters=parameters, memory=memory)
