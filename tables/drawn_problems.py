"""Problems of sizes that users have, at random: what tables of compiled members are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from perfmodel.families.conv1d import Conv1d
from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.direct_conv2d.problem import LARGEST_FILTER
from perfmodel.families.pointwise_conv2d import PointwiseConv2d
from perfmodel.families.ssim import Ssim
from perfmodel.families.tiled_conv2d import TiledConv2d


def drawn_problem(family_name: str, rng: np.random.Generator) -> Any:
    """A problem of a family; ``InputError`` where the drawn sizes make none: then another one is drawn."""
    return _DRAWN[family_name](rng)


def drawn_size(rng: np.random.Generator, low: int, high: int, multiple: int = 1) -> int:
    """A size from ``low`` to ``high``, each doubling equally likely; in seven of ten cases a multiple where it is large enough.

    >>> 3 <= drawn_size(np.random.default_rng(0), 3, 100) <= 100
    True
    """
    size = round(float(np.exp(rng.uniform(np.log(low - 0.49), np.log(high + 0.49)))))
    if size > multiple > 1 and rng.random() < 0.7:
        size = max(low, size // multiple * multiple)
    return size


_CONV1D_FILTERS = (1, 2, 3, 3, 4, 5, 5, 7, 9, 11, 15)
_MOST_CONV1D_ELEMENTS = 8_000_000


def _conv1d(rng: np.random.Generator) -> Conv1d:
    """Short rows of many channels, and long ones, small enough to make up inputs at once."""
    filter_width = int(rng.choice(_CONV1D_FILTERS))
    padding = filter_width // 2 if rng.random() < 0.6 else int(rng.integers(filter_width))
    in_channels, out_channels = drawn_size(rng, 1, 4096, 8), drawn_size(rng, 1, 2048, 8)
    length = drawn_size(rng, 2, 64) if rng.random() < 0.7 else drawn_size(rng, 8, 4096)
    most = _MOST_CONV1D_ELEMENTS // max(in_channels, out_channels)
    length = max(filter_width, min(length, most))
    return Conv1d(
        batch=max(1, min(drawn_size(rng, 1, 128), most // length)),
        in_channels=in_channels,
        out_channels=out_channels,
        length=length,
        filter_width=filter_width,
        padding=padding,
    )


_CONV2D_FILTERS = (1, 2, *(3,) * 7, 4, *(5,) * 4, 6, *(7,) * 3, 9, 11)
"""Small odd ones most often, as layers of networks have them."""
_MOST_CONV2D_ELEMENTS = 16_000_000


def _conv2d(rng: np.random.Generator) -> Conv2d:
    """Layers of networks and images, filters of all sizes; the images are small enough to make up inputs at once."""
    if rng.random() < 0.8:
        filter_height = filter_width = int(rng.choice(_CONV2D_FILTERS))
    else:
        filter_height, filter_width = (drawn_size(rng, 1, LARGEST_FILTER) for _ in range(2))
    taps = max(filter_height, filter_width)
    padding = (0, taps // 2, int(rng.integers(taps)))[rng.choice(3, p=(0.35, 0.5, 0.15))]
    depthwise, stride = bool(rng.random() < 0.4), int(rng.choice((1, 1, 1, 2)))
    in_channels = 1 if not depthwise and rng.random() < 0.2 else drawn_size(rng, 1, 512, 8)
    out_channels = in_channels if depthwise or in_channels == 1 else drawn_size(rng, 1, 512, 8)
    height = drawn_size(rng, 7, 2048)
    width = height if rng.random() < 0.6 else drawn_size(rng, 7, 2048)
    batch = drawn_size(rng, 1, 64)
    shrink = _MOST_CONV2D_ELEMENTS / (max(in_channels, out_channels) * height * width)
    if shrink < 1.0:
        height, width = (max(7, int(side * shrink**0.5)) for side in (height, width))
    return Conv2d(
        batch=max(1, min(batch, int(_MOST_CONV2D_ELEMENTS / (max(in_channels, out_channels) * height * width)))),
        in_channels=in_channels,
        out_channels=out_channels,
        height=height,
        width=width,
        filter_height=filter_height,
        filter_width=filter_width,
        stride=stride,
        padding=padding,
        depthwise=depthwise,
    )


_MOST_POINTWISE_ELEMENTS = 16_000_000


def _pointwise(rng: np.random.Generator) -> PointwiseConv2d:
    """Layers of networks, small enough to make up inputs at once."""
    in_channels, out_channels = drawn_size(rng, 3, 2048, 8), drawn_size(rng, 8, 2048, 8)
    height = drawn_size(rng, 4, 256)
    width = height if rng.random() < 0.7 else drawn_size(rng, 4, 256)
    shrink = _MOST_POINTWISE_ELEMENTS / (max(in_channels, out_channels) * height * width)
    if shrink < 1.0:
        height, width = (max(4, int(side * shrink**0.5)) for side in (height, width))
    most = int(_MOST_POINTWISE_ELEMENTS / (max(in_channels, out_channels) * height * width))
    batch = max(1, min(drawn_size(rng, 1, 64), most))
    return PointwiseConv2d(batch=batch, in_channels=in_channels, out_channels=out_channels, height=height, width=width)


_MOST_SSIM_PIXELS = 4_000_000


def _ssim(rng: np.random.Generator) -> Ssim:
    """Images of one to four channels, small enough to make up inputs at once."""
    height, width, channels = drawn_size(rng, 16, 2160), drawn_size(rng, 16, 3840), int(rng.integers(1, 5))
    shrink = min(1.0, (_MOST_SSIM_PIXELS / (channels * height * width)) ** 0.5)
    height, width = (max(16, int(side * shrink)) for side in (height, width))
    batch = max(1, min(drawn_size(rng, 1, 16), _MOST_SSIM_PIXELS // (channels * height * width)))
    return Ssim(batch=batch, channels=channels, height=height, width=width, gradients=bool(rng.random() < 0.5))


_TILED_FILTERS = (1, 3, 3, 5, 5, 7, 7, 9, 11, 13, 15, 17)


def _tiled(rng: np.random.Generator) -> TiledConv2d:
    """Images of 64 to 4,096 rows and columns whose sides tiles divide or do not, filters of all sizes."""
    if rng.random() < 0.7:
        filter_height = filter_width = int(rng.choice(_TILED_FILTERS))
    else:
        filter_height, filter_width = (2 * int(rng.integers(9)) + 1 for _ in range(2))
    height, width = (drawn_size(rng, 64, 4096, 64) for _ in range(2))
    if rng.random() < 0.5:
        width = height
    return TiledConv2d(height=height, width=width, filter_height=filter_height, filter_width=filter_width)


_DRAWN: Mapping[str, Callable[[np.random.Generator], Any]] = {
    "conv1d": _conv1d,
    "direct_conv2d": _conv2d,
    "pointwise_conv2d": _pointwise,
    "ssim": _ssim,
    "tiled_conv2d": _tiled,
}
