"""The scenario of a prediction: GPU, clock, state of the L2, calibration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from os import PathLike
from types import NoneType

import numpy as np

from ..core.choices import one_of
from ..core.counts import Counts
from ..core.value_types import require_type
from ..gpus.catalogue import load_gpu, with_sm_clock
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from ..profiles.kernel_profile import KernelProfile
from ..time_model.calibration import Calibration, load_calibration
from ..time_model.sm_model import sm_model


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The GPU (its boost clock is the SM clock), what lies in its L2 when the kernel starts, and the coefficients.

    ``own_coefficients``: the calibration is a user's file, so that the closed form, whose coefficients it has, gives every time.
    """

    gpu: Gpu
    calibration: Calibration
    l2: L2State = L2State.COLD
    own_coefficients: bool = False

    def closed_form_is_nearer(self, kernel: str | None) -> bool:
        """Whether the closed form was fitted to this kernel on this GPU, and the model of one SM to other GPUs only.

        >>> scenario_of("rtx-2080-ti").closed_form_is_nearer("tiled_conv2d")
        True
        >>> scenario_of("rtx-2080-ti").closed_form_is_nearer("ssim"), scenario_of("h200").closed_form_is_nearer("ssim")
        (False, False)
        """
        return kernel in dict(self.calibration.executed.kernels) and self.gpu.id not in sm_model().fitted_gpus

    def apply(self, profile: KernelProfile) -> KernelProfile:
        """The profile with this L2: what is warm and fits needs no DRAM reads."""
        return profile if self.l2 is L2State.COLD else replace(profile, counts=_warm(profile.counts, self.gpu))


def _warm(counts: Counts, gpu: Gpu) -> Counts:
    footprint = counts.dram_read_bytes + counts.dram_write_bytes
    return replace(counts, dram_read_bytes=np.where(footprint <= gpu.l2_bytes, 0.0, counts.dram_read_bytes))


def scenario_of(
    gpu: str | Gpu,
    *,
    sm_clock_mhz: float | None = None,
    l2: L2State | str = L2State.COLD,
    calibration: str | None = None,
) -> Scenario:
    """Scenario from what a user names: a GPU's id, file or ``auto``; the clock in MHz; ``cold`` or ``warm``; files.

    >>> scenario_of("h200", sm_clock_mhz=1500).gpu.boost_clock_hz
    1500000000.0
    """
    require_type((Real, NoneType), "a number", sm_clock_mhz=sm_clock_mhz)
    require_type((str, PathLike, NoneType), "the path of a file", calibration=calibration)
    found = gpu if isinstance(gpu, Gpu) else load_gpu(gpu)
    if sm_clock_mhz is not None:
        found = with_sm_clock(found, sm_clock_mhz * 1e6)
    return Scenario(
        gpu=found,
        calibration=load_calibration(found, calibration),
        l2=one_of(L2State, "l2", l2),
        own_coefficients=calibration is not None,
    )
