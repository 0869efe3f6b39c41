"""Estimate of what passes L1 and L2: the inputs and weights of each block, and what L1 keeps of them."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ...gpus.occupancy import l1_cache_bytes
from ...memory.request_coalescing import requests_in_step
from ..accesses import sectors_of
from .configuration import Conv1dConfiguration
from .counts import Tally
from .launch import Kernel, kernel_of, naive_threads
from .problem import Conv1d


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Sectors that L2 serves and bytes that DRAM moves, for the whole launch with a cold L2."""

    l2_read_sectors: int
    l2_write_sectors: int
    dram_read_bytes: int
    dram_write_bytes: int


def read_bytes(problem: Conv1d, runs: int = 1) -> int:
    """Bytes that DRAM must deliver: weights and bias once, inputs as often as L2 is run through."""
    words = problem.out_channels * (problem.weight_words + 1) + runs * problem.batch * problem.input_words
    return FLOAT_BYTES * words


def _sectors_of_blocks(problem: Conv1d, done: Tally, kernel: Kernel, gpu: Gpu) -> tuple[int, int]:
    """Sectors of inputs and of weights that all blocks together ask L2 for, where L1 keeps nothing between blocks.

    The tiled kernel asks for what it loads, the weights of a block at most once. The others ask once a block, but the rolled
    naive kernel does for each output where L1 cannot keep what an output reads of the blocks at work.
    """
    of_inputs, of_weights = (done.blocks * sectors_of(words) for words in (problem.input_words, problem.weight_words))
    if kernel is Kernel.TILED:
        return done.input_loads.sectors, min(done.weight_loads.sectors, of_weights)
    if kernel is Kernel.NAIVE_ROLLED:
        window = 2 * FLOAT_BYTES * problem.in_channels * len(problem.used_taps)
        blocks = max(gpu.max_warps_per_sm // int(ceil_div(naive_threads(problem), WARP_SIZE)), 1)
        if window * blocks > gpu.l1_bytes_per_sm:
            again = problem.output_length * problem.in_channels * sectors_of(len(problem.used_taps))
            return problem.blocks * again, problem.blocks * again
    return of_inputs, of_weights


def traffic(
    problem: Conv1d,
    configuration: Conv1dConfiguration,
    gpu: Gpu,
    done: Tally,
    *,
    resident_blocks: int,
    shared_bytes: int,
) -> Traffic:
    """Traffic of one launch: weights reach an SM once per block, inputs as often as L1 cannot keep them.

    DRAM moves every tensor once (compulsory traffic); inputs that exceed L2 come again for each run through the batch.
    Blocks run through the batch first, so that L1 keeps an element only if the whole batch fits; weights pass through L1,
    as no other block wants them. The SMs' first blocks begin together and miss the inputs together: they share requests.

    Args:
        problem: the convolution.
        configuration: the candidate.
        gpu: the GPU.
        done: what the candidate executes.
        resident_blocks: blocks of an SM at once, at least 1.
        shared_bytes: shared memory of a block, which takes L1's place.
    """
    of_inputs, of_weights = _sectors_of_blocks(problem, done, kernel_of(problem, configuration, gpu), gpu)
    in_use = min(resident_blocks * shared_bytes, gpu.shared_bytes_per_sm)
    if FLOAT_BYTES * problem.batch * problem.input_words <= int(l1_cache_bytes(gpu, in_use)):
        asking = requests_in_step(min(problem.out_channels, gpu.sm_count), gpu, sectors=problem.batch)
        of_inputs = problem.batch * sectors_of(problem.input_words) * asking
    runs = 1
    if problem.batch * sectors_of(problem.input_words) * SECTOR_BYTES > gpu.l2_bytes:
        blocks_of_a_run = done.blocks // problem.out_channels
        runs = ceil_div(done.blocks, max(blocks_of_a_run, gpu.sm_count * resident_blocks))
    return Traffic(
        l2_read_sectors=of_weights + of_inputs + problem.out_channels,
        l2_write_sectors=done.stores.sectors,
        dram_read_bytes=read_bytes(problem, runs),
        dram_write_bytes=FLOAT_BYTES * problem.blocks * problem.output_length,
    )
