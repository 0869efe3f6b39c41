"""Lanes that run on over rows and planes: right results into poisoned outputs, no faults, exact multiply-adds."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Reuse
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_profile import executed_profile

from ..right_results import right_run
from .depthwise import layer

pytestmark = pytest.mark.compiler

GPU = load_gpu("h200")


@pytest.mark.parametrize(
    ("problem", "rows"),
    [
        (layer(5, 7, 7, 3, padding=1), 7),
        (layer(3, 14, 14, 3, padding=1, batch=2), 4),  # the last strip of a column has two outputs
        (layer(4, 13, 9, 5, padding=2, stride=2), 2),
        (layer(2, 6, 11, 3), 1),
        (layer(2, 3, 5, 2, padding=7), 4),
    ],
)
def test_results(problem: Conv2d, rows: int) -> None:
    chosen = DirectConv2dConfiguration(
        reuse=Reuse.FLAT, exchange=None, accumulators=None, rows_per_thread=rows, block_x=32, block_y=1
    )
    done = right_run(FAMILY, problem, chosen, seed=rows)
    closed = FAMILY.profile(problem, Batch.of([chosen]), GPU).counts.at(0)
    assert done.counts.fp32_fma == closed.fp32_fma


def test_estimates_are_near_what_is_executed() -> None:
    problem = layer(64, 14, 14, 3, padding=1)
    for rows in (1, 4, 7):
        chosen = DirectConv2dConfiguration(
            reuse=Reuse.FLAT, exchange=None, accumulators=None, rows_per_thread=rows, block_x=128, block_y=1
        )
        compiled = compile_kernel(FAMILY.compile_request(problem, chosen, GPU), GPU.architecture.name)
        call = FAMILY.call(problem, chosen, GPU, FAMILY.inputs(problem, np.random.default_rng(0)))
        executed = executed_profile(compiled, FAMILY.launch(problem, Batch.of([chosen]), GPU).at(0), call, GPU).counts
        closed = FAMILY.profile(problem, Batch.of([chosen]), GPU).counts.at(0)
        assert closed.warp_instructions == pytest.approx(executed.warp_instructions, rel=0.25)
        assert closed.l2_read_sectors == pytest.approx(executed.l2_read_sectors, rel=0.25)
