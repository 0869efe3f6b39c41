"""The micro-benchmark kernels compile, keep what they measure, and know what they must compute."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from campaigns.micro.benchmark import CYCLES, MicroBenchmark, MicroCall, follow, single_cycle
from campaigns.micro.compute_suite import ComputeSizes
from campaigns.micro.copy_suite import CopySizes
from campaigns.micro.job import prove
from campaigns.micro.memory_suite import MemorySizes
from campaigns.micro.pattern_suite import PatternSizes, lane_patterns
from campaigns.micro.preparing import prepare_benchmarks
from campaigns.micro.sector_suite import SectorSizes
from campaigns.micro.suite import micro_suite
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.core.constants import FLOAT_BYTES, SECTOR_BYTES, WARP_SIZE
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.ptx.parse import parse_module
from perfmodel.validation.prepared import PreparedFolder, Purpose

SMALL_MEMORY = MemorySizes(
    dram_bytes=64 * 1024,
    l2_bytes=16 * 1024,
    l2_passes=3,
    l1_threads=128,
    l1_passes=9,
    shared_steps=2,
    common_bytes=4096,
    chase_steps=40,
    chase_l2_bytes=64 * 1024,
    chase_dram_bytes=17 << 20,
    blocks_per_sm=1,
    threads=64,
)
SMALL_COMPUTE = ComputeSizes(
    steps=4, code_steps=2, code_bodies=(64, 128), shared_code_bodies=(64,), empty_blocks=64, waiting_cycles=5
)
SMALL_GPU = replace(load_gpu("h200"), sm_count=2)
SUITE = micro_suite(
    SMALL_GPU,
    SMALL_MEMORY,
    SMALL_COMPUTE,
    PatternSizes(steps=2),
    CopySizes(steps=2),
    SectorSizes(row_bytes=256, held_bytes=32 * 1024, held_passes=3, stream_bytes=64 * 1024, threads=64),
)


def name_of(benchmark: MicroBenchmark) -> str:
    return " ".join([benchmark.kernel, *(f"{name}={value}" for name, value in benchmark.setting.items())])


@cache
def executed(index: int) -> tuple[CountedRun, MicroCall]:
    """A benchmark executed on the CPU, with what it was called with."""
    benchmark = SUITE[index]
    compiled = compile_kernel(benchmark.compile_request(), "sm_90")
    micro_call = benchmark.make_call(np.random.default_rng(index))
    module = parse_module(compiled.ptx)
    return counted_run(module.kernel(compiled.kernel_name), benchmark.launch, micro_call.call, check=True), micro_call


@pytest.mark.compiler
@pytest.mark.parametrize("index", range(len(SUITE)), ids=[name_of(benchmark) for benchmark in SUITE])
def test_kernel_computes_what_it_must(index: int) -> None:
    simulation, micro_call = executed(index)
    assert simulation.completed
    assert simulation.faults == ()
    assert prove(simulation.outputs, micro_call, SUITE[index].tolerance).passed


@pytest.mark.compiler
def test_kernels_do_the_amount_of_work_that_rates_are_computed_from() -> None:
    for index, benchmark in enumerate(SUITE):
        counts = executed(index)[0].counts
        blocks = int(benchmark.launch.blocks)
        amount, warps = benchmark.amount, int(benchmark.launch.warps_per_block)
        if benchmark.kernel == "shared_read":
            stride, width = benchmark.setting["stride"], benchmark.setting["width"]
            assert counts.shared_load_requests == amount * blocks
            assert counts.shared_load_wavefronts == amount * blocks * stride * width  # 32 lanes, 32 banks of 4 bytes
        elif benchmark.kernel == "shared_patterns" and not benchmark.setting["store"]:
            assert counts.shared_load_requests == amount
            assert counts.shared_load_wavefronts % amount == 0  # 128 bytes further lie the same banks
        elif benchmark.kernel == "sector_parts":
            moved = counts.global_store_sectors if benchmark.setting["store"] else counts.global_load_sectors
            sums = warps * blocks * WARP_SIZE * FLOAT_BYTES // SECTOR_BYTES
            assert moved == amount + (sums if benchmark.setting["store"] else 0)
        elif benchmark.kernel == "shuffle":
            assert counts.shuffles == amount * blocks
        elif benchmark.kernel == "barrier":
            assert counts.barriers == (amount + 1) * warps * blocks  # one before the clock starts
        elif benchmark.kernel == "global_copy":
            assert 32 * (counts.global_load_sectors + counts.global_store_sectors) == amount
        elif benchmark.kernel == "global_write":
            assert 32 * counts.global_store_sectors == amount
        elif benchmark.kernel == "global_read":
            assert 32 * counts.global_load_sectors == amount
        elif benchmark.kernel == "common_read":
            assert 32 * counts.global_load_sectors == amount * blocks
        elif benchmark.kernel == "l1_read":
            touched = (
                16 * warps * blocks
            )  # sectors of 16-byte words of 32 lanes; before the clock starts, 4 bytes of each
            assert counts.global_load_sectors == amount * blocks / 32 + touched
        elif benchmark.kernel == "arithmetic" and not benchmark.setting["integer_chains"]:
            assert counts.fp32_fma == amount * blocks


def test_patterns_differ_in_more_than_their_names() -> None:
    patterns = lane_patterns()
    assert len({pattern.name for pattern in patterns}) == len({pattern.words for pattern in patterns}) == len(patterns)
    assert all(len(pattern.words) == 32 for pattern in patterns)


@pytest.mark.compiler
@pytest.mark.parametrize("architecture", ["sm_70", "sm_90"])
def test_every_kernel_compiles_without_spills(architecture: str) -> None:
    seen = set()
    for benchmark in SUITE:
        if (benchmark.kernel, benchmark.defines) not in seen:
            seen.add((benchmark.kernel, benchmark.defines))
            resources = compile_kernel(benchmark.compile_request(), architecture).resources
            assert resources.stack_bytes_per_thread == 0
            assert resources.registers_per_thread * benchmark.launch.threads_per_block <= 65_536


def test_expected_outputs_have_the_shape_of_the_buffers_and_the_poison_is_no_result() -> None:
    for benchmark in SUITE:
        micro_call = benchmark.make_call(np.random.default_rng(0))
        poisoned = {p.name: p.array for p in micro_call.call.parameters if hasattr(p, "output") and p.output}
        assert set(micro_call.expected) == set(poisoned) - {CYCLES}
        for name, expected in micro_call.expected.items():
            assert expected.shape == poisoned[name].shape
        if micro_call.expected:
            assert not prove(poisoned, micro_call, benchmark.tolerance).passed


@pytest.mark.parametrize("length", [2, 3, 17, 64])
def test_chain_visits_everything_before_it_comes_back(length: int) -> None:
    successor = single_cycle(length, np.random.default_rng(length))
    visited = [follow(successor, steps) for steps in range(length)]
    assert sorted(visited) == list(range(length))
    assert follow(successor, length) == 0


@pytest.mark.compiler
def test_benchmarks_are_timed_or_counted_or_both(tmp_path: Path) -> None:
    gpu = load_gpu("h200")
    suite = [b for b in micro_suite(gpu) if b.kernel in ("barrier", "shuffle", "shared_patterns")]
    kernels = prepare_benchmarks(suite, gpu, PreparedFolder(tmp_path))
    assert {kernel.name: kernel.purposes for kernel in kernels} == {
        "barrier": (Purpose.MICRO,),
        "shuffle": (Purpose.MICRO, Purpose.COUNT),
        "shared_patterns": (Purpose.COUNT,),
    }
