"""Address spaces of a batch of blocks: where buffers lie, and the bytes behind them."""

from __future__ import annotations

import mmap
import sys
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.distinct_values import distinct
from ..errors import SimulationError
from ..ir.types import ScalarType
from ..launch.contents import Contents, Repeated
from ..launch.launch import DeviceMemory
from ..launch.texture import BoundTexture, Texture

GLOBAL_BASE = 0x7F00_0000_0000
SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
CONSTANT_WINDOW = 0x7C00_0000_0000
PARAMETER_WINDOW = 0x7B00_0000_0000
WINDOW_BYTES = 2**32
"""Generic addresses of shared and local memory lie in windows of this size (PTX ISA 5.4)."""
BUFFER_ALIGNMENT_BYTES = 512
"""What ``cudaMalloc`` aligns to at least 256; buffers here lie a guard apart, so that neighbours are never reached silently."""

PAGE_BYTES = 65_536
"""Contents are put in place so many bytes at a time."""
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0
"""``MAP_NORESERVE``, which Python has no name for: address space is not memory."""

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Segment:
    """One allocation of global memory: its first byte's address and its size."""

    name: str
    start: int
    size_bytes: int


def _address_space(size: int) -> mmap.mmap | None:
    """Zeros of which only what is written takes memory, by the small pages of the system; None where it has no such thing."""
    if sys.platform == "win32" or not hasattr(mmap, "MADV_DONTNEED"):
        return None
    fresh = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):
        fresh.madvise(mmap.MADV_NOHUGEPAGE)
    return fresh


def _runs(pages: NDArray[np.int64]) -> list[tuple[int, int]]:
    """First page and one past the last of each stretch of neighbours, of pages in ascending order."""
    if not len(pages):
        return []
    ends = np.flatnonzero(np.append(np.diff(pages) != 1, True))
    begins = np.append(0, ends[:-1] + 1)
    return list(zip(pages[begins].tolist(), (pages[ends] + 1).tolist(), strict=True))


