"""Estimate of registers per thread, from the numbers in ``perfmodel/data/registers/conv1d.toml``."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import WARP_SIZE
from ...gpus.gpu import Gpu
from ..fitted_numbers import register_coefficients
from .configuration import Conv1dConfiguration
from .counts import UNROLLED_TAPS
from .launch import Kernel, kernel_of, largest_registers, naive_threads, threads_per_block, tiling
from .problem import Conv1d


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Fitted numbers; the data file says what each one means."""

    fewest: int
    addresses: int
    outputs_per_live_sum: int
    steps: list[int]
    largest_stepped: int
    relaxed_per_word: float
    relaxed_constant: float
    early_per_input: float
    early_per_weight: float
    early_constant: float
    naive_constant: int
    naive_per_tap: int
    naive_addresses: int
    rolled: int
    rolled_few_taps: int
    tiled_addresses: int


def _wanted(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> int:
    """Registers without the limit of the block."""
    fit = register_coefficients("conv1d", Coefficients)
    kernel, channels = kernel_of(problem, configuration, gpu), configuration.channels_per_thread
    full_occupancy = gpu.registers_per_sm // (WARP_SIZE * gpu.max_warps_per_sm) // 8 * 8
    if kernel is Kernel.NAIVE_ROLLED:
        return fit.rolled if len(problem.used_taps) >= UNROLLED_TAPS else fit.rolled_few_taps
    if channels is None:
        relaxed = min(fit.naive_constant + fit.naive_per_tap * problem.filter_width, full_occupancy)
        return max(fit.fewest, relaxed, problem.length + problem.filter_width + fit.naive_addresses)
    if kernel is Kernel.TILED:
        cut = tiling(problem, channels)
        return fit.tiled_addresses + cut.tile + cut.taps
    input_words, weight_words = problem.length * channels, problem.filter_width * channels
    live = input_words + weight_words + fit.addresses + problem.output_length // fit.outputs_per_live_sum
    if live <= full_occupancy:
        ceiling = max(full_occupancy, gpu.architecture.compiler_least_register_target)
        relaxed = round(fit.relaxed_per_word * (input_words + weight_words) + fit.relaxed_constant)
        return max(fit.fewest, min(relaxed, ceiling))
    if live <= fit.largest_stepped:
        return min(step for step in fit.steps if step >= live)
    return round(fit.early_per_input * input_words + fit.early_per_weight * weight_words + fit.early_constant)


def estimated_registers(problem: Conv1d, configuration: Conv1dConfiguration, gpu: Gpu) -> int:
    """Registers per thread that the compiler will use for one configuration on this GPU's architecture.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> estimated_registers(Conv1d(), Conv1dConfiguration(channels_per_thread=8), load_gpu("h200"))
    80
    """
    channels = configuration.channels_per_thread
    threads = naive_threads(problem) if channels is None else threads_per_block(problem, channels)
    return min(_wanted(problem, configuration, gpu), largest_registers(threads, gpu))
