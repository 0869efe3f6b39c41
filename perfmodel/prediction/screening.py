"""Which candidates of a space to compile next: closed forms, corrected by what compiled candidates showed of their kind.

Closed forms estimate what the compiler decides: registers, instructions, what a warp waits for. How far the time is off then
depends on the variant of the kernel and changes little with block sizes. So the error that compiled candidates show, the
logarithm of compiled over closed time, is interpolated over the space by a Gaussian process in the fields of the configuration,
and those are compiled next that may be the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..families.base import Batch, enum_of

Floats = NDArray[np.float64]

OTHER_CHOICE = 2.0
"""Distance of two candidates that differ in a choice; in a number, that of its doublings."""
CORRELATION_LENGTH = 4.0
NOISE = 0.05
"""Part of the errors' variance that candidates do not share with any other."""
LEAST_LOG_SPREAD = 0.1
"""Standard deviation of the errors that is expected at least."""


def places(batch: Batch[Any]) -> Floats:
    """Candidates as points, shape ``(n, columns)``, in which the distance along a column is what its field differs by.

    >>> from perfmodel import TiledConv2dConfiguration as Tiled
    >>> places(Batch.of([Tiled(block_size_x=16), Tiled(block_size_x=64)]))[:, 0]
    array([4., 6.])
    """
    columns: list[Floats] = []
    for name, column in batch.columns.items():
        if enum_of(batch.configuration_type, name) is None and column.min() > 0:
            columns.append(np.log2(column.astype(np.float64)))
        else:
            columns += [
                OTHER_CHOICE / 2 * (column == code) for code in np.unique(column)[1:] if len(np.unique(column)) > 1
            ]
            columns += [OTHER_CHOICE / 2 * (column == np.unique(column)[0])] if len(np.unique(column)) > 1 else []
    return np.stack([np.asarray(one, np.float64) for one in columns], axis=1)


@dataclass(slots=True)
class Screening:
    """Candidates with their times by closed forms, shape ``(n,)``, and what is known of those that were compiled."""

    batch: Batch[Any]
    seconds: Floats
    _places: Floats = field(init=False)
    _seen: list[int] = field(default_factory=list)
    _log_errors: list[float] = field(default_factory=list)
    """Of the seen ones; NaN where a candidate does not compile or fit."""

    def __post_init__(self) -> None:
        self._places = places(self.batch)

    def note(self, indices: Sequence[int], seconds: Floats) -> None:
        """The compiled times of some candidates, infinite where one does not compile or fit."""
        self._seen += indices
        self._log_errors += np.where(
            np.isfinite(seconds), np.log(seconds / self.seconds[list(indices)]), np.nan
        ).tolist()

    def corrected(self) -> tuple[Floats, Floats]:
        """Logarithm of the time of every candidate with the errors of its neighbours, and its standard deviation."""
        errors = np.array(self._log_errors)
        known = np.isfinite(errors)
        if not known.any():
            return np.log(self.seconds), np.zeros(len(self.seconds))
        errors, at = errors[known], self._places[np.array(self._seen)[known]]
        mean, spread = float(np.median(errors)), max(float(errors.std()), LEAST_LOG_SPREAD)
        weights = np.linalg.solve(_alike(at, at) + NOISE * np.eye(len(at)), np.eye(len(at)))
        near = _alike(self._places, at)
        left = np.maximum(1.0 - np.einsum("ij,jk,ik->i", near, weights, near), 0.0)
        return np.log(self.seconds) + mean + near @ (weights @ (errors - mean)), spread * np.sqrt(left)

    def next(self, number: int, least: int) -> list[int]:
        """Indices of those that have not been seen and may be the fastest: by corrected time less its standard deviation.

        Those whose time so lessened is above that of the fastest seen one are left out, but for the first ``least``.
        """
        time, deviation = self.corrected()
        hopeful = time - deviation
        fastest = np.fmin.reduce(np.array(self._log_errors) + np.log(self.seconds[self._seen]), initial=np.inf)
        hopeful[self._seen] = np.inf
        order = np.argsort(hopeful, kind="stable")[: max(number, 0)]
        return [
            int(index)
            for place, index in enumerate(order)
            if np.isfinite(hopeful[index]) and (place < least or hopeful[index] < fastest)
        ]


def _alike(one: Floats, other: Floats) -> Floats:
    distance = np.abs(one[:, None, :] - other[None, :, :]).sum(axis=2)
    return np.asarray(np.exp(-distance / CORRELATION_LENGTH))
