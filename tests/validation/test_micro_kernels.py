"""The micro-benchmark kernels compile, keep what they measure, and know what they must compute."""

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.gpus import load_gpu
from perfmodel.validation.micro.benchmark import CYCLES, follow, single_cycle
from perfmodel.validation.micro.compute_suite import ComputeSizes
from perfmodel.validation.micro.job import prove
from perfmodel.validation.micro.memory_suite import MemorySizes
from perfmodel.validation.micro.suite import micro_suite

SMALL_MEMORY = MemorySizes(
    dram_bytes=64 * 1024,
    l2_bytes=16 * 1024,
    l2_passes=3,
    l1_threads=128,
    l1_passes=9,
    shared_steps=2,
    chase_steps=40,
    chase_l2_bytes=64 * 1024,
    chase_dram_bytes=32 << 20,
    blocks_per_sm=1,
    threads=64,
)
SMALL_COMPUTE = ComputeSizes(steps=4, code_steps=2, code_bodies=(64, 128))
SUITE = micro_suite(load_gpu("h200"), SMALL_MEMORY, SMALL_COMPUTE)


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
