"""The terms joined: a smooth maximum, the tail of the grid, and what must never make a launch faster."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.calibration.fitting import prior
from perfmodel.core.counts import Counts
from perfmodel.gpus.catalogue import gpu_ids, load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.time_model.combine import (
    LIMITER_NAMES,
    TERM_NAMES,
    average_resident_blocks,
    blocks_of_busiest_sm,
    launch_seconds,
    limiters,
    p_norm,
    sm_cycles,
)
from perfmodel.time_model.terms import round_trip_cycles

from .made_launches import BUSY, GPU, SMS, profile_of, work

PRIOR = prior().coefficients

positive = st.floats(0, 1e12, allow_subnormal=False)


def seconds(of: KernelProfile, resident: int = 2, clock_hz: float | None = None) -> float:
    return float(launch_seconds(of, resident, GPU, PRIOR, clock_hz)[0])


def test_the_norm_of_two_is_pythagoras_and_of_one_the_sum() -> None:
    assert float(p_norm(2.0, 3.0, 4.0)) == pytest.approx(5)
    assert float(p_norm(1.0, 3.0, 4.0)) == pytest.approx(7)
    assert float(p_norm(1000.0, 3.0, 4.0)) == pytest.approx(4)
    assert float(p_norm(2.0, 0.0, 0.0)) == 0


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(positive, min_size=1, max_size=5), st.floats(1, 50))
def test_the_norm_lies_between_maximum_and_sum_and_knows_no_order(values: list[float], exponent: float) -> None:
    found = float(p_norm(exponent, *values))
    assert max(values) * (1 - 1e-9) <= found <= sum(values) * (1 + 1e-9) + 1e-300
    assert float(p_norm(exponent, *reversed(values))) == pytest.approx(found)


def test_a_full_wave_has_no_tail() -> None:
    executed, resident = blocks_of_busiest_sm(SMS * 3, 3, GPU, PRIOR)
    assert (float(executed), float(resident)) == (3, 3)


def test_one_block_more_than_a_wave_makes_one_sm_work_longer() -> None:
    """69 blocks, one at a time: an SM runs 69/68 on average, the busiest 2, the tail fades as exp(−waves/4)."""
    executed, _ = blocks_of_busiest_sm(SMS + 1, 1, GPU, PRIOR)
    average = 69 / 68
    assert float(executed) == pytest.approx(average + (2 - average) * np.exp(-average / 4))
    many, _ = blocks_of_busiest_sm(SMS * 100 + 1, 1, GPU, PRIOR)
    assert float(many) == pytest.approx(100 + 1 / 68, abs=1e-6)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 10**7), st.integers(1, 32))
def test_the_busiest_sm_runs_between_the_average_and_the_next_whole_block(blocks: int, resident: int) -> None:
    executed, together = blocks_of_busiest_sm(blocks, resident, GPU, PRIOR)
    assert blocks / SMS <= float(executed) <= -(-blocks // SMS) * (1 + 1e-12)
    assert 1 <= float(together) <= resident


def test_dram_alone_takes_bytes_over_bandwidth() -> None:
    """A gigabyte and hardly anything else, read by a hundred waves: the smooth maximum adds less than a thousandth."""
    found = seconds(work(blocks=SMS * 200, dram_read_bytes=1e9))
    alone = 1e9 / GPU.dram_read_bytes_per_s
    assert alone <= found < alone * 1.001


def test_blocks_of_one_wave_wait_for_their_data_together() -> None:
    """All that one wave reads is asked for at once: half of its DRAM time (the prior) is exposed, of two waves a quarter."""
    alone = 1e6 / GPU.dram_read_bytes_per_s
    code = PRIOR.first_block_latencies * GPU.dram_latency_cycles
    for blocks, part in ((SMS * 2, 1.0), (SMS * 4, 0.5)):
        _, parts = launch_seconds(work(blocks=blocks, dram_read_bytes=1e6), 2, GPU, PRIOR)
        started = blocks * GPU.block_dispatch_cycles / GPU.boost_clock_hz
        expected = part * (PRIOR.first_wave_exposure * alone + started) + code / GPU.boost_clock_hz
        assert float(parts.ramp_up) == pytest.approx(expected)


def test_the_last_wave_takes_a_lifetime_however_few_its_blocks_are() -> None:
    """Four blocks fit an SM that runs five, none of which keeps any pipe busy: two lifetimes; over 100 waves, 100."""
    alone = float(sm_cycles(4.0, 4.0, 4.0, 0.0, 1000.0, PRIOR))
    two = float(sm_cycles(5.0, 5.0, 4.0, 0.0, 1000.0, PRIOR))
    assert alone == pytest.approx(1000)
    weight = math.exp(-5 / 4 / PRIOR.settling_waves)
    assert two == pytest.approx(weight * 2000 + (1 - weight) * 1250)
    assert float(sm_cycles(400.0, 400.0, 4.0, 0.0, 1000.0, PRIOR)) == pytest.approx(100_000)


def test_blocks_whose_warps_wait_for_one_another_share_pipes_less_evenly() -> None:
    """Eight resident blocks for ten waves. The more warps go on together, the longer; a block alone shares with none."""

    def cycles(resident: float, in_step: float) -> float:
        blocks = 10.0 * resident
        return float(sm_cycles(blocks, blocks, resident, 1000.0 * blocks, 6000.0, PRIOR, in_step))

    assert cycles(8, 1) < cycles(8, 2) < cycles(8, 8) < cycles(8, 32) < 10 * (8 * 1000 + 6000 + 0.3 * 7 * 1000)
    assert cycles(1, 1) == cycles(1, 32)


def test_places_of_warps_that_end_early_go_to_further_blocks() -> None:
    """One of 16 warps works on; all places are held for a release, then one of them until the block ends."""
    lifetime = 100_000.0
    blocks = SMS * 400
    launch = Launch(grid_x=blocks, block_x=512)
    counts = Counts(warp_instructions=blocks * 1000.0)
    one_works = profile_of(launch, counts, longest_warp_instructions=1000.0)
    held = PRIOR.release_cycles_per_warp * 16
    settled = min(2 * 16 * lifetime / (16 * held + (lifetime - held)), GPU.max_blocks_per_sm)
    found = float(average_resident_blocks(one_works, 400.0, 2.0, lifetime, GPU, PRIOR))
    assert found == pytest.approx(2 + (settled - 2) * (1 - 2 / 400))
    assert found > 10
    all_work = replace(one_works, counts=replace(counts, warp_instructions=blocks * 16_000.0))
    unknown = replace(one_works, longest_warp_instructions=np.nan)
    one_wave = average_resident_blocks(one_works, 2.0, 2.0, lifetime, GPU, PRIOR)
    sharing = replace(one_works, launch=replace(launch, static_shared_bytes=GPU.shared_bytes_per_sm // 2))
    for other in (all_work, unknown, sharing):
        assert float(average_resident_blocks(other, 400.0, 2.0, lifetime, GPU, PRIOR)) == 2
    assert float(one_wave) == 2


def test_arithmetic_alone_takes_instructions_over_lanes() -> None:
    """Full waves of 10⁹ multiply-adds: 32 lanes of each on 68 SMs with 64 lanes, and never faster than that."""
    launch = work(blocks=SMS * 1000, fp32_fma=1e9, warp_instructions=1e9)
    _, terms = launch_seconds(launch, 4, GPU, PRIOR)
    assert float(terms.arithmetic) == pytest.approx(1e9 * 32 / 64 / SMS / GPU.boost_clock_hz)
    assert seconds(launch, 4) >= float(terms.arithmetic)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(sorted(BUSY)), st.floats(1, 100), st.sampled_from(gpu_ids()), st.integers(1, 16))
def test_more_of_anything_is_never_faster(name: str, factor: float, gpu_id: str, resident: int) -> None:
    gpu = load_gpu(gpu_id)
    before = float(launch_seconds(work(**BUSY), resident, gpu, PRIOR)[0])
    after = float(launch_seconds(work(**BUSY | {name: BUSY[name] * factor}), resident, gpu, PRIOR)[0])
    assert after >= before * (1 - 1e-9)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.floats(1, 50), st.floats(1, 50))
def test_more_round_trips_and_longer_loops_are_never_faster(trips: float, growth: float) -> None:
    base = replace(work(**BUSY), loop_code_bytes=GPU.instruction_cache_l1_bytes * trips)
    longer = replace(base, loop_code_bytes=base.loop_code_bytes * growth)
    waiting = replace(base, global_round_trips=growth)
    assert seconds(longer) >= seconds(base) * (1 - 1e-9)
    assert seconds(waiting) >= seconds(base) * (1 - 1e-9)


def test_the_clock_moves_the_sm_and_not_the_memory() -> None:
    compute, memory = work(fp32_fma=1e9, warp_instructions=1e9), work(dram_read_bytes=1e9)
    fast, slow = (seconds(compute, clock_hz=hz) - GPU.empty_kernel_s for hz in (2e9, 1e9))
    assert fast == pytest.approx(slow / 2)
    assert seconds(memory, clock_hz=2e9) == pytest.approx(seconds(memory, clock_hz=1e9), rel=1e-3)


def test_no_time_is_below_any_throughput_term() -> None:
    total, terms = launch_seconds(work(**BUSY), 4, GPU, PRIOR)
    for name in ("arithmetic", "sfu_fp64_fp16_pipes", "issue_slots", "lsu_data_pipe", "sectors", "l2", "dram"):
        assert float(total) >= float(getattr(terms, name)) * (1 - 1e-9), name


@pytest.mark.parametrize(("barriers", "apart"), [(2, False), (3, True)])
def test_pipes_overlap_less_where_warps_meet_for_each_slab(barriers: int, apart: bool) -> None:
    of = work(**{**BUSY, "async_copy_requests": 1e4, "barriers": barriers * SMS * 4 * 8.0})
    as_others = replace(PRIOR, slab_norm=PRIOR.demand_norm)
    assert (seconds(of) > float(launch_seconds(of, 2, GPU, as_others)[0]) * 1.001) is apart


def test_the_limiter_is_the_largest_term_and_never_the_launch_overhead() -> None:
    _, terms = launch_seconds(work(dram_read_bytes=1e9), 4, GPU, PRIOR)
    assert LIMITER_NAMES[int(limiters(terms)[0])] == "dram"
    _, terms = launch_seconds(work(fp32_fma=1e9), 4, GPU, PRIOR)
    assert LIMITER_NAMES[int(limiters(terms)[0])] == "arithmetic"
    assert set(TERM_NAMES) - set(LIMITER_NAMES) == {"launch_overhead"}


def test_a_round_trip_ends_at_the_memory_that_answers() -> None:
    """Warm: L2. First wave of a cold launch: DRAM. Many waves over data that blocks share: in between."""

    def trip(dram_sectors: float, waves: float) -> float:
        counts = Counts(l2_read_sectors=1e6, dram_read_bytes=32 * dram_sectors)
        return float(round_trip_cycles(counts, waves, GPU, replace(PRIOR, round_trip_latencies=1.0)))

    assert trip(0, 1) == GPU.l2_latency_cycles
    assert trip(1e5, 1) == GPU.dram_latency_cycles
    assert trip(1e6, 50) == GPU.dram_latency_cycles
    # a tenth of the sectors from DRAM, and of the rest those of the first of ten waves: 0.1 + 0.9 / 10
    share = 0.19
    assert trip(1e5, 10) == pytest.approx((1 - share) * GPU.l2_latency_cycles + share * GPU.dram_latency_cycles)


def test_a_group_of_loads_that_l1_answers_waits_for_l1() -> None:
    """Of 10 sectors that are asked for one passes L1: of eight that a group waits for, one does with probability 1 - 0.9 ** 8."""

    def trip(asked: float) -> float:
        counts = Counts(l2_read_sectors=1e6, global_load_sectors=asked)
        return float(round_trip_cycles(counts, 1, GPU, replace(PRIOR, round_trip_latencies=1.0)))

    assert trip(1e6) == trip(5e5) == GPU.l2_latency_cycles
    passing = 1 - 0.9**8
    assert trip(1e7) == pytest.approx(passing * GPU.l2_latency_cycles + (1 - passing) * GPU.l1_latency_cycles)
    assert trip(1e12) == pytest.approx(GPU.l1_latency_cycles, rel=1e-3)


def test_short_blocks_are_bound_by_how_fast_they_start() -> None:
    blocks = 10_000_000
    total, terms = launch_seconds(work(blocks=blocks, threads=32), 16, GPU, PRIOR)
    start = blocks * GPU.block_dispatch_cycles / GPU.boost_clock_hz
    assert float(terms.block_launch_rate) == pytest.approx(start)
    assert float(total) > start


def test_the_schedule_of_the_machine_code_stands_in_for_the_chain_of_multiply_adds() -> None:
    base = work(blocks=SMS, fp32_fma=SMS * 8 * 100.0, warp_instructions=SMS * 8 * 300.0)
    times = [seconds(replace(base, warp_cycles=cycles), resident=1) for cycles in (1e3, 1e4, 1e5)]
    assert times == sorted(times)
    added = (times[2] - times[1]) * GPU.boost_clock_hz
    assert added == pytest.approx(9e4, rel=0.02)
