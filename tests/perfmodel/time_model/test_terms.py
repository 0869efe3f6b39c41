"""Each term of the time model on a GPU whose numbers are known, with the arithmetic visible."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.calibration.fitting import prior
from perfmodel.core.constants import SECTOR_BYTES
from perfmodel.core.counts import COUNT_NAMES, Counts
from perfmodel.gpus.catalogue import gpu_ids, load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.time_model import terms
from perfmodel.time_model.calibration import load_calibration
from perfmodel.time_model.coefficients import Coefficients

PRIOR = prior().coefficients

TURING = load_gpu("rtx-2080-ti")  # 68 SMs, 64 FP32 and 64 separate integer lanes each
AMPERE = load_gpu("rtx-3090")  # 82 SMs, 128 FP32 lanes, 64 of them for integers too
PASCAL = load_gpu("gtx-1080-ti")  # 28 SMs, 128 lanes for both
HOPPER = load_gpu("h200")
SMS = 68


def test_separate_ports_work_side_by_side() -> None:
    counts = Counts(fp32_fma=SMS * 100, fp32_other=SMS * 20, integer=SMS * 90)
    assert terms.arithmetic_cycles(counts, TURING) == max(120 * 32 / 64, 90 * 32 / 64)


def test_half_shared_ports_add_up_and_integers_have_half_of_them() -> None:
    counts = Counts(fp32_fma=82 * 100, integer=82 * 60)
    assert terms.arithmetic_cycles(counts, AMPERE) == (100 + 60) * 32 / 128
    mostly_integer = Counts(fp32_fma=82 * 10, integer=82 * 60)
    assert terms.arithmetic_cycles(mostly_integer, AMPERE) == 60 * 32 / 64


def test_same_ports_add_up() -> None:
    counts = Counts(fp32_fma=28 * 100, integer=28 * 60)
    assert terms.arithmetic_cycles(counts, PASCAL) == (100 + 60) * 32 / 128


def test_the_slowest_of_the_rare_pipes_counts() -> None:
    """Turing: 2 FP64 lanes, 16 special-function lanes, half precision at the FP32 rate."""
    counts = Counts(fp64=SMS * 3, special_function=SMS * 8, conversion=SMS * 2, fp16=SMS * 4)
    assert terms.slow_pipe_cycles(counts, TURING) == max(3 * 32 / 2, (8 + 2) * 32 / 16, 4 * 32 / 64)


def test_four_schedulers_issue_four_instructions_a_cycle() -> None:
    assert terms.issue_cycles(Counts(warp_instructions=SMS * 400), TURING) == 100


def test_a_shared_access_costs_its_instruction_or_its_wavefronts() -> None:
    instruction, wavefront = TURING.shared_cycles_per_instruction, TURING.shared_cycles_per_wavefront
    free = Counts(shared_load_requests=SMS * 10, shared_load_wavefronts=SMS * 10)
    assert terms.shared_pipe_cycles(free, TURING) == pytest.approx(10 * max(instruction, wavefront))
    conflicts = Counts(shared_store_requests=SMS * 10, shared_store_wavefronts=SMS * 320)
    assert terms.shared_pipe_cycles(conflicts, TURING) == pytest.approx(320 * wavefront)


def test_atomics_on_one_word_of_shared_memory_follow_one_another() -> None:
    found = terms.shared_pipe_cycles(Counts(shared_atomic_wavefronts=SMS * 32), TURING)
    assert found == pytest.approx(32 * TURING.shared_cycles_per_wavefront)


def test_atomics_queue_at_a_slice_or_at_a_word() -> None:
    """An operation on a slice is shorter than one on a word, and that than an addition of floating-point numbers."""
    slices = Counts(l2_busiest_slice_atomics=1e6, l2_busiest_word_atomics=1e4, l2_busiest_float_atomics=1e4)
    assert terms.atomic_seconds(slices, HOPPER) == pytest.approx(1e6 * HOPPER.l2_atomic_s)
    words = Counts(l2_busiest_slice_atomics=1e6, l2_busiest_word_atomics=1e6)
    assert terms.atomic_seconds(words, HOPPER) == pytest.approx(1e6 * HOPPER.l2_word_atomic_s)
    floats = Counts(l2_busiest_slice_atomics=1e6, l2_busiest_float_atomics=1e6)
    assert terms.atomic_seconds(floats, HOPPER) == pytest.approx(1e6 * HOPPER.l2_float_atomic_s)


def test_global_requests_and_shuffles_pass_the_same_pipe() -> None:
    """A scattered load looks up 32 lines, 4 a cycle; 16 lanes a cycle pass a contiguous one."""
    scattered = Counts(global_load_requests=SMS, global_load_lines=SMS * 32)
    contiguous = Counts(global_load_requests=SMS, global_load_lines=SMS)
    assert terms.shared_pipe_cycles(scattered, TURING) == 32 / 4
    assert terms.shared_pipe_cycles(contiguous, TURING) == 32 / 16
    others = Counts(shuffles=SMS * 3, global_store_requests=SMS * 2, global_reduction_requests=SMS)
    assert terms.shared_pipe_cycles(others, TURING) == pytest.approx(
        3 * TURING.shared_cycles_per_instruction + (2 + 1) * 32 / 16
    )


def test_sectors_of_local_memory_go_the_same_way() -> None:
    counts = Counts(
        global_load_sectors=SMS * 4, global_store_sectors=SMS * 3, local_load_sectors=SMS * 2, local_store_sectors=SMS
    )
    expected = (4 + 3 + 2 + 1) * 32 / TURING.l1_bytes_per_cycle_per_sm
    assert terms.sector_cycles(counts, TURING) == pytest.approx(expected)


def test_code_that_fits_the_instruction_cache_is_fetched_for_nothing() -> None:
    size, each = TURING.instruction_cache_l1_bytes, PRIOR.fetch_cycles_per_instruction
    assert terms.fetch_cycles(1000.0, size, TURING, PRIOR) == 0
    # 10/9 of the cache: a tenth of the loop lies beyond it and pushes out five tenths
    assert terms.fetch_cycles(1000.0, size * 10 / 9, TURING, PRIOR) == pytest.approx(1000 * 5 / 10 * each)
    assert terms.fetch_cycles(1000.0, size * 5 / 4, TURING, PRIOR) == pytest.approx(1000 * each)
    assert terms.fetch_cycles(1000.0, size * 100, TURING, PRIOR) == pytest.approx(1000 * each)


def test_schedulers_wait_for_code_from_beyond_their_own_caches() -> None:
    gpu = load_gpu("h200")
    size, each = gpu.instruction_cache_l0_bytes, gpu.instruction_supply_cycles  # 34 KiB, 0.45 cycles
    warps = 132 * 4 * 5.0  # five on each scheduler, of 4,000 instructions each
    counts = Counts(warp_instructions=warps * 4000)

    def waits(code_bytes: float, loop_code_bytes: float = 0.0) -> float:
        return float(terms.supply_cycles(counts, warps, code_bytes, loop_code_bytes, gpu, PRIOR))

    assert waits(size) == 0.0
    assert waits(16 * 4000) == pytest.approx(5 * 4000 * each)  # straight on: each instruction once
    assert waits(16 * 3000, 16 * 100) == pytest.approx(5 * 3000 * each)  # a small loop comes from the cache
    assert waits(16 * 3000, 16 * 2800) == pytest.approx(5 * 4000 * each)  # one that it does not fit never does
    assert waits(16 * 12000, 16 * 11000) == 0.0  # a loop of 172 KB comes from beyond the 128 KiB of the SM
    assert waits(size * 10 / 9) == pytest.approx(
        5 * size * 10 / 9 / 16 * 5 / 10 * each
    )  # a tenth beyond pushes out half


def test_the_first_blocks_wait_for_code_where_the_data_lies() -> None:
    cold, warm = Counts(dram_read_bytes=1.0), Counts()
    latencies = PRIOR.first_block_latencies
    assert terms.first_block_cycles(cold, TURING, PRIOR) == pytest.approx(latencies * TURING.dram_latency_cycles)
    assert terms.first_block_cycles(warm, TURING, PRIOR) == pytest.approx(latencies * TURING.l2_latency_cycles)


def test_a_copy_passes_the_data_pipe_for_each_of_its_steps() -> None:
    """3 requests that read L1 in 4 passes and write in 1 each: 3 + 12 + 3 steps."""
    copies = Counts(
        async_copy_requests=SMS * 3.0, async_copy_read_wavefronts=SMS * 12.0, async_copy_wavefronts=SMS * 3.0
    )
    assert terms.shared_pipe_cycles(copies, TURING) == 18


def test_a_shared_access_whose_lanes_are_all_off_takes_its_turn() -> None:
    off = Counts(shared_load_predicated_off=SMS * 2.0, shared_store_predicated_off=SMS * 3.0)
    assert terms.shared_pipe_cycles(off, TURING) == 5


def test_a_barrier_waits_for_the_arrival_of_all_warps() -> None:
    """8 warps of 32 threads, 16 threads a cycle."""
    assert terms.barrier_cycles(8, TURING) == 8 * 32 / 16


def test_warps_in_step_load_the_schedulers_unevenly() -> None:
    """Four schedulers: 2 warps use two of them, 6 put two on the busiest where 1.5 is the mean; single warps spread out."""
    warps = np.array([1, 2, 3, 4, 6, 7, 8, 32])
    expected = [1, 2, 4 / 3, 1, 2 / 1.5, 2 / 1.75, 1, 1]
    assert terms.scheduler_imbalance(warps, TURING).tolist() == pytest.approx(expected)


def test_memory_has_a_clock_of_its_own() -> None:
    counts = Counts(l2_read_sectors=600.0, l2_write_sectors=400.0, dram_read_bytes=3e6, dram_write_bytes=1e6)
    assert terms.l2_seconds(counts, np.inf, TURING, PRIOR) == pytest.approx(600 * 32 / TURING.l2_read_bytes_per_s)
    assert terms.dram_seconds(counts, TURING) == pytest.approx(4e6 / TURING.dram_read_bytes_per_s)


def test_blocks_that_live_long_reach_the_bandwidth_of_l2() -> None:
    """A block that lives as long as it asks for nothing takes twice as long; one that lives no time counts one latency."""
    counts, latency = Counts(l2_read_sectors=1000.0), TURING.l2_latency_cycles
    long = float(terms.l2_seconds(counts, np.inf, TURING, PRIOR))
    ramp = PRIOR.l2_ramp_latencies * latency
    assert terms.l2_seconds(counts, ramp, TURING, PRIOR) == pytest.approx(2 * long)
    assert terms.l2_seconds(counts, 0.0, TURING, PRIOR) == pytest.approx((1 + PRIOR.l2_ramp_latencies) * long)


def test_parts_of_sectors_are_written_in_the_time_of_several_reads() -> None:
    """1,000 writes of 8 bytes of a sector; 1,000 rows of 128 bytes that begin amid a sector: three whole ones and two halves."""
    read_s, reads = SECTOR_BYTES / HOPPER.l2_read_bytes_per_s, HOPPER.l2_partial_write_reads
    assert reads > 1.0
    narrow = Counts(l2_write_sectors=1000.0, dram_write_bytes=8000.0)
    assert terms.l2_seconds(narrow, np.inf, HOPPER, PRIOR) == pytest.approx(1000 * reads * read_s)
    shifted = Counts(l2_write_sectors=5000.0, dram_write_bytes=128_000.0)
    assert terms.l2_seconds(shifted, np.inf, HOPPER, PRIOR) == pytest.approx((3000 + 2000 * reads) * read_s)
    whole = Counts(l2_write_sectors=4000.0, dram_write_bytes=128_000.0)
    assert terms.l2_seconds(whole, np.inf, HOPPER, PRIOR) == pytest.approx(4000 * read_s)


def _l2(counts: Counts, gpu: Gpu, coefficients: Coefficients) -> Any:
    return terms.l2_seconds(counts, 1000.0, gpu, coefficients)


OF_COUNTS = (
    terms.arithmetic_cycles,
    terms.slow_pipe_cycles,
    terms.issue_cycles,
    terms.shared_pipe_cycles,
    terms.sector_cycles,
    terms.atomic_seconds,
    terms.dram_seconds,
)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_no_term_falls_when_a_count_grows(data: st.DataObject) -> None:
    gpu = load_gpu(data.draw(st.sampled_from(gpu_ids())))
    coefficients = load_calibration(gpu).coefficients
    values: dict[str, Any] = {name: float(data.draw(st.integers(0, 10**9), label=name)) for name in COUNT_NAMES}
    grown = data.draw(st.sampled_from(COUNT_NAMES))
    before, after = Counts(**values), Counts(**values | {grown: values[grown] * 2 + 1})
    pairs = [(term(before, gpu), term(after, gpu)) for term in OF_COUNTS]
    if grown != "dram_write_bytes":  # more bytes in as many writes are more whole sectors
        pairs.append((_l2(before, gpu, coefficients), _l2(after, gpu, coefficients)))
    for low, high in pairs:
        assert 0 <= low <= high


def test_arrays_give_what_their_elements_give() -> None:
    rng = np.random.default_rng(5)
    columns = {name: rng.integers(0, 10**6, 4).astype(np.float64) for name in COUNT_NAMES}
    many = Counts(**columns)
    for term in OF_COUNTS:
        assert term(many, AMPERE).tolist() == [float(term(many.at(i), AMPERE)) for i in range(4)]
