"""Facts from records of a machine whose truth is known, because the records were computed from it."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from campaigns.micro.facts import (
    MeasuredFact,
    cache_ends,
    compare_facts,
    gpu_file,
    measured_facts,
    shared_cycles,
)
from campaigns.micro.suite import find_benchmark, micro_suite
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import L2State
from perfmodel.records.schema import Environment, Failure, FailureKind, Record, RecordKind, Scalar, Timing, TimingMethod

GPU = load_gpu("h200")
ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)
SHARED_INSTRUCTION, SHARED_WAVEFRONT = 2.0, 1.0
CACHE_BYTES = 128 * 1024


def micro_record(kernel: str, setting: Mapping[str, Scalar], amount: float, **measured: float) -> Record:
    seconds = measured.pop("seconds", 1e-3)
    counters = {"amount": amount}
    if "cycles" in measured:
        cycles = measured["cycles"]
        counters |= {"cycles": cycles, "cycles_low": 0.99 * cycles, "cycles_high": 1.01 * cycles}
    timing = Timing(
        l2=L2State.COLD,
        method=TimingMethod.EVENTS,
        samples_s=(seconds,) * 6,
        interval_s=(0.98 * seconds, 1.02 * seconds),
    )
    return Record(
        kind=RecordKind.MICRO_BENCHMARK,
        name=kernel,
        problem={},
        configuration=setting,
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="",
        timings=(timing,),
        counters=counters,
    )


def known_machine_records() -> list[Record]:
    """What the suite would measure on a machine of round numbers."""
    cycles_each = {
        "l1_read": lambda s: 1 / 64,  # bytes
        "chase_shared": lambda s: 23.0,
        "chase_global": lambda s: 33.0 if not s["past_l1"] else 280.0 if s["bytes"] < 1 << 30 else 690.0,
        "arithmetic": lambda s: (
            4.0 / s["float_chains"] if s["warps"] == 1 and s["float_chains"] else 0.25 if s["float_chains"] else 0.5
        ),
        "shuffle": lambda s: 1.0,
        "barrier": lambda s: 10.0 + s["warps"],
        "code_walk": lambda s: 1.0 if 16 * s["body"] <= CACHE_BYTES else 3.0,
        "shared_read": lambda s: s["width"] * max(SHARED_INSTRUCTION, SHARED_WAVEFRONT * s["stride"]),
    }
    records = []
    for benchmark in micro_suite(GPU):
        if benchmark.kernel in cycles_each:
            each = cycles_each[benchmark.kernel](benchmark.setting)
            record = micro_record(benchmark.kernel, benchmark.setting, benchmark.amount, cycles=each * benchmark.amount)
        else:
            rate = 8e12 if benchmark.setting.get("passes", 1) != 1 else 4e12
            record = micro_record(
                benchmark.kernel, benchmark.setting, benchmark.amount, seconds=benchmark.amount / rate
            )
        records.append(record)
    return records


def found(facts: tuple[MeasuredFact, ...]) -> dict[str, float]:
    return {fact.name: fact.value for fact in facts}


def test_known_machine_is_recovered() -> None:
    values = found(measured_facts(known_machine_records()))
    expected = {
        "dram_read_bytes_per_s": 4e12,
        "dram_copy_bytes_per_s": 4e12,
        "l2_read_bytes_per_s": 8e12,
        "l2_writes_of_32_words_per_s": 8e12,
        "l2_partial_write_reads": 8e12 / 32 / 8e12,
        "l1_bytes_per_cycle_per_sm": 64.0,
        "shared_cycles_per_instruction": SHARED_INSTRUCTION,
        "shared_cycles_per_wavefront": SHARED_WAVEFRONT,
        "shared_latency_cycles": 23.0,
        "l1_latency_cycles": 33.0,
        "l2_latency_cycles": 280.0,
        "dram_latency_cycles": 690.0,
        "fp32_latency_cycles": 4.0,
        "fp32_lanes_per_sm": 32 / 0.25,
        "int32_lanes_per_sm": 32 / 0.5,
        "shuffle_lanes_per_sm": 32.0,
        "barrier_cycles_8_warps": 18.0,
        "lone_warp_fma_issue_cycles_4_chains": 1.0,
        "instruction_cache_end_1_bytes": CACHE_BYTES,
    }
    assert {name: values[name] for name in expected} == pytest.approx(expected)


def test_spread_is_what_the_samples_or_blocks_say() -> None:
    facts = {fact.name: fact for fact in measured_facts(known_machine_records())}
    assert facts["dram_read_bytes_per_s"].spread == pytest.approx(0.02)  # interval 0.98 to 1.02
    assert facts["l2_latency_cycles"].spread == pytest.approx(0.01)  # blocks 0.99 to 1.01
    assert facts["shared_cycles_per_wavefront"].spread == pytest.approx(0.0)  # the rule fits exactly


def test_of_several_runs_the_last_counts_and_failures_do_not() -> None:
    setting: dict[str, Scalar] = {"bytes": 4096}
    first = micro_record("chase_shared", setting, 100.0, cycles=2300.0)
    second = micro_record("chase_shared", setting, 100.0, cycles=2400.0)
    failed = replace(second, counters={}, failure=Failure(kind=FailureKind.TIME_OUT, message=""))
    assert found(measured_facts([first, second, failed])) == {"shared_latency_cycles": 24.0}


def test_nothing_measured_gives_no_facts() -> None:
    assert measured_facts([]) == ()


@pytest.mark.parametrize(
    ("rule", "expected"), [(lambda c: 2 * c, (2, 2)), (lambda c: np.maximum(2, c), (2, 1)), (lambda c: c, (1, 1))]
)
def test_shared_rules_of_published_architectures(rule, expected) -> None:  # type: ignore[no-untyped-def]
    degrees = np.array([1.0, 2, 4, 8, 16, 32])
    assert shared_cycles(degrees, rule(degrees)) == pytest.approx(expected)


def test_a_rise_over_several_sizes_is_one_end() -> None:
    assert cache_ends([16, 32, 64, 128, 256], [1.0, 1.2, 1.5, 1.5, 1.51]) == [(32, 16)]
    assert cache_ends([16, 32], [1.0, 1.0]) == []


def test_measured_gpu_file_is_a_gpu_file(tmp_path: Path) -> None:
    facts = measured_facts(known_machine_records())
    path = tmp_path / "mine.toml"
    path.write_text(gpu_file(GPU, facts))
    mine = load_gpu(str(path))
    assert mine.dram_read_bytes_per_s == 4e12
    assert mine.shared_cycles_per_instruction == 2.0
    assert mine.fp32_lanes_per_sm == GPU.fp32_lanes_per_sm
    assert mine.sm_count == GPU.sm_count


def test_comparison_gives_the_ratio_to_the_file() -> None:
    comparisons = {c.fact.name: c for c in compare_facts(measured_facts(known_machine_records()), GPU)}
    assert comparisons["fp32_lanes_per_sm"].ratio == pytest.approx(1.0)
    assert comparisons["shuffle_lanes_per_sm"].ratio is None


def test_every_benchmark_is_found_by_kernel_and_setting() -> None:
    suite = micro_suite(GPU)
    keys = {(benchmark.kernel, tuple(benchmark.setting.items())) for benchmark in suite}
    assert len(keys) == len(suite)
    for benchmark in suite:
        assert find_benchmark(GPU, benchmark.kernel, benchmark.setting).defines == benchmark.defines


def test_the_rate_of_starting_blocks_is_in_cycles_of_the_clock_that_was_sampled() -> None:
    """131,072 empty blocks in 100 µs at 1.98 GHz: 198,000 cycles / 131,072 blocks."""
    record = micro_record("empty", {"blocks": 131_072, "warps": 4}, 131_072.0, seconds=100e-6)
    clocked = replace(record, timings=(replace(record.timings[0], sm_clock_hz=1.98e9),))
    (fact,) = measured_facts([clocked])
    assert fact.name == "block_dispatch_cycles_4_warps"
    assert fact.value == pytest.approx(198_000 / 131_072)


def test_waits_of_blocks_whose_other_warps_have_ended() -> None:
    """Four times as many blocks as fit take four waits where a warp that has ended keeps its place: 800,000 cycles of 200,000."""
    record = micro_record("early_exit", {"warps": 16, "waiting": 2}, 200_000.0, seconds=800_000 / 1.98e9)
    clocked = replace(record, timings=(replace(record.timings[0], sm_clock_hz=1.98e9),))
    (fact,) = measured_facts([clocked])
    assert fact.name == "waits_of_2_in_16_warps"
    assert fact.value == pytest.approx(4.0)
