"""Simulate a launch: batches of blocks through the scheduler, and the result record."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import MAX_BLOCKS_PER_CLUSTER, MAX_THREADS_PER_BLOCK, WARP_SIZE, round_up
from ..errors import SimulationError
from ..ir.instruction import Space
from ..ir.kernel import Kernel
from ..launch.launch import KernelCall, Launch
from ..machine_code.program import MachineCode
from .access import Observers
from .block_classes.classes import BlockClasses
from .faults import FATAL, Fault, FaultError
from .global_memory import GlobalMemory, Segment
from .initialise import Contents, initialise
from .machine import BARRIERS, Batch, Environment
from .printed_text import PrintedText
from .program import align_up
from .race_detector import BYTES_PER_PLACE, BYTES_PER_PLACE_AND_WARP, RaceDetector
from .schedule import BlockPath, Limits, Scheduler, Tally
from .translate.slices import WITHIN_BLOCK, address_slice
from .translate.translation import Translation
from .undetermined import Undetermined, undetermined_at


class Mode(Enum):
    """What is computed: results, or only what decides addresses, predicates and control flow."""

    EXECUTE = "execute"
    TRACE = "trace"
    TRACE_WITHIN_BLOCK = "trace within block"
    """Likewise; what the kernel writes to global memory is not computed, though it may read it again (machine code alone)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a simulation may use before it ends with a SimulationError.

    ``seconds`` is processor time, so that a busy machine does not change what is answered; ``deadline_s`` is on the monotonic
    clock.
    """

    warp_instructions: int = 10**11
    seconds: float = 3600.0
    deadline_s: float = math.inf
    memory_bytes: int = 2**31
    faults: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What of a launch is executed, how, and who watches.

    Args:
        mode: compute results, or only what decides addresses and control flow.
        blocks: linear indices (x fastest) of the blocks to execute, shape ``(n,)``; all when None.
        budget: limits of instructions, seconds and bytes; the defaults when None.
        observers: each gets every memory access and every exchange within a warp as one `WarpAccess`, in program order.
        check: also report races, reads of uninitialised shared memory, divergent barriers and shuffles from inactive lanes,
            and return a simulation that a fatal fault ended instead of raising the fault.
        raced: blocks whose shared memory is then watched for races and uninitialised reads; all when None.
        visits_by_block: also give the visits of each block.
        visits_by_warp: blocks, among those executed, of whose warps the visits are given too.
        classes: follow other blocks too: those that do not do what the executed block of their class does leave it. The
            ``blocks`` are then the executed ones.
        printed: where the text goes that lanes print; it is dropped when None.
    """

    mode: Mode = Mode.EXECUTE
    blocks: NDArray[np.int64] | None = None
    budget: Budget | None = None
    observers: Observers = ()
    check: bool = False
    raced: NDArray[np.int64] | None = None
    visits_by_block: bool = False
    visits_by_warp: Sequence[int] = ()
    classes: BlockClasses | None = None
    printed: PrintedText | None = None


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What the executed blocks did.

    Args:
        kernel: the kernel.
        launch: the launch.
        mode: what was computed.
        blocks: linear indices of the executed blocks in their order.
        visits: warps with an active lane that entered each basic block, shape ``(basic blocks,)``.
        outputs: output buffers after execution; none in trace mode.
        faults: what the kernel did wrong.
        completed: False where a fatal fault ended the simulation, which then is the last of ``faults``.
        undecided: whether lanes of one instruction wrote to one shared place what tracing does not compute, so that only
            execution tells whether it was the same.
        diverged: whether lanes of a warp took different ways, so that counts may depend on where they run together again.
        undetermined: what was seen that the program and its data do not fix, so that counts need not be the hardware's.
        segments: where buffers and module variables lie in global memory.
        visits_by_block: visits by each block, shape ``(blocks, basic blocks)``, where asked for.
        visits_by_warp: visits by each warp of the blocks that were asked for, each of shape ``(warps, basic blocks)``.
        paths: the ways of these blocks' warps through machine code.
    """

    kernel: Kernel | MachineCode
    launch: Launch
    mode: Mode
    blocks: NDArray[np.int64]
    visits: NDArray[np.int64]
    outputs: Mapping[str, NDArray[Any]]
    faults: tuple[Fault, ...]
    completed: bool
    undecided: bool
    diverged: bool
    undetermined: tuple[Undetermined, ...]
    segments: tuple[Segment, ...] = field(repr=False)
    visits_by_block: NDArray[np.int64] | None = field(default=None, repr=False)
    visits_by_warp: Mapping[int, NDArray[np.int64]] = field(default_factory=dict, repr=False)
    paths: Mapping[int, BlockPath] = field(default_factory=dict, repr=False)


_TARGET_LANES = 65_536
"""Lanes of a batch at which the arrays of a few registers stay in the second-level cache."""
_WORKING_BYTES_PER_LANE = 512
"""Temporaries of one instruction and the analysed addresses that are kept."""
MAX_BLOCKS = 2**24
"""Blocks of one simulation; at the speed of 0.1 ms a block, half an hour."""


def _environment(translation: Translation, launch: Launch, contents: Contents) -> Environment:
    """What all batches of the launch share."""
    program = translation.program
    return Environment(
        launch=launch,
        instructions=program.instructions,
        memory=contents.memory,
        constant_bank=contents.constant_bank,
        parameter_bank=contents.parameter_bank,
        symbol_addresses=contents.symbol_addresses,
        shared_bytes=program.shared.size_bytes + int(launch.dynamic_shared_bytes),
        local_bytes=program.local.size_bytes,
        sites=translation.pool.sites,
    )


def _batch_rows(register_bytes_per_lane: int, environment: Environment, budget: Budget) -> int:
    """Blocks that run together within the memory budget."""
    threads: int = round_up(int(np.prod(environment.launch.block)), WARP_SIZE)
    shared_bytes = environment.shared_bytes
    held = register_bytes_per_lane + align_up(environment.local_bytes, 16)
    per_block = (held + _WORKING_BYTES_PER_LANE) * threads
    race_detector = (BYTES_PER_PLACE + BYTES_PER_PLACE_AND_WARP * threads // WARP_SIZE) / _grain(environment)
    per_block += int(shared_bytes * (1 + (race_detector if environment.check and environment.raced is None else 0)))
    available = budget.memory_bytes // 4
    if available < per_block:
        raise SimulationError(
            f"a block needs {4 * per_block / 2**20:.4g} MiB to be simulated, {budget.memory_bytes / 2**20:.4g} MiB are "
            "allowed: raise --max-memory-mib (Budget.memory_bytes)"
        )
    affordable: int = available // per_block
    return affordable if environment.launch.cooperative else max(1, min(_TARGET_LANES // threads, affordable))


def check_launch(launch: Launch) -> None:
    """Raise a SimulationError where a launch cannot be."""
    threads = int(np.prod(launch.block))
    if not 0 < threads <= MAX_THREADS_PER_BLOCK or min(launch.block) < 1 or min(launch.grid) < 1:
        raise SimulationError(f"grid {launch.grid} and block {launch.block} cannot be launched")
    if any(blocks < 1 or extent % blocks for extent, blocks in zip(launch.grid, launch.cluster, strict=True)):
        raise SimulationError(f"grid {launch.grid} is no multiple of the cluster {launch.cluster}")
    if launch.blocks_per_cluster > MAX_BLOCKS_PER_CLUSTER:
        raise SimulationError(f"cluster {launch.cluster} has more than {MAX_BLOCKS_PER_CLUSTER} blocks")


def block_ids(launch: Launch, blocks: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Linear indices of the blocks to run: those that are asked for, or all."""
    total = int(np.prod(launch.grid, dtype=np.int64))
    if blocks is None and total > MAX_BLOCKS:
        raise SimulationError(
            f"the launch has {total} blocks, at most {MAX_BLOCKS} run at once: choose some by `blocks`"
        )
    if blocks is None:
        return np.arange(total)
    chosen = np.asarray(blocks, np.int64).reshape(-1)
    if len(chosen) and (chosen.min() < 0 or chosen.max() >= total):
        raise SimulationError(
            f"blocks must lie in 0 … {total - 1}, {int(chosen.max())} and {int(chosen.min())} are asked for"
        )
    return chosen


