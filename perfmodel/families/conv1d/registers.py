"""Estimate of registers per thread, fitted to what the compiler gives on sm_75, sm_80 and sm_90.

The compiler aims at occupancy: below the count that allows all resident warps it uses what it likes, above it stops at the
counts where a resident block would be lost, and from a hundred live values on it schedules loads early and uses more.
"""

from __future__ import annotations

from ...core.constants import WARP_SIZE
from ...gpus.gpu import Gpu
from .configuration import Conv1dConfiguration
from .counts_naive_rolled import UNROLLED_TAPS
from .geometry import naive_threads, threads_per_block
from .kernels import Kernel, kernel_of, largest_registers
from .problem import Conv1d
from .tiling import tiling

_OCCUPANCY_STEPS = (32, 40, 48, 56, 64, 72, 80, 96, 128)
_LARGEST_STEPPED = 108
_ADDRESS_REGISTERS = 8
_SMALLEST = 22
_ROLLED = 34
_ROLLED_ONE_TAP = 24
_TILED_ADDRESS_REGISTERS = 26
_AMPERE_CEILING = 40
"""For 8.x the compiler gives up a few resident warps of 8.0 rather than schedule tightly."""


def _demand(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> int:
    """Registers without the limit of the block."""
    kernel = kernel_of(problem, configuration, gpu)
    if kernel is Kernel.NAIVE_ROLLED:
        return _ROLLED if len(problem.used_taps) >= UNROLLED_TAPS else _ROLLED_ONE_TAP
    if kernel is Kernel.TILED and configuration.channels_per_thread is not None:
        cut = tiling(problem, configuration.channels_per_thread)
        return _TILED_ADDRESS_REGISTERS + cut.tile + cut.taps
    full_occupancy = gpu.registers_per_sm // (WARP_SIZE * gpu.max_warps_per_sm) // 8 * 8
    if configuration.channels_per_thread is None:
        relaxed = min(20 + 2 * problem.filter_width, full_occupancy)
        return max(_SMALLEST, relaxed, problem.length + problem.filter_width + 7)
    input_words = problem.length * configuration.channels_per_thread
    weight_words = problem.filter_width * configuration.channels_per_thread
    live = input_words + weight_words + _ADDRESS_REGISTERS + problem.output_length // 8
    if live <= full_occupancy:
        ceiling = max(full_occupancy, _AMPERE_CEILING) if gpu.compute_capability[0] == 8 else full_occupancy
        return max(_SMALLEST, min(round(1.27 * (input_words + weight_words) + 14.5), ceiling))
    if live <= _LARGEST_STEPPED:
        return min(step for step in _OCCUPANCY_STEPS if step >= live)
    return round(1.1 * input_words + 1.3 * weight_words + 16)


def _threads(problem: Conv1d, configuration: Conv1dConfiguration) -> int:
    if configuration.channels_per_thread is None:
        return naive_threads(problem)
    return threads_per_block(problem, configuration.channels_per_thread)


def estimated_registers(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> int:
    """Registers per thread that the compiler will use for one configuration on this GPU's architecture.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> estimated_registers(Conv1d(), Conv1dConfiguration(channels_per_thread=8), load_gpu("h200"))
    80
    """
    return min(_demand(problem, configuration, gpu), largest_registers(_threads(problem, configuration), gpu))
