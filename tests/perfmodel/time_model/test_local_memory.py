"""What spilled registers take: bandwidth where many warps spill, latency where few do."""

import numpy as np
import pytest

from perfmodel.calibration.fitting import prior
from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.time_model.terms import local_seconds, local_traffic

from .made_launches import profile_of

PRIOR = prior().coefficients

GPU = load_gpu("h200")
SMS, CLOCK_HZ, WARPS = GPU.sm_count, 1e9, 2
LOADS = 1000.0
"""Local loads of each warp, and as many stores."""


def spilling(local_bytes_per_thread: int, blocks: int = SMS) -> KernelProfile:
    """Blocks of two warps that load and store 1,000 times each."""
    sectors = np.array([4.0 * LOADS * WARPS * blocks])
    launch = Launch(grid_x=np.array([blocks]), block_x=32 * WARPS)
    counts = Counts(local_load_sectors=sectors, local_store_sectors=sectors)
    return profile_of(launch, counts, stack_bytes=np.array([local_bytes_per_thread]))


def seconds(work: KernelProfile, resident: int, waves: float) -> float:
    traffic = local_traffic(work, resident, GPU)
    return float(local_seconds(work, traffic, waves, GPU, PRIOR, CLOCK_HZ)[0])


def test_a_few_warps_wait_for_each_load_that_l1_lacks() -> None:
    """64 threads of 6 KiB: half as much again as the 256 KiB of L1, and L2 holds all: a third of the loads waits for L2."""
    waited = LOADS / 3 * PRIOR.local_load_latencies * GPU.l2_latency_cycles
    assert seconds(spilling(6144), 1, 1.0) == pytest.approx(waited / CLOCK_HZ)
    assert seconds(spilling(6144, 10 * SMS), 1, 10.0) == pytest.approx(10 * waited / CLOCK_HZ)


def test_what_l1_holds_is_not_waited_for() -> None:
    sectors = 4 * LOADS * WARPS * SMS
    stored = sectors * 32 / GPU.l2_read_bytes_per_s
    assert seconds(spilling(4096), 1, 1.0) == pytest.approx(stored)


def test_many_warps_are_bound_by_what_they_move() -> None:
    """32 blocks of an SM have 16 MiB of stacks, all SMs 2 GiB: most of it passes L1 and L2."""
    work = spilling(8192, 32 * SMS)
    traffic = local_traffic(work, 32, GPU)
    moved = float((traffic.dram_read_bytes + traffic.dram_write_bytes)[0])
    assert seconds(work, 32, 1.0) == pytest.approx(moved / GPU.dram_read_bytes_per_s)
