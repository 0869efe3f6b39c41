"""Global memory in closed form, image borders included: which columns and rows tiles touch, and the sectors of them.

Along a row, warps access intervals of columns; which sectors these touch depends on where the row begins in a line. So rows
are counted by that place, intervals are summed for each of the 32 places, and the two are multiplied.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE, ceil_div
from ...gpus.gpu import Gpu
from ..accesses import WORDS_PER_LINE, WORDS_PER_SECTOR, GlobalAccesses
from ..rows import row_loads, row_starts
from .configuration import Copy, Design
from .launch import grid
from .problem import IMAGES, RADIUS, Ssim

Integers = NDArray[np.int64]


def _segments(problem: Ssim, design: Design, halo: int, segment: int) -> tuple[Integers, Integers]:
    """First column and end of each warp access along a row of the tiles with their halos, beyond the image too."""
    width = design.tile_width + 2 * halo
    tiles = np.arange(grid(problem, design)[0])[:, None] * design.tile_width - halo
    offsets = np.arange(0, width, segment)
    return (tiles + offsets).reshape(-1), (tiles + np.minimum(offsets + segment, width)).reshape(-1)


def _inside(problem: Ssim, design: Design, halo: int, segment: int) -> tuple[Integers, Integers]:
    """The same within the image, where anything is left."""
    begin, end = _segments(problem, design, halo, segment)
    begin, end = np.maximum(begin, 0), np.minimum(end, problem.width)
    return begin[begin < end], end[begin < end]


@lru_cache(maxsize=32)
def row_alignments(problem: Ssim, tile_height: int, halo: int) -> Integers:
    """How many rows the tiles touch, over all planes, by the place of the row's first element in a line, shape ``(32,)``."""
    height, tiles = problem.height, ceil_div(problem.height, tile_height)
    loads = row_loads(-halo, tile_height, tile_height + 2 * halo, tiles, height)
    return row_starts(loads, problem.width, height, problem.planes)


def _touched(alignments: Integers, begin: Integers, end: Integers) -> GlobalAccesses:
    """Accesses of the intervals in all rows: a sector or line counts once for each interval that touches any of it."""

    def pieces(floats: int) -> int:
        start = np.arange(WORDS_PER_LINE)[:, None]
        touched = (start + end - 1) // floats - (start + begin) // floats + 1
        return int((alignments * touched.sum(axis=1)).sum())

    requests = int(alignments.sum()) * len(begin)
    return GlobalAccesses(requests=requests, sectors=pieces(WORDS_PER_SECTOR), lines=pieces(WORDS_PER_LINE))


def pixel_reads(problem: Ssim, design: Design, segment: int = WARP_SIZE) -> GlobalAccesses:
    """Reads of pixels of both images that lie within the image, by loads or by copies, one segment a request."""
    alignments = row_alignments(problem, design.tile_height, RADIUS)
    return _touched(alignments, *_inside(problem, design, RADIUS, segment)) * IMAGES


def patch_sectors(problem: Ssim, design: Design) -> float:
    """Sectors of both images that the tiles need, each row of a patch as a whole: what L1 asks of L2."""
    return pixel_reads(problem, design, design.patch_width).sectors


def map_stores(problem: Ssim, design: Design) -> GlobalAccesses:
    """Stores of all output maps: segments of 32 columns, or pairs of neighbours, at once where the width is even."""
    begin, end = _inside(problem, design, 0, design.tile_width if design.neighbours else WARP_SIZE)
    parts = [(begin, end)]
    if design.neighbours and problem.width % 2:
        second = begin + 1 < end
        parts = [
            (begin, (end - begin - 1) // 2 * 2 + begin + 1),
            (begin[second] + 1, (end - begin)[second] // 2 * 2 + begin[second]),
        ]
    alignments = row_alignments(problem, design.tile_height, 0)
    return sum((_touched(alignments, *part) for part in parts), GlobalAccesses()) * problem.output_maps


def zero_stores(problem: Ssim, design: Design) -> int:
    """Warp-level shared stores of zeros by guarded copies: segments with a pixel outside of the image, for each image."""
    if design.copy is not Copy.GUARDED:
        return 0
    across, down = grid(problem, design)
    begin, end = _segments(problem, design, RADIUS, WARP_SIZE)
    inside = int(row_alignments(problem, design.tile_height, RADIUS).sum())
    outside = problem.planes * down * design.patch_height - inside
    return IMAGES * (outside * across * design.segments + inside * int(((begin < 0) | (end > problem.width)).sum()))


def copies_asynchronously(gpu: Gpu) -> bool:
    """Whether the GPU has ``cp.async`` (PTX ISA, requirements of ``cp.async``: sm_80 or newer)."""
    return gpu.architecture.asynchronous_copies


def round_trips(problem: Ssim, design: Design, gpu: Gpu) -> float:
    """Waits of a warp: once a channel, as loads of a patch or copies of rows run ahead together, else once a row."""
    ahead = design.copy is Copy.LOAD or copies_asynchronously(gpu)
    return float(design.channels_of_block(problem) * (1 if ahead else design.patch_height))


def read_only_share(design: Design, gpu: Gpu) -> float:
    """All loads of C++ are by the read-only path; copies that fill with zeros have assembler text of their own."""
    return float(design.copy is Copy.LOAD or (design.copy is Copy.GUARDED and not copies_asynchronously(gpu)))
