"""What a micro-benchmark is: a kernel, a launch, its arguments, and the outputs that prove it did its work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.compiler.request import CompileRequest
from perfmodel.families.kernel_files import kernel_text
from perfmodel.launch.launch import KernelCall, Launch
from perfmodel.records.schema import Scalar

CYCLES = "cycles"
"""Name of the output in which a kernel gives the SM cycles that each block took."""


class Clock(Enum):
    """Who measures."""

    EVENTS = "events"
    """The time of the launch."""
    KERNEL = "kernel"
    """The kernel itself, in SM cycles."""
    ALL_METHODS = "all methods"
    """The time of the launch by each way of timing there is: the kernel is empty, so it is the cost of the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroCall:
    """Arguments of one launch and the outputs that it must give, by name."""

    call: KernelCall
    expected: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBenchmark:
    """One micro-benchmark. ``setting`` distinguishes it from others of the same kernel and is kept in its record.

    ``amount`` is what one launch does in the unit that the fact is about: bytes of the whole launch, or warp instructions,
    steps or bytes of one block where the kernel counts cycles.
    """

    kernel: str
    defines: tuple[tuple[str, str | int], ...] = ()
    setting: Mapping[str, Scalar]
    launch: Launch
    clock: Clock
    amount: float
    make_call: Callable[[np.random.Generator], MicroCall]
    tolerance: float = 0.0

    def compile_request(self) -> CompileRequest:
        """Source and constants of the kernel."""
        return CompileRequest(
            source=kernel_text("micro", f"{self.kernel}.cu"),
            kernel=self.kernel,
            file_name=f"{self.kernel}.cu",
            defines=self.defines,
        )


def single_cycle(length: int, rng: np.random.Generator) -> NDArray[np.int32]:
    """A random permutation that visits every element before it comes back: ``next[i]`` follows i.

    >>> single_cycle(4, np.random.default_rng(0)).dtype
    dtype('int32')
    """
    order = np.concatenate([[0], 1 + rng.permutation(length - 1)])
    successor = np.empty(length, np.int32)
    successor[order] = np.roll(order, -1)
    return successor


def follow(successor: NDArray[np.int32], steps: int) -> int:
    """Where a walk along the cycle that starts at 0 stands after some steps."""
    position = 0
    for _ in range(steps % len(successor)):
        position = int(successor[position])
    return position


def float_noise(count: int, rng: np.random.Generator, distinct: int = 1 << 20) -> NDArray[np.float32]:
    """``count`` random floats in [0, 1), repeating after ``distinct``: quick to make, and no constant data."""
    return np.resize(rng.random(min(count, distinct), np.float32), count)


def exactly(**expected: Any) -> dict[str, NDArray[np.float64]]:
    """Expected outputs in the type that outputs are compared in."""
    return {name: np.asarray(values, np.float64) for name, values in expected.items()}
