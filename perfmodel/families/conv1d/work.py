"""From what a block executes to the counts of the launch and the serial structure of a warp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...core.constants import INSTRUCTION_BYTES
from ...core.counts import COUNT_NAMES, Counts
from ...gpus.gpu import Gpu
from ...gpus.occupancy import occupancy
from ...launch.launch import Launch
from ...profiles.work import Work
from .configuration import Conv1dConfiguration
from .counts_naive import naive_tally
from .counts_naive_rolled import naive_rolled_tally
from .counts_optimized import optimized_tally
from .counts_tiled import tiled_tally
from .hierarchy import BeyondL1, beyond_l1
from .kernels import Kernel, kernel_of
from .problem import Conv1d
from .registers import estimated_registers
from .tally import Tally


def tally(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> Tally:
    """What one configuration executes."""
    kernel = kernel_of(problem, configuration, gpu)
    if configuration.channels_per_thread is None:
        return naive_tally(problem) if kernel is Kernel.NAIVE else naive_rolled_tally(problem, gpu)
    counted = optimized_tally if kernel is Kernel.OPTIMIZED else tiled_tally
    return counted(problem, configuration.channels_per_thread)


def launch_counts(done: Tally, outer: BeyondL1) -> Counts:
    """Counts of the whole launch of one configuration, as scalars, from what it executes."""
    blocks = done.blocks
    loads = done.shared_loads_per_block.times(blocks)
    stores = done.shared_stores_per_block.times(blocks)
    instructions = {name: blocks * count for name, count in done.instructions_per_block.items()}
    requests = done.global_loads.requests + done.global_stores.requests + loads.requests + stores.requests
    return Counts(
        global_load_requests=done.global_loads.requests,
        global_load_sectors=done.global_loads.sectors,
        global_load_lines=done.global_loads.lines,
        global_store_requests=done.global_stores.requests,
        global_store_sectors=done.global_stores.sectors,
        shared_load_requests=loads.requests,
        shared_store_requests=stores.requests,
        shared_load_wavefronts=loads.wavefronts,
        shared_store_wavefronts=stores.wavefronts,
        shared_bank_conflicts=loads.wavefronts + stores.wavefronts - loads.ideal - stores.ideal,
        warp_instructions=sum(instructions.values()) + requests,
        l2_read_sectors=outer.l2_read_sectors,
        l2_write_sectors=outer.l2_write_sectors,
        dram_read_bytes=outer.dram_read_bytes,
        dram_write_bytes=outer.dram_write_bytes,
        **instructions,
    )


def _stacked(counts: Sequence[Counts]) -> Counts:
    return Counts(**{name: np.array([getattr(c, name) for c in counts], np.float64) for name in COUNT_NAMES})


def conv1d_work(problem: Conv1d, configurations: Sequence[Conv1dConfiguration], launch: Launch, gpu: Gpu) -> Work:
    """Counts and serial structure of every configuration."""
    shared_bytes = np.asarray(launch.static_shared_bytes) + np.asarray(launch.dynamic_shared_bytes)
    resident = occupancy(
        gpu,
        threads_per_block=launch.threads_per_block,
        registers_per_thread=np.array([estimated_registers(problem, c, gpu) for c in configurations]),
        shared_bytes_per_block=shared_bytes,
    ).blocks_per_sm
    tallies = [tally(problem, configuration, gpu) for configuration in configurations]
    counts = []
    for index, done in enumerate(tallies):
        blocks_at_once = max(1, int(resident[index]))
        outer = beyond_l1(problem, done, blocks_at_once, int(shared_bytes[index]), gpu)
        counts.append(launch_counts(done, outer))
    return Work(
        launch=launch,
        counts=_stacked(counts),
        global_round_trips=np.array([float(done.round_trips) for done in tallies]),
        independent_chains=np.array([float(done.chains) for done in tallies]),
        loop_code_bytes=INSTRUCTION_BYTES * np.array([done.loop_instructions for done in tallies]),
        read_only_share=1.0,
    )
