"""The problem: structural similarity of two batches of images."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import InputError
from ..sizes import require_integers

WINDOW = 11
"""Taps of the Gaussian window in each direction."""
RADIUS = WINDOW // 2
MAPS = 5
"""Filtered maps of each channel: both images, their squares, their product."""
IMAGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ssim:
    """Similarity map of two batches of ``channels`` × ``height`` × ``width`` images in fp32, values within 0 … 1.

    The map has the images' size; the window sees zeros outside. With ``gradients`` three more maps are written: what the
    backward pass needs.

    >>> Ssim().planes, Ssim().output_maps, Ssim(gradients=True).output_maps
    (3, 1, 4)
    """

    batch: int = 1
    channels: int = 3
    height: int = 2160
    width: int = 3840
    gradients: bool = False

    def __post_init__(self) -> None:
        require_integers(1, batch=self.batch, channels=self.channels, height=self.height, width=self.width)
        if not isinstance(self.gradients, bool):
            raise InputError(f"gradients={self.gradients!r} must be true or false")

    @property
    def planes(self) -> int:
        """Single-channel images in each of the two batches."""
        return self.batch * self.channels

    @property
    def pixels(self) -> int:
        """Pixels of each of the two batches, all channels."""
        return self.planes * self.height * self.width

    @property
    def output_maps(self) -> int:
        """Maps that the kernel writes."""
        return 4 if self.gradients else 1