def _translation(kernel: Kernel, trace: bool) -> Translation:
    """The translation for a mode, kept with the kernel."""
    key = (Translation, trace)
    if key not in kernel.cache:
        kernel.cache[key] = Translation(kernel, trace)
    translation: Translation = kernel.cache[key]
    return translation


def steering_instructions(kernel: Kernel) -> frozenset[int]:
    """Indices of the instructions whose result a branch, an address or a guard of a memory access depends on.

    What a kernel writes to global memory itself is not followed to where it reads it again.
    """
    program = _translation(kernel, True).program
    _, needed = address_slice(program, WITHIN_BLOCK)
    return frozenset(
        index
        for index, effect in enumerate(program.effects)
        if any(program.register_index[name] in needed for name in effect.writes)
    )


def kept_in_trace(kernel: Kernel) -> frozenset[Space]:
    """Spaces from which values are loaded that decide something."""
    return _translation(kernel, True).pool.kept


def outputs_of(call: KernelCall, memory: GlobalMemory) -> dict[str, NDArray[Any]]:
    """Output buffers of a call as they are now."""
    outputs: dict[str, NDArray[Any]] = {}
    for buffer in (*call.buffers, *call.constants):
        if buffer.output:
            data = memory.contents(buffer.name)[: buffer.array.nbytes]
            outputs[buffer.name] = data.view(buffer.array.dtype).reshape(buffer.array.shape)
    return outputs


