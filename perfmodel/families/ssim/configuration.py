"""The configuration: which of the nine kernels."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Version(Enum):
    """Steps of one optimisation, each a kernel; the order is that in which they follow from one another."""

    NAIVE = "naive"
    V1 = "v1"
    V2 = "v2"
    V3_0 = "v3_0"
    V3_1 = "v3_1"
    V3 = "v3"
    V4_1 = "v4_1"
    V4 = "v4"
    V4_Z4 = "v4_z4"


@dataclass(frozen=True, slots=True, kw_only=True)
class SsimConfiguration:
    """One version; its tile and block belong to it."""

    version: Version = Version.V4_1
