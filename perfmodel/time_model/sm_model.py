"""The fitted numbers of the model of one SM, and how far what it says is off, by what they were fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..core.numbers import numbers
from ..gpus.gpu import Gpu
from .backing import Backing


@dataclass(frozen=True, slots=True, kw_only=True)
class SmModel:
    """The fitted numbers; ``data/calibrations/sm_model.toml`` says what each one means and what it was fitted to.

    The last three are no part of the model but its errors, on a logarithmic scale, of runs that were left out of the fit: 90 % of
    those of this package's kernels on a fitted GPU are within the first, of others' kernels there within the second, of runs on
    other GPUs within the third.
    """

    dram_latency_factor: float
    l2_loaded_latency: float
    dram_loaded_latency: float
    dram_latency_spread: float
    drift: float
    block_start_cycles: float
    first_block_latencies: float
    barrier_cycles: float
    branch_cycles: float
    branch_issue_cycles: float
    data_queue_entries: int
    loads_in_flight: int
    write_queue_cycles: float
    fetch_cycles: float
    fetch_latency_cycles: float
    prefetched_lines: int
    line_fetch_cycles: float
    jump_fetch_cycles: float
    far_fetch_cycles: float
    operand_cycles: float
    operand_queue_cycles: float
    variable_latency_cycles: float
    fitted_gpus: tuple[str, ...]
    judged_kernels: tuple[str, ...]
    own_kernel_log_error: float
    left_out_log_error: float
    other_gpu_log_error: float


def sm_backing(gpu: Gpu, kernel: str | None = None) -> Backing:
    """What backs the time of a launch of a kernel on a GPU.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> sm_backing(load_gpu("h200")).status
    'calibrated on other kernels on this GPU'
    >>> sm_backing(load_gpu("h200"), "conv1d").status
    'calibrated on this kernel and GPU'
    """
    model = sm_model()
    known = kernel in model.judged_kernels
    if gpu.id not in model.fitted_gpus:
        error = max(model.other_gpu_log_error, 0.0 if known else model.left_out_log_error)
        return Backing(status=f"calibrated on other GPUs ({', '.join(model.fitted_gpus)})", log_error_90=error)
    if known:
        return Backing(status="calibrated on this kernel and GPU", log_error_90=model.own_kernel_log_error)
    return Backing(status="calibrated on other kernels on this GPU", log_error_90=model.left_out_log_error)


@cache
def sm_model() -> SmModel:
    """The numbers that the package ships.

    >>> sm_model().dram_loaded_latency
    1.4
    """
    return numbers("sm_model", SmModel)
