"""Requests, sectors, lines and wavefronts of warp-level accesses, from the addresses of their lanes.

Warps whose lanes lie in the same pattern relative to their first active lane are analysed once: sectors and lines then
depend only on the first address modulo a line, and wavefronts not even on that, because adding a constant to every
address rotates the banks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from .async_copy import copy_passes, copy_sectors, uncached_copy_sectors
from .atomics import sector_operations
from .bank_conflicts import Passes, Wavefronts, load_wavefronts

Mask = NDArray[np.bool_]
Addresses = NDArray[np.uint64]

_INACTIVE = np.uint64(0xA5A5_A5A5_A5A5_A5A5)
_MIX = np.random.default_rng(0x5EED).integers(1, 2**63, size=WARP_SIZE, dtype=np.uint64) | np.uint64(1)
"""Odd multipliers that fold the 32 relative addresses of a warp into one key; equal keys are compared in full
afterwards."""


_LINE_WORDS = LINE_BYTES // BANK_BYTES
_FAR = 2**48
"""Added to relative addresses, which may lie below that of the first active lane."""


def _touched(line: NDArray[np.int64], bit: NDArray[np.int64], active: Mask, case: NDArray[np.intp]) -> TouchedLines:
    """Lines of each warp relative to its own, from those of the words of all cases, shape ``(cases, 32, words)``."""
    of_case, lane, word = np.nonzero(active)
    lines, bits = line[of_case, lane, word], np.int64(1) << bit[of_case, lane, word]
    order = np.lexsort((lines, of_case))
    of_case, lines, bits = of_case[order], lines[order], bits[order]
    first = np.flatnonzero(np.append(True, (of_case[1:] != of_case[:-1]) | (lines[1:] != lines[:-1])))
    masks = np.bitwise_or.reduceat(bits, first)
    of_case, lines = of_case[first], lines[first]
    begins = np.searchsorted(of_case, np.arange(len(line) + 1))
    number = (begins[1:] - begins[:-1])[case]
    warp = np.repeat(np.arange(len(case)), number)
    entry = np.arange(len(warp)) - np.repeat(np.cumsum(number) - number - begins[case], number)
    return TouchedLines(warp, lines[entry], masks[entry])


def distinct_per_row(values: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Number of distinct values in each row of an array of shape ``(n, k)``.

    >>> distinct_per_row(np.array([[1, 1, 2], [3, 3, 3]], dtype=np.uint64)).tolist()
    [2, 1]
    """
    ordered = values
    if not (values[:, 1:] >= values[:, :-1]).all():
        ordered = np.sort(values, axis=1)
    steps: NDArray[np.int64] = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1, dtype=np.int64)
    return steps + 1


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one warp-level access touches, for each warp (arrays of shape ``(warps,)``)."""

    sectors: NDArray[np.int64]
    lines: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TouchedLines:
    """What one warp-level access touches, as an entry for each pair of a warp and a line (arrays of shape ``(n,)``).

    ``warp`` is the index of the warp among those analysed, ``line`` the line's address over its size, ``words`` has the
    4-byte words of it that are touched as bits.
    """

    warp: NDArray[np.int64]
    line: NDArray[np.int64]
    words: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CopiedSectors:
    """Sectors of 16-byte asynchronous copies, for each warp (arrays of shape ``(warps,)``): as counted, and asked of L2."""

    counted: NDArray[np.int64]
    uncached: NDArray[np.int64]


class WarpPatterns:
    """Addresses of ``n`` warps, shape ``(n, 32)``, folded into their distinct relative patterns.

    ``active`` is the mask of lanes of the same shape, or None for all lanes; every warp has at least one active lane.
    """

    def __init__(self, addresses: Addresses, active: Mask | None) -> None:
        if active is None:
            self.first = addresses[:, 0]
            relative = addresses - self.first[:, None]
        else:
            self.first = addresses[np.arange(len(addresses)), active.argmax(axis=1)]
            relative = np.where(active, addresses - self.first[:, None], _INACTIVE)
        self.inverse: NDArray[np.intp]
        if (relative == relative[0]).all():
            self.inverse, chosen = np.zeros(len(relative), np.intp), np.zeros(1, np.intp)
        else:
            _, chosen, inverse = np.unique((relative * _MIX).sum(axis=1), return_index=True, return_inverse=True)
            self.inverse = inverse.reshape(-1)
            if not (relative[chosen][self.inverse] == relative).all():
                chosen, self.inverse = np.arange(len(relative)), np.arange(len(relative))
        self._chosen = chosen
        self.relative = relative[chosen]
        self.active = np.ones(self.relative.shape, np.bool_) if active is None else active[chosen]
        self._wavefronts: dict[tuple[int, int, Passes], Wavefronts] = {}
        self._footprints: dict[int, Footprint] = {}

    @cached_property
    def _filled(self) -> Addresses:
        """Relative addresses with inactive lanes standing where the first active lane stands."""
        return np.where(self.active, self.relative, np.uint64(0))

    def _cases(self, offset: int, modulus: int) -> tuple[Addresses, Mask, NDArray[np.intp]]:
        """Distinct pairs of pattern and first address modulo ``modulus``: addresses, active lanes, each warp's case."""
        residue = (self.first + np.uint64(offset % modulus)) % np.uint64(modulus)
        keys = self.inverse * modulus + residue.astype(np.intp)
        present = np.zeros(len(self.relative) * modulus, np.bool_)
        present[keys] = True
        cases = np.flatnonzero(present)
        pattern = cases // modulus
        placed = self._filled[pattern] + (cases % modulus).astype(np.uint64)[:, None] + np.uint64(2**48)
        return placed, self.active[pattern], (np.cumsum(present) - 1)[keys]

    def footprint(self, offset: int) -> Footprint:
        """Distinct sectors and lines of each warp when ``offset`` bytes are added to every address."""
        key = offset % LINE_BYTES
        if key not in self._footprints:
            placed, _, inverse = self._cases(offset, LINE_BYTES)
            self._footprints[key] = Footprint(
                distinct_per_row(placed // np.uint64(SECTOR_BYTES))[inverse],
                distinct_per_row(placed // np.uint64(LINE_BYTES))[inverse],
            )
        return self._footprints[key]

    def lines(self, width_bytes: int, offset: int) -> TouchedLines:
        """Lines of each warp when ``offset`` bytes are added to every address of ``width_bytes`` a lane."""
        return self._lines_of(width_bytes, offset, LINE_BYTES)

    def local_lines(self, width_bytes: int, offset: int) -> TouchedLines:
        """The same for local memory, whose line n holds the n-th word of the stacks of a warp's lanes."""
        return self._lines_of(width_bytes, offset, BANK_BYTES)

    def _lines_of(self, width_bytes: int, offset: int, lane_bytes: int) -> TouchedLines:
        """Lines of which a lane has so many bytes in a row: all of them, or a word of each."""
        placed, active, case = self._cases(offset, lane_bytes)
        words = placed.astype(np.int64) // BANK_BYTES - _FAR // BANK_BYTES
        words = words[:, :, None] + np.arange(max(1, width_bytes // BANK_BYTES))
        if lane_bytes == LINE_BYTES:
            line, bit = words // _LINE_WORDS, words % _LINE_WORDS
        else:
            line, bit = words, np.broadcast_to(np.arange(WARP_SIZE)[None, :, None], words.shape)
        found = _touched(line, bit, np.broadcast_to(active[:, :, None], words.shape), case)
        own = (self.first + np.uint64(offset % 2**64)).view(np.int64) // lane_bytes
        return TouchedLines(found.warp, own[found.warp] + found.line, found.words)

    def wavefronts(self, width_bytes: int, offset: int, passes: Passes = load_wavefronts) -> Wavefronts:
        """Shared-memory wavefronts of each warp by `load_wavefronts` or another rule, and their number without bank conflicts."""
        key = (width_bytes, offset % BANK_BYTES if width_bytes < BANK_BYTES else 0, passes)
        if key not in self._wavefronts:
            placed, active, inverse = self._cases(key[1], BANK_BYTES)
            total, ideal = passes(placed, active, width_bytes)
            self._wavefronts[key] = (total[inverse], ideal[inverse])
        return self._wavefronts[key]

    def atomic_operations(self, offset: int) -> NDArray[np.int64]:
        """Operations that each warp's atomics ask of L2 when ``offset`` bytes are added to every address."""
        placed, active, inverse = self._cases(offset, LINE_BYTES)
        return sector_operations(placed, active)[inverse]

    def copy_passes(self, width_bytes: int) -> NDArray[np.int64]:
        """Passes of each warp through L1's data pipe to read what it copies asynchronously."""
        words = self._filled // np.uint64(BANK_BYTES)
        return copy_passes(words.astype(np.int64), self.active, max(1, width_bytes // BANK_BYTES))[self.inverse]

    def copied(self, offset: int, target: WarpPatterns, target_offset: int) -> CopiedSectors:
        """Sectors of each warp's 16-byte asynchronous copies to the ``target``'s addresses of the same warps.

        A target that is alike for all blocks may hold the warps of one block alone.
        """
        from_, active, source_case = self._cases(offset, LINE_BYTES)
        to, _, target_case = target._cases(target_offset, SECTOR_BYTES)
        target_case = np.tile(target_case, len(source_case) // len(target_case))
        pairs, inverse = np.unique(source_case * len(to) + target_case, return_inverse=True)
        source_words = (from_[pairs // len(to)] // np.uint64(BANK_BYTES)).astype(np.int64)
        target_words = (to[pairs % len(to)] // np.uint64(BANK_BYTES)).astype(np.int64)
        active = active[pairs // len(to)]
        return CopiedSectors(
            counted=copy_sectors(source_words, target_words, active, 4)[inverse.reshape(-1)],
            uncached=uncached_copy_sectors(source_words, target_words, active)[inverse.reshape(-1)],
        )

    def local_footprint(self, width_bytes: int, offset: int) -> Footprint:
        """Distinct sectors and lines when the hardware interleaves the local memory of a warp word by word."""
        placed, active, inverse = self._cases(offset, BANK_BYTES)
        words = placed[:, :, None] // np.uint64(BANK_BYTES) + np.arange(
            max(1, width_bytes // BANK_BYTES), dtype=np.uint64
        )
        lane = np.arange(WARP_SIZE, dtype=np.uint64)[None, :, None]
        address: Addresses = ((words * np.uint64(WARP_SIZE) + lane) * np.uint64(BANK_BYTES)).astype(np.uint64)
        of_first = address[np.arange(len(address)), active.argmax(axis=1), 0]
        filled = np.where(active[:, :, None], address, of_first[:, None, None]).reshape(len(address), -1)
        return Footprint(
            distinct_per_row(filled // np.uint64(SECTOR_BYTES))[inverse],
            distinct_per_row(filled // np.uint64(LINE_BYTES))[inverse],
        )
