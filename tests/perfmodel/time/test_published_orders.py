"""Published times of kernels that no coefficient was fitted to: the model must order them and get their ratios."""

from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest
from scipy.stats import kendalltau

from perfmodel import Conv1d, Conv1dConfiguration, Ssim, predict, rank
from perfmodel.families.conv1d import Variant


def test_ssim_versions_come_in_the_order_measured_on_an_a100() -> None:
    text = files("perfmodel.data").joinpath("published", "ssim_a100.toml").read_text(encoding="utf-8")
    measured = tomllib.loads(text)["milliseconds"]
    found = rank(Ssim(batch=1, channels=3, height=2160, width=3840), gpu="a100-sxm-80gb", fidelity="analytic").top
    predicted = {entry.configuration.version.value: entry.time.predicted_s for entry in found}
    names = sorted(measured)
    tau = kendalltau([predicted[name] for name in names], [measured[name] for name in names]).statistic
    assert tau >= 0.85
    order = sorted(predicted, key=predicted.__getitem__)
    assert set(order[:3]) == {"v4_1", "v4", "v4_z4"}
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
    assert times[0] / times[1] == pytest.approx(134.688 / 33.28, rel=0.15)
