"""What executed blocks asked of memory, kept so that the caches of another GPU are simulated without executing anything."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..core.constants import LINE_BYTES
from ..simulator.global_memory import Segment
from .atomics import AtomicsOfBlocks
from .block_placement import LINE_WORDS, Movement, Placement, positions
from .store_queue import Stores
from .trace import (
    LOAD,
    LOCAL_LINES,
    PARTS_OF_WORDS,
    PAST_L1,
    BlockStream,
    Integers,
    LineAccesses,
    Traced,
)

_ALL_WORDS = (1 << LINE_WORDS) - 1
_ATOMICS = "atomics_"
_TRACED = "traced_"
_STORES = "stores_"


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRecord:
    """Accesses of the executed blocks, and of their launch what does not depend on the GPU.

    Attributes:
        traced: Lines that the blocks touch.
        atomics: Where their atomics go.
        stores: Stores of the blocks that one SM holds together.
        segments: Buffers.
        uncached_sectors: Sectors that the blocks ask for past L1, of all reads.
        uncached_load_sectors: Those of loads alone.
        copies: Whether there are asynchronous copies.
        ahead: Groups of these that are on their way while others are used (`copies_ahead`).
        executed: Blocks that these come from.
    """

    traced: Traced
    atomics: AtomicsOfBlocks
    stores: Stores
    segments: tuple[Segment, ...]
    uncached_sectors: float
    uncached_load_sectors: float
    copies: bool
    ahead: int
    executed: int

    def to_bytes(self) -> bytes:
        """The record as a NumPy archive."""
        archive = io.BytesIO()
        arrays = {_TRACED + f.name: _narrow(getattr(self.traced, f.name)) for f in fields(self.traced)}
        arrays |= {_ATOMICS + f.name: _narrow(getattr(self.atomics, f.name)) for f in fields(self.atomics)}
        arrays |= {_STORES + f.name: _narrow(getattr(self.stores, f.name)) for f in fields(self.stores)}
        numbers = [
            self.uncached_sectors,
            self.uncached_load_sectors,
            self.copies,
            self.ahead,
            self.executed,
            self.traced.l1_share,
        ]
        np.savez(
            archive,
            **arrays,
            numbers=np.array(numbers, np.float64),
            names=np.array([segment.name for segment in self.segments], np.str_),
            places=np.array([(segment.start, segment.size_bytes) for segment in self.segments], np.int64).reshape(
                -1, 2
            ),
        )
        return archive.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> CacheRecord:
        """The record that `to_bytes` wrote."""
        with np.load(io.BytesIO(data)) as archive:
            columns = {name: _wide(archive[name]) for name in archive.files}
        of_uncached, of_loads, copies, ahead, executed, of_l1 = columns["numbers"].tolist()
        places = columns["places"].tolist()
        return cls(
            traced=Traced(**{f.name: columns[_TRACED + f.name] for f in fields(Traced)} | {"l1_share": of_l1}),
            atomics=AtomicsOfBlocks(**{f.name: columns[_ATOMICS + f.name] for f in fields(AtomicsOfBlocks)}),
            stores=Stores(**{f.name: columns[_STORES + f.name] for f in fields(Stores)}),
            segments=tuple(Segment(n, *place) for n, place in zip(columns["names"].tolist(), places, strict=True)),
            uncached_sectors=of_uncached,
            uncached_load_sectors=of_loads,
            copies=bool(copies),
            ahead=int(ahead),
            executed=int(executed),
        )

    def l1_accesses(
        self, wanted: Integers, placement: Placement, shape: tuple[int, ...]
    ) -> tuple[LineAccesses, LineAccesses]:
        """Accesses of some blocks for L1, and those of their loads that pass it by.

        A block that was not traced is like the nearest traced one, moved (`Placement.movements`).
        """
        traced = self.traced
        known = traced.l1_blocks
        block, words, line = traced.l1_block, traced.l1_words, traced.l1_line
        if np.isin(wanted, known).all():
            chosen = np.flatnonzero(np.isin(block, wanted))
            owner = block[chosen]
        else:
            source = _nearest(known, wanted, shape)
            order = np.argsort(block, kind="stable")
            begins, ends = np.searchsorted(block[order], [source, source + 1])
            number = ends - begins
            place = np.arange(int(number.sum())) - np.repeat(np.cumsum(number) - number - begins, number)
            chosen, owner = order[place], np.repeat(wanted, number)
        group = _by_buffer(traced.l1_group[chosen], line[chosen], self.segments)
        by = _moved(group, line[chosen], owner, block[chosen], placement.movements)
        whole, rest = by // LINE_WORDS, by % LINE_WORDS
        entries: list[tuple[Integers, ...]] = [
            (chosen, owner, line[chosen] + whole, words[chosen] << rest & _ALL_WORDS)
        ]
        crossing = np.flatnonzero(words[chosen] >> (LINE_WORDS - rest))
        if len(crossing):
            beyond = line[chosen] + whole + 1, words[chosen] >> (LINE_WORDS - rest)
            entries.append((chosen[crossing], owner[crossing], *(column[crossing] for column in beyond)))
        chosen, owner, line, words = (np.concatenate(column) for column in zip(*entries, strict=True))
        order = np.argsort(chosen, kind="stable")
        order = order[words[order] != 0]
        chosen, owner, line, words = (column[order] for column in (chosen, owner, line, words))
        flags = traced.l1_flags[chosen]
        load, past_l1 = flags & LOAD != 0, flags & PAST_L1 != 0
        words = words * (load | (flags & PARTS_OF_WORDS == 0))
        warp, trip, step = (column[chosen] for column in (traced.l1_warp, traced.l1_trip, traced.l1_step))
        found = LineAccesses(owner, warp, trip, step, line, words, load)
        return found.of(~past_l1), found.of(past_l1)

    def streams(self, small: Sequence[tuple[int, int]]) -> dict[int, BlockStream]:
        """What each block whose stream was kept asks of L2 (`Traced.streams`); groups differ by buffers."""
        streams = self.traced.streams(small)
        return {
            block: replace(stream, group=_by_buffer(stream.group, stream.line, self.segments))
            for block, stream in streams.items()
        }


def _by_buffer(group: Integers, line: Integers, segments: Sequence[Segment]) -> Integers:
    """A number for each group of instructions and buffer: with the same index a kernel may go through several in several ways."""
    starts = np.sort([segment.start // LINE_BYTES for segment in segments])
    return group * (len(starts) + 1) + np.searchsorted(starts, line, side="right")


def _nearest(known: Integers, wanted: Integers, shape: tuple[int, ...]) -> Integers:
    """The known block that is nearest to each wanted one, by linear index, axes counting in parts of their extents."""
    from scipy.spatial import KDTree

    extents = np.array(shape, np.float64)
    _, nearest = KDTree(positions(known, shape) / extents).query(positions(wanted, shape) / extents)
    found: Integers = known[nearest]
    return found


def _moved(group: Integers, line: Integers, to: Integers, source: Integers, movements: Any) -> Integers:
    """By how many words each entry of a source block lies elsewhere in another block."""
    by = np.zeros(len(line), np.int64)
    for number in np.unique(group).tolist():
        movement: Movement | None = movements.get(number)
        if movement is not None:
            own = np.flatnonzero((group == number) & (line < LOCAL_LINES) & (to != source))
            by[own] = movement.words(to[own]) - movement.words(source[own])
    return by


def _narrow(column: Any) -> Any:
    """Non-negative integers in as few bytes as they need."""
    array = np.asarray(column)
    if array.dtype != np.int64 or not array.size or array.min() < 0:
        return array
    return array.astype(np.min_scalar_type(int(array.max())))


def _wide(array: Any) -> Any:
    return array.astype(np.int64) if array.dtype.kind in "iu" else array
