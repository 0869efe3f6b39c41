"""All versions executed on the CPU: results against float64, counts against the closed form."""

import math

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version
from perfmodel.families.ssim.configuration import DESIGNS, BlockChannels
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_profile import executed_profile

from ..right_results import hold_to_closed_form

pytestmark = pytest.mark.compiler

CONFIGURATIONS = [
    *(SsimConfiguration(version=version) for version in Version),
    SsimConfiguration(version=Version.V2, block_channels=BlockChannels.ONE),
    SsimConfiguration(version=Version.V4_1, block_channels=BlockChannels.ONE, tile_height=12),
]


def named(configuration):
    return "-".join(str(part) for part in (configuration.version.value, configuration.tile_height) if part)


@pytest.mark.parametrize("version", list(Version))
def test_a_single_pixel(version):
    problem = Ssim(channels=1, height=1, width=1)
    hold_to_closed_form(FAMILY, problem, SsimConfiguration(version=version), on="a100-sxm-80gb", seed=1)


@pytest.mark.parametrize("configuration", CONFIGURATIONS, ids=named)
def test_prime_sizes_with_gradients_race_nowhere_and_read_nothing_that_nobody_wrote(configuration):
    problem = Ssim(batch=2, channels=2, height=37, width=67, gradients=True)
    hold_to_closed_form(FAMILY, problem, configuration, on="a100-sxm-80gb", seed=2)


@pytest.mark.parametrize("version", list(Version))
def test_a_drawn_size_of_even_width(version):
    rng = np.random.default_rng(list(Version).index(version))
    problem = Ssim(channels=1, height=int(rng.integers(2, 100)), width=2 * int(rng.integers(1, 80)))
    hold_to_closed_form(FAMILY, problem, SsimConfiguration(version=version), on="a100-sxm-80gb", seed=3)


@pytest.mark.parametrize(("version", "channels"), [(Version.V4, 1), (Version.V4_1, 3)])
def test_without_asynchronous_copies_rows_are_loaded_and_stored(version, channels):
    problem = Ssim(channels=channels, height=19, width=71)
    done = hold_to_closed_form(FAMILY, problem, SsimConfiguration(version=version), on="rtx-2080-ti", seed=5)
    assert done.counts.async_copy_requests == 0


@pytest.mark.parametrize("version", [Version.V1, Version.V3_0, Version.V3_1, Version.V4_1])
def test_machine_code_executes_the_multiply_adds_of_the_formula(version):
    gpu, configuration = load_gpu("a100-sxm-80gb"), SsimConfiguration(version=version)
    problem = Ssim(channels=2, height=75, width=66)
    compiled = compile_kernel(FAMILY.compile_request(problem, configuration, gpu), gpu.architecture.name)
    call = FAMILY.call(problem, configuration, gpu, FAMILY.inputs(problem, np.random.default_rng(4)))
    facts = executed_profile(compiled, FAMILY.launch(problem, Batch.of([configuration]), gpu).at(0), call)
    design = DESIGNS[version]
    blocks = math.ceil(75 / design.tile_height) * math.ceil(66 / design.tile_width)
    assert facts.exact
    assert facts.counts.fp32_fma == blocks * 55 * 2 * design.tile_width * (design.tile_height + 5) / 16
    assert facts.counts.barriers == blocks * 2 * design.warps * design.barriers_per_channel
