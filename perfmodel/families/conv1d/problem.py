"""Problem of the dense 1-D convolution."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ..blocked import Layer
from ..sizes import require_elements, require_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Conv1d:
    """Batch of rows, dense over channels, stride 1, ``padding`` zeros beyond both ends; ``length`` is the *input* row.

    The default is the shape whose hardware profile the source publishes.

    >>> Conv1d(in_channels=256, out_channels=512, length=8).output_length
    8
    """

    batch: int = 1
    in_channels: int = 1024
    out_channels: int = 1024
    length: int = 4
    filter_width: int = 5
    padding: int = 2

    def __post_init__(self) -> None:
        require_integers(1, batch=self.batch, in_channels=self.in_channels, out_channels=self.out_channels)
        require_integers(1, length=self.length, filter_width=self.filter_width)
        require_integers(0, padding=self.padding)
        if self.filter_width > self.length + 2 * self.padding:
            raise InputError(
                f"filter_width={self.filter_width} must be at most {self.length + 2 * self.padding}, "
                f"the padded length (length={self.length}, padding={self.padding})"
            )
        require_elements("padded row", self.length + 2 * self.padding)
        require_elements("input", self.batch, self.in_channels, self.length)
        require_elements("weights", self.out_channels, self.in_channels, self.filter_width)
        require_elements("output", self.batch, self.out_channels, self.output_length)

    @property
    def output_length(self) -> int:
        """Outputs of a row."""
        return self.length + 2 * self.padding - self.filter_width + 1

    @property
    def input_words(self) -> int:
        """Input words of one batch element, all of which one block reads."""
        return self.in_channels * self.length

    @property
    def weight_words(self) -> int:
        """Weights of one output channel, all of which one block reads."""
        return self.in_channels * self.filter_width

    @property
    def blocks(self) -> int:
        """Output rows, each of which has a block of its own, or several, in all variants but the blocked one."""
        return self.batch * self.out_channels

    @property
    def layer(self) -> Layer:
        """The problem as blocks see it: a plane whose rows are those of the batch, a filter of one row."""
        return Layer(
            in_channels=self.in_channels,
            out_channels=self.out_channels,
            height=self.batch,
            width=self.length,
            filter_width=self.filter_width,
            column_padding=self.padding,
            rows_of_batch=True,
            bias=True,
        )

    @property
    def products_per_channel(self) -> int:
        """Multiply-adds of one input channel for one output row, without those on padding.

        >>> Conv1d(length=4, filter_width=5, padding=2).products_per_channel  # 4 * 5 - (2 + 1 + 1 + 2) on padding
        14
        """
        first = self.padding
        return self._pairs_up_to(first + self.length - 1) - self._pairs_up_to(first - 1)

    def _pairs_up_to(self, column: int) -> int:
        """Pairs of an output and a tap that multiply a padded column of at most ``column``.

        Pairs of any two numbers, less those of an output or a tap beyond the last, which count twice where both are.
        """

        def unbounded(limit: int) -> int:
            return (limit + 1) * (limit + 2) // 2 if limit >= 0 else 0

        outputs, taps = self.output_length, self.filter_width
        return (
            unbounded(column)
            - unbounded(column - outputs)
            - unbounded(column - taps)
            + unbounded(column - outputs - taps)
        )

    @property
    def used_taps(self) -> range:
        """Filter taps that multiply an input word in some output; the others only ever multiply padding.

        >>> Conv1d(length=1, filter_width=5, padding=2).used_taps
        range(2, 3)
        """
        first = max(0, self.filter_width - self.length - self.padding)
        return range(first, min(self.filter_width, self.padding + self.length))
