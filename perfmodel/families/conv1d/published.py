"""What the source publishes of its own choices: shapes of its network, and channels per thread for each (SPEC section 3)."""

from __future__ import annotations

from dataclasses import dataclass

from .configuration import Conv1dConfiguration, Variant
from .problem import Conv1d

PUBLISHED_FILTER_WIDTH = 5
PUBLISHED_PADDING = 2

PUBLISHED_SHAPES: tuple[tuple[int, int, int], ...] = (
    (256, 256, 8),
    (256, 256, 16),
    (256, 512, 8),
    (512, 512, 4),
    (512, 512, 8),
    (512, 1024, 4),
    (1024, 256, 8),
    (1024, 1024, 4),
    (2048, 512, 4),
)
"""Input channels, output channels and length of the network's layers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedConfiguration:
    """One entry of the author's table of channels_per_thread."""

    in_channels: int
    length: int
    channels_per_thread: int

    @property
    def problem(self) -> Conv1d:
        """The entry as a problem; the output channels do not matter to the shared memory."""
        return Conv1d(
            in_channels=self.in_channels,
            length=self.length,
            filter_width=PUBLISHED_FILTER_WIDTH,
            padding=PUBLISHED_PADDING,
        )

    @property
    def configuration(self) -> Conv1dConfiguration:
        """The entry as a configuration."""
        return Conv1dConfiguration(variant=Variant.OPTIMIZED, channels_per_thread=self.channels_per_thread)


PUBLISHED: tuple[PublishedConfiguration, ...] = tuple(
    PublishedConfiguration(in_channels=c, length=length, channels_per_thread=cpt)
    for c, length, cpt in (
        (2, 16, 1),
        (512, 4, 8),
        (256, 16, 2),
        (512, 8, 4),
        (1024, 4, 4),
        (256, 8, 2),
        (1024, 8, 4),
        (2048, 4, 4),
    )
)
"""The author's choices (SPEC section 3)."""


def published_choice(problem: Conv1d) -> int | None:
    """The author's channels per thread for a problem of the published filter, None where there is no entry.

    >>> published_choice(Conv1d(in_channels=512, out_channels=1024, length=4))
    8
    """
    if (problem.filter_width, problem.padding) != (PUBLISHED_FILTER_WIDTH, PUBLISHED_PADDING):
        return None
    wanted = (problem.in_channels, problem.length)
    return next((p.channels_per_thread for p in PUBLISHED if (p.in_channels, p.length) == wanted), None)
