"""Address spaces of a batch of blocks: where buffers lie, and the bytes behind them."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..launch.launch import DeviceMemory
from ..program.types import ScalarType

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
CONSTANT_WINDOW = 0x7C00_0000_0000
PARAMETER_WINDOW = 0x7B00_0000_0000
WINDOW_BYTES = 2**32
"""Generic addresses of shared and local memory lie in windows of this size (PTX ISA 5.4)."""
BUFFER_ALIGNMENT_BYTES = 512
"""What ``cudaMalloc`` aligns to at least 256; buffers here lie a guard apart, so that neighbours are never reached silently."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """One allocation of global memory: its first byte's address and its size."""

    name: str
    start: int
    size_bytes: int


class GlobalMemory:
    """One arena that all blocks share: buffers of a launch one after the other, or memory that is there before it."""

    def __init__(self, given: DeviceMemory | None = None) -> None:
        allocations = () if given is None else given.allocations
        self.base = GLOBAL_BASE if given is None else given.address
        self.segments: list[Segment] = [Segment(one.name, one.address, one.size_bytes) for one in allocations]
        self._starts: list[int] = [segment.start for segment in self.segments]
        self._contents: list[Bytes | None] = []
        self._top = self.base
        self._arena: Bytes | None = None if given is None else given.data
        self._views: dict[ScalarType, NDArray[Any]] = {}

    def allocate(self, name: str, size_bytes: int, contents: Bytes | None) -> int:
        """Address of a new segment; contents None stand for zeros."""
        segment = Segment(name, self._top, size_bytes)
        self.segments.append(segment)
        self._starts.append(segment.start)
        self._contents.append(contents)
        self._top += -(-(size_bytes + 1) // BUFFER_ALIGNMENT_BYTES) * BUFFER_ALIGNMENT_BYTES
        return segment.start

    @property
    def size_bytes(self) -> int:
        """Bytes that the arena takes beside memory that is given."""
        return self._top - self.base

    def view(self, scalar_type: ScalarType) -> NDArray[Any]:
        """The arena as values of a type; buffers are copied in when this is first asked for."""
        if self._arena is None:
            self._arena = np.zeros(self.size_bytes, np.uint8)
            for segment, contents in zip(self.segments, self._contents, strict=True):
                if contents is not None and contents.any():  # fresh memory holds zeros
                    begin = segment.start - self.base
                    self._arena[begin : begin + len(contents)] = contents
        if scalar_type not in self._views:
            self._views[scalar_type] = self._arena.view(scalar_type)
        return self._views[scalar_type]

    def segment_at(self, address: int) -> Segment | None:
        """The segment that an address lies in."""
        position = bisect_right(self._starts, address) - 1
        if position < 0:
            return None
        segment = self.segments[position]
        return segment if address < segment.start + segment.size_bytes else None

    def holds(self, low: int, high_end: int) -> bool:
        """Whether addresses from ``low`` up to ``high_end`` (exclusive) lie in one segment."""
        segment = self.segment_at(low)
        return segment is not None and high_end <= segment.start + segment.size_bytes

    def inside(self, addresses: NDArray[np.uint64], width: int) -> NDArray[np.bool_]:
        """Which accesses of a width lie wholly in a segment, element by element."""
        if not self.segments:
            return np.zeros(addresses.shape, np.bool_)
        starts = np.array(self._starts, np.uint64)
        ends = starts + np.array([segment.size_bytes for segment in self.segments], np.uint64)
        position = np.searchsorted(starts, addresses, side="right").astype(np.int64) - 1
        safe = np.maximum(position, 0)
        inside: NDArray[np.bool_] = (
            (position >= 0) & (addresses < ends[safe]) & (ends[safe] - addresses >= np.uint64(width))
        )
        return inside

    def contents(self, name: str) -> Bytes:
        """Bytes of a segment as they are now."""
        arena = self.view(np.uint8)
        segment = next(segment for segment in self.segments if segment.name == name)
        begin = segment.start - self.base
        return arena[begin : begin + segment.size_bytes]


def is_in_space(addresses: NDArray[np.uint64], space: str) -> NDArray[np.bool_]:
    """Whether generic addresses lie in the window of a space, named as in PTX."""
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "const": CONSTANT_WINDOW}
    if space == "global":
        above = addresses >= np.uint64(SHARED_WINDOW + WINDOW_BYTES)
        result: NDArray[np.bool_] = above | (addresses < np.uint64(PARAMETER_WINDOW))
        return result
    start = windows[space]
    return (addresses >= np.uint64(start)) & (addresses < np.uint64(start + WINDOW_BYTES))
