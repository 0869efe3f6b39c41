"""Micro-benchmarks of asynchronous copies, one for each way in which lanes may read and write.

What a copy from global to shared memory costs the data pipe is not documented, and Nsight Compute's metric of its shared
wavefronts is 0 on an H200: the total of the data pipe shows it. Each pattern is one launch of one warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from perfmodel.core.constants import FLOAT_BYTES, SHARED_BANKS, WARP_SIZE, round_up
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.records.schema import Scalar

from .benchmark import Clock, MicroBenchmark, MicroCall, exactly, float_noise

COPIES = 8
INACTIVE = -1
ROW = 256
"""Floats between two rows of the source that lanes of one copy read."""
WIDE = 4
"""Floats of a 16-byte copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyPattern:
    """The floats from and to which each lane of a warp copies ``width`` floats; ``INACTIVE`` where it takes no part."""

    name: str
    width: int
    source: tuple[int, ...]
    target: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopySizes:
    """How often a pattern is copied."""

    steps: int = 64


def copy_suite(sizes: CopySizes) -> tuple[MicroBenchmark, ...]:
    """Every pattern reading what was never read and what was just read; the plain one also with zero fill.

    Those that copy one float a lane are loaded to registers too. Of the wide ones, two are copied through L1 as well, and one
    with some of its bytes filled.
    """
    named = {pattern.name: pattern for pattern in copy_patterns()}
    plain, shifted = named["wide from 0 on"], named["wide from 4 on"]
    return (
        *(copied(sizes, pattern, fresh=fresh) for pattern in copy_patterns() for fresh in (True, False)),
        *(copied(sizes, pattern, fresh=True, load=True) for pattern in copy_patterns() if pattern.width == 1),
        *(copied(sizes, copy_patterns()[0], fresh=fresh, zero_fill=True) for fresh in (True, False)),
        *(copied(sizes, pattern, fresh=fresh, cached=True) for pattern in (plain, shifted) for fresh in (True, False)),
        *(copied(sizes, plain, fresh=True, zero_fill=True, read_bytes=read_bytes) for read_bytes in (16, 8, 4, 0)),
    )


@cache
def copy_patterns() -> tuple[CopyPattern, ...]:
    """The patterns, each once, in a fixed order.

    >>> copy_patterns()[0].name
    'linear'
    """
    return (*_lines(), *_strides(), *_rows(), *_wide(), *_double())


def _pattern(name: str, source: Callable[[int], int], target: Callable[[int], int], width: int = 1) -> CopyPattern:
    lanes = range(WARP_SIZE)
    return CopyPattern(
        name=name,
        width=width,
        source=tuple(source(lane) for lane in lanes),
        target=tuple(target(lane) for lane in lanes),
    )


def _lines() -> Iterator[CopyPattern]:
    yield _pattern("linear", lambda lane: lane, lambda lane: lane)
    for words in (1, 4, 5, 17):
        yield _pattern(f"from {words} on", lambda lane, by=words: lane + by, lambda lane: lane)  # type: ignore[misc]
    for words in (1, 4, 8):
        yield _pattern(f"to {words} on", lambda lane: lane, lambda lane, by=words: lane + by)  # type: ignore[misc]
    yield _pattern("from and to 1 on", lambda lane: lane + 1, lambda lane: lane + 1)
    yield _pattern("reversed", lambda lane: lane, lambda lane: WARP_SIZE - 1 - lane)
    yield _pattern("first half", lambda lane: lane if lane < 16 else INACTIVE, lambda lane: lane)
    yield _pattern("even lanes", lambda lane: INACTIVE if lane % 2 else lane, lambda lane: lane)
    for words in (0, 4, 8):
        yield _pattern(f"wide from {words} on", lambda lane, by=words: WIDE * lane + by, lambda lane: WIDE * lane, WIDE)  # type: ignore[misc]


def _strides() -> Iterator[CopyPattern]:
    for stride in (2, 3, 4, 5, 8, 32, 33):
        yield _pattern(f"from stride {stride}", lambda lane, by=stride: by * lane, lambda lane: lane)  # type: ignore[misc]
    for stride in (2, 3, 9, 33, 36):
        yield _pattern(f"to stride {stride}", lambda lane: lane, lambda lane, by=stride: by * lane)  # type: ignore[misc]


