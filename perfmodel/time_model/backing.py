"""What backs a time: a phrase, and the interval that held-out runs give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SecondsT = TypeVar("SecondsT", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True, kw_only=True)
class Backing:
    """A phrase, and half the width of the 90 % interval on a logarithmic scale; None where nothing backs one."""

    status: str
    log_error_90: float | None

    def interval_s(self, seconds: SecondsT) -> tuple[SecondsT, SecondsT] | None:
        """The 90 % interval around a time, or around each of an array.

        >>> Backing(status="calibrated GPU", log_error_90=math.log(2)).interval_s(3.0)
        (1.5, 6.0)
        """
        if self.log_error_90 is None:
            return None
        factor = math.exp(self.log_error_90)
        return seconds / factor, seconds * factor
