"""Long rows of the rolled naive kernel: their facts follow from shorter rows, and are those of executing them wholly."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.kernels import Kernel, kernel_of
from perfmodel.families.conv1d.long_rows import shorter_lengths
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_work import executed_work, parsed
from perfmodel.profiles.facts import Facts, take_launch
from perfmodel.profiles.slowest_warp import slowest_warp, with_serial

NAIVE = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)


def executed(problem: Conv1d, gpu_id: str) -> Facts:
    gpu = load_gpu(gpu_id)
    launch = take_launch(FAMILY.launch(problem, Batch.of([NAIVE]), gpu), 0)
    call = FAMILY.call(problem, NAIVE, gpu, FAMILY.inputs(problem, np.random.default_rng(0)))
    kernel = compile_kernel(FAMILY.compile_request(problem, NAIVE, gpu), gpu.architecture)
    return with_serial(executed_work(kernel, launch, call), slowest_warp(kernel, parsed(kernel), launch, call))


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("problem", "gpu_id"),
    [
        (Conv1d(in_channels=70, out_channels=1, length=512), "h200"),  # a power of two: rows of 32 and 64
        (Conv1d(in_channels=5, out_channels=1, length=448), "rtx-2080-ti"),  # a multiple of 32: rows of 96 and 160
        (Conv1d(in_channels=9, out_channels=1, length=259, filter_width=9, padding=12, batch=2), "a100-sxm-80gb"),
        (Conv1d(in_channels=4, out_channels=35, length=258, filter_width=2, padding=0), "gtx-1080-ti"),  # PTX's mix
    ],
)
def test_facts_of_a_long_row_are_those_of_its_execution(problem: Conv1d, gpu_id: str) -> None:
    assert kernel_of(problem, NAIVE, load_gpu(gpu_id)) is Kernel.NAIVE_ROLLED
    found = FAMILY.facts(problem, NAIVE, load_gpu(gpu_id))
    assert found is not None
    assert "follow from executed rows" in found.notes[-1]
    assert asdict(replace(found, notes=found.notes[:-1])) == asdict(executed(problem, gpu_id))


def test_rows_that_are_not_long_enough_are_executed_themselves() -> None:
    gpu = load_gpu("h200")
    for problem in (Conv1d(length=256), Conv1d(length=384, filter_width=300), Conv1d(length=1 << 11, filter_width=600)):
        assert kernel_of(problem, NAIVE, gpu) is Kernel.NAIVE_ROLLED
        assert FAMILY.facts(problem, NAIVE, gpu) is None
    assert FAMILY.facts(Conv1d(length=4096), Conv1dConfiguration(channels_per_thread=4), gpu) is None


@pytest.mark.parametrize("length", [257, 300, 512, 999, 6144, 65_536, 1_000_003])
@pytest.mark.parametrize("filter_width", [1, 5, 33, 64])
def test_shorter_rows_begin_at_the_same_words_of_a_line(length: int, filter_width: int) -> None:
    found = shorter_lengths(Conv1d(in_channels=8, length=length, filter_width=filter_width))
    assert found is not None
    first, second = found
    assert filter_width <= first < second <= length // 2
    assert first % 32 == second % 32 == length % 32
    assert {(n & (n - 1)) == 0 for n in (first, second)} == {(length & (length - 1)) == 0}
