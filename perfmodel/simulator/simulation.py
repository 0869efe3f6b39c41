"""Simulate a launch: batches of blocks through the scheduler, and the result record."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..counts import Counts
from ..definitions import MAX_THREADS_PER_BLOCK, WARP_SIZE, round_up
from ..errors import SimulationError
from ..launch import Buffer, KernelCall, Launch
from .faults import FATAL, Fault, FaultError
from .initialise import Contents, initialise
from .limits import Limits
from .machine import BARRIERS, Batch, Environment
from .memory import GlobalMemory
from .module import Kernel, Module, Space
from .program import Program, align_up
from .recorder import AccessObserver, Action, InstructionCount, Recorder
from .schedule import Reconvergence, Scheduler, Tally
from .shadow import BYTES_PER_SHARED_BYTE, BYTES_PER_SHARED_BYTE_AND_WARP, Shadow
from .totals import launch_counts
from .translate.translation import Translation


class Mode(Enum):
    """What is computed: results, or only what decides addresses, predicates and control flow."""

    EXECUTE = "execute"
    TRACE = "trace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a simulation may use before it ends with a SimulationError."""

    warp_instructions: int = 10**11
    seconds: float = 3600.0
    memory_bytes: int = 2**31
    faults: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockTotals:
    """Totals of each executed block: accesses by action and space, and visits by basic block.

    Arrays have one row for each block. The fields of ``accesses`` are those of `recorder.BLOCK_TOTALS`.
    """

    accesses: Mapping[tuple[Action, Space], NDArray[np.int64]]
    visits: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """What the executed blocks did.

    ``blocks`` are their linear indices in the order of execution; ``visits`` has one element per basic block of the
    kernel: executions by warps with an active lane. ``outputs`` holds the output buffers after execution (in trace
    mode: none). ``completed`` is False where a fatal fault ended the simulation, which then is the last of ``faults``.
    ``diverged`` says that lanes of a warp parted, so that counts may depend on where they meet again: a run with
    ``Reconvergence.LATE`` shows by how much. ``per_warp``: visits by each warp, of shape
    (blocks, warps of a block, basic blocks).
    """

    kernel: Kernel
    launch: Launch
    mode: Mode
    blocks: NDArray[np.int64]
    instructions: tuple[InstructionCount, ...]
    visits: NDArray[np.int64]
    outputs: Mapping[str, NDArray[Any]]
    faults: tuple[Fault, ...]
    completed: bool
    diverged: bool
    per_block: BlockTotals | None = field(default=None, repr=False)
    per_warp: NDArray[np.int64] | None = field(default=None, repr=False)

    @cached_property
    def warp_instructions(self) -> int:
        """Executed PTX instructions of warps."""
        return sum(
            int(visits) * len(block.instructions) for visits, block in zip(self.visits, self.kernel.blocks, strict=True)
        )

    def counts(self) -> Counts:
        """Counts of the executed blocks under the project's names, instruction classes from PTX."""
        return launch_counts(self.kernel, self.instructions, self.visits)


_TARGET_LANES = 65_536
"""Lanes of a batch at which the arrays of a few registers stay in the second-level cache."""
_WORKING_BYTES_PER_LANE = 512
"""Temporaries of one instruction and the analysed addresses that are kept."""
MAX_BLOCKS = 2**24
"""Blocks of one simulation; at the speed of 0.1 ms a block, half an hour."""


def _environment(
    program: Program, launch: Launch, contents: Contents, recorder: Recorder, max_faults: int, check: bool
) -> Environment:
    """What all batches of the launch share."""
    return Environment(
        launch=launch,
        instructions=program.instructions,
        memory=contents.memory,
        constant_bank=contents.constant_bank,
        parameter_bank=contents.parameter_bank,
        symbol_addresses=contents.symbol_addresses,
        shared_bytes=program.shared.size_bytes + int(launch.dynamic_shared_bytes),
        local_bytes=program.local.size_bytes,
        recorder=recorder,
        check=check,
        max_faults=max_faults,
    )


