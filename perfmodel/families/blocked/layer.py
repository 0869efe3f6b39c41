"""A dense convolution as blocks see it, whichever family it is of."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Planes of ``height`` rows of ``width`` elements, one for each input channel of each image, and a filter.

    ``rows_of_batch``: the rows of a plane are those of ``height`` batch elements, each of which has all its channels before the
    next begins; there is one image then.

    >>> Layer(in_channels=8, out_channels=4, height=2, width=16, filter_width=5, column_padding=2).output_width
    16
    """

    images: int = 1
    in_channels: int
    out_channels: int
    height: int
    width: int
    filter_height: int = 1
    filter_width: int
    stride: int = 1
    row_padding: int = 0
    column_padding: int = 0
    rows_of_batch: bool = False
    bias: bool = False

    @property
    def output_height(self) -> int:
        """Rows of an output plane."""
        return (self.height + 2 * self.row_padding - self.filter_height) // self.stride + 1

    @property
    def output_width(self) -> int:
        """Columns of an output plane."""
        return (self.width + 2 * self.column_padding - self.filter_width) // self.stride + 1

    @property
    def filter_taps(self) -> int:
        """Elements of the filter for one pair of channels."""
        return self.filter_height * self.filter_width

    @property
    def output_rows(self) -> int:
        """Rows of all output planes."""
        return self.images * self.out_channels * self.output_height

    @property
    def written_bytes(self) -> float:
        """Bytes of the output."""
        return float(FLOAT_BYTES * self.output_rows * self.output_width)
