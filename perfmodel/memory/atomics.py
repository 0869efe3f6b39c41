"""What atomics on global memory ask of L2, and where they queue: operations on sectors, on one slice, on one word.

L2 works on one lane of each word at a time: a request whose lanes share words costs, in each sector, as many operations as
the most lanes on one word. The operations on a slice follow one another, and so do those of integers on a word and of
floating-point numbers on a sector (validation/data/h200-additions.json.gz). Measured on an H200 by
micro-benchmark ``atomic_global``: the counters ``lts__t_sectors_srcunit_tex_op_red`` and ``…_atom`` are these operations. How
addresses lie in slices is known of pairs of sectors that all SMs change (validation/data/h100-atomics.json).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..gpus.gpu import Gpu
from ..ir.instruction import ExecutedInstruction, Space
from ..simulator.access import Action, WarpAccess
from ..simulator.global_memory import Segment

_MIX = ((30, np.uint64(0xBF58476D1CE4E5B9)), (27, np.uint64(0x94D049BB133111EB)))
"""Of the finalizer of SplitMix64 (Steele et al. 2014), which spreads addresses over the slices as if drawn; which slice has
which address is not published."""
_FLOATING = frozenset({"f16", "f16x2", "bf16", "bf16x2", "bf16_v2", "f32", "f64"})
_EXCHANGES = frozenset({"cas", "cast", "exch"})
_ENTRIES = 1_000_000
"""Entries that wait until those of one block and place are added up."""

Integers = NDArray[np.int64]
Addresses = NDArray[np.uint64]
Mask = NDArray[np.bool_]


def sector_operations(addresses: Addresses, active: Mask) -> Integers:
    """Operations of each row of 32 lanes: over its sectors, the most lanes on one word of each.

    >>> lanes, everyone = np.arange(32, dtype=np.uint64)[None], np.ones((1, 32), bool)
    >>> [int(sector_operations(address, everyone)[0]) for address in (lanes * 4, lanes % 8 * 4, lanes * 0)]
    [4, 4, 32]
    """
    row, _, most = _operations(addresses, active)
    return np.bincount(row, weights=most, minlength=len(addresses)).astype(np.int64)


def _operations(addresses: Addresses, active: Mask) -> tuple[Integers, Addresses, Integers]:
    """Row, sector and operations of each sector that a row of lanes asks for."""
    return _joined(*_lanes_of_words(addresses, active), np.maximum)


def _lanes_of_words(addresses: Addresses, active: Mask) -> tuple[Integers, Addresses, Integers]:
    """Row, sector and lanes of each word that a row of lanes asks for, words of a sector one after the other."""
    row, column = np.nonzero(active)
    row, address, lanes = _added_up(row, addresses[row, column], np.ones(len(row), np.int64))
    return row, address // np.uint64(SECTOR_BYTES), lanes


def _added_up(owner: Integers, place: Addresses, amount: Integers) -> tuple[Integers, Addresses, Integers]:
    """Distinct pairs of owner and place in order, with the sums of their amounts."""
    order = np.lexsort((place, owner))
    return _joined(owner[order], place[order], amount[order], np.add)


def _joined(
    owner: Integers, place: Addresses, amount: Integers, join: np.ufunc
) -> tuple[Integers, Addresses, Integers]:
    """Distinct pairs of sorted ones, their amounts joined."""
    new = np.ones(len(owner), np.bool_)
    new[1:] = (owner[1:] != owner[:-1]) | (place[1:] != place[:-1])
    first = np.flatnonzero(new)
    return owner[first], place[first], join.reduceat(amount, first) if len(first) else amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Slices:
    """How addresses lie in the slices of L2: two slices take the stretches of a range of bytes in turns.

    Attributes:
        count: Slices.
        stretch_bytes: Neighbours that lie in one slice.
        range_bytes: Bytes that two slices share.
        part_of_sector: What an operation on a part of a sector takes, relative to one that changes all of it.
    """

    count: int
    stretch_bytes: int
    range_bytes: int
    part_of_sector: float

    @classmethod
    def of(cls, gpu: Gpu) -> Slices:
        """Those of a GPU."""
        return cls(
            count=gpu.l2_slices,
            stretch_bytes=gpu.l2_slice_bytes,
            range_bytes=gpu.l2_slice_pair_bytes,
            part_of_sector=gpu.l2_partial_sector_atomics,
        )

    def halves(self, addresses: Addresses) -> Addresses:
        """Number of the half of a range that each address lies in: all of a half is in one slice.

        >>> slices = Slices(count=94, stretch_bytes=256, range_bytes=1024, part_of_sector=1.2)
        >>> slices.halves(np.array([0, 256, 512, 1024], np.uint64)).tolist()
        [0, 1, 0, 2]
        """
        turn = addresses // np.uint64(self.stretch_bytes) % np.uint64(2)
        return addresses // np.uint64(self.range_bytes) * np.uint64(2) + turn

    def of_halves(self, halves: Addresses) -> Addresses:
        """The slice of each half."""
        mixed = halves // np.uint64(2)
        for shift, factor in _MIX:
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * factor
        pair = (mixed ^ (mixed >> np.uint64(31))) % np.uint64(max(self.count // 2, 1))
        return (pair * np.uint64(2) + halves % np.uint64(2)) % np.uint64(self.count)

    def reached(self, halves: Addresses, segments: Sequence[Segment]) -> int:
        """Slices that hold the buffers in which these halves lie; all where one is not known.

        >>> slices = Slices(count=94, stretch_bytes=256, range_bytes=1024, part_of_sector=1.2)
        >>> slices.reached(np.zeros(1, np.uint64), [Segment("x", 0, 300)])
        2
        """
        held, known = np.zeros(0, np.uint64), 0
        for segment in segments:
            if segment.size_bytes > self.count * self.range_bytes:
                continue
            end = segment.start + segment.size_bytes
            begins = np.arange(segment.start, end, self.stretch_bytes)
            own = np.unique(self.halves(np.append(begins, end - 1).astype(np.uint64)))
            inside = np.isin(halves, own)
            if inside.any():
                known += int(np.count_nonzero(inside & ~np.isin(halves, held)))
                held = np.union1d(held, own)
        return len(np.unique(self.of_halves(held))) if known == len(halves) else self.count


def is_floating(instruction: ExecutedInstruction) -> bool:
    """Whether an atomic adds or compares floating-point numbers, which L2 takes longer for than for integers."""
    parts = frozenset(instruction.opcode.lower().split("."))
    return bool(parts & _FLOATING) and not parts & _EXCHANGES


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """Operations of a launch on its busiest slice of L2 and sector of floating-point numbers, and lanes on its busiest integer.

    An operation on a part of a sector counts as what it takes relative to one that changes all of it (`Slices.part_of_sector`).
    Lanes of a request that change different words of a sector are one operation. Those of floating-point numbers on a sector
    follow one another, to whichever of its words they go.
    """

    busiest_slice: float = 0.0
    busiest_word: float = 0.0
    busiest_float: float = 0.0


class _Tally:
    """How much each executed block asks of each place."""

    def __init__(self) -> None:
        self._parts: list[tuple[Integers, Addresses, Integers]] = []
        self._waiting = 0

    def add(self, block: Integers, place: Addresses, amount: Integers) -> None:
        """Add amounts."""
        self._parts.append((block, place, amount))
        self._waiting += len(block)
        if self._waiting > _ENTRIES:
            self._parts, self._waiting = [self._all()], 0

    def _all(self) -> tuple[Integers, Addresses, Integers]:
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0, np.uint64), np.zeros(0, np.int64)
        block, place, amount = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return _added_up(block, place, amount)

    def table(self) -> Integers:
        """Block, place and amount of all, shape ``(3, n)``."""
        block, place, amount = self._all()
        return np.stack([block, place.astype(np.int64), amount])


def _busiest(table: Iterable[Any], executed: int, launch_blocks: int) -> float:
    """What a launch asks of its busiest place, ``executed`` of whose blocks were executed.

    Where all blocks go to the same places the most grows as their number, where each has its own it does not: as a power of
    the number in between, that by which it grows from the first half of the executed blocks to all. It is no less than the mean
    of the places, whose number is extended in the same way. The table has distinct pairs of block and place in order, and the
    amount of each.

    >>> apart, shared = [[0, 1], [7, 8], [5, 5]], [[0, 1], [7, 7], [5, 5]]
    >>> [round(_busiest(np.array(table), executed=2, launch_blocks=20)) for table in (apart, shared)]
    [5, 100]
    """
    block, place, amount = table
    if not len(block):
        return 0.0
    places, at = np.unique(place, return_inverse=True)
    _, turn = np.unique(block, return_inverse=True)
    blocks = int(turn[-1]) + 1
    half = turn < blocks - blocks // 2
    sums, of_half = np.bincount(at, weights=amount), np.bincount(at[half], weights=amount[half])
    scale = max(launch_blocks / executed, 1.0)

    def extended(whole: float, part: float) -> float:
        growth = np.log(whole / part) / np.log(blocks / (blocks - blocks // 2)) if blocks > 1 else 1.0
        return float(whole * scale ** min(growth, 1.0))

    mean = scale * float(sums.sum()) / extended(len(places), int(np.count_nonzero(of_half)))
    return max(extended(sums.max(), of_half.max()), mean)


@dataclass(frozen=True, slots=True, kw_only=True)
class AtomicsOfBlocks:
    """Where the atomics of executed blocks go: block, place and amount, each of shape ``(3, n)``.

    Attributes:
        operations: By what lies in one slice (`Slices.halves`).
        parts: Those of them that change a part of a sector.
        integers: Lanes by word.
        floats: Operations by sector of floating-point atomics.
    """

    operations: Integers
    parts: Integers
    integers: Integers
    floats: Integers

    def contention(
        self, executed: int, launch_blocks: int, slices: Slices, segments: Sequence[Segment] = ()
    ) -> Contention:
        """Of a launch, ``executed`` of whose blocks were executed; the ``segments`` bound how many slices take part."""
        further = slices.part_of_sector - 1.0
        block, place = np.concatenate([self.operations[:2], self.parts[:2]], axis=1)
        amount = np.concatenate([self.operations[2], further * self.parts[2]])
        halves = place.astype(np.uint64)
        on_slices = _added_up(block, slices.of_halves(halves), amount)
        even = float(amount.sum()) * launch_blocks / executed / max(slices.reached(np.unique(halves), segments), 1)
        return Contention(
            busiest_slice=max(_busiest(on_slices, executed, launch_blocks), even),
            busiest_word=_busiest(self.integers, executed, launch_blocks),
            busiest_float=_busiest(self.floats, executed, launch_blocks),
        )


class AtomicObserver:
    """Keeps where the atomics of executed blocks go, in an L2 of such slices.

    >>> from perfmodel.ir.instruction import Instruction
    >>> from perfmodel.simulator.access import Site
    >>> from perfmodel.simulator.plan import Plan
    >>> add = Instruction("red.global.add.u32", ("[%rd1]", "1"), None, False, 1, None)
    >>> site = Site(0, 0, add, Action.REDUCTION, Space.GLOBAL, 4)
    >>> one_word = Plan(np.zeros((2, 64), np.uint64), None, rows=2, threads=64)
    >>> slices = Slices(count=94, stretch_bytes=256, range_bytes=1024, part_of_sector=1.2)
    >>> observer = AtomicObserver(slices)
    >>> observer.access(WarpAccess(site, one_word, 0, np.array([3, 8]), np.array([0, 1])))
    >>> observer.found().contention(executed=2, launch_blocks=10, slices=slices)
    Contention(busiest_slice=768.0, busiest_word=640.0, busiest_float=0.0)
    """

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._on_halves, self._on_parts = _Tally(), _Tally()
        self._on_words, self._on_sectors = _Tally(), _Tally()

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        if access.site.action is not Action.REDUCTION or access.site.space is not Space.GLOBAL:
            return
        warps = access.of_warps
        row, sector, lanes = _lanes_of_words(warps.addresses, warps.active)
        _, _, distinct = _joined(row, sector, np.ones(len(row), np.int64), np.add)
        row, sector, most = _joined(row, sector, lanes, np.maximum)
        halves, part = (
            self._slices.halves(sector * np.uint64(SECTOR_BYTES)),
            distinct * access.site.width_bytes < SECTOR_BYTES,
        )
        self._on_halves.add(warps.block[row], halves, most)
        self._on_parts.add(warps.block[row][part], halves[part], most[part])
        if is_floating(access.site.instruction):
            self._on_sectors.add(warps.block[row], sector, most)
            return
        row, lane = np.nonzero(warps.active)
        self._on_words.add(*_added_up(warps.block[row], warps.addresses[row, lane], np.ones(len(row), np.int64)))

    def found(self) -> AtomicsOfBlocks:
        """Where they went."""
        return AtomicsOfBlocks(
            operations=self._on_halves.table(),
            parts=self._on_parts.table(),
            integers=self._on_words.table(),
            floats=self._on_sectors.table(),
        )
