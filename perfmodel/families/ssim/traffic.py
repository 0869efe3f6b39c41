"""Memory accesses of the versions in closed form: global, asynchronous, shared and local, image borders included."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.constants import FLOAT_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from .design import IMAGES, MAPS, RADIUS, WINDOW, Copy, Design, Rows
from .problem import Ssim
from .tiling import Spans, column_spans, cut_segments, pieces_touched, row_alignments, tiling


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalAccesses:
    """Warp requests and what they touch, whole launch."""

    requests: int
    sectors: int
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedAccesses:
    """Warp requests and wavefronts to shared memory, whole launch; no access has a bank conflict."""

    load_requests: int
    load_wavefronts: int
    store_requests: int
    store_wavefronts: int


def pixel_reads(problem: Ssim, design: Design) -> GlobalAccesses:
    """Reads of pixels of both images that lie within the image, by loads or by guarded copies: one segment a request."""
    spans = column_spans(problem, design, RADIUS, WARP_SIZE)
    alignments = row_alignments(problem, design, RADIUS)
    return GlobalAccesses(
        requests=IMAGES * int(alignments.sum()) * len(spans),
        sectors=IMAGES * pieces_touched(alignments, spans, SECTOR_BYTES),
        lines=IMAGES * pieces_touched(alignments, spans, LINE_BYTES),
    )


def patch_sectors(problem: Ssim, design: Design) -> int:
    """Sectors of both images that the tiles need, each row of a patch as a whole: what passes L1 that keeps nothing longer."""
    spans = column_spans(problem, design, RADIUS, design.patch_width)
    return IMAGES * pieces_touched(row_alignments(problem, design, RADIUS), spans, SECTOR_BYTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyAccesses:
    """How the rows that a warp walks down get to shared memory: copies, or loads and stores, and stores of zeros.

    ``copied`` is what the asynchronous copies read; those beyond the image read nothing.
    """

    asynchronous: int
    loads: GlobalAccesses
    copied: GlobalAccesses
    stores: int


NO_LOADS = GlobalAccesses(requests=0, sectors=0, lines=0)


def row_copies(problem: Ssim, design: Design, asynchronous: bool) -> CopyAccesses:
    """Accesses of the design's row copies, ``asynchronous`` where the GPU can (compute capability 8.0 and newer).

    Filling with zeros, a copy is issued whether or not a pixel lies in the image; guarded, pixels and zeros are two accesses.
    """
    reads, zeros = pixel_reads(problem, design), zero_stores(problem, design)
    everywhere = tiling(problem, design).block_channels * design.patch_height * design.segments * IMAGES
    issued = reads.requests if design.copy is Copy.GUARDED else everywhere
    if asynchronous:
        return CopyAccesses(asynchronous=issued, loads=NO_LOADS, copied=reads, stores=zeros)
    return CopyAccesses(asynchronous=0, loads=reads, copied=NO_LOADS, stores=issued + zeros)


def zero_stores(problem: Ssim, design: Design) -> int:
    """Warp-level shared stores of zeros by guarded copies: segments with a pixel outside of the image, for each image."""
    if design.copy is not Copy.GUARDED:
        return 0
    tiles = tiling(problem, design)
    inside = int(row_alignments(problem, design, RADIUS).sum())
    outside = problem.planes * tiles.grid_y * design.patch_height - inside
    segments = tiles.grid_x * design.segments
    return IMAGES * (outside * segments + inside * cut_segments(problem, design))


def map_stores(problem: Ssim, design: Design) -> GlobalAccesses:
    """Stores of all output maps: segments of 32 columns, or pairs of neighbours, at once where the width is even."""
    spans = column_spans(problem, design, 0, design.tile_width if design.neighbours else WARP_SIZE)
    if design.neighbours and problem.width % 2:
        second = spans.begin + 1 < spans.end
        last = (spans.end - spans.begin - 1) // 2 * 2 + spans.begin + 1
        end_of_second = (spans.end - spans.begin) // 2 * 2 + spans.begin
        parts = [Spans(begin=spans.begin, end=last), Spans(begin=spans.begin[second] + 1, end=end_of_second[second])]
    else:
        parts = [spans]
    alignments = row_alignments(problem, design, 0)
    maps = problem.output_maps
    return GlobalAccesses(
        requests=maps * int(alignments.sum()) * sum(len(part) for part in parts),
        sectors=maps * sum(pieces_touched(alignments, part, SECTOR_BYTES) for part in parts),
        lines=maps * sum(pieces_touched(alignments, part, LINE_BYTES) for part in parts),
    )


def shared_accesses(problem: Ssim, design: Design) -> SharedAccesses:
    """Shared loads and stores but for those of row copies; pairs of floats need two wavefronts."""
    blocks = tiling(problem, design).block_channels
    if design.neighbours:
        loads = blocks * design.patch_height * IMAGES * (WINDOW + 1) // 2
        return SharedAccesses(load_requests=loads, load_wavefronts=2 * loads, store_requests=0, store_wavefronts=0)
    patch = design.patch_height * design.segments
    loads = blocks * (MAPS * design.columns * WINDOW * (design.patch_height + design.tile_height) + 2 * patch)
    writes_of_scratch = 2 if design.clears_scratch else 1
    stores = blocks * ((IMAGES + 1) * patch + writes_of_scratch * MAPS * design.patch_height * design.columns)
    return SharedAccesses(load_requests=loads, load_wavefronts=loads, store_requests=stores, store_wavefronts=stores)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalAccesses:
    """Local memory traffic, whole launch: the ring of filtered rows of v3_0, written once and read eleven times a row."""

    requests: int
    load_sectors: int
    store_sectors: int


def local_accesses(problem: Ssim, design: Design) -> LocalAccesses:
    """Local memory traffic; a float of every lane of a warp is four sectors, read in pairs and written one by one.

    >>> from .configuration import Version
    >>> from .design import DESIGNS
    >>> local_accesses(Ssim(height=32, width=64, channels=1), DESIGNS[Version.V3_0])  # 32·55 + 42·10, 32·440, 42·40
    LocalAccesses(requests=2180, load_sectors=14080, store_sectors=1680)
    """
    if design.rows is not Rows.LOCAL:
        return LocalAccesses(requests=0, load_sectors=0, store_sectors=0)
    blocks = tiling(problem, design).block_channels
    floats = MAPS * design.columns
    sectors = floats * WARP_SIZE * FLOAT_BYTES // SECTOR_BYTES
    loads = design.tile_height * WINDOW
    return LocalAccesses(
        requests=blocks * floats * (loads // design.columns + design.patch_height),
        load_sectors=blocks * loads * sectors,
        store_sectors=blocks * design.patch_height * sectors,
    )