class GlobalMemory:
    """Buffers of a launch in one range of addresses that all blocks share.

    Only pages that are read or written are held: contents are put into a page when it is first touched, and what is zero is
    left to the system. Where memory is ``given``, the range is that, and what the kernel writes is written there.

    >>> memory = GlobalMemory()
    >>> address = memory.allocate("x", 2**33, np.arange(4, dtype=np.uint8))  # zeros behind the fourth byte
    >>> memory.contents("x")[:6].tolist(), memory.held_bytes
    ([0, 1, 2, 3, 0, 0], 0)
    """

    def __init__(self, given: DeviceMemory | None = None) -> None:
        allocations = () if given is None else given.allocations
        self.base = GLOBAL_BASE if given is None else given.address
        self.segments: list[Segment] = [Segment(one.name, one.address, one.size_bytes) for one in allocations]
        self.limit_bytes: int | None = None
        """Bytes of touched pages at which a simulation ends."""
        self.textures: dict[int, BoundTexture] = {} if given is None else dict(given.textures)
        """Texture and surface objects by the lower half of their handles."""
        self._starts: list[int] = [segment.start for segment in self.segments]
        self._contents: list[Contents | Bytes | None] = []
        self._top = self.base
        self._given = given is not None
        self._data: Bytes | None = None if given is None else given.data
        self._views: dict[ScalarType, NDArray[Any]] = {}
        self._space: mmap.mmap | None = None
        self._touched = np.zeros(0, np.bool_)
        self._written = np.zeros(0, np.bool_)
        self._held_pages = 0

    def allocate(self, name: str, size_bytes: int, contents: Contents | NDArray[Any] | None) -> int:
        """Address of a new segment; contents None, and what lies behind them, are zeros."""
        segment = Segment(name, self._top, size_bytes)
        self._top += -(-(size_bytes + 1) // BUFFER_ALIGNMENT_BYTES) * BUFFER_ALIGNMENT_BYTES
        if isinstance(contents, np.ndarray) and not any(contents.strides) and contents.size:
            contents = Repeated(contents.reshape(-1)[:1], contents.size)  # one element, broadcast
        elif isinstance(contents, np.ndarray):
            contents = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
        elif contents is not None and contents.all_zero:
            contents = None
        self.segments.append(segment)
        self._starts.append(segment.start)
        self._contents.append(contents)
        return segment.start

    def bind(self, texture: Texture, address: int) -> int:
        """Handle of a new object that sees the array at an address.

        >>> from perfmodel.launch.texture import Extent
        >>> GlobalMemory().bind(Texture(extent=Extent.LINE, width=4), 4096)
        1
        """
        handle = len(self.textures) + 1
        self.textures[handle] = BoundTexture(texture=texture, address=address)
        return handle

    @property
    def held_bytes(self) -> int:
        """Bytes of the pages that have been touched."""
        return self._held_pages * PAGE_BYTES

    def view(self, scalar_type: ScalarType) -> NDArray[Any]:
        """The range as values of a type; pages that nothing has touched (`touch`) hold anything."""
        if self._data is None:
            size = -(-(self._top - self.base) // PAGE_BYTES) * PAGE_BYTES
            size = max(size, PAGE_BYTES)
            self._space = _address_space(size)
            self._data = np.zeros(size, np.uint8) if self._space is None else np.frombuffer(self._space, np.uint8)
            self._written = np.zeros(size // PAGE_BYTES, np.bool_)
            self._touched = np.zeros(len(self._data) // PAGE_BYTES, np.bool_)
        if scalar_type not in self._views:
            width = np.dtype(scalar_type).itemsize
            self._views[scalar_type] = self._data[: len(self._data) // width * width].view(scalar_type)
        return self._views[scalar_type]

    def touch(
        self,
        low: int,
        end: int,
        addresses: Callable[[], NDArray[np.uint64]] | None = None,
        *,
        written: bool = False,
    ) -> None:
        """Make what will be read or written from ``low`` up to ``end``, or at single ``addresses`` between.

        What was only read is given up for what is needed now where both do not fit the budget: it can be made again.

        Raises:
            SimulationError: more is written, or needed at once, than the budget allows.
        """
        if self._given:
            return
        self.view(np.uint8)
        first, stop = (low - self.base) // PAGE_BYTES, -(-(end - self.base) // PAGE_BYTES)
        known = self._written if written else self._touched
        if known[first:stop].all():
            return
        pages = np.arange(first, stop)
        if addresses is not None and len(pages) > 1:
            of_lanes = ((addresses() - np.uint64(self.base)) // np.uint64(PAGE_BYTES)).view(np.int64)
            if known[of_lanes].all():
                return
            pages = distinct(of_lanes)
        if written:
            self._written[pages] = True
        missing = pages[~self._touched[pages]]
        if not len(missing):
            return
        if self.limit_bytes is not None and self.held_bytes + len(missing) * PAGE_BYTES > self.limit_bytes:
            self._give_up(pages)
            if self.held_bytes + len(missing) * PAGE_BYTES > self.limit_bytes:
                raise SimulationError(
                    f"the kernel touches more than {self.limit_bytes / 2**20:.0f} MiB of its buffers, which is half of what a "
                    "simulation may use: raise --max-memory-mib (Budget.memory_bytes)"
                )
        self._held_pages += len(missing)
        self._touched[missing] = True
        for begin, last in _runs(missing):
            self._fill(self.base + begin * PAGE_BYTES, self.base + last * PAGE_BYTES)

    def _give_up(self, needed: NDArray[np.int64]) -> None:
        """Give back to the system the pages that were only read, but for those that are needed."""
        if self._space is None:
            return
        clean = self._touched & ~self._written
        clean[needed] = False
        for begin, last in _runs(np.flatnonzero(clean)):
            self._space.madvise(mmap.MADV_DONTNEED, begin * PAGE_BYTES, (last - begin) * PAGE_BYTES)
        self._touched[clean] = False
        self._held_pages = int(self._touched.sum())

    def _fill(self, low: int, end: int) -> None:
        """Put the contents of all segments between two addresses in place."""
        assert self._data is not None
        position = max(bisect_right(self._starts, low) - 1, 0)
        while position < len(self.segments) and self._starts[position] < end:
            segment = self.segments[position]
            begin, stop = max(low, segment.start), min(end, segment.start + segment.size_bytes)
            if begin < stop:
                _put(self._contents[position], begin - segment.start, self._data[begin - self.base : stop - self.base])
            position += 1

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

    def room(
        self, addresses: NDArray[np.int64], width: int | NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and last address at which an access of a width lies in the same segment as it does at each address."""
        starts = np.array([segment.start for segment in self.segments] or [0], np.int64)
        sizes = np.array([segment.size_bytes for segment in self.segments] or [0], np.int64)
        place = np.maximum(np.searchsorted(starts, addresses, side="right") - 1, 0)
        return starts[place], starts[place] + sizes[place] - width

    def starts_between(self, low: int, end: int) -> set[int]:
        """First addresses of the segments that reach from ``low`` up to ``end``."""
        first = max(bisect_right(self._starts, low) - 1, 0)
        return {start for start in self._starts[first:] if start < end}

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
        position = next(k for k, segment in enumerate(self.segments) if segment.name == name)
        segment, data = self.segments[position], self.view(np.uint8)
        begin, stop = segment.start - self.base, segment.start - self.base + segment.size_bytes
        if self._given:
            return data[begin:stop]
        found = np.zeros(segment.size_bytes, np.uint8)
        _put(self._contents[position], 0, found)
        first, last = begin // PAGE_BYTES, -(-stop // PAGE_BYTES)
        for page in (np.flatnonzero(self._touched[first:last]) + first).tolist():
            low, end = max(page * PAGE_BYTES, begin), min((page + 1) * PAGE_BYTES, stop)
            found[low - begin : end - begin] = data[low:end]
        return found


def _put(contents: Contents | Bytes | None, first: int, target: Bytes) -> None:
    """Contents from a byte on into a stretch of memory, as far as they go."""
    if contents is None or first >= contents.nbytes:
        return
    target = target[: contents.nbytes - first]
    if isinstance(contents, Contents):
        contents.write_bytes(first, target)
    else:
        target[:] = contents[first : first + len(target)]


def is_in_space(addresses: NDArray[np.uint64], space: str) -> NDArray[np.bool_]:
    """Whether generic addresses lie in the window of a space, named as in PTX."""
    windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "const": CONSTANT_WINDOW}
    if space == "global":
        above = addresses >= np.uint64(SHARED_WINDOW + WINDOW_BYTES)
        result: NDArray[np.bool_] = above | (addresses < np.uint64(PARAMETER_WINDOW))
        return result
    start = windows[space]
    return (addresses >= np.uint64(start)) & (addresses < np.uint64(start + WINDOW_BYTES))
