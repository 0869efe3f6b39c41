"""Batches whose configurations belong to several designs, each with functions of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.batched import joined, mapped, taken
from .base import Batch, Check, ConfigurationT

RecordT = TypeVar("RecordT")


def by_design(
    batch: Batch[ConfigurationT], design: NDArray[Any], *functions: Callable[[Batch[ConfigurationT]], RecordT]
) -> RecordT:
    """What each design's own function makes of its configurations, in the batch's order.

    Args:
        batch: The configurations; at least one.
        design: Number of the design of each, from 0, shape ``(n,)``.
        functions: One for each design.
    """
    there, counts = np.unique(design, return_counts=True)
    parts = [functions[int(number)](batch.take(design == number)) for number in there]
    if len(parts) == 1:
        return parts[0]
    spread = [_spread(part, int(count)) for part, count in zip(parts, counts, strict=True)]
    return taken(joined(*spread), np.argsort(np.argsort(design, kind="stable"), kind="stable"))


def _spread(record: RecordT, count: int) -> RecordT:
    """The record of so many candidates with an array in each field."""
    return mapped(lambda value: np.broadcast_to(value, count), record)


def checks_by_design(
    batch: Batch[ConfigurationT], design: NDArray[Any], *functions: Callable[[Batch[ConfigurationT]], Sequence[Check]]
) -> tuple[Check, ...]:
    """The checks of every design, each for its own configurations; those of other designs break none."""
    found: list[Check] = []
    for number in np.unique(design).tolist():
        own = np.flatnonzero(design == number)
        for check in functions[number](batch.take(own)):
            rejected = np.zeros(len(batch), np.bool_)
            rejected[own] = check.rejected
            value, limit = (_placed(each, own, len(batch)) for each in (check.value, check.limit))
            found.append(
                Check(reason=check.reason, rejected=rejected, value=value, limit=limit, relation=check.relation)
            )
    return tuple(found)


def _placed(values: Any, own: NDArray[np.intp], count: int) -> Any:
    if np.ndim(values) == 0:
        return values
    placed = np.zeros(count, np.asarray(values).dtype)
    placed[own] = values
    return placed
