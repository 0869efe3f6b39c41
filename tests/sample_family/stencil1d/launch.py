"""The launch: grid and block of n configurations, and what is compiled for one."""

from __future__ import annotations

from importlib import resources

import numpy as np

from perfmodel.compiler.request import CompileRequest
from perfmodel.core.constants import ceil_div
from perfmodel.families.base import Batch
from perfmodel.launch.launch import Launch

from .configuration import Stencil1dConfiguration
from .problem import Stencil1d


def launch(problem: Stencil1d, batch: Batch[Stencil1dConfiguration]) -> Launch:
    """Blocks of consecutive outputs."""
    block_x = batch["block_x"].astype(np.int64)
    return Launch(grid_x=ceil_div(problem.length, block_x * batch["per_thread"]), block_x=block_x)


def compile_request(problem: Stencil1d, configuration: Stencil1dConfiguration) -> CompileRequest:
    """The kernel with every size a constant."""
    return CompileRequest(
        source=resources.files("stencil1d").joinpath("stencil1d.cu").read_text(encoding="utf-8"),
        kernel="stencil1d",
        file_name="stencil1d.cu",
        defines=(
            ("LENGTH", problem.length),
            ("RADIUS", problem.radius),
            ("BLOCK_X", configuration.block_x),
            ("PER_THREAD", configuration.per_thread),
        ),
    )
