"""Physical features of launches, in which near launches share the errors of the model.

Shares of the terms, occupancy, registers, waves, instructions of a warp; nothing that was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..gpus.gpu import Gpu
from ..profiles.kernel_profile import KernelProfile
from ..time_model.coefficients import Coefficients
from ..time_model.combine import LIMITER_NAMES, launch_seconds

Floats = NDArray[np.float64]

_COUNTS = (
    "warp_instructions",
    "fp32_fma",
    "global_load_requests",
    "shared_load_requests",
    "barriers",
    "local_load_sectors",
)
FEATURE_NAMES: tuple[str, ...] = (
    *(f"share of {name}" for name in LIMITER_NAMES),
    *(f"log {name} of a warp" for name in _COUNTS),
    "log resident blocks",
    "log warps of a block",
    "log block width",
    "log block height",
    "log waves",
    "registers",
    "log code bytes",
    "log round trips",
    "wavefronts of a shared load",
    "wavefronts of a shared store",
    "sectors of a global load",
    "part of multiply-adds",
    "part of read-only loads",
)
CHOICES: tuple[str, ...] = ("part of read-only loads",)
"""Features that are 0 or 1 for most kernels: learned from as they are, so that a rare choice counts no more than a common one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launches:
    """n launches on one GPU as the learner sees them: their profile and resident blocks of shape ``(n,)``."""

    gpu: Gpu
    profile: KernelProfile
    blocks_per_sm: Any

    def seconds(self, coefficients: Coefficients) -> Floats:
        """By the physical model, shape ``(n,)``."""
        return launch_seconds(self.profile, self.blocks_per_sm, self.gpu, coefficients)[0]


def features(launches: Launches, coefficients: Coefficients) -> Floats:
    """Physical features of every launch, shape ``(n, len(FEATURE_NAMES))``."""
    profile, gpu, count = launches.profile, launches.gpu, np.size(launches.blocks_per_sm)
    seconds, terms = launch_seconds(profile, launches.blocks_per_sm, gpu, coefficients)
    launch, counts = profile.launch, profile.counts
    warps = np.maximum(np.asarray(launch.blocks, np.float64) * launch.warps_per_block, 1)
    columns = [np.asarray(getattr(terms, name)) / seconds for name in LIMITER_NAMES]
    columns += [np.log1p(getattr(counts, name) / warps) for name in _COUNTS]
    resident = np.maximum(launches.blocks_per_sm, 1)
    columns += [
        np.log(resident),
        np.log(launch.warps_per_block),
        np.log(launch.block_x),
        np.log(np.asarray(launch.block_y) * launch.block_z),
        np.log(launch.blocks / (gpu.sm_count * resident)),
        profile.registers / 64.0,
        np.log1p(profile.resources.code_bytes / 1024.0),
        np.log(np.maximum(profile.global_round_trips, 1)),
        _ratio(counts.shared_load_wavefronts, counts.shared_load_requests),
        _ratio(counts.shared_store_wavefronts, counts.shared_store_requests),
        _ratio(counts.global_load_sectors, counts.global_load_requests),
        _ratio(counts.fp32_fma, counts.warp_instructions),
        profile.read_only_share,
    ]
    return np.stack([np.broadcast_to(np.asarray(column, np.float64), count) for column in columns], axis=1)


def _ratio(value: Any, by: Any) -> Floats:
    return np.asarray(value / np.maximum(by, 1.0), np.float64)


def scales(found: Floats) -> tuple[Floats, Floats]:
    """Mean and unit of every feature, shape ``(k,)`` each: the standard deviation, 1 for choices and for what never differs.

    >>> centre, unit = scales(np.zeros((3, len(FEATURE_NAMES))))
    >>> float(centre[0]), float(unit[0])
    (0.0, 1.0)
    """
    deviation = found.std(axis=0)
    return found.mean(axis=0), np.where((deviation > 1e-9) & ~np.isin(FEATURE_NAMES, CHOICES), deviation, 1.0)
