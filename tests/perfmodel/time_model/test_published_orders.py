"""Published times that nothing was fitted to: the model must order them and get their ratios.

No coefficient was fitted to these runs; runs of the same kernels on an H200 are in the fit.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from perfmodel import Conv1d, Conv1dConfiguration, Ssim, SsimConfiguration, predict
from perfmodel.accuracy.metrics import accuracy
from perfmodel.families.conv1d import Variant
from perfmodel.families.ssim import Version

FASTEST = {"v4_1", "v4", "v4_z4"}


def _ssim(gradients: bool, fidelity: str) -> tuple[dict[str, float], dict[str, float]]:
    """Measured and predicted times by version."""
    text = (Path(__file__).parent / "ssim_a100.toml").read_text(encoding="utf-8")
    problem = Ssim(batch=1, channels=3, height=2160, width=3840, gradients=gradients)
    found = {
        name: predict(problem, SsimConfiguration(version=Version(name)), gpu="a100-sxm-80gb", fidelity=fidelity)
        for name in (version.value for version in Version)
    }
    predicted = {name: one.time.predicted_s for name, one in found.items()}
    return tomllib.loads(text)["milliseconds"], predicted


@pytest.mark.compiler
@pytest.mark.parametrize(
    ("gradients", "least_tau", "fidelity"),
    [(False, 0.85, "analytic"), (True, 0.75, "analytic"), (False, 0.85, "compiled")],
)
def test_ssim_versions_come_in_the_order_measured_on_an_a100(gradients: bool, least_tau: float, fidelity: str) -> None:
    """The source does not say whether gradient maps were written."""
    measured, predicted = _ssim(gradients, fidelity)
    names = sorted(measured)
    found = accuracy(np.array([predicted[name] for name in names]), np.array([measured[name] for name in names]))
    assert found.kendall_tau >= least_tau
    assert found.mape_scaled <= 0.20
    order = sorted(predicted, key=predicted.__getitem__)
    assert set(order[:3]) == FASTEST
    assert "v3_0" in order[-2:]


@pytest.mark.compiler
def test_conv1d_gains_what_was_profiled_on_a_3090() -> None:
    """Profiled at 1.39 GHz: naive 134.688 µs, optimized with 4 channels a thread 33.28 µs, ratio 4.05."""
    problem = Conv1d(in_channels=1024, out_channels=1024, length=4, filter_width=5, padding=2)
    times = [
        predict(
            problem,
            Conv1dConfiguration(variant=variant, channels_per_thread=channels),
            gpu="rtx-3090",
            sm_clock_mhz=1390,
        ).time.predicted_s
        for variant, channels in ((Variant.NAIVE, None), (Variant.OPTIMIZED, 4))
    ]
    assert times[0] / times[1] == pytest.approx(134.688 / 33.28, rel=0.25)
