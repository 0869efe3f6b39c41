"""Launches made of counts alone, on one GPU, for tests of the time model."""

from __future__ import annotations

from typing import Any

from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.kernel_profile import KernelProfile, estimated_resources

GPU = load_gpu("rtx-2080-ti")
SMS = 68


def work(blocks: int = SMS * 4, threads: int = 256, **counts: Any) -> KernelProfile:
    return profile_of(Launch(grid_x=blocks, block_x=threads), Counts(**counts))


def profile_of(launch: Launch, counts: Counts, stack_bytes: Any = 0, **path: Any) -> KernelProfile:
    resources = estimated_resources(launch, 32, stack_bytes=stack_bytes)
    return KernelProfile(launch=launch, resources=resources, counts=counts, **path)


BUSY = {
    "warp_instructions": 4e6,
    "fp32_fma": 2e6,
    "integer": 5e5,
    "global_load_requests": 1e5,
    "global_load_lines": 1e5,
    "global_load_sectors": 4e5,
    "shared_load_requests": 1e5,
    "shared_load_wavefronts": 2e5,
    "special_function": 1e4,
    "barriers": 2e4,
    "l2_read_sectors": 3e5,
    "dram_read_bytes": 9e6,
    "l2_busiest_slice_atomics": 2e3,
}
