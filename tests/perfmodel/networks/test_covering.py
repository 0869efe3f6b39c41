"""Which family covers which convolution, and what is said where none does."""

from dataclasses import replace
from typing import Any

import pytest

from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d.problem import Conv2d
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.networks.covering import Convolution, covered_layer, describe


def conv2d(**changes: Any) -> Convolution:
    usual = Convolution(
        batch=2,
        in_channels=8,
        out_channels=16,
        spatial=(20, 30),
        kernel=(3, 5),
        stride=(1, 1),
        padding_before=(1, 1),
        padding_after=(1, 1),
        dilation=(1, 1),
    )
    return replace(usual, **changes)


def conv1d(**changes: Any) -> Convolution:
    one_axis = {"spatial": (16,), "kernel": (5,), "stride": (1,), "dilation": (1,)}
    return conv2d(**one_axis | {"padding_before": (2,), "padding_after": (2,)} | changes)


@pytest.mark.parametrize(
    ("convolution", "problem"),
    [
        (
            conv2d(),
            Conv2d(
                batch=2, in_channels=8, out_channels=16, height=20, width=30, filter_height=3, filter_width=5, padding=1
            ),
        ),
        (
            conv2d(out_channels=8, groups=8, stride=(2, 2)),
            Conv2d(
                batch=2,
                in_channels=8,
                out_channels=8,
                height=20,
                width=30,
                filter_height=3,
                filter_width=5,
                padding=1,
                stride=2,
                depthwise=True,
            ),
        ),
        (
            conv2d(kernel=(1, 1), padding_before=(0, 0), padding_after=(0, 0)),
            PointwiseConv2d(batch=2, in_channels=8, out_channels=16, height=20, width=30),
        ),
        (conv1d(), Conv1d(batch=2, in_channels=8, out_channels=16, length=16)),
    ],
)
def test_covered(convolution: Convolution, problem: Any) -> None:
    layer = covered_layer("x", convolution)
    assert layer.problem == problem
    assert layer.operation == describe(problem) == convolution.operation


AXES = ("spatial", "kernel", "stride", "dilation", "padding_before", "padding_after")


@pytest.mark.parametrize(
    ("convolution", "reason"),
    [
        (
            conv2d(**dict.fromkeys(AXES, (1, 1, 1))),
            "rank 3: families convolve along 1 or 2 spatial axes",
        ),
        (conv2d(transposed=True), "transposed convolution: families compute direct ones"),
        (conv2d(dilation=(2, 2)), "dilation 2x2: families cover 1"),
        (conv2d(padding_after=(1, 2)), "padding 1x1 before and 1x2 after: must be equal"),
        (conv2d(padding_before=(1, 2), padding_after=(1, 2)), "padding 1x2: must be equal along both axes"),
        (conv2d(stride=(1, 2)), "stride 1x2: must be equal along both axes"),
        (conv2d(stride=(3, 3)), "stride=3 must be 1 or 2"),
        (conv2d(groups=4), "groups 4 of 8 to 16 channels: direct_conv2d covers 1, or one for each of as many outputs"),
        (conv2d(groups=8), "groups 8 of 8 to 16 channels: direct_conv2d covers 1, or one for each of as many outputs"),
        (conv2d(kernel=(25, 5)), "filter_height=25 must be at most the padded image's height of 22"),
        (conv2d(kernel=(35, 35), spatial=(99, 99)), "filter_height=35 must be at most 33"),
        (conv1d(stride=(2,)), "stride 2 with 1 spatial axis: conv1d covers 1"),
        (conv1d(groups=8), "groups 8 with 1 spatial axis: conv1d is dense over channels"),
    ],
)
def test_uncovered(convolution: Convolution, reason: str) -> None:
    layer = covered_layer("x", convolution)
    assert layer.problem is None
    assert layer.uncovered == reason


def test_the_text_of_an_operation_names_what_is_unusual() -> None:
    unusual = conv2d(stride=(2, 2), dilation=(3, 3), groups=2)
    assert unusual.operation == "conv 3x5, 8 to 16 channels, input 20x30, stride 2x2, dilation 3x3, groups 2"
