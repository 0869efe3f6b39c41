"""Evaluate closed forms once for each configuration that differs: a space of millions repeats few columns' values."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base import NONE_CODE, Batch, Column

ConfigurationT = TypeVar("ConfigurationT")
Inverse = NDArray[np.int64]


def _ranks(column: Column) -> tuple[Inverse, int]:
    """Rank of each element among the distinct values of the column, and how many there are, without sorting."""
    shifted = column - NONE_CODE
    seen = np.zeros(int(shifted.max()) + 1, np.bool_)
    seen[shifted] = True
    return (np.cumsum(seen) - 1)[shifted], int(seen.sum())


def distinct(batch: Batch[ConfigurationT]) -> tuple[Batch[ConfigurationT], Inverse] | None:
    """The configurations of a batch that differ, and for each of the batch the index of its own among them.

    None where counting them would cost more than evaluating all.
    """
    if max(int(column.max()) for column in batch.columns.values()) > len(batch):
        return None
    code, combinations = np.zeros(len(batch), np.int64), 1
    for column in batch.columns.values():
        rank, values = _ranks(column)
        code, combinations = code * values + rank, combinations * values
    if combinations > len(batch):
        return None
    member = np.full(combinations, -1, np.int64)
    member[code] = np.arange(len(batch))
    occurring = np.flatnonzero(member >= 0)
    position = np.empty(combinations, np.int64)
    position[occurring] = np.arange(len(occurring))
    return batch.take(member[occurring]), position[code]
