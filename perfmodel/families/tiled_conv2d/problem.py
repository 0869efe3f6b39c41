"""The problem: a convolution of one padded image with one odd-sized filter."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import CONSTANT_BANK_BYTES
from ...core.json_aliases import renamed
from ...errors import InputError
from ..sizes import require_elements, require_integers


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledConv2d:
    """One image and one odd-sized filter; ``height × width`` is the size of the *output*.

    The input is padded by the caller: (height + filter_height − 1) × (width + filter_width − 1).

    >>> TiledConv2d(height=4096, width=4096).input_width
    4110
    """

    height: int = renamed(4096, "image_height")
    width: int = renamed(4096, "image_width")
    filter_height: int = 15
    filter_width: int = 15

    def __post_init__(self) -> None:
        require_integers(1, height=self.height, width=self.width)
        require_integers(1, filter_height=self.filter_height, filter_width=self.filter_width)
        for name in ("filter_height", "filter_width"):
            if getattr(self, name) % 2 == 0:
                raise InputError(f"{name}={getattr(self, name)} must be odd")
        if 4 * self.filter_height * self.filter_width > CONSTANT_BANK_BYTES:
            raise InputError(
                f"filter of {self.filter_height} x {self.filter_width} does not fit the {CONSTANT_BANK_BYTES:,} bytes "
                "of constant memory"
            )
        require_elements("input", self.input_height, self.input_width)

    @property
    def input_height(self) -> int:
        """Rows of the padded input."""
        return self.height + self.filter_height - 1

    @property
    def input_width(self) -> int:
        """Columns of the padded input."""
        return self.width + self.filter_width - 1
