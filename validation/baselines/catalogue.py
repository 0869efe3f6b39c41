"""Which baselines each family has."""

from __future__ import annotations

from collections.abc import Mapping

from perfmodel.errors import InputError

from .image_filters import cupy_correlate, opencv_filter
from .interface import Baseline
from .torch_operations import (
    conv1d_operation,
    direct_operation,
    pointwise_operation,
    ssim_operation,
    tiled_operation,
    torch_baselines,
)

BASELINES: Mapping[str, tuple[Baseline, ...]] = {
    "direct_conv2d": torch_baselines(direct_operation, layouts=True),
    "tiled_conv2d": (
        *torch_baselines(tiled_operation, layouts=False),
        Baseline(name="cupy correlate", start=cupy_correlate),
        Baseline(name="opencv filter", start=opencv_filter),
    ),
    "pointwise_conv2d": torch_baselines(pointwise_operation, layouts=True),
    "conv1d": torch_baselines(conv1d_operation, layouts=False),
    "ssim": torch_baselines(ssim_operation, layouts=False),
}


def find_baseline(family: str, name: str) -> Baseline:
    """A family's baseline by name.

    Raises:
        InputError: The family has none of this name.
    """
    for baseline in BASELINES.get(family, ()):
        if baseline.name == name:
            return baseline
    known = ", ".join(baseline.name for baseline in BASELINES.get(family, ()))
    raise InputError(f"{family} has no baseline {name!r}; it has {known or 'none'}")
