"""How well measurements of one GPU agree with each other: what no prediction can be asked to surpass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.json_values import plain
from ..errors import InputError
from ..records.measurements import Measurements
from .metrics import Accuracy, accuracy


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """One file taken as the prediction of another of the same GPU, over the configurations that both measured."""

    gpu: str
    first: str
    second: str
    accuracy: Accuracy

    def to_json(self) -> dict[str, Any]:
        """Names of the files and numbers."""
        return {"gpu": self.gpu, "first": self.first, "second": self.second} | self.accuracy.to_json()


def repeats(files: Sequence[tuple[str, Measurements]]) -> list[Repeat]:
    """Every pair of files of one GPU; each file stands with the GPU's id.

    Raises:
        InputError: No GPU has two files with at least two configurations in common.
    """
    pairs = []
    for (gpu, first), (other, second) in itertools.combinations(files, 2):
        before, after = _times(first), _times(second)
        common = [key for key in after if gpu == other and key in before]
        if len(common) >= 2:
            agreement = accuracy(np.array([before[key] for key in common]), np.array([after[key] for key in common]))
            pairs.append(Repeat(gpu=gpu, first=first.path.name, second=second.path.name, accuracy=agreement))
    if not pairs:
        named = ", ".join(f"{gpu}: {one.path.name}" for gpu, one in files)
        raise InputError(f"repeats need two --measurements of one --gpu with configurations in common, not {named}")
    return pairs


def _times(measurements: Measurements) -> dict[tuple[Any, ...], float]:
    """Seconds of every configuration that ran; the median where it was measured more than once."""
    times: dict[tuple[Any, ...], list[float]] = {}
    for index in np.flatnonzero(measurements.ran).tolist():
        problem = measurements.problems[int(measurements.problem_index[index])]
        key = (*plain(problem).values(), *plain(measurements.batch.configuration(index)).values())
        times.setdefault(key, []).append(float(measurements.time_s[index]))
    return {key: float(np.median(of)) for key, of in times.items()}
