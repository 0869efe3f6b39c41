"""What is compiled: the kernel's source and its macros."""

from __future__ import annotations

from functools import cache
from importlib import resources

from ...compiler.request import CompileRequest
from ...core.constants import FLOAT_BYTES
from .configuration import DirectConv2dConfiguration, Exchange
from .exchange_plans import ExchangePlan, all_loaded, executed_plan
from .problem import Conv2d

KERNEL = "direct_conv2d"

CONSTANT_BYTES = 65_536
"""Constant memory that a module may declare (CUDA C++ Programming Guide, technical specifications)."""

TAPS_IN_REGISTERS_LIMIT = 64
"""Most taps of a filter in global memory that a thread keeps in registers; a larger one is loaded again for each use."""


def filter_in_constant(problem: Conv2d) -> bool:
    """Whether all filters fit constant memory.

    >>> filter_in_constant(Conv2d(height=9, width=9, filter_height=3, filter_width=3, in_channels=64, out_channels=28))
    True
    >>> filter_in_constant(Conv2d(height=9, width=9, filter_height=3, filter_width=3, in_channels=64, out_channels=29))
    False
    """
    return problem.filter_elements * FLOAT_BYTES <= CONSTANT_BYTES


def tap_plan(problem: Conv2d, exchange: Exchange | None) -> ExchangePlan | None:
    """Which taps a lane loads and which it gets by exchange; None for ``rotate``, which follows no plan."""
    if exchange is Exchange.ROTATE:
        return None
    return all_loaded(problem.filter_width) if exchange is None else executed_plan(problem.filter_width)


def defines(problem: Conv2d, configuration: DirectConv2dConfiguration) -> tuple[tuple[str, str | int], ...]:
    """The macros of one configuration; the sizes of the image are parameters of the kernel and not among them."""
    plan = tap_plan(problem, configuration.exchange)
    loads = plan.load_offsets if plan else ()
    steps = plan.steps if plan else ()
    return (
        ("IN_CHANNELS", problem.in_channels),
        ("OUT_CHANNELS", problem.out_channels),
        ("FILTER_HEIGHT", problem.filter_height),
        ("FILTER_WIDTH", problem.filter_width),
        ("STRIDE", problem.stride),
        ("PADDING", problem.padding),
        ("DEPTHWISE", int(problem.depthwise)),
        ("FILTER_IN_CONSTANT", int(filter_in_constant(problem))),
        ("TAPS_IN_REGISTERS_LIMIT", TAPS_IN_REGISTERS_LIMIT),
        ("REUSE", configuration.reuse.value.upper()),
        ("EXCHANGE", configuration.exchange.value.upper() if configuration.exchange else "NONE"),
        ("ACCUMULATORS", configuration.accumulators.value.upper() if configuration.accumulators else "NONE"),
        ("ROWS_PER_THREAD", configuration.rows_per_thread),
        ("BLOCK_X", configuration.block_x),
        ("BLOCK_Y", configuration.block_y),
        ("TAP_COUNT", plan.tap_count if plan else problem.filter_width),
        ("PLAN_LOADS", " ".join(f"LOAD({offset})" for offset in loads)),
        ("PLAN_STEPS", " ".join(f"STEP({step.tap},{step.mask})" for step in steps)),
    )


@cache
def kernel_source() -> str:
    """Text of the kernel's source file."""
    return resources.files("perfmodel.kernels").joinpath(f"{KERNEL}.cu").read_text(encoding="utf-8")


def compile_request(problem: Conv2d, configuration: DirectConv2dConfiguration) -> CompileRequest:
    """Source, kernel and macros of one configuration."""
    return CompileRequest(
        source=kernel_source(),
        kernel=KERNEL,
        file_name=f"{KERNEL}.cu",
        defines=defines(problem, configuration),
    )
