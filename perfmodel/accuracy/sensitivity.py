"""Whether the model knows which way a change goes: pairs of measured configurations that differ in one field by one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..families.base import NONE_CODE, Batch, enum_of

LEAST_CHANGE = 0.05
"""Part by which the slower of two measured times must exceed the other, so that their order is no accident."""

Floats = NDArray[np.float64]
Rows = NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignRate:
    """Of ``pairs`` pairs of configurations, in how many the faster one was predicted to be the faster one."""

    pairs: int
    right: int


def one_step_pairs(batch: Batch[Any], problem_index: Rows) -> dict[str, tuple[Rows, Rows]]:
    """Pairs of rows that solve one problem and differ in one field: for each field with pairs, their indices.

    A number differs by one step of the values that stand in the batch, a choice by any of its values.
    """
    names = list(batch.columns)
    columns = np.stack([np.asarray(batch.columns[name], np.int64) for name in names], axis=1)
    pairs_of: dict[str, tuple[Rows, Rows]] = {}
    for place, name in enumerate(names):
        others = np.column_stack([np.delete(columns, place, axis=1), problem_index])
        pairs = _pairs(others, columns[:, place], choice=enum_of(batch.configuration_type, name) is not None)
        if len(pairs[0]):
            pairs_of[name] = pairs
    return pairs_of


def _pairs(others: NDArray[np.int64], values: NDArray[np.int64], *, choice: bool) -> tuple[Rows, Rows]:
    """Pairs within groups of equal ``others``; a configuration that was measured twice counts once."""
    group = np.unique(others, axis=0, return_inverse=True)[1].reshape(-1)
    known, rank = np.unique(values, return_inverse=True)
    rank = rank.reshape(-1)
    order = np.asarray(np.unique(group * len(known) + rank, return_index=True)[1], np.intp)
    order = order[values[order] != NONE_CODE]
    group, rank = group[order], rank[order]
    lower, upper = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
    for distance in range(1, len(known) if choice else 2):
        together = group[:-distance] == group[distance:]
        if not choice:
            together &= rank[distance:] - rank[:-distance] == 1
        lower.append(order[:-distance][together])
        upper.append(order[distance:][together])
    return np.concatenate(lower), np.concatenate(upper)


def sign_rate(batch: Batch[Any], problem_index: Rows, predicted_s: Floats, measured_s: Floats) -> SignRate:
    """How often the predicted sign of a one-step change is the measured one, where it exceeds ``LEAST_CHANGE``."""
    pairs = right = 0
    for lower, upper in one_step_pairs(batch, problem_index).values():
        measured = np.log(measured_s[upper] / measured_s[lower])
        predicted = np.log(predicted_s[upper] / predicted_s[lower])
        large = np.abs(measured) > np.log1p(LEAST_CHANGE)
        pairs += int(large.sum())
        right += int((np.sign(predicted[large]) == np.sign(measured[large])).sum())
    return SignRate(pairs=pairs, right=right)
