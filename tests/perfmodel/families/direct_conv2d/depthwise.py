"""Depthwise layers that tests execute."""

from __future__ import annotations

from perfmodel.families.direct_conv2d import Conv2d


def layer(channels: int, height: int, width: int, taps: int, **others: int) -> Conv2d:
    return Conv2d(
        in_channels=channels,
        out_channels=channels,
        height=height,
        width=width,
        filter_height=taps,
        filter_width=taps,
        depthwise=True,
        **others,
    )
