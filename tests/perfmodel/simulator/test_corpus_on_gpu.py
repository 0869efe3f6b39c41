"""The corpus on a real GPU: the hardware gives what NumPy expects and what the simulator gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import simulate

from .corpus_case import CORPUS, Case
from .test_corpus import CASES

pytestmark = [pytest.mark.gpu, pytest.mark.compiler]
UNORDERED = {"aggregated_atomics", "atomics"}
"""Kernels whose results depend on the order of atomics, which the hardware leaves open."""
UNDEFINED = {"odd_block", "generic_pointers", "special_registers"}
"""Kernels that ask an idle lane or race, to see how the simulator reports it; and one that reads ``%warpid``, the place of a warp
in its SM (PTX ISA), which only the simulator takes for its number in the block."""


DETERMINATE = [make for make in CASES if make().source not in UNORDERED | UNDEFINED]


@pytest.mark.parametrize("make", DETERMINATE)
def test_hardware_and_simulator_agree(make: Callable[[], Case], tmp_path: Path) -> None:
    from validation.device import require_device
    from validation.launching import load_kernel, run_once, upload, upload_constants

    case, device = make(), require_device()
    request = CompileRequest(
        source=(CORPUS / f"{case.source}.cu").read_text(),
        kernel=case.kernel or case.source,
        file_name=f"{case.source}.cu",
        defines=case.defines,
        architecture_specific=True,
    )
    compiled = compile_kernel(request, device.architecture)
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled.cubin)
    kernel = load_kernel(cubin, compiled.kernel_name, int(case.launch.dynamic_shared_bytes))
    upload_constants(kernel, case.call)
    measured = run_once(kernel, case.launch, upload(case.call))
    simulated = simulate(parse_module(compiled.ptx).kernel(compiled.kernel_name), case.launch, case.call).outputs
    tolerance = max(case.tolerance, 1e-6)
    for name, expected in case.expected.items():
        np.testing.assert_allclose(measured[name], expected, rtol=tolerance, atol=tolerance, err_msg=name)
        np.testing.assert_allclose(measured[name], simulated[name], rtol=tolerance, atol=tolerance, err_msg=name)
