"""Speed of ``perfmodel analyze``: a 5 x 5 convolution of 4096 x 4096 with column reuse, nothing compiled before."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import Buffer
from perfmodel.prediction.analyze import analyze

from .timing import Row, processor_seconds_of_children, program_seconds, seconds_of

GPU = "h200"
RUNS = 5
"""How often each is run; the best counts, because other programs and a cold disk only add."""
_TYPES = {"int32": "i32", "uint32": "u32"}
TINY = "__global__ void tiny(float *x) { x[threadIdx.x] = 1.0f; }"


def _launch() -> tuple[str, tuple[int, ...], tuple[int, ...], dict[str, str | int], list[str]]:
    """Kernel, grid, block, macros and arguments of the convolution, as a user would give them."""
    gpu = load_gpu(GPU)
    problem = Conv2d(height=4096, width=4096, filter_height=5, filter_width=5)
    chosen = DirectConv2dConfiguration(
        reuse=Reuse.COLUMN, exchange=Exchange.SELECT, accumulators=None, rows_per_thread=1, block_x=32, block_y=8
    )
    request = FAMILY.compile_request(problem, chosen, gpu)
    launch = FAMILY.launch(problem, Batch.of([chosen]), gpu).at(0)
    call = FAMILY.call(problem, chosen, gpu, FAMILY.inputs(problem, np.random.default_rng(0)))
    arguments = [
        f"f32[{given.array.size}]" + ("=0" if given.output else "")
        if isinstance(given, Buffer)
        else f"{_TYPES[given.dtype.name]}={given}"
        for given in call.parameters
    ]
    return request.kernel, launch.grid, launch.block, dict(request.defines), arguments


def _options(name: str, values: Sequence[object]) -> list[str]:
    return [text for value in values for text in (name, str(value))]


def analysis_rows() -> list[Row]:
    """The program from its start to its end, and the call in Python when everything is loaded; an empty compile cache each."""
    kernel, grid, block, defines, arguments = _launch()
    constants = {"filter": "f32[25]"}
    shape = ("--grid", ",".join(map(str, grid)), "--block", ",".join(map(str, block)))
    macros = _options("--define", [f"{name}={value}" for name, value in defines.items()])
    contents = _options("--constant", [f"{name}={spec}" for name, spec in constants.items()])
    before = os.environ.get("PERFMODEL_CACHE")
    with (
        as_file(files("perfmodel.kernels").joinpath("direct_conv2d.cu")) as source,
        tempfile.TemporaryDirectory(prefix="perfmodel-") as folder,
    ):
        command = ("analyze", str(source), "--kernel", kernel, "--gpu", GPU, *shape, *macros, *contents)
        options = _options("--arg", arguments)
        whole, processor = [], processor_seconds_of_children()
        for run in range(RUNS):
            whole.append(program_seconds(*command, *options, cache=Path(folder) / f"program{run}"))
        processor = (processor_seconds_of_children() - processor) / RUNS
        analyze(TINY, kernel="tiny", grid=1, block=32, args=["f32[32]"], gpu=GPU)
        calls = []
        for run in range(RUNS):
            os.environ["PERFMODEL_CACHE"] = str(Path(folder) / f"call{run}")
            calls.append(
                seconds_of(
                    lambda: analyze(
                        source,
                        kernel=kernel,
                        grid=grid,
                        block=block,
                        args=arguments,
                        gpu=GPU,
                        defines=defines,
                        constants=constants,
                    )
                )
            )
    os.environ.pop("PERFMODEL_CACHE") if before is None else os.environ.update(PERFMODEL_CACHE=before)
    what = "analyze a 4096 x 4096 column-reuse convolution, compile included"
    return [
        (f"{what}: the program", f"{min(whole):.2f} s, of the processor {processor:.2f} s", "< 1 s"),
        (f"{what}: the call in Python", f"{min(calls):.2f} s", "< 1 s"),
    ]
