"""Speed of the simulator: a block of 256 threads of the direct 5 × 5 kernel, in batches."""

from __future__ import annotations

import time

import numpy as np

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Conv2d, DirectConv2dConfiguration, Reuse
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Mode, simulate

BLOCKS = 512


def simulator_rows() -> list[tuple[str, str, str]]:
    """Milliseconds for each block in trace and in execute mode."""
    gpu = load_gpu("rtx-2080-ti")
    problem = Conv2d(height=516, width=2052, filter_height=5, filter_width=5)
    chosen = DirectConv2dConfiguration(
        reuse=Reuse.NONE, exchange=None, accumulators=None, rows_per_thread=1, block_x=32, block_y=8
    )
    kernel = compile_kernel(FAMILY.compile_request(problem, chosen, gpu), gpu.architecture.name)
    launch = FAMILY.launch(problem, Batch.of([chosen]), gpu).at(0)
    call = FAMILY.call(problem, chosen, gpu, FAMILY.inputs(problem, np.random.default_rng(0)))
    module, blocks = parse_module(kernel.ptx), np.arange(BLOCKS)
    rows = []
    for mode, wanted in ((Mode.TRACE, 0.1), (Mode.EXECUTE, 0.3)):
        simulate(module.kernel(kernel.kernel_name), launch, call, mode=mode, blocks=blocks[:8])
        start = time.process_time()
        simulate(module.kernel(kernel.kernel_name), launch, call, mode=mode, blocks=blocks)
        each = (time.process_time() - start) / BLOCKS * 1e3
        rows.append((f"simulator, {mode.value} mode, a block of 256 threads", f"{each:.3f} ms", f"≤ {wanted} ms"))
    return rows
