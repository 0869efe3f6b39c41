"""From what a block executes to the counts of the launch and the serial structure of a warp."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...counts import COUNT_NAMES, Counts
from ...gpu import Gpu
from ...launch import Launch
from ...occupancy import occupancy
from ...work import Work
from .configuration import Conv1dConfiguration
from .counts_naive import naive_tally
from .counts_optimized import optimized_tally
from .hierarchy import BeyondL1, beyond_l1
from .problem import Conv1d
from .registers import estimated_registers, spilled_words
from .tally import Tally

INSTRUCTION_BYTES = 16
SECTORS_PER_WARP_WORD = 4
"""A spilled word of 32 lanes is one line."""


def tally(problem: Conv1d, configuration: Conv1dConfiguration) -> Tally:
    """What one configuration executes."""
    if configuration.channels_per_thread is None:
        return naive_tally(problem)
    return optimized_tally(problem, configuration.channels_per_thread)


def launch_counts(
    problem: Conv1d, configuration: Conv1dConfiguration, done: Tally, outer: BeyondL1, gpu: Gpu
) -> Counts:
    """Counts of the whole launch of one configuration, as scalars, from what it executes."""
    blocks = problem.blocks
    loads = done.shared_loads_per_block.times(blocks)
    stores = done.shared_stores_per_block.times(blocks)
    instructions = {name: blocks * count for name, count in done.instructions_per_block.items()}
    spills = blocks * done.warps_per_block * spilled_words(problem, configuration, gpu)
    requests = done.global_loads.requests + done.global_stores.requests + loads.requests + stores.requests + 2 * spills
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
        local_load_sectors=SECTORS_PER_WARP_WORD * spills,
        local_store_sectors=SECTORS_PER_WARP_WORD * spills,
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
    """Counts and serial structure of every configuration.

    The optimized kernel issues all its loads before it waits; the naive one waits once more, for the bias.
    """
    naive = np.array([c.channels_per_thread is None for c in configurations])
    shared_bytes = np.asarray(launch.static_shared_bytes) + np.asarray(launch.dynamic_shared_bytes)
    resident = occupancy(
        gpu,
        threads_per_block=launch.threads_per_block,
        registers_per_thread=np.array([estimated_registers(problem, c, gpu) for c in configurations]),
        shared_bytes_per_block=shared_bytes,
    ).blocks_per_sm
    tallies = [tally(problem, configuration) for configuration in configurations]
    counts = []
    for index, (configuration, done) in enumerate(zip(configurations, tallies, strict=True)):
        blocks_at_once = max(1, int(resident[index]))
        outer = beyond_l1(problem, blocks_at_once, int(shared_bytes[index]), done.global_stores.sectors, gpu)
        counts.append(launch_counts(problem, configuration, done, outer, gpu))
    return Work(
        launch=launch,
        counts=_stacked(counts),
        global_round_trips=np.where(naive, 2.0, 1.0),
        independent_chains=np.where(naive, 1.0, float(problem.output_length)),
        loop_code_bytes=INSTRUCTION_BYTES * np.array([done.instructions_per_warp for done in tallies]),
    )
