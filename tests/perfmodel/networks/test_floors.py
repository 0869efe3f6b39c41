"""Floors by visible arithmetic."""

import pytest

from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d.problem import Conv2d
from perfmodel.families.ssim.problem import Ssim
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.launch.launch import L2State
from perfmodel.networks.estimate import demand, floors
from perfmodel.networks.graph import Demand


def test_conv1d() -> None:
    products = 2 * 6 * 3 * (3 + 4 + 4 + 3)  # batch, outputs, inputs, taps on the row of 4
    words = 2 * 3 * 4 + 6 * 3 * 5 + 6 + 2 * 6 * 4
    assert demand(Conv1d(batch=2, in_channels=3, out_channels=6)) == Demand(dram_bytes=4 * words, flops=2 * products)


def test_depthwise_with_padding_and_stride() -> None:
    problem = Conv2d(
        in_channels=2,
        out_channels=2,
        height=4,
        width=4,
        filter_height=3,
        filter_width=3,
        stride=2,
        padding=1,
        depthwise=True,
    )
    along_one_axis = 2 + 3  # outputs at −1 … 1 and 1 … 3 of the rows 0 … 3
    words = 2 * 16 + 2 * 9 + 2 * 4
    assert demand(problem) == Demand(dram_bytes=4 * words, flops=2 * 2 * along_one_axis**2)


def test_ssim_reads_two_images_and_writes_a_map() -> None:
    pixels = 3 * 2160 * 3840
    assert demand(Ssim()) == Demand(dram_bytes=4 * 3 * pixels, flops=2 * 110 * pixels)
    gradients = demand(Ssim(gradients=True))
    assert gradients is not None
    assert gradients.dram_bytes == 4 * 6 * pixels


def test_seconds_of_the_weights_that_conv1d_streams() -> None:
    gpu = load_gpu("rtx-3090")
    needed = demand(Conv1d())
    assert needed is not None
    least = floors(needed, gpu)
    assert least.dram_s == pytest.approx(4 * (1024 * 1024 * 5 + 1024 * 4 + 1024 + 1024 * 4) / gpu.dram_bytes_per_s)
    assert least.dram_s > least.fp32_s


def test_what_a_warm_l2_holds_needs_no_dram() -> None:
    gpu = load_gpu("h200")
    for needed, seconds in ((gpu.l2_bytes, 0.0), (gpu.l2_bytes + 1, (gpu.l2_bytes + 1) / gpu.dram_bytes_per_s)):
        assert floors(Demand(dram_bytes=needed, flops=0), gpu, L2State.WARM).dram_s == seconds


def test_a_problem_of_an_unknown_family_has_no_floor() -> None:
    assert demand(object()) is None
