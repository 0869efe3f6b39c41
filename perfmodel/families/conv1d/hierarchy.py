"""Estimate of what passes L1 and L2: the inputs and weights of each block, and what L1 keeps of them."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, ceil_div
from ...gpus.gpu import Gpu
from ...gpus.occupancy import l1_cache_bytes
from ...memory.request_coalescing import requests_in_step
from .accesses import sectors_of
from .problem import Conv1d
from .tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondL1:
    """Sectors that L2 serves and bytes that DRAM moves, for the whole launch with a cold L2."""

    l2_read_sectors: int
    l2_write_sectors: int
    dram_read_bytes: int
    dram_write_bytes: int


def _input_sectors(problem: Conv1d, done: Tally, resident_blocks: int, shared_bytes: int, gpu: Gpu) -> int:
    """Sectors of inputs that L2 is asked for: once for each SM where L1 keeps them between blocks, else for each block.

    Blocks run through the batch first, so that L1 keeps an element only if the whole batch fits; weights pass through L1,
    as nobody wants them twice. The SMs' first blocks begin together and miss the inputs together: they share requests.
    """
    in_use = min(resident_blocks * shared_bytes, gpu.shared_bytes_per_sm)
    if FLOAT_BYTES * problem.batch * problem.input_words > int(l1_cache_bytes(gpu, in_use)):
        return done.input_sectors
    asked = requests_in_step(min(problem.out_channels, gpu.sm_count), gpu, sectors=problem.batch)
    return problem.batch * sectors_of(problem.input_words) * asked


def beyond_l1(problem: Conv1d, done: Tally, resident_blocks: int, shared_bytes: int, gpu: Gpu) -> BeyondL1:
    """Traffic of one launch: weights reach an SM once per block, inputs as often as L1 cannot keep them.

    DRAM moves every tensor once (compulsory traffic); inputs that exceed L2 come again for each run through the batch.

    Args:
        problem: the convolution.
        done: what one configuration executes.
        resident_blocks: blocks of an SM at once, at least 1.
        shared_bytes: shared memory of a block, which takes L1's place.
        gpu: the GPU.
    """
    runs = 1
    if problem.batch * sectors_of(problem.input_words) * SECTOR_BYTES > gpu.l2_bytes:
        blocks_of_a_run = done.blocks // problem.out_channels
        runs = ceil_div(done.blocks, max(blocks_of_a_run, gpu.sm_count * resident_blocks))
    unique_words = problem.out_channels * (problem.weight_words + 1)
    return BeyondL1(
        l2_read_sectors=done.weight_sectors
        + _input_sectors(problem, done, resident_blocks, shared_bytes, gpu)
        + problem.out_channels,
        l2_write_sectors=done.global_stores.sectors,
        dram_read_bytes=FLOAT_BYTES * unique_words + runs * FLOAT_BYTES * problem.batch * problem.input_words,
        dram_write_bytes=FLOAT_BYTES * problem.blocks * problem.output_length,
    )