def simulate(kernel: Kernel, launch: Launch, call: KernelCall, **options: Any) -> Simulation:
    """Execute thread blocks of one launch lane by lane on the CPU.

    Args:
        kernel: the kernel (``parse_module(ptx).kernel(name)``).
        launch: grid, block and dynamic shared bytes of one launch; static shared bytes are the kernel's own.
        call: arguments; buffers are copied where they are touched, so that the caller's arrays stay as they are.
        options: fields of `RunOptions`.

    Raises:
        SimulationError: an instruction is not supported, a budget is used up, or (without ``check``) a fault ended the
            simulation; the text names the instruction, its line, block and thread.

    >>> from perfmodel.launch.launch import Buffer
    >>> from perfmodel.ptx.parse import parse_module
    >>> text = '''.version 8.0
    ... .target sm_75
    ... .address_size 64
    ... .entry twice(.param .u64 out) { .reg .b32 %r<3>; .reg .b64 %a<4>; ld.param.u64 %a1, [out]; mov.u32 %r1, %tid.x;
    ...   add.u32 %r2, %r1, %r1; mul.wide.u32 %a2, %r1, 4; add.s64 %a3, %a1, %a2; st.global.u32 [%a3], %r2; ret; }'''
    >>> out = Buffer(name="out", array=np.zeros(4, np.uint32), output=True)
    >>> call, launch = KernelCall(parameters=(out,)), Launch(grid_x=1, block_x=4)
    >>> simulate(parse_module(text).kernel("twice"), launch, call).outputs["out"]
    array([0, 2, 4, 6], dtype=uint32)
    """
    given = RunOptions(**options)
    translation = _translation(kernel, given.mode is not Mode.EXECUTE)
    program = translation.program
    return run_launch(
        program.kernel,
        call,
        given,
        _environment(translation, launch, initialise(program, call)),
        partial(Scheduler, translation),
        program.register_bytes_per_lane,
        len(program.blocks),
    )


