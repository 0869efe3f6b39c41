"""The problem: a 2-D convolution with zero padding, dense over its channels or depthwise."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.json_values import DEFAULT_UNSHOWN
from ...errors import InputError
from ..base import take_choices
from ..blocked import Layer
from ..matrix.layer import MatrixLayer
from ..precision import Precision
from ..sizes import require_elements, require_integers

LARGEST_FILTER = 33
"""Widest and highest filter: a warp's 32 lanes reach 33 elements with one over-reading load each."""

LONGEST_SIDE = 2**30
"""Longest side of a padded image: the reach of a strip beyond it still is a 32-bit integer."""

_POSITIVE = ("batch", "in_channels", "out_channels", "height", "width", "filter_height", "filter_width", "stride")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv2d(MatrixLayer):
    """A convolution (cross-correlation) of ``batch`` images of ``in_channels`` × ``height`` × ``width``, in fp32, tf32 or fp16.

    ``padding`` zeros stand on every side. A ``depthwise`` convolution has one filter for each channel (channel multiplier 1:
    ``out_channels`` equals ``in_channels``).

    >>> Conv2d(height=6, width=11, filter_height=5, filter_width=5).output_width
    7
    """

    batch: int = 1
    in_channels: int = 1
    out_channels: int = 1
    height: int
    width: int
    filter_height: int
    filter_width: int
    stride: int = 1
    padding: int = 0
    depthwise: bool = False
    precision: Precision = field(default=Precision.FLOAT32, metadata=DEFAULT_UNSHOWN)

    def __post_init__(self) -> None:
        take_choices(self)
        require_integers(1, **{name: getattr(self, name) for name in _POSITIVE})
        require_integers(0, padding=self.padding)
        if not isinstance(self.depthwise, bool):
            raise InputError(f"depthwise={self.depthwise!r} must be true or false")
        if self.depthwise and self.precision.channels_last:
            raise InputError(f"precision={self.precision.value} needs a dense convolution, which tensor cores multiply")
        if self.stride > 2:
            raise InputError(f"stride={self.stride} must be 1 or 2")
        for side in ("height", "width"):
            self._require_side(side)
        if self.depthwise and self.out_channels != self.in_channels:
            raise InputError(
                f"out_channels={self.out_channels} must equal in_channels={self.in_channels} when depthwise"
            )
        require_elements("padded input", self.batch, self.in_channels, self.padded_height, self.padded_width)
        require_elements("output", self.batch, self.out_channels, self.output_height, self.output_width)
        require_elements("filter", self.out_channels, self.filter_channels, self.filter_height, self.filter_width)

    def _require_side(self, side: str) -> None:
        filter_size: int = getattr(self, f"filter_{side}")
        padded: int = getattr(self, f"padded_{side}")
        if padded > LONGEST_SIDE:
            raise InputError(f"{side}={getattr(self, side)} with its padding must be at most {LONGEST_SIDE:,}")
        if filter_size > LARGEST_FILTER:
            raise InputError(f"filter_{side}={filter_size} must be at most {LARGEST_FILTER}")
        if filter_size > padded:
            raise InputError(f"filter_{side}={filter_size} must be at most the padded image's {side} of {padded}")

    @property
    def padded_height(self) -> int:
        """Rows of an image with its zero padding."""
        return self.height + 2 * self.padding

    @property
    def padded_width(self) -> int:
        """Columns of an image with its zero padding."""
        return self.width + 2 * self.padding

    @property
    def output_height(self) -> int:
        """Rows of an output plane."""
        return (self.padded_height - self.filter_height) // self.stride + 1

    @property
    def output_width(self) -> int:
        """Columns of an output plane."""
        return (self.padded_width - self.filter_width) // self.stride + 1

    @property
    def filter_channels(self) -> int:
        """Input channels that one output is summed over."""
        return 1 if self.depthwise else self.in_channels

    @property
    def filter_taps(self) -> int:
        """Elements of the filter for one pair of channels."""
        return self.filter_height * self.filter_width

    @property
    def filter_elements(self) -> int:
        """Elements of all filters."""
        return self.out_channels * self.filter_channels * self.filter_taps

    @property
    def output_planes(self) -> int:
        """Planes of the output."""
        return self.batch * self.out_channels

    @property
    def input_run(self) -> int:
        """Elements of a row of the input."""
        return self.width

    @property
    def image_positions(self) -> int:
        """Elements of an output plane."""
        return self.output_height * self.output_width

    @property
    def layer(self) -> Layer:
        """The problem as blocks see it, which share patches of all its input channels."""
        return Layer(
            images=self.batch,
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            height=self.height,
            width=self.width,
            filter_height=self.filter_height,
            filter_width=self.filter_width,
            stride=self.stride,
            row_padding=self.padding,
            column_padding=self.padding,
        )
