"""Estimate of what passes L1 and L2: each block reads all input of its batch element and the weights of its channel."""

from __future__ import annotations

from dataclasses import dataclass

from ...definitions import FLOAT_BYTES, SECTOR_BYTES, ceil_div
from ...gpu import Gpu
from ...occupancy import l1_cache_bytes
from .problem import Conv1d


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondL1:
    """Sectors that L2 serves and bytes that DRAM moves, for the whole launch with a cold L2."""

    l2_read_sectors: int
    l2_write_sectors: int
    dram_read_bytes: int
    dram_write_bytes: int


def _sectors(words: int) -> int:
    return int(ceil_div(words * FLOAT_BYTES, SECTOR_BYTES))


def _reads_of_an_input(problem: Conv1d, resident_blocks: int, shared_bytes: int, gpu: Gpu) -> int:
    """How often L2 is asked for a batch element: once for each SM where L1 keeps it between blocks, else for each block.

    Blocks run through the batch first, so that L1 keeps an element only if the whole batch fits beside the weights.
    """
    wanted = FLOAT_BYTES * (problem.batch * problem.input_words + resident_blocks * problem.weight_words)
    in_use = min(resident_blocks * shared_bytes, gpu.shared_bytes_per_sm)
    if wanted <= int(l1_cache_bytes(gpu, in_use)):
        return min(problem.out_channels, gpu.sm_count)
    return problem.out_channels


def beyond_l1(problem: Conv1d, resident_blocks: int, shared_bytes: int, output_sectors: int, gpu: Gpu) -> BeyondL1:
    """Traffic of one launch: weights reach an SM once per block, inputs as often as L1 cannot keep them.

    DRAM moves every tensor once (compulsory traffic); inputs that exceed L2 come again for each run through the batch.

    Args:
        problem: the convolution.
        resident_blocks: blocks of an SM at once, at least 1.
        shared_bytes: shared memory of a block, which takes L1's place.
        output_sectors: sectors that the blocks store.
        gpu: the GPU.
    """
    input_sectors = problem.batch * _sectors(problem.input_words)
    weight_sectors = problem.out_channels * _sectors(problem.weight_words)
    runs = 1
    if input_sectors * SECTOR_BYTES > gpu.l2_bytes:
        runs = ceil_div(problem.blocks, max(problem.batch, gpu.sm_count * resident_blocks))
    unique_words = problem.out_channels * (problem.weight_words + 1)
    return BeyondL1(
        l2_read_sectors=problem.batch * weight_sectors
        + input_sectors * _reads_of_an_input(problem, resident_blocks, shared_bytes, gpu)
        + problem.out_channels,
        l2_write_sectors=output_sectors,
        dram_read_bytes=FLOAT_BYTES * unique_words + runs * FLOAT_BYTES * problem.batch * problem.input_words,
        dram_write_bytes=FLOAT_BYTES * problem.blocks * problem.output_length,
    )
