"""Which published configurations of the original kernel write beyond their shared memory, and by how many floats.

The original declares ``in_channels · max(length, filter_width)`` floats, but spreads the input by one unused float after
every pad period. This says what the original would do; the project's kernel reserves ``geometry.staging_words``.
"""

from __future__ import annotations

from dataclasses import dataclass

from .configuration import Conv1dConfiguration, Variant
from .geometry import pad_period_words, staging_words
from .problem import Conv1d
from .published import PUBLISHED, PUBLISHED_FILTER_WIDTH, PublishedConfiguration

_VECTOR_WORDS = 4


def overrun_floats(problem: Conv1d, configuration: Conv1dConfiguration) -> int:
    """Floats by which the original's staged input would overrun its shared memory; 0 where it is safe.

    The original computes the pad once for each group of four words, from the group's first word: the highest index it
    writes is C·L − 1 + ⌊(C·L − 4) / period⌋ (SPEC section 3, taken over the groups that it loads). The naive kernel
    stages nothing.

    >>> overrun_floats(Conv1d(in_channels=1024, length=8), Conv1dConfiguration(channels_per_thread=4))
    255
    """
    if configuration.variant is Variant.NAIVE or configuration.channels_per_thread is None:
        return 0
    channels_per_thread = configuration.channels_per_thread
    loaded = original_loaded_words(problem, channels_per_thread)
    if loaded == 0:
        return 0
    period = pad_period_words(problem.length, channels_per_thread)
    highest = loaded - 1 + (loaded - _VECTOR_WORDS) // period
    reserved = problem.in_channels * max(problem.length, problem.filter_width)
    return max(0, highest + 1 - reserved)


def original_loaded_words(problem: Conv1d, channels_per_thread: int) -> int:
    """Input words that the original loads: whole groups of four for each thread, the rest is silently left out.

    >>> original_loaded_words(Conv1d(in_channels=256, length=6), 1)  # 1536 words, 256 threads: one group each
    1024
    """
    threads = problem.in_channels // channels_per_thread
    if threads == 0:
        return 0
    return problem.input_words // (_VECTOR_WORDS * threads) * _VECTOR_WORDS * threads


@dataclass(frozen=True, slots=True, kw_only=True)
class OverflowReport:
    """What the original does with one published configuration; sizes in floats."""

    published: PublishedConfiguration
    reserved_floats: int
    required_floats: int
    overrun_floats: int


def published_overflows() -> tuple[OverflowReport, ...]:
    """The author's configurations in the order of the table, each with what it reserves, needs and overruns.

    >>> [report.overrun_floats for report in published_overflows()]
    [0, 0, 127, 127, 0, 63, 255, 0]
    """
    return tuple(
        OverflowReport(
            published=entry,
            reserved_floats=entry.in_channels * max(entry.length, PUBLISHED_FILTER_WIDTH),
            required_floats=staging_words(entry.problem, entry.channels_per_thread),
            overrun_floats=overrun_floats(entry.problem, entry.configuration),
        )
        for entry in PUBLISHED
    )
