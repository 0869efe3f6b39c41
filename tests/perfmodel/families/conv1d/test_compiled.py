"""What the compiler makes of the kernels: access widths, no spills."""

import pytest

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.pool import compile_many
from perfmodel.families.base import Batch
from perfmodel.families.conv1d import FAMILY, Conv1d, Conv1dConfiguration, Variant
from perfmodel.families.conv1d.launch import kernel_of
from perfmodel.gpus.catalogue import load_gpu

from ...machine_code.mix import count, loops

pytestmark = pytest.mark.compiler

NAIVE = Conv1dConfiguration(variant=Variant.NAIVE, channels_per_thread=None)


def test_access_widths_of_the_profiled_configuration_are_the_published_ones() -> None:
    gpu = load_gpu("a100-sxm-80gb")
    request = FAMILY.compile_request(Conv1d(), Conv1dConfiguration(channels_per_thread=4), gpu)
    compiled = compile_kernel(request, gpu.architecture.name)
    assert count(compiled, "global_load", 16) == 4  # float4 of the input
    assert count(compiled, "global_load", 4) == 20 + 1  # weights and the bias
    assert count(compiled, "shared_load", 16) == 5  # a thread's 20 weights
    assert count(compiled, "fp32_fma") == 4 * 14
    assert count(compiled, "shuffles") == 4 * 5
    assert loops(compiled) == {}  # everything is unrolled
    assert compiled.resources.spill_store_bytes == 0


TILED = [
    (Conv1d(in_channels=5000, length=20_000), Conv1dConfiguration(channels_per_thread=40)),
    (Conv1d(in_channels=1024, length=64), Conv1dConfiguration(channels_per_thread=1)),
    (Conv1d(in_channels=512), Conv1dConfiguration(channels_per_thread=32)),
    (Conv1d(in_channels=64, length=4000, filter_width=25, padding=12), Conv1dConfiguration(channels_per_thread=2)),
    (Conv1d(in_channels=1, length=300, filter_width=1, padding=0), Conv1dConfiguration(channels_per_thread=1)),
]


@pytest.mark.parametrize("gpu_id", ["rtx-2080-ti", "rtx-3090", "h200"])
def test_kernels_with_loops_hold_everything_in_registers(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    cases = [*TILED, *((problem, NAIVE) for problem, _ in TILED if problem != Conv1d(in_channels=512))]
    compiled = compile_many([(FAMILY.compile_request(p, c, gpu), gpu.architecture.name) for p, c in cases])
    for (problem, configuration), kernel in zip(cases, compiled, strict=True):
        assert not isinstance(kernel, Exception)
        assert kernel.kernel_name == kernel_of(problem, configuration, gpu).value
        assert kernel.kernel_name in ("conv1d_tiled", "conv1d_naive_rolled")
        assert (kernel.resources.stack_bytes_per_thread, kernel.resources.spill_store_bytes) == (0, 0)
        launch = FAMILY.launch(problem, Batch.of([configuration]), gpu)
        assert kernel.resources.static_shared_bytes == launch.static_shared_bytes[0]


@pytest.mark.parametrize("gpu_id", ["rtx-3090", "h200"])
def test_code_of_the_profiled_shape_is_straight_and_without_local_memory(gpu_id: str) -> None:
    gpu = load_gpu(gpu_id)
    for configuration, registers in ((NAIVE, 30), (Conv1dConfiguration(channels_per_thread=4), 48)):
        compiled = compile_kernel(FAMILY.compile_request(Conv1d(), configuration, gpu), gpu.architecture.name)
        assert compiled.resources.registers_per_thread == registers
        assert compiled.resources.stack_bytes_per_thread == 0
        assert loops(compiled) == {}
