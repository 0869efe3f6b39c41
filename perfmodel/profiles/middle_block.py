"""The profile of a launch from its block in the middle alone: what its warps execute and wait for, within milliseconds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from msgspec import structs

from ..compiler.compiled import CompiledKernel
from ..core.counts import COUNT_NAMES, INSTRUCTION_CLASSES, Counts
from ..launch.launch import KernelCall, Launch
from ..machine_code.program import MachineCode
from ..simulator.execution import Code, largest_loop_bytes, steering_instructions
from ..simulator.simulation import Mode
from ..simulator.steering import SteeringLoads, Writes
from .blocks.watched_block import WatchedBlock, middle_block
from .constant_walks import ConstantObserver, ConstantWalks
from .executed_profile import executable
from .kernel_profile import TRAFFIC_COUNTS, KernelProfile
from .slowest_warp import slowest_warp
from .totals import CountedRun, counted_run
from .warp_traces import WarpObserver, traces_of

OF_CODE = (
    "warp_instructions",
    *INSTRUCTION_CLASSES,
    "local_load_sectors",
    "local_store_sectors",
    "shared_load_predicated_off",
    "shared_store_predicated_off",
    "async_copy_predicated_off",
)
"""Counts that the compiler decides; all others follow from the problem and the configuration."""
MIDDLE_BLOCK_NOTE = "memory accesses in closed form, instructions extrapolated from the block in the middle of the grid"

SM_BLOCKS = 8
"""Blocks of an SM whose reads of constants are followed."""
EVERY_BLOCK_NOTE = "every block is taken to do what the one in the middle of the grid does; traffic in closed form"


def _constants(code: MachineCode, launch: Launch, call: KernelCall, mode: Mode, apart: int) -> ConstantWalks:
    """What blocks that lie so far apart, as those that share an SM do, read of constant memory by index."""
    blocks = np.unique((middle_block(launch) + apart * np.arange(SM_BLOCKS)) % int(launch.blocks))
    observer = ConstantObserver()
    counted_run(code, launch, call, observers=[observer], mode=mode, blocks=blocks)
    return observer.walks(blocks.tolist())


def _followed(code: Code, launch: Launch, call: KernelCall) -> tuple[CountedRun, WatchedBlock, WarpObserver]:
    """The run of the block in the middle, and who has watched.

    Kernels hardly ever read what they have written to global memory; what they compute for that alone is left out, and the block
    is followed once more where one does.
    """
    for mode in (Mode.TRACE_WITHIN_BLOCK, Mode.TRACE):
        watched, observer = WatchedBlock(middle_block(launch)), WarpObserver(patterns=False)
        read, written = SteeringLoads(steering_instructions(code)), Writes()
        run = counted_run(
            code,
            launch,
            call,
            observers=[watched, observer, read, written],
            mode=mode,
            blocks=np.array([watched.block]),
            visits_by_warp=[watched.block],
        )
        if read.buffers(run.segments).isdisjoint(written.buffers(run.segments)):
            break
    return run, watched, observer


def middle_block_profile(
    compiled: CompiledKernel,
    launch: Launch,
    call: KernelCall,
    requests: float | None,
    sm_count: int,
    *,
    critical_path: bool = True,
) -> KernelProfile:
    """The profile with what the compiler decides: registers, code, instructions, spills, the slowest warp, what warps issue.

    What closed forms count exactly is left to them (NaN, `kernel_profile.completed_by`). Only warps of machine code are followed.

    Args:
        compiled: the kernel.
        launch: a single launch of it.
        call: its arguments.
        requests: memory requests of the whole launch (`Counts.memory_requests`). Instructions are those of the block in the
            middle in the same proportion, so that blocks at the edges of the grid count for the part of a block that they do.
            None where no closed form counts accesses: then every block is taken to do what the one in the middle does.
        sm_count: SMs of the GPU: blocks that lie so far apart share one.
        critical_path: follow the slowest warp, too.

    Raises:
        SimulationError: the kernel cannot be executed on the CPU.
    """
    code, reason = executable(compiled)
    run, watched, observer = _followed(code, launch, call)
    watched.take_visits(run.visits_by_warp)
    of_block = run.counts
    own = float(of_block.memory_requests)
    known = OF_CODE if requests is not None else [name for name in COUNT_NAMES if name not in TRAFFIC_COUNTS]
    factor = requests / own if own and requests is not None else float(launch.blocks)
    counts = {name: getattr(of_block, name) * factor if name in known else np.nan for name in COUNT_NAMES}
    profile = KernelProfile(
        launch=replace(launch, static_shared_bytes=compiled.resources.static_shared_bytes),
        resources=replace(compiled.resources, dynamic_shared_bytes=int(launch.dynamic_shared_bytes)),
        counts=Counts(**counts),
        global_round_trips=np.nan,
        loop_code_bytes=largest_loop_bytes(code, int(compiled.resources.code_bytes)),
        read_only_share=np.nan,
        exact=False,
    ).with_notes(MIDDLE_BLOCK_NOTE if requests is not None else EVERY_BLOCK_NOTE, *([] if reason is None else [reason]))
    if isinstance(code, MachineCode):
        followed = {watched.block: (run.paths[watched.block], run.visits_by_warp[watched.block])}
        traces = traces_of(code, launch, observer, followed)
        if len(traces.constants.lines):
            traces = structs.replace(traces, constants=_constants(code, launch, call, run.mode, sm_count))
        profile = replace(profile, traces=traces)
    if not critical_path:
        return profile
    slowest = slowest_warp(code, watched)
    return replace(
        profile,
        warp_cycles=slowest.cycles,
        longest_warp_instructions=slowest.instructions,
        global_round_trips=slowest.round_trips + slowest.copy_round_trips,
        read_only_share=slowest.read_only_share,
    )
