"""Configuration of the dense 1-D convolution and its candidates."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isqrt

from ...core.constants import MAX_THREADS_PER_BLOCK, WARP_SIZE, ceil_div
from ...errors import InputError
from ..base import Product, Space, take_choices
from ..blocked import choices
from ..sizes import require_integers
from .problem import Conv1d

LARGEST_ROW_WORDS = 512
"""Input and weight words of a thread up to which fewer threads than a warp own channels: twice what registers hold."""
OUT_CHANNELS_PER_THREAD = "out_channels_per_thread"
OF_BLOCKED = (
    "block_x",
    "block_y",
    "rows_per_thread",
    "columns_per_thread",
    OUT_CHANNELS_PER_THREAD,
    "channel_threads",
    "channel_slices",
)
"""Fields of the blocked design."""


class Variant(Enum):
    """Which kernel runs."""

    NAIVE = "naive"
    """One input channel per thread, a tree in shared memory for every output."""
    OPTIMIZED = "optimized"
    """Several input channels per thread, padded shared memory, shuffles."""
    BLOCKED = "blocked"
    """Implicit GEMM: blocks share inputs and weights in shared memory, a thread keeps outputs of several channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1dConfiguration:
    """One way to run a 1-D convolution; ``None`` where a field has no effect.

    ``variant`` is the design. ``naive``: a thread has one input channel. ``optimized``: it has ``channels_per_thread``, and sums
    are added by shuffles. ``blocked``: an implicit GEMM with inputs and weights in shared memory.

    With ``variant=blocked`` threads along ``block_x`` compute outputs of a row, those along ``block_y`` of batch elements, each
    ``rows_per_thread`` × ``columns_per_thread`` outputs for each of ``out_channels_per_thread`` channels. ``channel_threads``
    such planes of threads divide the output channels, ``channel_slices`` the input channels, whose partial sums are added at
    the end.

    >>> Conv1dConfiguration(variant=Variant.OPTIMIZED, channels_per_thread=0)
    Traceback (most recent call last):
    perfmodel.errors.InputError: channels_per_thread=0 must be an integer of at least 1
    >>> Conv1dConfiguration(variant=Variant.OPTIMIZED, channel_slices=2)
    Traceback (most recent call last):
    perfmodel.errors.InputError: channel_slices=2 must be none when variant=optimized
    """

    variant: Variant = Variant.OPTIMIZED
    channels_per_thread: int | None = 4
    block_x: int | None = None
    block_y: int | None = None
    rows_per_thread: int | None = None
    columns_per_thread: int | None = None
    out_channels_per_thread: int | None = None
    channel_threads: int | None = None
    channel_slices: int | None = None

    def __post_init__(self) -> None:
        take_choices(self)
        effective = {
            Variant.NAIVE: (),
            Variant.OPTIMIZED: ("channels_per_thread",),
            Variant.BLOCKED: OF_BLOCKED,
        }[self.variant]
        require_integers(1, **{name: getattr(self, name) for name in effective})
        for name in ("channels_per_thread", *OF_BLOCKED):
            if name not in effective and getattr(self, name) is not None:
                raise InputError(f"{name}={getattr(self, name)!r} must be none when variant={self.variant.value}")


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
    """The naive kernel, one optimized kernel for each choice of channels per thread, and blocks of all sizes."""

    def of_rows(variant: Variant, channels_per_thread: tuple[int | None, ...]) -> Product[Conv1dConfiguration]:
        own = {"variant": (variant,), "channels_per_thread": channels_per_thread}
        return Product(Conv1dConfiguration, own | dict.fromkeys(OF_BLOCKED, (None,)))

    of_blocks = {"variant": (Variant.BLOCKED,), "channels_per_thread": (None,)}
    return Space(
        (
            of_rows(Variant.NAIVE, (None,)),
            of_rows(Variant.OPTIMIZED, channels_per_thread_choices(problem)),
            *(
                Product(Conv1dConfiguration, of_blocks | some.values(OUT_CHANNELS_PER_THREAD))
                for some in choices(problem.layer)
            ),
        )
    )
