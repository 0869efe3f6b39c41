"""Accesses of the executed blocks, kept as lines: in order for L1, and thinned out for L2.

Both are kept within a budget of entries. What L1 is simulated with keeps fewer lines where there are too many: those whose
hash lies below a threshold, so that all accesses of a line are kept or none. What L2 is simulated with keeps fewer blocks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTORS_PER_LINE, WARP_SIZE
from ..ir.instruction import Space
from ..simulator.access import LANE_GROUPS, Action, Site, WarpAccess
from ..simulator.plan import Plan
from .access_counts import READS, passes_l1, patterns_of
from .coalescing import TouchedLines

Integers = NDArray[np.int64]

LOCAL_LINES = 1 << 60
"""Lines from here on are local memory: word by word of the stacks of a block's warps."""
WORDS_OF_SECTOR = 0xFF
WORDS_OF_LINE = 0xFFFF_FFFF
_FIRST_WORDS = 0x0101_0101
SECTORS_OF_MASK = np.array([bin(mask).count("1") for mask in range(1 << SECTORS_PER_LINE)], np.int64)
"""How many sectors a line's sectors, as bits, are."""

LOAD, PAST_L1, PARTS_OF_WORDS = 1, 2, 4
"""Flags of an access of L1."""
_OBJECTS = (Space.TEXTURE, Space.SURFACE)
_L1_ENTRIES = 600_000
_L2_ENTRIES = 2_000_000
_STEPS = 64
"""Parts that the life of a block is divided into for L2, at most."""
_SMALL_STEPS = 16
_LEAST_STREAMS = 16
_STACK_WORDS = 512
"""Accesses to local memory of which it is remembered what is kept for L1."""
HASH_BITS = 62
_ODD = 0x9E37_79B9_7F4A_7C15
_MIX = 0xBF58_476D_1CE4_E5B9


def hashes(lines: Integers) -> Integers:
    """Numbers of 62 bits that spread evenly over lines; the hash of a sum is the sum of the hashes, modulo ``2 ** 62``."""
    return ((lines.astype(np.uint64) * np.uint64(_ODD)) >> np.uint64(64 - HASH_BITS)).astype(np.int64)


def sectors_of(words: Integers) -> Integers:
    """The sectors, as bits, of lines whose words are given as bits.

    >>> sectors_of(np.array([0x1, 0x80000100])).tolist()
    [1, 10]
    """
    bits = np.zeros_like(words)
    for sector in range(SECTORS_PER_LINE):
        bits |= ((words >> (8 * sector)) & WORDS_OF_SECTOR != 0).astype(np.int64) << sector
    return bits


def whole_sectors(words: int) -> int:
    """All words, as bits, of the sectors that the given words lie in.

    >>> f"{whole_sectors(0x8000_0100):08x}"
    'ff00ff00'
    """
    words |= words >> 4
    words |= words >> 2
    words |= words >> 1
    return (words & _FIRST_WORDS) * WORDS_OF_SECTOR


class Kind(IntEnum):
    """What L2 is asked for: a reduction is a store that needs what memory holds; what is read once gives way first."""

    READ = 0
    WRITE = 1
    REDUCE = 2
    READ_ONCE = 3


@dataclass(frozen=True, slots=True)
class LineAccesses:
    """Accesses, in order of time, as one entry for each line that a warp's request touches.

    ``trip`` counts the round trips of a warp: loads that it has in flight together have the same number. ``step`` counts its
    accesses to local memory since the round trip began: of these L1 answers so fast that warps take turns. ``line`` is the
    line's address over its size, ``words`` has its 4-byte words as bits, none of stores of single bytes; ``load`` tells loads
    from stores.
    """

    block: Integers
    warp: Integers
    trip: Integers
    step: Integers
    line: Integers
    words: Integers
    load: NDArray[np.bool_]

    def of(self, chosen: NDArray[Any]) -> LineAccesses:
        """Some of them."""
        parts = (self.block, self.warp, self.trip, self.step, self.line, self.words, self.load)
        return LineAccesses(*(part[chosen] for part in parts))


