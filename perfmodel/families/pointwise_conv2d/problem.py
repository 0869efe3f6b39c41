"""Problem of the pointwise convolution: a matrix product over the channels at every position of every image."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...core.json_values import DEFAULT_UNSHOWN
from ..base import take_choices
from ..matrix.layer import MatrixLayer
from ..precision import Precision
from ..sizes import require_elements, require_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseConv2d(MatrixLayer):
    """A 1×1 convolution, stride 1, no padding; input N×C×H×W, filter K×C, output N×K×H×W, fp32 or fp16.

    >>> PointwiseConv2d(batch=2, in_channels=3, out_channels=5, height=7, width=7).positions
    98
    """

    batch: int = 1
    in_channels: int = 256
    out_channels: int = 256
    height: int = 28
    width: int = 28
    precision: Precision = field(default=Precision.FLOAT32, metadata=DEFAULT_UNSHOWN)

    def __post_init__(self) -> None:
        take_choices(self)
        require_integers(1, batch=self.batch, in_channels=self.in_channels, out_channels=self.out_channels)
        require_integers(1, height=self.height, width=self.width)
        require_elements("input", self.batch, self.in_channels, self.height, self.width)
        require_elements("output", self.batch, self.out_channels, self.height, self.width)
        require_elements("filter", self.out_channels, self.in_channels)

    @property
    def filter_taps(self) -> int:
        """Elements of the filter for one pair of channels: one."""
        return 1

    @property
    def input_run(self) -> int:
        """Elements of a channel of an image."""
        return self.image_positions

    @property
    def image_positions(self) -> int:
        """Positions of one image."""
        return self.height * self.width

    @property
    def read_bytes(self) -> float:
        """Bytes that DRAM must deliver at least: input and filters."""
        return float(self.element_bytes * (self.positions + self.out_channels) * self.in_channels)