def _batch_rows(register_bytes_per_lane: int, environment: Environment, budget: Budget) -> int:
    """Blocks that run together within the memory budget."""
    threads: int = round_up(int(np.prod(environment.launch.block)), WARP_SIZE)
    arena, shared_bytes = environment.memory.size_bytes, environment.shared_bytes
    held = register_bytes_per_lane + align_up(environment.local_bytes, 16)
    per_block = (held + _WORKING_BYTES_PER_LANE) * threads
    shadow = BYTES_PER_SHARED_BYTE + BYTES_PER_SHARED_BYTE_AND_WARP * threads // WARP_SIZE
    per_block += shared_bytes * (1 + (shadow if environment.check else 0))
    available = (budget.memory_bytes - 2 * arena) // 4
    if available < per_block:
        raise SimulationError(f"memory budget of {budget.memory_bytes} bytes is too small for buffers of {arena} bytes")
    rows: int = max(1, min(_TARGET_LANES // threads, available // per_block))
    return rows


def check_launch(launch: Launch) -> None:
    """Raise a SimulationError where a launch cannot be."""
    threads = int(np.prod(launch.block))
    if not 0 < threads <= MAX_THREADS_PER_BLOCK or min(launch.block) < 1 or min(launch.grid) < 1:
        raise SimulationError(f"grid {launch.grid} and block {launch.block} cannot be launched")


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
    if trace not in kernel.translations:
        kernel.translations[trace] = Translation(kernel, trace)
    return kernel.translations[trace]


def outputs_of(call: KernelCall, memory: GlobalMemory) -> dict[str, NDArray[Any]]:
    """Output buffers of a call as they are now."""
    buffers = [argument for argument in call.parameters if isinstance(argument, Buffer)]
    found: dict[str, NDArray[Any]] = {}
    for buffer in (*buffers, *call.constants):
        if buffer.output:
            data = memory.contents(buffer.name).copy()
            found[buffer.name] = data[: buffer.array.nbytes].view(buffer.array.dtype).reshape(buffer.array.shape)
    return found


def simulate(
    module: Module,
    kernel: str,
    launch: Launch,
    call: KernelCall,
    *,
    mode: Mode = Mode.EXECUTE,
    blocks: NDArray[np.int64] | None = None,
    budget: Budget | None = None,
    observer: AccessObserver | None = None,
    check: bool = False,
    per_block: bool = False,
    per_warp: bool = False,
    reconvergence: Reconvergence = Reconvergence.EARLY,
) -> Simulation:
    """Run thread blocks of one launch on the CPU and count what they do.

    Args:
        module: the parsed PTX.
        kernel: name of the entry point.
        launch: grid, block and dynamic shared bytes of a single launch; its static shared bytes come from the PTX.
        call: arguments; buffers are copied, so that nothing of the caller changes.
        mode: results, or only what decides addresses and control flow.
        blocks: linear indices (x fastest) of the blocks to run; all when None.
        budget: instructions, seconds and bytes; defaults when None.
        observer: receives every global access in program order.
        check: report races, uninitialised shared memory, divergent barriers and shuffles from inactive lanes as well,
        and return a
            simulation that a fatal fault ended instead of raising it.
        per_block: also sum by block.
        per_warp: also count the visits of each warp.
        reconvergence: where lanes of a warp that a branch parted meet again.

    Raises:
        SimulationError: something is not supported, a budget is used up, or (without ``check``) a fault ended the
        simulation.
    """
    budget = budget or Budget()
    check_launch(launch)
    translation = _translation(module.kernel(kernel), mode is Mode.TRACE)
    program = translation.program
    contents = initialise(program, call)
    chosen = block_ids(launch, blocks)
    recorder = Recorder(translation.pool.sites, observer, len(chosen), per_block)
    environment = _environment(program, launch, contents, recorder, budget.faults, check)
    tally = run_blocks(
        partial(Scheduler, translation, reconvergence=reconvergence),
        environment,
        chosen,
        budget,
        program.register_bytes_per_lane,
        len(program.blocks),
        per_block=per_block,
        per_warp=per_warp,
    )
    return Simulation(
        kernel=program.kernel,
        launch=launch,
        mode=mode,
        blocks=chosen,
        instructions=recorder.instruction_counts(),
        visits=tally.visits,
        outputs=outputs_of(call, contents.memory) if mode is Mode.EXECUTE else {},
        faults=tuple(environment.faults),
        completed=not any(fault.kind in FATAL for fault in environment.faults),
        diverged=tally.diverged,
        per_block=block_totals(recorder, tally),
        per_warp=tally.by_warp,
    )


def block_totals(recorder: Recorder, tally: Tally) -> BlockTotals | None:
    """Totals of each block, where they were asked for."""
    return None if tally.by_block is None else BlockTotals(accesses=recorder.by_block or {}, visits=tally.by_block)


def run_blocks(
    scheduler: Callable[[Batch, Limits, Tally], Scheduler],
    environment: Environment,
    blocks: NDArray[np.int64],
    budget: Budget,
    register_bytes_per_lane: int,
    places: int,
    *,
    per_block: bool,
    per_warp: bool,
) -> Tally:
    """Run thread blocks, as many at once as the memory budget allows.

    Args:
        scheduler: makes what runs one batch.
        environment: what all batches share.
        blocks: linear indices of the blocks.
        budget: instructions, seconds and bytes.
        register_bytes_per_lane: of the program, at most.
        places: pieces of code whose visits are counted.
        per_block: also count visits by block.
        per_warp: also count those of each warp.
    """
    rows = _batch_rows(register_bytes_per_lane, environment, budget)
    by_block = np.zeros((len(blocks), places), np.int64) if per_block else None
    warps = -(-int(environment.launch.threads_per_block) // WARP_SIZE)
    by_warp = np.zeros((len(blocks), warps, places), np.int64) if per_warp else None
    tally = Tally(np.zeros(places, np.int64), by_block, by_warp)
    limits = Limits(budget.warp_instructions, budget.seconds, started=time.monotonic())
    batches = (Batch(environment, blocks[start : start + rows], start) for start in range(0, len(blocks), rows))
    with np.errstate(all="ignore"):
        all(_run_batch(scheduler(batch, limits, tally)) for batch in batches)
    return tally


def _run_batch(scheduler: Scheduler) -> bool:
    """Run one batch; False where a fault that is only reported ended it."""
    batch = scheduler.batch
    if batch.environment.check:
        batch.shadow = Shadow(batch.rows, batch.threads, batch.shared_stride, BARRIERS)
    try:
        scheduler.run()
    except FaultError:
        if not batch.environment.check:
            raise
        return False
    return True
