"""Memory that kernels allocate themselves (``malloc`` and ``free`` on the device)."""

from __future__ import annotations

HEAP_BYTES = 2**30
"""Size of the heap; the hardware's is 8 MiB where a program asks for no other (CUDA C++ Programming Guide, heap allocation)."""
_ALIGNMENT_BYTES = 16


class DeviceHeap:
    """Memory that kernels allocate themselves, at addresses from ``start`` on.

    >>> heap = DeviceHeap(4096)
    >>> first = heap.allocate(10)
    >>> heap.free(first)
    >>> first, heap.allocate(16), heap.allocate(1), heap.allocate(2**40)
    (4096, 4096, 4112, 0)
    """

    def __init__(self, start: int, size_bytes: int = HEAP_BYTES) -> None:
        self.start, self.size_bytes = start, size_bytes
        self._top = start
        self._sizes: dict[int, int] = {}
        self._free: dict[int, list[int]] = {}

    def copy(self) -> DeviceHeap:
        """A heap with the same allocations, for a launch that is only tried."""
        other = DeviceHeap(self.start, self.size_bytes)
        other._top, other._sizes = self._top, dict(self._sizes)
        other._free = {size: list(places) for size, places in self._free.items()}
        return other

    def allocate(self, size_bytes: int) -> int:
        """The address of so many bytes; 0 where none are asked for or there is no room."""
        size = -(-size_bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        given = self._free.get(size)
        if given:
            address = given.pop()
        elif 0 < size <= self.start + self.size_bytes - self._top:
            address = self._top
            self._top += size
        else:
            return 0
        self._sizes[address] = size
        return address

    def free(self, address: int) -> None:
        """Give an allocation back; an address that is none is passed over, as null is."""
        size = self._sizes.pop(address, None)
        if size is not None:
            self._free.setdefault(size, []).append(address)