@dataclass(frozen=True, slots=True)
class BlockStream:
    """What one block asks of L2: each line once for each step of its life and each kind of access.

    ``group`` numbers instructions whose addresses are alike: those that share a base register. ``kind`` has the numbers of
    `Kind`, ``words`` the words of the line as bits.
    """

    group: Integers
    step: Integers
    kind: Integers
    line: Integers
    words: Integers


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """Lines that the executed blocks touch.

    For L1, in order of time, as `LineAccesses`; of the lines, ``l1_share`` is kept, of ``l1_blocks``. ``l1_flags`` are bits:
    `LOAD`, `PAST_L1` and `PARTS_OF_WORDS`. For L2, in no order, as `BlockStream` of the blocks ``streamed``. ``group`` numbers
    instructions as there.
    """

    l1_share: float
    l1_blocks: Integers
    l1_block: Integers
    l1_warp: Integers
    l1_trip: Integers
    l1_step: Integers
    l1_line: Integers
    l1_words: Integers
    l1_group: Integers
    l1_flags: Integers
    streamed: Integers
    block: Integers
    group: Integers
    step: Integers
    kind: Integers
    line: Integers
    words: Integers

    def streams(self, small: Sequence[tuple[int, int]] = ()) -> dict[int, BlockStream]:
        """What each block whose stream was kept asks of L2, by the block's linear index; steps begin with 0.

        Args:
            small: first and last line of buffers that L2 holds as a whole: of these a line counts once for several steps, and
                what a block reads of what it has written does not.
        """
        held = np.zeros(len(self.line), np.bool_)
        for low, high in small:
            held |= (self.line >= low) & (self.line <= high)
        step = np.where(held, self.step // _SMALL_STEPS * _SMALL_STEPS, self.step)
        asked = ~self._written_before(held)
        entries = (self.block, self.group, step, self.kind, self.line, self.words)
        block, *columns = _merged(tuple(column[asked] for column in entries))
        order = np.lexsort((*columns[3::-1], block))
        begins, ends = np.searchsorted(block[order], [self.streamed, self.streamed + 1])
        return {
            one: BlockStream(*(column[order[begin:end]] for column in columns))
            for one, begin, end in zip(self.streamed.tolist(), begins.tolist(), ends.tolist(), strict=True)
        }

    def _written_before(self, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of some accesses are reads of words that their block has written in a step before."""
        return _read_after_written(held, (self.block, self.line), self.step, self.kind, self.words)


def _read_after_written(
    of: NDArray[np.bool_], place: tuple[Integers, ...], time: Integers, kind: Integers, words: Integers
) -> NDArray[np.bool_]:
    """Which of some entries are reads of words that were written at the same place at earlier times, each of them."""
    found = np.zeros(len(time), np.bool_)
    *_, line = place
    writes = np.flatnonzero(of & (kind == Kind.WRITE))
    reads = np.flatnonzero(of & np.isin(kind, (Kind.READ, Kind.READ_ONCE)))
    reads = reads[np.isin(line[reads], line[writes])]
    writes = writes[np.isin(line[writes], line[reads])]
    if not len(reads):
        return found
    entries = np.append(writes, reads)
    _, number = np.unique(np.stack([column[entries] for column in place]), axis=1, return_inverse=True)
    number = number.reshape(-1)
    key = number * (int(time[entries].max()) + 1) + time[entries]
    of_write, of_read = number[: len(writes)], number[len(writes) :]
    order = np.argsort(key[: len(writes)])
    of_write, written, keys = of_write[order], words[writes[order]], key[: len(writes)][order]
    rank = np.arange(len(order)) - np.searchsorted(of_write, of_write)
    distance = 1
    while distance <= rank.max():  # what has been written to a place up to each write
        own = np.flatnonzero(rank >= distance)
        written[own] = written[own] | written[own - distance]
        distance *= 2
    last = np.searchsorted(keys, key[len(writes) :]) - 1
    found[reads] = (last >= 0) & (of_write[last] == of_read) & (words[reads] & ~written[last] == 0)
    return found


_Warps = tuple[Integers, Integers] | EllipsisType
"""Positions and warps, each pair once, as an index of arrays by both; the ellipsis where these are all."""


@dataclass(frozen=True, slots=True)
class _Touched:
    """What accesses whose addresses differ by whole lines touch, but for the distance between them.

    ``asking`` says which warps of which positions ask. ``l1`` has position, warp, line and words of the blocks that L1 is
    simulated with, ``l2`` position, line and words of those whose streams are kept, each line of a block once. It holds as long
    as ``positions`` and ``streamed`` are the same arrays.
    """

    positions: Integers
    streamed: NDArray[np.bool_]
    asking: _Warps
    l1: tuple[Integers, ...]
    l2: tuple[Integers, ...]


class Trace:
    """An observer that keeps lines of the executed blocks.

    Args:
        blocks: linear indices of the blocks executed.
        for_l1: blocks that L1 is simulated with.
        for_l2: blocks whose streams are kept, in no order: of many accesses those of the first ones.
        warps: of a block.
        stack_words: 4-byte words of a thread's stack.
        trips: the round trip of each instruction that shares one with others (`loads_in_flight`); the others have their own.
    """

    def __init__(
        self,
        blocks: Integers,
        for_l1: Integers,
        for_l2: Integers,
        *,
        warps: int,
        stack_words: int,
        trips: Mapping[int, int],
    ) -> None:
        self._blocks = blocks
        self._in_l1 = np.isin(blocks, for_l1)
        self._streamed = for_l2
        self._in_l2 = np.isin(blocks, for_l2)
        self._stack_words, self._trip_of = stack_words, trips
        self._place = np.full((len(blocks), warps), -1, np.int64)
        self._own = np.full((len(blocks), warps), np.iinfo(np.int64).min, np.int64)
        self._trip = np.full((len(blocks), warps), -1, np.int64)
        self._step = np.zeros((len(blocks), warps), np.int64)
        self._l1_share = 1.0
        self._groups: dict[int, int] = {}
        self._l1: list[tuple[Integers, ...]] = []
        self._l2: list[tuple[Integers, ...]] = []
        self._recent: dict[tuple[int, ...], _Touched] = {}
        """What accesses since the last of ``_l2`` touch, by what they are: lines moved by the first number."""
        self._stack: dict[tuple[int, int], tuple[_Touched, tuple[Integers, ...]]] = {}
        """What is kept for L1 of accesses to local memory, by what they touch and by how many lines it is moved."""
        self._l1_entries = self._l2_entries = self._calls = 0
        self._calls_of_step = 1

    def access(self, access: WarpAccess) -> None:
        """Keep one access; the order of the calls is the order of time."""
        site = access.site
        if site.space in _OBJECTS and site.action is Action.LOAD:
            plan = access.pattern[0]
            self._count_trips(self._asking(plan, access.positions), site.instruction_index)
        if site.space not in (Space.GLOBAL, Space.LOCAL):
            return
        self._calls += 1
        local = site.space is Space.LOCAL
        touched, moved = self._touched(access, local)
        group = self._group(access)
        load = site.action in READS
        if load and not local and site.action not in LANE_GROUPS:
            self._count_trips(touched.asking, site.instruction_index)
        if local:
            self._step[touched.asking] += 1
        if len(touched.l1[0]) and site.action is not Action.REDUCTION:
            flags = LOAD * load + PAST_L1 * passes_l1(site) + PARTS_OF_WORDS * (site.width_bytes < BANK_BYTES)
            position, warp, line, words = self._of_stack(touched, moved) if local else self._of_l1(touched, moved)
            if len(line):
                self._keep_for_l1(position, warp, line, words, group, flags)
        if len(touched.l2[0]):
            key = (moved, id(touched), group, self._calls // self._calls_of_step, _kind(site))
            if key not in self._recent:
                self._recent[key] = touched
                self._l2_entries += len(touched.l2[0])
                if self._l2_entries > _L2_ENTRIES:
                    self._keep_less_for_l2()

    def _touched(self, access: WarpAccess, local: bool) -> tuple[_Touched, int]:
        """What an access touches, kept with the plan whose addresses its own are a shift of, and by how many lines to move it."""
        plan, offset = access.pattern
        size = BANK_BYTES if local else LINE_BYTES
        key = (Trace, local, access.site.width_bytes, offset % size)
        found: _Touched | None = plan.cache.get(key)
        if found is None or found.positions is not access.positions or found.streamed is not self._in_l2:
            patterns = patterns_of(plan)
            lines = (patterns.local_lines if local else patterns.lines)(access.site.width_bytes, offset % size)
            found = plan.cache[key] = self._touched_anew(plan, access.positions, lines, local)
        return found, offset // size

    def _touched_anew(self, plan: Plan, positions: Integers, lines: TouchedLines, local: bool) -> _Touched:
        row, warp, line, words = lines_of_rows(plan, lines)
        position = positions[row]
        if local:
            line = LOCAL_LINES + warp * self._stack_words + line
        own = self._in_l1[position]
        l1 = (position[own], warp[own], line[own], words[own])
        own = self._in_l2[position]
        l2 = _merged((position[own], line[own], words[own]))
        return _Touched(positions, self._in_l2, self._asking(plan, positions), l1, l2)

    def _asking(self, plan: Plan, positions: Integers) -> _Warps:
        """Who asks for something."""
        warps = np.arange(len(plan.row_of_warp))
        row, warp, _, _ = lines_of_rows(plan, TouchedLines(warps, warps, warps))
        return ... if len(row) == self._step.size else (positions[row], warp)

    def _group(self, access: WarpAccess) -> int:
        """The first instruction that was seen with the same base addresses, or with an instruction of which that holds."""
        number, groups = access.site.number, self._groups
        groups.setdefault(number, number)
        first = groups.get(access.pattern[0].cache.setdefault(Trace, number), number)
        if first != groups[number]:
            low, high = sorted((first, groups[number]))
            for site, group in groups.items():
                groups[site] = low if group == high else group
        return number

    def _count_trips(self, at: _Warps, instruction: int) -> None:
        """A warp's next request is in the same round trip if it is one of its instructions that comes later in the code.

        One that comes again is the loop's next round.
        """
        own = self._trip_of.get(instruction, -1 - instruction)
        begins = (self._own[at] != own) | (instruction <= self._place[at])
        self._trip[at] = np.where(begins, self._trip[at] + 1, self._trip[at])
        again = begins & (self._trip[at] > 0)  # what comes before the first round trip is in it
        self._step[at] = np.where(again, 0, self._step[at])
        self._own[at], self._place[at] = own, instruction

    def _of_l1(self, touched: _Touched, moved: int) -> tuple[Integers, ...]:
        """Position, warp, line and words of what is kept for L1."""
        position, warp, line, words = touched.l1
        entries = position, warp, line + moved, words
        return _thinned(entries, 2, self._l1_share) if self._l1_share < 1.0 else entries

    def _of_stack(self, touched: _Touched, moved: int) -> tuple[Integers, ...]:
        """The same of local memory: loops come back to the same words of the stack."""
        key = (id(touched), moved)
        if key not in self._stack:
            if len(self._stack) >= _STACK_WORDS:
                self._stack.clear()
            self._stack[key] = touched, self._of_l1(touched, moved)
        return self._stack[key][1]

    def _keep_for_l1(
        self, position: Integers, warp: Integers, line: Integers, words: Integers, group: int, flags: int
    ) -> None:
        trip, step = np.maximum(self._trip[position, warp], 0), self._step[position, warp]
        same = (np.full(len(line), value) for value in (group, flags))
        self._l1.append((position, warp, trip, step, line, words, *same))
        self._l1_entries += len(position)
        while self._l1_entries > _L1_ENTRIES:
            self._l1_share /= 2
            self._l1 = [_thinned(_joined(self._l1, 8), 4, self._l1_share)]
            self._l1_entries = len(self._l1[0][0])
            self._stack.clear()

    def _gather(self) -> None:
        """Put what recent accesses touch to the rest, each line once."""
        parts = list(self._l2)
        for (moved, _, *same), touched in self._recent.items():
            position, line, words = touched.l2
            parts.append((position, *(np.full(len(line), value) for value in same), line + moved, words))
        self._recent.clear()
        position, site, step, kind, line, words = _joined(parts, 6)
        self._l2 = [_merged((position, self._grouped(site), step, kind, line, words))]
        self._l2_entries = len(self._l2[0][0])

    def _keep_less_for_l2(self) -> None:
        """Half of the blocks are left out; where few are left, steps of time become longer, in which a line counts once."""
        while True:
            self._gather()
            if self._l2_entries <= _L2_ENTRIES // 2:
                return
            if len(self._streamed) > _LEAST_STREAMS:
                self._streamed = self._streamed[: max(len(self._streamed) // 2, _LEAST_STREAMS)]
                self._in_l2 = np.isin(self._blocks, self._streamed)
                kept = self._in_l2[self._l2[0][0]]
                self._l2 = [tuple(part[kept] for part in self._l2[0])]
            elif self._calls_of_step < self._calls:
                self._calls_of_step *= 2
                position, site, step, *others = self._l2[0]
                self._l2 = [(position, site, step // 2, *others)]
            else:
                return

    def _grouped(self, site: Integers) -> Integers:
        """The group of each instruction."""
        groups = np.zeros(max(self._groups, default=0) + 1, np.int64)
        groups[list(self._groups)] = list(self._groups.values())
        return groups[site]

    def traced(self) -> Traced:
        """What was kept."""
        self._gather()
        position, group, call, kind, line, words = self._l2[0]
        first, last = np.full(len(self._blocks), np.iinfo(np.int64).max), np.zeros(len(self._blocks), np.int64)
        np.minimum.at(first, position, call)
        np.maximum.at(last, position, call)
        calls_of_step = np.maximum(-(-(last - first + 1) // _STEPS), 1)
        step = (call - first[position]) // calls_of_step[position]
        # in a step reads come first, so what a block has just written is not read from memory
        asked = ~_read_after_written(np.full(len(step), True), (position, step, line), call, kind, words)
        position, group, step, kind, line, words = (
            column[asked] for column in (position, group, step, kind, line, words)
        )
        position, group, step, kind, line, words = _merged((position, group, step, kind, line, words))
        l1_position, warp, trip, l1_step, l1_line, l1_words, site, flags = _joined(self._l1, 8)
        return Traced(
            l1_share=self._l1_share,
            l1_blocks=self._blocks[self._in_l1],
            l1_block=self._blocks[l1_position],
            l1_warp=warp,
            l1_trip=trip,
            l1_step=l1_step,
            l1_line=l1_line,
            l1_words=l1_words,
            l1_group=self._grouped(site),
            l1_flags=flags,
            streamed=self._blocks[self._in_l2],
            block=self._blocks[position],
            group=group,
            step=step,
            kind=kind,
            line=line,
            words=words,
        )


def _kind(site: Site) -> Kind:
    if site.action in (Action.STORE, Action.BULK_WRITE, Action.SURFACE_WRITE):
        return Kind.WRITE
    if site.action is Action.REDUCTION:
        return Kind.REDUCE
    return Kind.READ_ONCE if site.instruction.evicts_first else Kind.READ


def lines_of_rows(plan: Plan, touched: TouchedLines) -> tuple[Integers, Integers, Integers, Integers]:
    """Row of the plan, warp, line and words of each entry, of all rows, from what the pattern rows touch."""
    row = plan.row_of_warp[touched.warp]
    warps = np.arange(len(plan.row_of_warp)) if plan.warp_active is None else np.flatnonzero(plan.warp_active)
    warp = (warps % (plan.threads // WARP_SIZE))[touched.warp]
    line, words = touched.line, touched.words
    if plan.pattern_rows == 1:
        rows = (
            np.arange(plan.rows)
            if plan.row_mask is None
            else np.flatnonzero(np.broadcast_to(plan.row_mask[:, 0], plan.rows))
        )
        number = len(line)
        row = np.repeat(rows, number)
        warp, line, words = (np.tile(part, len(rows)) for part in (warp, line, words))
    elif plan.row_mask is not None:
        kept = np.broadcast_to(plan.row_mask[:, 0], plan.rows)[row]
        row, warp, line, words = (part[kept] for part in (row, warp, line, words))
    return row, warp, line, words


def _joined(parts: list[tuple[Integers, ...]], columns: int) -> tuple[Integers, ...]:
    if not parts:
        return tuple(np.zeros(0, np.int64) for _ in range(columns))
    return tuple(np.concatenate(columns) for columns in zip(*parts, strict=True))


def _thinned(entries: tuple[Integers, ...], column: int, share: float) -> tuple[Integers, ...]:
    """The entries, with the line in a column, whose line's hash is below the threshold."""
    kept = hashes(entries[column]) < int(share * 2**HASH_BITS)
    return tuple(part[kept] for part in entries)


def _merged(entries: tuple[Integers, ...]) -> tuple[Integers, ...]:
    """The entries with the words of equal ones, in all columns but the last, joined; in no order."""
    *keys, words = entries
    if not len(words):
        return entries
    mixed = np.zeros(len(words), np.uint64)
    for key in keys:
        mixed = (mixed ^ mixed >> np.uint64(29)) * np.uint64(_MIX) + key.view(np.uint64) * np.uint64(_ODD)
    order = np.argsort(mixed, kind="stable")
    keys = [key[order] for key in keys]
    first = np.flatnonzero(np.append(True, np.logical_or.reduce([key[1:] != key[:-1] for key in keys])))
    return (*(key[first] for key in keys), np.bitwise_or.reduceat(words[order], first))