def _rows() -> Iterator[CopyPattern]:
    """Lanes that read short rows: kept as rows, or turned into columns without a bank conflict over the warp."""
    for length in (2, 4, 8, 16):
        rows = WARP_SIZE // length

        def source(lane: int, length: int = length) -> int:
            return ROW * (lane // length) + lane % length

        def turned(lane: int, length: int = length, rows: int = rows) -> int:
            return (2 * SHARED_BANKS + rows) * (lane % length) + lane // length

        def apart(lane: int, length: int = length) -> int:
            return (ROW + length) * (lane // length) + lane % length

        def adjacent(lane: int, length: int = length) -> int:
            return (SHARED_BANKS + length) * (lane // length) + lane % length

        yield _pattern(f"rows of {length}", source, lambda lane: lane)
        yield _pattern(f"rows of {length} in other banks", apart, lambda lane: lane)
        yield _pattern(f"rows of {length} in the next lines", adjacent, lambda lane: lane)
        yield _pattern(f"rows of {length} turned", source, turned)
    for length in (4, 8):
        yield _pattern(
            f"wide rows of {length}",
            lambda lane, by=length: ROW * (lane // by) + WIDE * (lane % by),  # type: ignore[misc]
            lambda lane: WIDE * lane,
            WIDE,
        )


def _wide() -> Iterator[CopyPattern]:
    """Copies of 16 bytes that put the halves of a sector where they were, exchanged, away from each other, or together."""

    def linear(lane: int) -> int:
        return WIDE * lane

    yield _pattern("wide to 4 on", linear, lambda lane: WIDE * lane + 4, WIDE)
    yield _pattern("wide from and to 4 on", lambda lane: WIDE * lane + 4, lambda lane: WIDE * lane + 4, WIDE)
    yield _pattern("wide reversed", linear, lambda lane: WIDE * (WARP_SIZE - 1 - lane), WIDE)
    yield _pattern("wide, even lanes of a line first", lambda lane: WIDE * _even_first(lane), linear, WIDE)
    yield _pattern("wide from one place", lambda lane: 0, linear, WIDE)
    yield _pattern("wide, the second half from one place", lambda lane: WIDE * min(lane, 16), linear, WIDE)
    for stride in (8, 32):
        yield _pattern(f"wide from stride {stride}", lambda lane, by=stride: by * lane, linear, WIDE)  # type: ignore[misc]
    yield _pattern("wide, even lanes", lambda lane: INACTIVE if lane % 2 else WIDE * lane, linear, WIDE)
    yield _pattern(
        "wide rows of 2 to 4 on", lambda lane: ROW * (lane // 2) + WIDE * (lane % 2), lambda lane: WIDE * lane + 4, WIDE
    )


def _even_first(lane: int) -> int:
    """Lanes of each eight in the order 0, 2, 4, 6, 1, 3, 5, 7.

    >>> [_even_first(lane) for lane in range(8)]
    [0, 2, 4, 6, 1, 3, 5, 7]
    """
    return lane // 8 * 8 + lane % 4 * 2 + lane % 8 // 4


def _double() -> Iterator[CopyPattern]:
    """Copies of 8 bytes."""
    for words in (0, 2, 4):
        yield _pattern(f"double from {words} on", lambda lane, by=words: 2 * lane + by, lambda lane: 2 * lane, 2)  # type: ignore[misc]
    yield _pattern("double from one place", lambda lane: 0, lambda lane: 2 * lane, 2)


def copied(
    sizes: CopySizes,
    pattern: CopyPattern,
    *,
    fresh: bool,
    zero_fill: bool = False,
    load: bool = False,
    cached: bool = False,
    read_bytes: int | None = None,
) -> MicroBenchmark:
    """Copies by the pattern, or loads from its source; the amount is warp instructions.

    ``cached``: copies of 16 bytes through L1. ``read_bytes``: of each lane's copy, where the others are filled with zeros.
    """
    source, target = np.array(pattern.source), np.array(pattern.target)
    from_apart = round_up(int(source.max()) + pattern.width, SHARED_BANKS)
    to_apart = round_up(int(target.max()) + pattern.width, SHARED_BANKS)
    advance = COPIES * from_apart if fresh else 0
    last = (sizes.steps - 1) * advance + (COPIES - 1) * from_apart
    bytes_of_lane = FLOAT_BYTES * pattern.width if read_bytes is None else read_bytes
    setting: dict[str, Scalar] = {"pattern": pattern.name, "fresh": fresh, "zero_fill": zero_fill, "load": load}
    further: dict[str, Scalar] = {"cached": cached or None, "read_bytes": read_bytes}

    def make_call(rng: np.random.Generator) -> MicroCall:
        data = float_noise(last + from_apart, rng)
        places = last + np.maximum(source, 0)[:, None] + np.arange(pattern.width)
        kept = np.arange(pattern.width) * FLOAT_BYTES < bytes_of_lane
        brought = np.where((source != INACTIVE)[:, None] & kept, data[places], 0.0)
        parameters = (
            Buffer(name="sums", array=np.full(WARP_SIZE * pattern.width, np.nan, np.float32), output=True),
            Buffer(name="source", array=data),
            Buffer(name="from_of_lane", array=source.astype(np.int32)),
            Buffer(name="to_of_lane", array=target.astype(np.int32)),
            np.int32(sizes.steps),
            np.int32(advance),
            np.int32(bytes_of_lane),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=brought.ravel()))

    return MicroBenchmark(
        kernel="copy_patterns",
        defines=(
            ("WIDTH", pattern.width),
            ("COPIES", COPIES),
            ("FROM_APART", from_apart),
            ("TO_APART", to_apart),
            ("ZERO_FILL", int(zero_fill)),
            ("CACHED", int(cached)),
            ("LOAD", int(load)),
        ),
        setting=setting | {name: value for name, value in further.items() if value is not None},
        launch=Launch(grid_x=1, block_x=WARP_SIZE),
        clock=Clock.EVENTS,
        amount=float(sizes.steps * COPIES),
        make_call=make_call,
    )
