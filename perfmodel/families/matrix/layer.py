"""A dense convolution as a matrix product sees it: filters times positions, each the sum of channels times taps."""

from __future__ import annotations

from math import gcd
from typing import Protocol

from ...core.constants import SECTOR_BYTES, VECTOR_BYTES, VECTOR_WORDS
from ..precision import Precision


class MatrixLayer(Protocol):
    """What a problem says of its matrices; the output is ``batch`` images of ``out_channels`` planes of ``image_positions``."""

    __slots__ = ()

    @property
    def batch(self) -> int:
        """Images."""

    @property
    def in_channels(self) -> int:
        """Input channels."""

    @property
    def out_channels(self) -> int:
        """Output channels: filters."""

    @property
    def precision(self) -> Precision:
        """Of products."""

    @property
    def element_bytes(self) -> int:
        """Of an element of input, filters and output."""
        return self.precision.element_bytes

    @property
    def sector_elements(self) -> int:
        """Elements of a sector of memory."""
        return SECTOR_BYTES // self.element_bytes

    @property
    def vector_elements(self) -> int:
        """Elements of the widest copy of a thread."""
        return VECTOR_BYTES // self.element_bytes

    @property
    def filter_taps(self) -> int:
        """Elements of the filter for one pair of channels."""

    @property
    def input_run(self) -> int:
        """Elements of the input that lie side by side and are copied together: those of a channel or of a row."""

    @property
    def image_positions(self) -> int:
        """Output positions of one image."""

    @property
    def positions(self) -> int:
        """Output positions of all images, P."""
        return self.batch * self.image_positions

    @property
    def outputs(self) -> int:
        """Elements of the output, P times the output channels."""
        return self.positions * self.out_channels


def position_vector(layer: MatrixLayer) -> int:
    """Elements of a store of output along positions, which no image's end cuts; as many words have their sums."""
    return gcd(VECTOR_WORDS, layer.image_positions)


def filter_vector(layer: MatrixLayer) -> int:
    """Elements of a copy of a filter, which no filter's end cuts."""
    return gcd(layer.vector_elements, layer.in_channels * layer.filter_taps)