def _with_companions(launch: Launch, blocks: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Blocks and those that are executed with them, and the place of each among those asked for, -1 for the others."""
    run = launch.companions_of(blocks) if len(blocks) else blocks
    if run is blocks:
        return blocks, np.arange(len(blocks))
    asked = {block: position for position, block in enumerate(blocks.tolist())}
    return run, np.array([asked.get(block, -1) for block in run.tolist()], np.int64)


def run_launch(
    kernel: Kernel | MachineCode,
    call: KernelCall,
    options: RunOptions,
    environment: Environment,
    scheduler: Callable[[Batch, Limits, Tally], Scheduler],
    register_bytes_per_lane: int,
    places: int,
) -> Simulation:
    """Run thread blocks, as many at once as the memory budget allows.

    Args:
        kernel: PTX or machine code.
        call: its arguments.
        options: what is executed.
        environment: what all batches share.
        scheduler: makes what runs one batch.
        register_bytes_per_lane: of the program, at most.
        places: pieces of code whose visits are counted.
    """
    launch, budget, classes = environment.launch, options.budget or Budget(), options.classes
    check_launch(launch)
    blocks = block_ids(launch, options.blocks)
    environment.observers, environment.check = options.observers, options.check
    environment.raced, environment.max_faults = options.raced, budget.faults
    environment.printed = options.printed
    environment.memory.limit_bytes = budget.memory_bytes // 2
    rows = _batch_rows(register_bytes_per_lane, environment, budget) if classes is None else len(blocks)
    by_block = np.zeros((len(blocks), places), np.int64) if options.visits_by_block else None
    warps = -(-int(launch.threads_per_block) // WARP_SIZE)
    by_warp = {block: np.zeros((warps, places), np.int64) for block in options.visits_by_warp}
    paths = {block: BlockPath(np.zeros(places, np.int64)) for block in by_warp}
    tally = Tally(np.zeros(places, np.int64), by_block, by_warp, paths=paths)
    environment.phases = {block: path.phases for block, path in paths.items()}
    limits = Limits(budget.warp_instructions, budget.seconds, budget.deadline_s)
    rows = max(rows // environment.cluster_blocks, 1) * environment.cluster_blocks
    run, positions = _with_companions(launch, blocks)
    batches = (
        Batch(environment, run[start : start + rows], positions[start : start + rows], classes)
        for start in range(0, len(run), rows)
    )
    with np.errstate(all="ignore"):
        all(_run_batch(scheduler(batch, limits, tally)) for batch in batches)
    return Simulation(
        kernel=kernel,
        launch=launch,
        mode=options.mode,
        blocks=blocks,
        visits=tally.visits,
        outputs=outputs_of(call, environment.memory) if options.mode is Mode.EXECUTE else {},
        faults=tuple(environment.faults),
        completed=not any(fault.kind in FATAL for fault in environment.faults),
        undecided=environment.undecided,
        diverged=tally.diverged,
        undetermined=tuple(
            undetermined_at(cause, environment.instructions[index]) for cause, index in tally.undetermined.items()
        ),
        segments=tuple(environment.memory.segments),
        visits_by_block=tally.by_block,
        visits_by_warp=tally.by_warp,
        paths=tally.paths,
    )


def _grain(environment: Environment) -> int:
    """Bytes that all accesses to shared memory are aligned to and a multiple of, up to a word."""
    return min((min(site.width_bytes, 4) for site in environment.sites if site.space is Space.SHARED), default=4)


def _run_batch(scheduler: Scheduler) -> bool:
    """Run one batch; False where a fault that is only reported ended it."""
    batch = scheduler.batch
    raced = batch.environment.raced
    watched = np.ones(batch.rows, np.bool_) if raced is None else np.isin(batch.block_ids, raced)
    if batch.environment.check and watched.any() and batch.environment.cluster_blocks == 1:
        batch.race_detector = RaceDetector(
            watched,
            batch.threads,
            batch.shared_stride,
            BARRIERS,
            _grain(batch.environment),
            scheduler.program.swapped_loads,
        )
    try:
        scheduler.run()
        if batch.race_detector is not None:
            batch.race_detector.look()
            batch.environment.undecided = batch.environment.undecided or batch.race_detector.undecided
    except FaultError:
        if not batch.environment.check:
            raise
        return False
    return True
