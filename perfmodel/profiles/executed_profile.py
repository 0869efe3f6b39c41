"""The profile of one launch from execution: its machine code run on the CPU, or its PTX where that is all there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from ..compiler.compiled import CompiledKernel
from ..core.counts import Counts
from ..errors import CompilerMissingError, SimulationError
from ..gpus.gpu import Gpu
from ..ir.instruction import Space
from ..ir.kernel import Kernel
from ..launch.launch import KernelCall, Launch
from ..machine_code.program import MachineCode, read_machine_code
from ..machine_code.schedule import copies_ahead, issue_cycles, loads_in_flight
from ..memory.access_counts import InstructionCount
from ..memory.cache_record import CacheRecord
from ..memory.hierarchy import CacheObserver, Hierarchy, executed_record, grid_shape, hierarchy_of, with_hierarchy
from ..memory.instruction_fetch import instruction_sectors
from ..ptx.parse import Module, parse_module
from ..simulator.execution import (
    Code,
    called_outside,
    execute_code,
    executions,
    instructions_of_places,
    largest_loop_bytes,
    steering_instructions,
    steering_without_long_ways,
)
from ..simulator.faults import Fault, FaultError, WaitsForBlocksError
from ..simulator.simulation import Budget
from ..simulator.steering import SteeringLoads
from .blocks.block_runs import Guest
from .blocks.launch_counts import LaunchCounts, count_launch
from .kernel_profile import TRAFFIC_COUNTS, KernelProfile
from .profile_cache import fetch, fetch_caches, keep, keep_caches, launch_key
from .slowest_warp import slowest_warp
from .warp_traces import WarpObserver, WarpTraces, traced_blocks, traces_of

_RUNTIME_FUNCTIONS = {"vprintf": "printf", "malloc": "malloc", "free": "free"}
"""Functions of the device's runtime that have no code in a cubin, by what sources call them."""
_OF_LOADS = (Space.GLOBAL, Space.GENERIC)
_OF_CACHES = (Space.GLOBAL, Space.LOCAL, Space.TEXTURE, Space.SURFACE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much is executed: every block or a sample drawn by the seed, and the budget of each simulation."""

    all_blocks: bool = False
    seed: int = 0
    budget: Budget = field(default_factory=Budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The profile of an executed launch, and what else its execution gave.

    ``instructions`` are totals of each memory instruction; ``executions`` says how often warps execute each instruction of the
    machine code (empty where PTX was executed); ``l1_hit_rate`` is NaN where no caches were simulated.
    ``standard_errors`` are those of counts that come from a sample of blocks. ``faults`` are what ``blocks_checked`` blocks did
    wrong, ``steering`` the buffers that decide what these do, where checks were asked for, ``dividing`` those that decide only
    whether a quotient or a root takes its long way; ``unchecked_alike`` says that each other block provably does what a checked
    one does.
    """

    profile: KernelProfile
    instructions: tuple[InstructionCount, ...]
    executions: tuple[float, ...]
    blocks_executed: int
    l1_hit_rate: float
    blocks_checked: int
    unchecked_alike: bool
    standard_errors: Counts | None
    faults: tuple[Fault, ...]
    steering: frozenset[str]
    dividing: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLaunch:
    """What of an execution holds for every GPU that executes the same code.

    ``profile`` has no traffic behind L1; ``visits`` says how often each place of the code was executed; ``shape`` is that of
    `LaunchCounts`.
    """

    profile: KernelProfile
    instructions: tuple[InstructionCount, ...]
    visits: tuple[float, ...]
    shape: tuple[int, ...]
    blocks_executed: int
    blocks_checked: int = 0
    unchecked_alike: bool = False
    standard_errors: Counts | None = None
    faults: tuple[Fault, ...] = ()
    steering: tuple[str, ...] = ()
    dividing: tuple[str, ...] = ()
    working: bytes = b""
    """`LaunchCounts.working`, a bit for each block of the grid; nothing where all count."""
    traces: bytes = b""
    """Those of the profile, where the record comes from disk or goes there."""


@lru_cache(maxsize=4)
def _module(ptx: str) -> Module:
    return parse_module(ptx)


def parsed(compiled: CompiledKernel) -> Kernel:
    """The kernel of a compiled kernel's PTX; one text serves several architectures, and its translation goes with it."""
    return _module(compiled.ptx).kernel(compiled.kernel_name)


@lru_cache(maxsize=8)
def executable(compiled: CompiledKernel) -> tuple[Code, str | None]:
    """What is executed of a compiled kernel, and why it is not the machine code, where it is not.

    Machine code is executed from sm_70 on, where nvdisasm is installed and every instruction is known; the error says what is
    missing where there is no PTX either.
    """
    try:
        code = read_machine_code(compiled)
        instructions_of_places(code)
    except (SimulationError, CompilerMissingError) as reason:
        if not compiled.ptx:
            raise
        return parsed(compiled), f"counted from PTX, instructions are estimates: {reason}"
    return code, None


def executed_profile(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu | None = None,
    effort: Effort | None = None,
    *,
    critical_path: bool = True,
) -> KernelProfile:
    """The profile of one launch of a compiled kernel; arguments and errors as for `execute`."""
    return execute(compiled, launch, call, gpu, effort, critical_path=critical_path).profile


def execute(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    gpu: Gpu | None = None,
    effort: Effort | None = None,
    *,
    critical_path: bool = True,
    check: bool = False,
    remember: bool = False,
    caches: bool = True,
) -> Execution:
    """Execute one launch of a compiled kernel, each block that is executed once for all that is asked of it.

    Where blocks wait for what others write, the launch is executed as a cooperative one: all blocks together.

    Every count is read off the machine code's instructions as they are executed. Where that cannot be executed (`executable`),
    the PTX is: its memory accesses are those of the machine code but for what the assembler merges or unrolls, and its
    instructions are estimates.

    Args:
        compiled: the kernel.
        launch: a single launch of it.
        call: its arguments.
        gpu: whose caches are simulated; None leaves the traffic behind L1 unknown.
        effort: how much is executed, and the budget.
        critical_path: follow the slowest warp too; else what it waits for is unknown.
        check: look for races, unwritten shared memory and divergent barriers in the blocks at the corners and in the middle of
            the grid, or in all blocks where all are executed.
        remember: take what an earlier execution of the same machine code with the same arguments gave, and keep what this one
            gives, on disk. Another GPU for which the code is the same then executes nothing.
        caches: simulate those of ``gpu``; without them far fewer blocks are executed, and the traffic behind L1 is unknown.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU, or does something wrong that ends it.
    """
    code, reason = executable(compiled)
    asked = _Asked(
        compiled=compiled,
        code=code,
        reason=reason,
        launch=launch,
        call=call,
        gpu=gpu,
        effort=effort or Effort(),
        critical_path=critical_path,
        check=check,
        caches=caches and gpu is not None,
    )
    try:
        return _executed(asked, remember)
    except WaitsForBlocksError:
        if launch.cooperative:
            raise
        return _executed(replace(asked, launch=replace(launch, cooperative=True)), remember)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The arguments of `execute`, and what is executed: ``code``, and why it is not the machine code, where it is not."""

    compiled: CompiledKernel
    code: Code
    reason: str | None
    launch: Launch
    call: KernelCall
    gpu: Gpu | None
    effort: Effort
    critical_path: bool
    check: bool
    caches: bool

    @property
    def identity(self) -> tuple[object, ...]:
        """What is executed, whatever source and macros it was made from."""
        kernel = self.compiled
        return (
            kernel.kernel_name,
            kernel.architecture,
            kernel.resources,
            self.reason or kernel.cubin,
            kernel.ptx if self.reason else "",
        )

    @property
    def trips(self) -> Mapping[int, int]:
        """The round trip of each load that shares one with others; where PTX is executed, each has its own."""
        return loads_in_flight(self.code) if isinstance(self.code, MachineCode) else {}

    @property
    def ahead(self) -> int:
        """Groups of asynchronous copies on their way while others are used; not looked for where PTX is executed."""
        return copies_ahead(self.code) if isinstance(self.code, MachineCode) else 0

    @property
    def cycles(self) -> NDArray[np.int64] | None:
        """When a warp alone issues each instruction; where PTX is executed, nobody knows."""
        return issue_cycles(self.code) if isinstance(self.code, MachineCode) else None


def _executed(asked: _Asked, remember: bool) -> Execution:
    """One launch executed, or what an earlier execution of it gave."""
    launch, gpu, effort = asked.launch, asked.gpu, asked.effort
    parts = (asked.identity, launch, asked.call, effort.all_blocks, effort.seed)
    key = launch_key(*parts, asked.critical_path, asked.check, gpu is not None) if remember else None
    record_key = launch_key(*parts, "caches") if remember else None
    traffic_key = launch_key(*parts, _without_clock(gpu)) if remember and gpu is not None and asked.caches else None
    counted = _fetched(key)
    traffic = fetch(traffic_key, Hierarchy)
    record: CacheRecord | None = None
    if counted is None:
        counted, record = _execute(asked)
        _keep(key, counted)
        keep_caches(record_key, record)
    if traffic is None and gpu is not None and asked.caches:
        record = record or fetch_caches(record_key)
        if record is None:
            record = _record(asked, gpu, counted)
            keep_caches(record_key, record)
        traffic = hierarchy_of(
            record,
            launch,
            gpu,
            counted.profile.counts,
            asked.compiled.resources,
            instruction_read_sectors=_fetched_code(asked, counted, gpu),
            shape=counted.shape,
            working=_working(counted),
            seed=effort.seed,
        )
        keep(traffic_key, traffic)
    profile = counted.profile
    if traffic is not None:
        counts = with_hierarchy(profile.counts, traffic)
        profile = replace(profile, counts=counts, touched_bytes=traffic.touched_bytes, caches_simulated=True)
        profile = profile.with_notes(*traffic.notes)
        if gpu is not None and not gpu.architecture.array_tiles_counted and _reads_tiles(counts):
            profile = replace(profile, exact=False).with_notes(
                f"sectors of textures and surfaces are estimates: how {gpu.architecture.name} tiles CUDA arrays was not counted"
            )
    return Execution(
        profile=profile,
        instructions=counted.instructions,
        executions=_executions(asked.code, counted),
        blocks_executed=counted.blocks_executed,
        l1_hit_rate=np.nan if traffic is None else traffic.l1_hit_rate,
        blocks_checked=counted.blocks_checked,
        unchecked_alike=counted.unchecked_alike,
        standard_errors=counted.standard_errors,
        faults=counted.faults,
        steering=frozenset(counted.steering),
        dividing=frozenset(counted.dividing),
    )


def _execute(asked: _Asked) -> tuple[CountedLaunch, CacheRecord | None]:
    """One run for counts, checks, the critical path and the caches."""
    code, launch, gpu, effort = asked.code, asked.launch, asked.gpu, asked.effort
    checked = _checked_blocks(launch, effort) if asked.check else None
    guests = []
    steering = list(dict.fromkeys((steering_instructions(code), steering_without_long_ways(code))))
    if checked is not None:
        guests = [Guest(blocks=checked, make=partial(SteeringLoads, one), spaces=_OF_LOADS) for one in steering]
    follow = gpu is not None and asked.critical_path and isinstance(code, MachineCode)
    if follow:
        guests.append(Guest(blocks=traced_blocks(launch), make=WarpObserver, follow=True))
    if gpu is not None and asked.caches:
        make = partial(
            CacheObserver,
            launch,
            gpu,
            asked.compiled.resources,
            trips=asked.trips,
            cycles=asked.cycles,
            ahead=asked.ahead,
            seed=effort.seed,
        )
        guests.append(Guest(blocks=make().blocks, make=make, spaces=_OF_CACHES))
    found = count_launch(
        code,
        launch,
        asked.call,
        all_blocks=effort.all_blocks,
        seed=effort.seed,
        budget=effort.budget,
        guests=guests,
        checked=checked,
    )
    counted = _counted_launch(asked, found)
    if checked is not None:
        faults = _executed_faults(asked, found.checked) if found.undecided else found.faults
        every, further = (found.observers[k].buffers(found.segments) for k in (0, len(steering) - 1))
        counted = replace(
            counted,
            faults=faults,
            blocks_checked=len(found.checked),
            steering=tuple(sorted(further)),
            dividing=tuple(sorted(every - further)),
        )
    if follow:
        assert isinstance(code, MachineCode)
        watching = found.observers[-2 if asked.caches else -1]
        traces = traces_of(
            code,
            launch,
            watching,
            found.followed,
            found.longest,
            working=0 if found.working is None else len(found.working),
            idle_instructions=found.idle_instructions,
        )
        counted = replace(counted, profile=replace(counted.profile, traces=traces))
    if gpu is None or not asked.caches:
        return counted, None
    of_others = found.working is not None and not np.array_equal(make(working=found.working).blocks, guests[-1].blocks)
    if found.shape != grid_shape(launch) or of_others:
        # the blocks beside which a block lies, or runs, are others than the grid says
        return counted, _record(asked, gpu, counted)
    caches: CacheObserver = found.observers[-1]
    return counted, caches.record(found.segments)


def _without_clock(gpu: Gpu) -> Gpu:
    """The GPU as its caches are simulated: how fast it is does not matter."""
    return replace(gpu, base_clock_hz=0.0, boost_clock_hz=0.0)


def _keep(key: str | None, counted: CountedLaunch) -> None:
    """Keep a record on disk, with the traces of its profile as bytes."""
    traces: WarpTraces | None = counted.profile.traces
    if key is not None and traces is not None:
        counted = replace(counted, profile=replace(counted.profile, traces=None), traces=traces.to_bytes())
    keep(key, counted)


def _fetched(key: str | None) -> CountedLaunch | None:
    """The record kept under a key."""
    counted = fetch(key, CountedLaunch)
    if counted is None or not counted.traces:
        return counted
    return replace(counted, profile=replace(counted.profile, traces=WarpTraces.from_bytes(counted.traces)), traces=b"")


def _counted_launch(asked: _Asked, found: LaunchCounts) -> CountedLaunch:
    compiled, code, reason, launch = asked.compiled, asked.code, asked.reason, asked.launch
    profile = KernelProfile(
        launch=replace(launch, static_shared_bytes=compiled.resources.static_shared_bytes),
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=replace(found.counts, **dict.fromkeys(TRAFFIC_COUNTS, np.nan)),
        global_round_trips=np.nan,
        loop_code_bytes=largest_loop_bytes(code, int(compiled.resources.code_bytes)),
        read_only_share=np.nan,
        exact=found.exact and reason is None,
    ).with_notes(*found.notes, *([] if reason is None else [reason]), *_notes_on_calls(code))
    if asked.critical_path:
        slowest = slowest_warp(code, found.watched)
        profile = replace(
            profile,
            warp_cycles=slowest.cycles,
            longest_warp_instructions=slowest.instructions,
            global_round_trips=slowest.round_trips + slowest.copy_round_trips,
            read_only_share=slowest.read_only_share,
        )
    return CountedLaunch(
        profile=profile,
        instructions=found.instructions,
        visits=tuple(found.visits.tolist()),
        shape=found.shape,
        working=b""
        if found.working is None
        else np.packbits(np.isin(np.arange(launch.blocks), found.working)).tobytes(),
        blocks_executed=found.blocks_executed,
        unchecked_alike=found.unchecked_alike,
        standard_errors=found.standard_errors,
    )


def _reads_tiles(counts: Counts) -> bool:
    return float(counts.texture_sectors + counts.surface_load_sectors + counts.surface_store_sectors) > 0


def _notes_on_calls(code: Code) -> list[str]:
    names = [_RUNTIME_FUNCTIONS[name] for name in called_outside(code) if name in _RUNTIME_FUNCTIONS]
    return [f"calls of {' and '.join(names)} are counted, but not the instructions inside them"] if names else []


def _working(counted: CountedLaunch) -> NDArray[np.int64] | None:
    """`LaunchCounts.working`."""
    return np.flatnonzero(np.unpackbits(np.frombuffer(counted.working, np.uint8))) if counted.working else None


def _record(asked: _Asked, gpu: Gpu, counted: CountedLaunch) -> CacheRecord:
    """What the blocks that a GPU's caches ask for do, of a launch that is counted already."""
    return executed_record(
        asked.code,
        asked.launch,
        asked.call,
        gpu,
        asked.compiled.resources,
        trips=asked.trips,
        cycles=asked.cycles,
        ahead=asked.ahead,
        shape=counted.shape,
        working=_working(counted),
        seed=asked.effort.seed,
        budget=asked.effort.budget,
    )


def _checked_blocks(launch: Launch, effort: Effort) -> NDArray[np.int64]:
    """Blocks that are checked: at the corners and in the middle of the grid, or all."""
    if effort.all_blocks:
        return np.arange(int(launch.blocks), dtype=np.int64)
    return np.sort(np.array(launch.corners_and_middle(), np.int64))


def _executed_faults(asked: _Asked, blocks: NDArray[np.int64]) -> tuple[Fault, ...]:
    """Faults where lanes write one place at once, which is right where they write the same: their values are computed."""
    found = execute_code(asked.code, asked.launch, asked.call, blocks=blocks, budget=asked.effort.budget, check=True)
    if not found.completed:
        raise FaultError(found.faults[-1])
    return found.faults


def _executions(code: Code, counted: CountedLaunch) -> tuple[float, ...]:
    if not isinstance(code, MachineCode):
        return ()
    return tuple(executions(code, np.array(counted.visits)).tolist())


def _fetched_code(asked: _Asked, counted: CountedLaunch, gpu: Gpu) -> float:
    """Sectors of code that the launch fetches from L2; 0 where the machine code is not executed."""
    if not isinstance(asked.code, MachineCode):
        return 0.0
    return instruction_sectors(asked.code, executions(asked.code, np.array(counted.visits)), asked.launch, gpu)
