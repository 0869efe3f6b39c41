"""Configuration of the dense 1-D convolution and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isqrt

from ...core.constants import MAX_THREADS_PER_BLOCK, WARP_SIZE, ceil_div
from ...errors import InputError
from ..base import Product, Space
from ..sizes import require_integers
from .problem import Conv1d

LARGEST_ROW_WORDS = 512
"""Input and weight words of a thread up to which fewer threads than a warp own channels: twice what registers hold."""


class Variant(Enum):
    """Which of the two kernels runs."""

    NAIVE = "naive"
    """One input channel per thread, a tree in shared memory for every output."""
    OPTIMIZED = "optimized"
    """Several input channels per thread, padded shared memory, shuffles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1dConfiguration:
    """Variant and input channels per thread, which the naive variant fixes to one (``None``).

    >>> Conv1dConfiguration(variant=Variant.OPTIMIZED, channels_per_thread=0)
    Traceback (most recent call last):
    perfmodel.errors.InputError: channels_per_thread=0 must be an integer of at least 1
    """

    variant: Variant = Variant.OPTIMIZED
    channels_per_thread: int | None = 4

    def __post_init__(self) -> None:
        if self.variant is Variant.OPTIMIZED:
            require_integers(1, channels_per_thread=self.channels_per_thread)
        elif self.channels_per_thread is not None:
            raise InputError(f"channels_per_thread={self.channels_per_thread!r} must be none when variant=naive")


def channels_per_thread_choices(problem: Conv1d) -> tuple[int, ...]:
    """Divisors of the channels and powers of two that leave at most 1,024 threads and a warp of them, in ascending order.

    Where a thread's rows are short, those that leave less than a warp follow. A power of two is always among them.

    >>> channels_per_thread_choices(Conv1d(in_channels=12, length=4))
    (1, 2, 3, 4, 6, 8, 12)
    >>> channels_per_thread_choices(Conv1d(in_channels=4999, length=20000))
    (8, 16, 32, 64, 128)
    """
    channels = problem.in_channels
    smallest = ceil_div(channels, MAX_THREADS_PER_BLOCK)
    short_rows = min(channels, LARGEST_ROW_WORDS // (problem.length + problem.filter_width))
    largest = max(smallest, ceil_div(channels, WARP_SIZE), short_rows)
    powers = {1 << exponent for exponent in range(channels.bit_length())}
    small = {c for c in range(1, isqrt(channels) + 1) if channels % c == 0}
    return tuple(sorted(c for c in powers | small | {channels // c for c in small} if smallest <= c <= largest))


def conv1d_space(problem: Conv1d) -> Space[Conv1dConfiguration]:
    """The naive kernel and one optimized kernel for each choice of channels per thread."""
    return Space(
        (
            Product(Conv1dConfiguration, {"variant": (Variant.NAIVE,), "channels_per_thread": (None,)}),
            Product(
                Conv1dConfiguration,
                {"variant": (Variant.OPTIMIZED,), "channels_per_thread": channels_per_thread_choices(problem)},
            ),
        )
    )
