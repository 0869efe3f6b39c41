"""One compiled configuration executed on the CPU; shared by the tests of kernel and counts."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d import FAMILY, PointwiseConfiguration, PointwiseConv2d
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Launch
from perfmodel.profiles.totals import CountedRun, counted_run
from perfmodel.ptx.parse import parse_module


def gpu_with(sm_count: int, gpu_id: str = "h200") -> Gpu:
    """A GPU with another number of SMs, so that small problems get large tiles."""
    return replace(load_gpu(gpu_id), sm_count=sm_count)


def single(launch: Launch) -> Launch:
    """The launch of a batch of one as plain integers."""
    return Launch(**{f.name: int(np.broadcast_to(getattr(launch, f.name), 1)[0]) for f in fields(Launch)})


def run(
    problem: PointwiseConv2d, configuration: PointwiseConfiguration, gpu: Gpu, seed: int
) -> tuple[CountedRun, float]:
    """The simulation of a launch on random input, and the largest error relative to the largest output."""
    compiled = compile_kernel(FAMILY.compile_request(problem, configuration, gpu), gpu.architecture)
    inputs = FAMILY.inputs(problem, np.random.default_rng(seed))
    done = counted_run(
        parse_module(compiled.ptx).kernel(compiled.kernel_name),
        single(FAMILY.launch(problem, Batch.of([configuration]), gpu)),
        FAMILY.call(problem, configuration, gpu, inputs),
        check=True,
    )
    exact = FAMILY.reference(problem, inputs)["output"]
    error = np.abs(done.outputs["output"] - exact).max() / np.abs(exact).max()
    return done, float(error)
