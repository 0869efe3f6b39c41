"""Which candidates of a space to compile next: closed forms, corrected by what compiled candidates showed of their kind.

Closed forms estimate what the compiler decides: registers, instructions, what a warp waits for. How far the time is off then
depends on the variant of the kernel and changes little with block sizes. So the error that compiled candidates show, the
logarithm of compiled over closed time, is interpolated over the space by a Gaussian process in the fields of the configuration,
and those are compiled next that may be the fastest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.axes import Axis, Floats, axes_of
from ..families.base import Batch, enum_of

if TYPE_CHECKING:
    from ..core.gaussian_process import Process

VARIANCE = 0.05
"""Expected variance of the logarithm of the errors, of each of the process's parts."""


def axes(batch: Batch[Any]) -> tuple[Axis, ...]:
    """The axes of candidates: amounts by their logarithm, choices all equally far from one another.

    >>> from perfmodel import TiledConv2dConfiguration as Tiled
    >>> block_size, tile = axes(Batch.of([Tiled(block_size_x=16 * 2**n, tile_size_x=1 + n % 2) for n in range(3)]))
    >>> block_size.row(0).round(2).tolist(), tile.row(0).tolist()
    ([0.0, 1.22, 2.45], [0.0, 1.5, 0.0])
    """
    return axes_of(
        {
            name: (column if _is_amount(batch, name) else column.astype(str)).tolist()
            for name, column in batch.columns.items()
        }
    )


def _is_amount(batch: Batch[Any], name: str) -> bool:
    return enum_of(batch.configuration_type, name) is None and bool(batch[name].min() > 0)


@dataclass(slots=True)
class Screening:
    """Candidates with their times by closed forms, shape ``(n,)``, and what is known of those that were compiled."""

    batch: Batch[Any]
    seconds: Floats
    _process: Process = field(init=False)
    _seen: list[int] = field(default_factory=list)
    _fastest: float = np.inf
    """Logarithm of the time of the fastest that was compiled."""
    _log_errors: list[float] = field(default_factory=list)
    """Of those that compile and fit, in the order of the process."""

    def __post_init__(self) -> None:
        from ..core.gaussian_process import Process  # with SciPy's optimizer, which takes long to import

        self._process = Process(axes(self.batch), VARIANCE, offsets=False)

    def note(self, indices: Sequence[int], seconds: Floats) -> None:
        """The compiled times of some candidates, infinite where one does not compile or fit."""
        self._seen += indices
        for index, own in zip(indices, seconds.tolist(), strict=True):
            if np.isfinite(own):
                self._process.add(index)
                self._log_errors.append(float(np.log(own / self.seconds[index])))
                self._fastest = min(self._fastest, float(np.log(own)))
        if self._log_errors:
            self._process.fit(self._deviations())

    def _deviations(self) -> Floats:
        """The errors around their median."""
        return np.array(self._log_errors) - np.median(self._log_errors)

    def corrected(self) -> tuple[Floats, Floats]:
        """Logarithm of the time of every candidate with the errors of its neighbours, and its standard deviation."""
        if not self._log_errors:
            return np.log(self.seconds), np.zeros(len(self.seconds))
        error, deviation = self._process.posterior(self._deviations())
        return np.log(self.seconds) + np.median(self._log_errors) + error, deviation

    def next(self, number: int, least: int) -> list[int]:
        """Indices of those that have not been seen and may be the fastest: by corrected time less its standard deviation.

        Those whose time so lessened is above that of the fastest seen one are left out, but for the first ``least``.
        """
        time, deviation = self.corrected()
        hopeful = time - deviation
        hopeful[self._seen] = np.inf
        order = np.argsort(hopeful, kind="stable")[: max(number, 0)]
        return [
            int(index)
            for place, index in enumerate(order)
            if np.isfinite(hopeful[index]) and (place < least or hopeful[index] < self._fastest)
        ]
