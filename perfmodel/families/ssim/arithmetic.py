"""Floating-point work of the versions: the window's multiply-adds in closed form, and what stands beside them."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import WARP_SIZE
from .design import MAPS, WINDOW, Design
from .problem import Ssim
from .tiling import tiling


def multiply_adds_per_block(design: Design, channels: int) -> int:
    """Warp-level fused multiply-adds of a block: horizontal pass over patch rows, vertical pass over output rows.

    55 · C · BX · (BY + 5) / 16: 5 maps of 11 taps on BX columns, over BY + 10 rows and over BY rows, 32 lanes at once.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> multiply_adds_per_block(DESIGNS[Version.V2], 3)  # 165 · 64 · 13 / 16
    8580
    """
    rows = design.patch_height + design.tile_height
    return channels * MAPS * WINDOW * design.columns * rows


def multiply_adds(problem: Ssim, design: Design) -> int:
    """Warp-level fused multiply-adds of the launch; tiles at the image's edge do all their work.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> [round(multiply_adds(Ssim(), DESIGNS[v]) / 1e6, 2) for v in (Version.NAIVE, Version.V2, Version.V4)]
    [99.63, 139.0, 91.48]
    """
    return tiling(problem, design).block_channels * multiply_adds_per_block(design, 1)


def redundancy(design: Design) -> float:
    """Multiply-adds for each output in relation to an infinitely high tile: 1 + 5 / BY, whatever the tile's width.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> redundancy(DESIGNS[Version.V2])
    1.625
    """
    return (design.patch_height + design.tile_height) / (2 * design.tile_height)


@dataclass(frozen=True, slots=True, kw_only=True)
class PixelWork:
    """Instructions for the value of one output: additions and multiplications that are not fused, reciprocals."""

    fp32_other: int
    special_function: int


def pixel_work(problem: Ssim) -> PixelWork:
    """Instructions for one output, from the kernels' ``similarity``: 11 additions and 6 multiplications, more for gradients."""
    if problem.gradients:
        return PixelWork(fp32_other=28, special_function=2)
    return PixelWork(fp32_other=17, special_function=1)


def products_per_block(design: Design) -> int:
    """Warp-level multiplications of a block and channel that make squares and the images' product."""
    if design.neighbours:
        return 3 * design.patch_height * (WINDOW + 1)
    squares = 2 * design.patch_height * WINDOW * design.columns
    return squares + design.patch_height * design.segments


def output_warps(design: Design) -> int:
    """Warp-level steps of a block that each make one output a lane."""
    return design.tile_height * design.tile_width // WARP_SIZE
