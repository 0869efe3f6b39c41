"""All versions executed on the CPU: results against float64, counts against the closed form."""

import functools
import math

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version
from perfmodel.families.ssim.configuration import DESIGNS, BlockChannels
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.executed_profile import executed_profile
from perfmodel.profiles.totals import counted_run
from perfmodel.ptx.parse import parse_module

pytestmark = pytest.mark.compiler

EXACT = (
    "global_load_requests",
    "global_load_sectors",
    "global_load_lines",
    "global_store_requests",
    "global_store_sectors",
    "shared_load_requests",
    "shared_store_requests",
    "shared_load_wavefronts",
    "shared_store_wavefronts",
    "shared_bank_conflicts",
    "async_copy_requests",
    "async_copy_wavefronts",
    "async_copy_read_requests",
    "async_copy_read_sectors",
    "async_copy_read_wavefronts",
    "fp32_fma",
    "special_function",
    "barriers",
)


CONFIGURATIONS = [
    *(SsimConfiguration(version=version) for version in Version),
    SsimConfiguration(version=Version.V2, block_channels=BlockChannels.ONE),
    SsimConfiguration(version=Version.V4_1, block_channels=BlockChannels.ONE, tile_height=12),
]


def named(configuration):
    return "-".join(str(part) for part in (configuration.version.value, configuration.tile_height) if part)


@functools.cache
def module(configuration, gradients, gpu_id):
    gpu = load_gpu(gpu_id)
    request = FAMILY.compile_request(Ssim(gradients=gradients), configuration, gpu)
    compiled = compile_kernel(request, gpu.architecture.name)
    return parse_module(compiled.ptx), compiled.kernel_name


def launch_of(problem, configuration, gpu):
    """Geometry of the one launch."""
    geometry = FAMILY.launch(problem, Batch.of([configuration]), gpu)
    return Launch(
        grid_x=geometry.grid_x[0],
        grid_y=geometry.grid_y[0],
        grid_z=geometry.grid_z[0],
        block_x=geometry.block_x,
        block_y=geometry.block_y[0],
    )


def run(configuration, problem, gpu_id, seed, check=False):
    """Execute one launch; its simulation and the closed form of its counts."""
    gpu = load_gpu(gpu_id)
    launch = launch_of(problem, configuration, gpu)
    inputs = FAMILY.inputs(problem, np.random.default_rng(seed))
    ptx, kernel = module(configuration, problem.gradients, gpu_id)
    simulation = counted_run(ptx.kernel(kernel), launch, FAMILY.call(problem, configuration, gpu, inputs), check=check)
    assert not simulation.faults
    reference = FAMILY.reference(problem, inputs)
    assert simulation.outputs.keys() == reference.keys()
    for name, exact in reference.items():
        error = np.abs(simulation.outputs[name] - exact).max() / np.abs(exact).max()
        assert error < FAMILY.tolerance(problem), name
    return simulation.counts, FAMILY.profile(problem, Batch.of([configuration]), gpu).counts.at(0)


def assert_counts_agree(simulated, expected):
    for name in EXACT:
        assert getattr(simulated, name) == getattr(expected, name), name


@pytest.mark.parametrize("version", list(Version))
def test_a_single_pixel(version):
    assert_counts_agree(
        *run(SsimConfiguration(version=version), Ssim(channels=1, height=1, width=1), "a100-sxm-80gb", seed=1)
    )


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=named)
def test_prime_sizes_with_gradients_race_nowhere_and_read_nothing_that_nobody_wrote(configuration):
    problem = Ssim(batch=2, channels=2, height=37, width=67, gradients=True)
    assert_counts_agree(*run(configuration, problem, "a100-sxm-80gb", seed=2, check=True))


@pytest.mark.parametrize("version", list(Version))
def test_a_drawn_size_of_even_width(version):
    rng = np.random.default_rng(list(Version).index(version))
    problem = Ssim(channels=1, height=int(rng.integers(2, 100)), width=2 * int(rng.integers(1, 80)))
    assert_counts_agree(*run(SsimConfiguration(version=version), problem, "a100-sxm-80gb", seed=3))


@pytest.mark.parametrize(("version", "channels"), [(Version.V4, 1), (Version.V4_1, 3)])
def test_without_asynchronous_copies_rows_are_loaded_and_stored(version, channels):
    simulated, expected = run(
        SsimConfiguration(version=version), Ssim(channels=channels, height=19, width=71), "rtx-2080-ti", seed=5
    )
    assert simulated.async_copy_requests == 0
    assert_counts_agree(simulated, expected)


@pytest.mark.parametrize("version", [Version.V1, Version.V3_0, Version.V3_1, Version.V4_1])
def test_machine_code_executes_the_multiply_adds_of_the_formula(version):
    gpu, configuration = load_gpu("a100-sxm-80gb"), SsimConfiguration(version=version)
    problem = Ssim(channels=2, height=75, width=66)
    compiled = compile_kernel(FAMILY.compile_request(problem, configuration, gpu), gpu.architecture.name)
    call = FAMILY.call(problem, configuration, gpu, FAMILY.inputs(problem, np.random.default_rng(4)))
    facts = executed_profile(compiled, launch_of(problem, configuration, gpu), call)
    design = DESIGNS[version]
    blocks = math.ceil(75 / design.tile_height) * math.ceil(66 / design.tile_width)
    assert facts.exact
    assert facts.counts.fp32_fma == blocks * 55 * 2 * design.tile_width * (design.tile_height + 5) / 16
    assert facts.counts.barriers == blocks * 2 * design.warps * design.barriers_per_channel
