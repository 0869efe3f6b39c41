"""Configuration of the dense 1-D convolution and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ...definitions import MAX_THREADS_PER_BLOCK, ceil_div
from ...errors import InputError
from ..base import Product, Space
from ..sizes import require_integers
from .problem import Conv1d

LARGEST_ROW_WORDS = 512
"""Input and weight words of a thread beyond which a candidate is not worth looking at: twice what registers hold."""


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
    """Divisors of the channels and powers of two that leave at most 1,024 threads, in ascending order.

    Where even the smallest is beyond ``LARGEST_ROW_WORDS`` it stands alone, so that the space is never empty.

    >>> channels_per_thread_choices(Conv1d(in_channels=12, length=4))
    (1, 2, 3, 4, 6, 8, 12)
    """
    channels = problem.in_channels
    smallest = ceil_div(channels, MAX_THREADS_PER_BLOCK)
    largest = max(smallest, min(channels, LARGEST_ROW_WORDS // (problem.length + problem.filter_width)))
    divisors_and_powers = (c for c in range(smallest, largest + 1) if channels % c == 0 or c & (c - 1) == 0)
    return tuple(divisors_and_powers) or (smallest,)


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
