"""Executed facts of the rolled naive kernel on long rows, continued from two shorter ones.

That kernel computes its outputs one after the other, so that executing it takes as long as the row is, block for block. But
every output that the row's ends do not touch does the same, and rows that differ by whole lines of memory start at the same
places of a line. Whatever is counted therefore grows by the same amount from one such length to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from ...compiler.compiled import CompiledKernel, compile_kernel
from ...compiler.request import CompileRequest
from ...gpus.gpu import Gpu
from ...launch.launch import KernelCall, Launch
from ...machine_code.schedule import lone_warp_cycles
from ...profiles.facts import Facts
from .accesses import WORDS_PER_LINE
from .problem import Conv1d

EXECUTED_WORDS = 256
"""Rows of at most so many words are executed as they are."""

Request = Callable[[Conv1d], CompileRequest]
Arguments = Callable[[Conv1d], tuple[Launch, KernelCall]]


def shorter_lengths(problem: Conv1d) -> tuple[int, int] | None:
    """Two lengths from which the counts of a long row follow, None where the row itself is not much longer.

    Both leave an output that no end touches, and the long row's remainder by a line. A power of two stays one, because the
    compiler shifts where it else multiplies.

    >>> [shorter_lengths(Conv1d(length=length)) for length in (4096, 4099, 6144, 100)]
    [(32, 64), (35, 67), (96, 160), None]
    """
    if problem.length <= EXECUTED_WORDS:
        return None
    shortest = max(problem.filter_width, WORDS_PER_LINE)
    begin = shortest + (problem.length - shortest) % WORDS_PER_LINE
    alike = (
        length
        for length in range(begin, problem.length // 2 + 1, WORDS_PER_LINE)
        if _power_of_two(length) == _power_of_two(problem.length)
    )
    first, second = next(alike, None), next(alike, None)
    return None if first is None or second is None else (first, second)


def long_row_facts(problem: Conv1d, gpu: Gpu, request: Request, arguments: Arguments) -> Facts | None:
    """Resources, executed counts and the slowest warp of a long row; None where it has to be executed itself.

    Exact if the two executions are. The three programs must be the same but for their numbers.

    Args:
        problem: the convolution.
        gpu: the GPU.
        request: what to compile for a problem.
        arguments: launch and arguments for a problem.

    Raises:
        CompileError: a kernel cannot be compiled.
        SimulationError: a kernel cannot be executed on the CPU.
    """
    lengths = shorter_lengths(problem)
    if lengths is None:
        return None
    kernel = compile_kernel(request(problem), gpu.architecture)
    executed = []
    for length in lengths:
        shorter = replace(problem, length=length)
        like = compile_kernel(request(shorter), gpu.architecture)
        if not _same_code(kernel, like):
            return None
        executed.append(_executed(like, *arguments(shorter)))
    first, second = executed
    lines, further = ((length - lengths[0]) // WORDS_PER_LINE for length in (lengths[1], problem.length))

    def continued(before: Any, after: Any) -> Any:
        return None if before is None or after is None else before + (after - before) / lines * further

    counts = {
        field.name: continued(getattr(first.counts, field.name), getattr(second.counts, field.name))
        for field in fields(first.counts)
    }
    note = (
        f"counts of rows of {problem.length} words follow from executed rows of {lengths[0]} and {lengths[1]}; "
        "caches are not simulated"
    )
    return replace(
        second,
        resources=kernel.resources,
        counts=replace(second.counts, **counts),
        exact=first.exact and second.exact,
        notes=(*second.notes, note),
        global_round_trips=continued(first.global_round_trips, second.global_round_trips),
        warp_cycles=continued(first.warp_cycles, second.warp_cycles),
        longest_warp_instructions=continued(first.longest_warp_instructions, second.longest_warp_instructions),
    )


def _executed(kernel: CompiledKernel, launch: Launch, call: KernelCall) -> Facts:
    from ...profiles.executed_work import executed_work, parsed
    from ...profiles.slowest_warp import slowest_warp, with_serial

    return with_serial(executed_work(kernel, launch, call), slowest_warp(kernel, parsed(kernel), launch, call))


def _same_code(one: CompiledKernel, other: CompiledKernel) -> bool:
    """Whether two kernels are the same instructions, of PTX and of the machine, with other numbers."""
    profiles = one.profile(), other.profile()
    if _opcodes(one.ptx) != _opcodes(other.ptx) or any(
        getattr(profiles[0], name) != getattr(profiles[1], name) for name in ("code_bytes", "mix", "loops")
    ):
        return False
    if profiles[0].estimated:
        return True
    return np.array_equal(lone_warp_cycles(profiles[0]), lone_warp_cycles(profiles[1]))


def _opcodes(ptx: str) -> list[str]:
    """First words of all lines, guards with them: labels, directives and instructions in order."""
    return [line.split(None, 1)[0] for line in ptx.splitlines() if line.strip()]


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
