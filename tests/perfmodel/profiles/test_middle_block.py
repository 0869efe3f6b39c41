"""What one executed block says of a launch, against the execution of all kinds of its blocks."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from perfmodel import Conv1d, Conv2d, PointwiseConv2d, Ssim, TiledConv2d
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.families.base import Batch
from perfmodel.families.profiling import Depth, configuration_profile
from perfmodel.families.registry import family_of
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.ranking import survey
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.profiles.middle_block import middle_block_profile

SCENARIO = scenario_of("h200")
GPU = load_gpu("h200")
PROBLEMS = [
    Conv2d(height=61, width=83, filter_height=3, filter_width=3, in_channels=2, out_channels=6, padding=1),
    TiledConv2d(height=200, width=300, filter_height=3, filter_width=5),
    PointwiseConv2d(batch=2, in_channels=24, out_channels=36, height=13, width=17),
    Conv1d(batch=3, in_channels=16, out_channels=24, length=37),
    Ssim(height=90, width=131, channels=1),
]
INSTRUCTIONS_OFF = 0.06
"""Instructions of blocks at the edges that are no memory accesses: of idle warps, of pixels that are left out."""
TIME_OFF = 0.03


def profiles_of(problem: Any) -> tuple[Batch[Any], KernelProfile, KernelProfile]:
    """A candidate that is fast by closed forms, executed by its middle block and wholly."""
    family = family_of(problem)
    best, seconds = survey(family, problem, SCENARIO, 1).best[0]
    batch = best.take([int(seconds.argmin())])
    middle, whole = (
        configuration_profile(family, problem, batch.configuration(0), GPU, depth)
        for depth in (Depth.MIDDLE_BLOCK, Depth.WHOLE)
    )
    return batch, middle, whole


@pytest.mark.compiler
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
def test_one_block_and_closed_forms_say_what_all_blocks_do(problem: Any) -> None:
    """Memory accesses of strips are equal, as their closed forms are exact; instructions and the closed form's time nearly so."""
    batch, middle, whole = profiles_of(problem)
    assert middle.resources == whole.resources
    assert np.array_equal(
        [middle.warp_cycles, middle.longest_warp_instructions, middle.global_round_trips],
        [whole.warp_cycles, whole.longest_warp_instructions, whole.global_round_trips],
        equal_nan=True,
    )
    assert middle.traces.observed == 1
    one, all_blocks = (
        evaluate_batch(family_of(problem), problem, batch, SCENARIO, [replace(found, traces=None)])
        for found in (middle, whole)
    )
    for field in fields(one.counts):
        if field.name.startswith(("global_", "shared_load_r", "shared_store_r", "async_copy_r")):
            assert getattr(one.counts, field.name) == getattr(all_blocks.counts, field.name), field.name
    assert one.counts.warp_instructions == pytest.approx(all_blocks.counts.warp_instructions, rel=INSTRUCTIONS_OFF)
    assert one.seconds == pytest.approx(all_blocks.seconds, rel=TIME_OFF)


@pytest.mark.compiler
@pytest.mark.parametrize(("read_back", "sectors"), [("index[i ^ 1]", 32.0), ("i", 4.0)])
def test_what_a_kernel_writes_is_computed_where_it_reads_that_again(read_back: str, sectors: float) -> None:
    """Lanes store at indices that other lanes have written, 32 bytes apart, or at their own, beside each other."""
    source = f"""
    extern "C" __global__ void scattered(int *index, float *out)
    {{
        int i = threadIdx.x;
        index[i] = 8 * i;
        __syncthreads();
        out[{read_back}] = 1.0f;
    }}"""
    compiled = compile_kernel(CompileRequest(source=source, kernel="scattered", file_name="scattered.cu"), "sm_90")
    buffers = [Buffer(name="index", array=np.zeros(32, np.int32)), Buffer(name="out", array=np.zeros(256, np.float32))]
    profile = middle_block_profile(
        compiled, Launch(grid_x=1, block_x=32), KernelCall(parameters=tuple(buffers)), None, sm_count=132
    )
    assert profile.traces is not None
    assert profile.traces.memory.sectors.max() == sectors
