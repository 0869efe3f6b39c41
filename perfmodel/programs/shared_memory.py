"""Device memory that the program and the simulator share: one file in memory, mapped by both."""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.constants import round_up
from ..launch.device_heap import HEAP_BYTES, DeviceHeap
from ..launch.launch import GRID_BARRIER_BYTES, Allocation, DeviceMemory
from ..launch.texture import BoundTexture

ADDRESS = 0x2000_0000_0000
"""Where the program maps it, far from where systems put programs, libraries and stacks."""
PAGE_BYTES = 2**21
"""What GPUs map at once: within a page that holds an allocation no access faults."""
_NO_RESERVE = 0x4000
"""``MAP_NORESERVE`` of Linux: pages take memory when they are written, not before."""
KINDS = (
    "cudaMalloc",
    "pinned host memory",
    "managed memory",
    "registered host memory",
    "module variables",
    "CUDA arrays",
)
"""Kinds of allocations by their numbers in `runtime/connection.hpp`."""


class SharedMemory:
    """The arena of a GPU's memory, and what is allocated in it."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes // PAGE_BYTES * PAGE_BYTES
        self.own = Allocation(
            name="memory of the runtime on the device",
            address=ADDRESS + self.size_bytes,
            size_bytes=GRID_BARRIER_BYTES + HEAP_BYTES,
        )
        """Behind what the program has: the barrier of a grid, and the heap of ``malloc``."""
        self._heap = DeviceHeap(self.own.address + GRID_BARRIER_BYTES)
        self._mapped_bytes = self.size_bytes + self.own.size_bytes
        self.descriptor = os.memfd_create("perfmodel")
        os.ftruncate(self.descriptor, self._mapped_bytes)
        self._data = self._mapped(mmap.MAP_SHARED)
        self.textures: dict[int, BoundTexture] = {}
        """Texture and surface objects that the program has made, by their numbers."""
        self._allocations: dict[int, Allocation] = {}
        self._ordered: tuple[Allocation, ...] | None = None
        self._mapped_ones: tuple[Allocation, ...] | None = None

    def close(self) -> None:
        """Give the file back; mappings go with their arrays."""
        os.close(self.descriptor)

    def _mapped(self, flags: int) -> NDArray[np.uint8]:
        return np.frombuffer(mmap.mmap(self.descriptor, self._mapped_bytes, flags=flags | _NO_RESERVE), np.uint8)

    def at(self, address: int, size_bytes: int) -> NDArray[np.uint8]:
        """The bytes from an address on."""
        return self._data[address - ADDRESS : address - ADDRESS + size_bytes]

    def allocated(self, address: int, size_bytes: int, kind: int) -> None:
        """Note an allocation of the program's."""
        name = f"{KINDS[kind]} of {size_bytes:,} bytes"
        self._allocations[address] = Allocation(name=name, address=address, size_bytes=size_bytes)
        self._ordered = self._mapped_ones = None

    def freed(self, address: int) -> None:
        """Note that an allocation is gone."""
        self._allocations.pop(address, None)
        self._ordered = self._mapped_ones = None

    @property
    def allocations(self) -> tuple[Allocation, ...]:
        """What is allocated, in order of address."""
        if self._ordered is None:
            self._ordered = tuple(sorted(self._allocations.values(), key=lambda one: one.address))
        return self._ordered

    def allocation_at(self, address: int) -> Allocation | None:
        """The allocation that an address lies in."""
        if not ADDRESS <= address < ADDRESS + self.size_bytes:
            return None
        return next((o for o in self.allocations if o.address <= address < o.address + o.size_bytes), None)

    def unseen_reads(self, variables: Iterable[int]) -> set[Allocation]:
        """What a launch may read by other instructions than loads: its module's variables, and what textures are bound to."""
        arrays = {one for one in self.allocations if self.textures and one.name.startswith(KINDS[-1])}
        bound = (texture.address for texture in self.textures.values())
        found = {self.allocation_at(address) for address in (*variables, *bound)}
        return arrays | {one for one in found if one is not None}

    @property
    def mapped(self) -> tuple[Allocation, ...]:
        """What hardware lets a kernel access: each allocation up to the next one, or to the end of its last page."""
        if self._mapped_ones is None:
            found = []
            for one, following in itertools.zip_longest(self.allocations, self.allocations[1:]):
                end = round_up(one.address + one.size_bytes, PAGE_BYTES)
                size = min(end, following.address if following else end) - one.address
                found.append(replace(one, size_bytes=size))
            self._mapped_ones = tuple(found)
        return self._mapped_ones

    def view(self, variables: Mapping[str, int]) -> DeviceMemory:
        """The memory itself: what a launch writes stays."""
        return self._memory(self._data, self.mapped, variables, self._heap)

    def scratch(
        self, variables: Mapping[str, int], before: Snapshot | None = None, *, in_pages: bool = False
    ) -> DeviceMemory:
        """The memory as it is now, or as it was: what a launch writes there goes away with the view.

        Allocations end where they end, or with ``in_pages`` where hardware stops an access.
        """
        data = self._mapped(mmap.MAP_PRIVATE)
        for allocation, contents in () if before is None else before.contents:
            begin = allocation.address - ADDRESS
            data[begin : begin + allocation.size_bytes] = contents
        allocations = self.mapped if in_pages else self.allocations
        return self._memory(data, allocations, variables, self._heap.copy())

    def _memory(
        self,
        data: NDArray[np.uint8],
        allocations: tuple[Allocation, ...],
        variables: Mapping[str, int],
        heap: DeviceHeap,
    ) -> DeviceMemory:
        return DeviceMemory(
            address=ADDRESS,
            data=data,
            allocations=(*allocations, self.own),
            variables=variables,
            textures=self.textures,
            heap=heap,
            grid_barrier=self.own.address,
        )

    def snapshot(self, allocations: Sequence[Allocation], limit_bytes: int) -> Snapshot | None:
        """Contents of some allocations, None where they are larger than a limit."""
        if sum(one.size_bytes for one in allocations) > limit_bytes:
            return None
        return Snapshot([(one, self.at(one.address, one.size_bytes).copy()) for one in allocations])


class Snapshot:
    """Contents of allocations as they were."""

    def __init__(self, contents: list[tuple[Allocation, NDArray[np.uint8]]]) -> None:
        self.contents = contents
