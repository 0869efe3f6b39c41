"""What makes the compiled kernels the versions that they are called after (sm_80)."""

import functools
from collections import Counter

import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.ssim import FAMILY, Ssim, SsimConfiguration, Version
from perfmodel.families.ssim.configuration import DESIGNS
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.machine_code.program import read_machine_code

from ...machine_code.mix import count, loops

pytestmark = pytest.mark.compiler

WALKING = [version for version in Version if DESIGNS[version].stages]
LOADS_OF_A_ROW = 2 * 6  # images, pairs of pixels


@functools.cache
def compiled(version, gradients=False, gpu_id="a100-sxm-80gb"):
    gpu = load_gpu(gpu_id)
    request = FAMILY.compile_request(Ssim(gradients=gradients), SsimConfiguration(version=version), gpu)
    return compile_kernel(request, gpu.architecture.name)


def innermost_loops(version, gradients=False):
    """Instructions of each loop that holds no other."""
    kernel = compiled(version, gradients)
    found = loops(kernel).values()
    blocks = read_machine_code(kernel).blocks
    inner = [loop for loop in found if not any(other < loop for other in found)]
    return [[i for index in sorted(loop) for i in blocks[index].instructions] for loop in inner]


def class_counts(loop):
    """Instructions of the loop's code by class, without those that never execute."""
    return Counter(i.class_name for i in loop if not i.never)


@pytest.mark.parametrize(("version", "barriers"), [(Version.NAIVE, 18), (Version.V1, 12), (Version.V2, 12)])
def test_barriers_of_the_channel_loop(version, barriers):
    (loop,) = innermost_loops(version)
    assert class_counts(loop)["barriers"] == barriers == count(compiled(version), "barriers")


@pytest.mark.parametrize("version", WALKING)
def test_one_warp_blocks_have_no_barrier(version):
    assert count(compiled(version), "barriers") == 0


@pytest.mark.parametrize("version", list(Version))
@pytest.mark.parametrize("gradients", [False, True])
def test_only_the_array_version_has_a_stack_and_nothing_spills(version, gradients):
    resources = compiled(version, gradients).resources
    assert resources.stack_bytes_per_thread == (440 if version is Version.V3_0 else 0)
    assert resources.spill_load_bytes == resources.spill_store_bytes == 0
    assert resources.static_shared_bytes == DESIGNS[version].shared_bytes


@pytest.mark.parametrize("version", [Version.V4_1, Version.V4, Version.V4_Z4])
def test_nothing_spills_where_the_kernels_are_meant_to_win(version):
    resources = compiled(version, False, "h200").resources
    assert resources.stack_bytes_per_thread == resources.spill_store_bytes == 0


@pytest.mark.parametrize("version", [Version.V3_0, Version.V3, Version.V3_1])
def test_unrolled_loops_exceed_128_kilobytes(version):
    (loop,) = innermost_loops(version)
    assert 16 * len(loop) >= 128 * 1024


@pytest.mark.parametrize("version", [Version.V4_1, Version.V4, Version.V4_Z4])
@pytest.mark.parametrize("gradients", [False, True])
def test_flowing_loops_stay_within_16_kilobytes(version, gradients):
    assert 16 * max(map(len, innermost_loops(version, gradients))) <= 16 * 1024


@pytest.mark.parametrize(
    ("version", "multiply_adds"),
    [
        (Version.NAIVE, 5 * (2 + 1) * 11),  # maps, two rows and one column of the passes, taps
        (Version.V1, 5 * (2 + 1) * 11),
        (Version.V2, 5 * (3 + 1) * 2 * 11),  # two columns
        (Version.V3_0, 5 * (42 + 32) * 2 * 11),  # rows of the patch, rows of outputs
        (Version.V3_1, (24 * 2 + 10) * 5 * 2 * 11),  # 24 rows of both passes, 10 rows before them of one
        (Version.V3, (24 * 2 + 10) * 5 * 2 * 11),
        (
            Version.V4_1,
            5 * 2 * ((11 + 11) + (11 + 10) + (11 + 10)),
        ),  # loops that complete and begin, only begin, only complete
        (Version.V4, 5 * 2 * (22 + 21 + 21)),
        (Version.V4_Z4, 5 * 2 * (22 + 21 + 21)),
    ],
)
def test_code_has_the_multiply_adds_of_the_two_passes_and_no_others(version, multiply_adds):
    assert count(compiled(version), "fp32_fma") == multiply_adds


@pytest.mark.parametrize("version", WALKING)
@pytest.mark.parametrize("gradients", [False, True])
def test_each_row_has_no_more_shared_loads_than_pixels_need(version, gradients):
    counts = max(map(class_counts, innermost_loops(version, gradients)), key=lambda counts: counts["fp32_fma"])
    rows = 42 if version is Version.V3_0 else 24 if version in (Version.V3, Version.V3_1) else 1
    assert counts["shared_load"] == rows * LOADS_OF_A_ROW
    assert counts["async_copy"] == rows * 2 * 3
