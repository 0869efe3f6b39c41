"""Measurements as a file gives them, before they are understood as a family's problems and configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError

MEASURABLE_MS = (1e-6, 1e12)
"""Times that a file may give in milliseconds: a nanosecond, which no launch undercuts, to more than a lifetime."""


def measurable(time_ms: float) -> bool:
    """Whether a launch may have taken so many milliseconds.

    >>> measurable(1.5), measurable(0.0), measurable(1e-320), measurable(float("inf"))
    (True, False, False, False)
    """
    return MEASURABLE_MS[0] <= time_ms <= MEASURABLE_MS[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTable:
    """Rows of a file: cells by column, times, and where each row stands (``line 7``, ``entry '2,32'``) for messages.

    ``clock_recorded``: the file says at which clock the GPU ran, and marks runs during which it changed.
    """

    path: Path
    gpu: str
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[str]
    time_s: NDArray[np.float64]
    clock_recorded: bool = False

    def error(self, row: int, message: str) -> InputError:
        """The error to raise about one row; names file and place."""
        return InputError(f"{self.path}: {self.places[row]}: {message}")


def only_gpu(path: Path, names: Sequence[str]) -> str:
    """The one GPU that all rows name, or an empty text where none does.

    Raises:
        InputError: The rows come from several GPUs, which cannot be judged against one prediction.
    """
    distinct = sorted(set(names))
    if len(distinct) > 1:
        raise InputError(f"{path}: holds measurements of several GPUs ({', '.join(distinct)}); give one file for each")
    return distinct[0] if distinct else ""
