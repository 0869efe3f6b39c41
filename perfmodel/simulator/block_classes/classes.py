"""Classes of blocks, and the conditions under which a block does what the executed block of its class does.

A run executes one block of each class. An integer that depends on the block is, for every other block of the class, the
executed block's value plus a *shift*: functions of the block, each times a coefficient that may differ between lanes. Where
the kernel decides something by such a value, the blocks for which the decision could be another leave the class; they keep a
key of how they would have decided, so that the next run can execute one of each kind. Whoever is still in the class at the
end of the run has gone the same way, with the same lanes, to the same addresses but for a known shift.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Set
from dataclasses import dataclass
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
Integers = NDArray[np.int64]
LIMIT = 2**62
"""Beyond every number that is reasoned about as an integer without bound; those lie within half of it."""
_SPREAD = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)
"""Odd multipliers that spread the place, the class and the kind of a decision over the bits of a key."""


_REMEMBERED = 256
"""Arrays of coefficients of which it is remembered whether all lanes of a block share them, or how far they shift."""
_REMEMBERED_LANES = 32
"""Steps of which it is remembered which lanes share them."""


class NotFollowedError(Exception):
    """What a block does depends on values that are not followed from block to block; the text says on which."""


class BlockFunction:
    """A number for each block, less that of the executed block of its class; shape ``(blocks,)``."""

    __slots__ = ("__weakref__", "_range", "differences")

    def __init__(self, differences: Integers) -> None:
        self.differences = differences
        self._range: tuple[int, int, int] = (-1, 0, 0)

    def range_over(self, classes: BlockClasses) -> tuple[int, int]:
        """Smallest and largest number over all blocks that are in a class."""
        if self._range[0] != classes.departures:
            members = classes.of_members(self.differences)
            self._range = (classes.departures, int(members.min(initial=0)), int(members.max(initial=0)))
        return self._range[1:]


Steps = dict[BlockFunction, Integers]
"""Coefficients of functions of the block, each of shape ``(1 | classes, 1 | threads)``; the shift is the sum of the products."""
RowSteps = tuple[tuple[BlockFunction, Integers], ...]
"""The same where all lanes of a block have one coefficient, each of shape ``(classes,)``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pattern:
    """Lanes of a class's executed block that have the same coefficients; between which numbers their shifts lie."""

    row: int
    lanes: Integers
    steps: tuple[tuple[BlockFunction, int], ...]
    least: int
    most: int


class Running(Protocol):
    """Which lanes run: the view of a batch that generated code works on."""

    active: Mask | None
    guard: Mask | None


class BlockClasses:
    """Blocks in classes, one class for each executed block.

    Args:
        blocks: linear indices of the blocks, shape ``(n,)``.
        group: number of each block's class, from 0, shape ``(n,)``.
        executed: place of each class's executed block among the blocks, shape ``(classes,)``.
        apart: whether it is unknown what other blocks do: then no value of a buffer may decide, and none may be stored.
    """

    def __init__(self, blocks: Integers, group: Integers, executed: Integers, *, apart: bool = False) -> None:
        self.blocks = blocks
        self.executed = executed
        self._apart = apart
        self.keys = np.zeros(len(blocks), np.uint64)
        """How each block that left its class would have decided."""
        self.departures = 0
        """How often blocks have left."""
        self.running: Running | None = None
        self.read: set[int] = set()
        """First addresses of the buffers from which values of the slice were loaded."""
        self.written: set[int] = set()
        """First addresses of the buffers that were stored to."""
        self._functions: WeakValueDictionary[int, BlockFunction] = WeakValueDictionary()
        self._of_rows: dict[tuple[int, int], tuple[Integers, Mask | None, Integers | None]] = {}
        self._extents: dict[Hashable, tuple[RowSteps, Integers, Integers]] = {}
        self._of_lanes: dict[tuple[int, ...], tuple[Steps, Mask | None, list[_Pattern]]] = {}
        self._group = group.copy()
        self._decisions = 0
        self._set_members()

    def note(self, *, read: Set[int] = frozenset(), written: Set[int] = frozenset()) -> None:
        """Note, by first address, buffers whose values decide what is done, and buffers that are stored to.

        Raises:
            NotFollowedError: one is both: what decides may be what another block has written. Or one is either, and it is
                unknown what other blocks do.
        """
        self.read |= read
        self.written |= written
        if self._apart and (self.read or self.written):
            raise NotFollowedError("a buffer that other blocks may write or read")
        if not self.read.isdisjoint(self.written):
            raise NotFollowedError("values from a buffer that the launch writes")

    def _set_members(self) -> None:
        self.members: Integers = np.flatnonzero(self._group >= 0)
        """Places of the blocks that are still in a class."""
        self.rows: Integers = self._group[self.members]
        """Class of each of them."""
        self.alone = len(self.members) == len(self.executed)
        """Whether every class has come down to its executed block."""

    @property
    def count(self) -> int:
        """Number of classes."""
        return len(self.executed)

    @property
    def left(self) -> NDArray[np.bool_]:
        """Which blocks have left their class, shape ``(n,)``."""
        gone: NDArray[np.bool_] = self._group < 0
        return gone

    def sizes(self) -> Integers:
        """Blocks of each class."""
        return np.bincount(self.rows, minlength=self.count)

    def of_members(self, values: NDArray[Any]) -> NDArray[Any]:
        """Values of the blocks that are in a class, from those of all blocks."""
        return values if len(self.members) == len(self.blocks) else values[self.members]

    def _known(self, of_members: Integers) -> BlockFunction:
        """The function with these differences at the members; the same one when asked again, so that it can cancel out."""
        key = hash(of_members.tobytes())
        found = self._functions.get(key)
        if found is None or not np.array_equal(self.of_members(found.differences), of_members):
            differences = np.zeros(len(self.blocks), np.int64)
            differences[self.members] = of_members
            found = self._functions[key] = BlockFunction(differences)
        return found

    def function(self, of_members: NDArray[Any]) -> tuple[NDArray[Any], BlockFunction]:
        """A function of the block from its values at the members: the executed blocks' values ``(classes,)``, and the rest."""
        everywhere = np.zeros(len(self.blocks), of_members.dtype)
        everywhere[self.members] = of_members
        own = everywhere[self.executed]
        return own, self._known(of_members.astype(np.int64) - own.astype(np.int64)[self.rows])

    # ---- shifts

    def mask(self, lanes: Mask | None = None) -> Mask | None:
        """Lanes for which a decision counts: those given, else all that run."""
        if lanes is not None or self.running is None:
            return lanes
        active, guard = self.running.active, self.running.guard
        if guard is None or not isinstance(guard, np.ndarray):
            return active
        return guard if active is None else active & guard

    def by_row(self, steps: Steps, mask: Mask | None) -> RowSteps | None:
        """Coefficients of whole blocks where all lanes of a mask have the same ones."""
        found = []
        for function, coefficients in steps.items():
            if coefficients.shape[1] == 1:
                found.append((function, np.broadcast_to(coefficients[:, 0], (self.count,))))
                continue
            key = (id(coefficients), id(mask))
            if key not in self._of_rows:
                if len(self._of_rows) >= _REMEMBERED:
                    self._of_rows.clear()
                self._of_rows[key] = (coefficients, mask, self._of_row(coefficients, mask))
            of_row = self._of_rows[key][2]
            if of_row is None:
                return None
            found.append((function, of_row))
        return tuple(found)

    def _of_row(self, coefficients: Integers, mask: Mask | None) -> Integers | None:
        """The coefficient of each row's lanes in a mask; None where they differ."""
        full = np.broadcast_to(coefficients, (self.count, coefficients.shape[1]))
        if mask is None:
            low, high = full.min(axis=1), full.max(axis=1)
        else:
            low = np.where(mask, full, LIMIT).min(axis=1)
            high = np.where(mask, full, -LIMIT).max(axis=1)
            nobody = low > high
            low, high = np.where(nobody, 0, low), np.where(nobody, 0, high)
        return None if (low != high).any() else low

    def of_rows(self, steps: Steps, guard: Mask | None = None) -> RowSteps:
        """Coefficients of whole blocks; blocks that differ in a function that not all lanes that run share leave."""
        mask = self.mask(guard)
        found = self.by_row(steps, mask)
        if found is None:
            shared = {f: c for f, c in steps.items() if self.by_row({f: c}, mask) is not None}
            for function, coefficients in steps.items():
                if function not in shared:
                    self.stay_equal({function: coefficients}, 0, guard)
            found = self.by_row(shared, mask) or ()
        return found

    def shift(self, steps: RowSteps) -> Integers:
        """The shift of each member, modulo 2**64."""
        total = np.zeros(len(self.members), np.int64)
        for function, coefficients in steps:
            first = int(coefficients[0])
            factor: Any = first if (coefficients == first).all() else coefficients[self.rows]
            total += factor * self.of_members(function.differences)
        return total

    def _reach_of_rows(self, steps: RowSteps) -> tuple[Integers, Integers]:
        """Numbers between which the shifts of each class lie."""
        low = high = np.zeros(self.count, np.int64)
        for function, coefficients in steps:
            ends = [coefficients * d for d in function.range_over(self)]
            low, high = low + np.minimum(*ends), high + np.maximum(*ends)
        return low, high

    def _extent(self, steps: RowSteps) -> tuple[Integers, Integers]:
        """Smallest and largest shift of each class; that of the executed block, 0, among them."""
        content = (c.tobytes() if c.strides[0] else int(c[0]) for _, c in steps)
        key = (self.departures, *(id(function) for function, _ in steps), *content)
        if key not in self._extents:
            if len(self._extents) >= _REMEMBERED:
                self._extents.clear()
            shift = self.shift(steps)
            low, high = np.zeros((2, self.count), np.int64)
            np.minimum.at(low, self.rows, shift)
            np.maximum.at(high, self.rows, shift)
            self._extents[key] = steps, low, high
        return self._extents[key][1:]

    def _bounds(self, steps: Steps) -> tuple[int, int]:
        """Numbers between which every shift lies, quickly."""
        low = high = 0
        for function, coefficients in steps.items():
            ends = [
                c * d for c in (int(coefficients.min()), int(coefficients.max())) for d in function.range_over(self)
            ]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def reach(self, steps: Steps) -> tuple[Integers, Integers] | None:
        """Smallest and largest shift of each lane over all classes, at least as far apart; None where they may be too large."""
        low = high = np.zeros((1, 1), np.int64)
        bound = 0.0
        for function, coefficients in steps.items():
            least, most = function.range_over(self)
            if least == most == 0:
                continue
            bound += float(np.abs(coefficients.astype(np.float64)).max()) * max(abs(least), abs(most))
            if bound >= LIMIT:
                return None
            ends = coefficients * least, coefficients * most
            low, high = low + np.minimum(*ends), high + np.maximum(*ends)
        return low, high

    def _patterns(self, steps: Steps, mask: Mask | None, threads: int) -> list[_Pattern]:
        """Lanes with the same coefficients, class by class."""
        key = (self.departures, threads, id(mask), *(id(part) for step in steps.items() for part in step))
        if key not in self._of_lanes:
            if len(self._of_lanes) >= _REMEMBERED_LANES:
                self._of_lanes.clear()
            self._of_lanes[key] = steps, mask, list(self._find_patterns(steps, mask, threads))
        return self._of_lanes[key][2]

    def _find_patterns(self, steps: Steps, mask: Mask | None, threads: int) -> Iterator[_Pattern]:
        functions = list(steps)
        table = np.stack([np.broadcast_to(steps[f], (self.count, threads)) for f in functions])
        lanes = np.ones((1, 1), np.bool_) if mask is None else mask
        lanes = np.broadcast_to(lanes, (self.count, threads))
        for row in np.flatnonzero(self.sizes() > 1).tolist():
            here = np.flatnonzero(lanes[row])
            for kind, own in _kinds(table[:, row, here]):
                of_lanes = tuple(zip(functions, kind, strict=True))
                _, shift = self._shift_of_class(row, of_lanes)
                least, most = int(shift.min()), int(shift.max())
                yield _Pattern(row=row, lanes=here[own], steps=of_lanes, least=least, most=most)

    def _shift_of_class(self, row: int, steps: tuple[tuple[BlockFunction, int], ...]) -> tuple[Integers, Integers]:
        """Places of the members of one class among all members, and the shift of each."""
        places = np.flatnonzero(self.rows == row)
        members = self.members[places]
        total = np.zeros(len(members), np.int64)
        for function, coefficient in steps:
            total += coefficient * function.differences[members]
        return places, total

    # ---- conditions

    def stay_within(self, values: Integers, steps: Steps, low: Any, high: Any, guard: Mask | None = None) -> None:
        """Keep the blocks whose shifted values lie between bounds, as the executed block's do, in every lane that runs."""
        if self.alone or not steps:
            return
        bounds = self._bounds(steps)
        if max(-bounds[0], bounds[1]) < LIMIT and (
            (values + bounds[0] >= low).all() and (values + bounds[1] <= high).all()
        ):
            return
        if max(-bounds[0], bounds[1]) >= LIMIT:
            self.stay_equal(steps, 0, guard)
            return
        mask = self.mask(guard)
        low_room, high_room = np.maximum(low - values, -LIMIT), np.minimum(high - values, LIMIT)
        steps_of_rows = self.by_row(steps, mask)
        if steps_of_rows is not None:
            least = _most_over_lanes(low_room, mask, self.count)
            most = -_most_over_lanes(-high_room, mask, self.count)
            reach = self._reach_of_rows(steps_of_rows)
            if (reach[0] >= least).all() and (reach[1] <= most).all():
                return
            extent = self._extent(steps_of_rows)
            if (extent[0] >= least).all() and (extent[1] <= most).all():
                self._decisions += 1
                return
            shift = self.shift(steps_of_rows)
            wrong = (shift < least[self.rows]) | (shift > most[self.rows])
            self._leave(wrong, lambda rows: _ranks(shift[wrong], rows, low_room, high_room, mask, self.count))
            return
        threads = max(values.shape[1], *(c.shape[1] for c in steps.values()))
        wide_low, wide_high = (np.broadcast_to(room, (self.count, threads)) for room in (low_room, high_room))
        for pattern in self._patterns(steps, mask, threads):
            least = wide_low[pattern.row, pattern.lanes].max()
            most = wide_high[pattern.row, pattern.lanes].min()
            if pattern.least >= least and pattern.most <= most:
                self._decisions += 1
                continue
            places, shift = self._shift_of_class(pattern.row, pattern.steps)
            gone = (shift < least) | (shift > most)
            self._leave_at(places[gone], shift[gone])

    def stay_equal(self, steps: Steps, modulus: int, guard: Mask | None = None, *, everywhere: bool = False) -> None:
        """Keep the blocks whose shift is a multiple of a power of two (0: 2**64), in every lane that runs, or everywhere."""
        if self.alone or not steps or all(function.range_over(self) == (0, 0) for function in steps):
            return
        mask = None if everywhere else self.mask(guard)
        steps_of_rows = self.by_row(steps, mask)
        bits = np.int64(modulus - 1)
        if steps_of_rows is not None:
            rest = self.shift(steps_of_rows) & bits
            self._leave(rest != 0, lambda rows: rest[rest != 0])
            return
        threads = max(c.shape[1] for c in steps.values())
        for pattern in self._patterns(steps, mask, threads):
            places, shift = self._shift_of_class(pattern.row, pattern.steps)
            rest = shift & bits
            self._leave_at(places[rest != 0], rest[rest != 0])

    def stay_alike(self, of_members: NDArray[Any]) -> NDArray[Any]:
        """Keep the blocks whose value is that of the executed block; gives the executed blocks' values ``(classes,)``."""
        everywhere = np.zeros(len(self.blocks), of_members.dtype)
        everywhere[self.members] = of_members
        own = everywhere[self.executed]
        words = {2: np.uint16, 4: np.uint32, 8: np.uint64}.get(of_members.dtype.itemsize, np.uint8)
        bits = of_members.view(words)
        wrong = bits != own.view(words)[self.rows]
        self._leave(wrong, lambda rows: bits[wrong])
        return own

    def quotients(self, values: Integers, steps: RowSteps, shift_bits: int) -> BlockFunction:
        """How far the integer quotient by a power of two moves; blocks of which it moves by less in some lanes leave."""
        modulus = 1 << shift_bits
        mask = self.mask()
        shift = self.shift(steps)
        rest = shift & (modulus - 1)
        low_bits = values & (modulus - 1)
        most = _most_over_lanes(low_bits, mask, self.count)[self.rows]
        least = -_most_over_lanes(-low_bits, mask, self.count)[self.rows]
        carries = least + rest >= modulus
        moved = (shift >> shift_bits) + carries
        wrong = ~carries & (most + rest >= modulus)
        room = modulus - 1 - low_bits
        self._leave(wrong, lambda rows: _ranks(rest[wrong], rows, -room - modulus, room, mask, self.count))
        return self._known(moved[~wrong])

    def _leave(self, wrong: NDArray[np.bool_], keys: Any) -> None:
        """Take members out of their classes; ``keys`` gives how each would have decided, from their classes."""
        self._decisions += 1
        if not wrong.any():
            return
        rows, places = self.rows[wrong], self.members[wrong]
        kind = np.asarray(keys(rows)).astype(np.int64).view(np.uint64)
        of_place, of_kind, of_row = (np.array(factor, np.uint64) for factor in _SPREAD)
        place = np.full(1, self._decisions, np.uint64) * of_place
        self.keys[places] = (kind + np.uint64(1)) * of_kind + rows.astype(np.uint64) * of_row + place
        self._group[places] = -1
        self.departures += 1
        self._set_members()

    def _leave_at(self, places: Integers, keys: Integers) -> None:
        """Take the members at some places out of their classes."""
        wrong = np.zeros(len(self.members), np.bool_)
        wrong[places] = True
        self._leave(wrong, lambda rows: keys)

    # ---- results

    def residues(self, steps: RowSteps, modulus: int) -> Integers:
        """Members of each class by their shift modulo a power of two, shape ``(classes, modulus)``."""
        place = self.rows * modulus + (self.shift(steps) & (modulus - 1))
        return np.bincount(place, minlength=self.count * modulus).reshape(self.count, modulus)


def _most_over_lanes(values: Integers, mask: Mask | None, rows: int) -> Integers:
    """Largest value of each row's lanes in a mask; far below everything where a row has none."""
    if mask is None:
        return np.broadcast_to(values.max(axis=1), (rows,))
    return np.broadcast_to(np.where(mask, values, -LIMIT).max(axis=1), (rows,))


def _kinds(columns: Integers) -> list[tuple[list[int], Integers]]:
    """The different columns in order, and the places of each.

    >>> [(kind, places.tolist()) for kind, places in _kinds(np.array([[2, 1, 2], [0, 5, 0]]))]
    [([1, 5], [1]), ([2, 0], [0, 2])]
    """
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    begins = 1 + np.flatnonzero((ordered[:, 1:] != ordered[:, :-1]).any(axis=0))
    return [(columns[:, places[0]].tolist(), places) for places in np.split(order, begins) if len(places)]


def _ranks(shift: Integers, rows: Integers, low_room: Any, high_room: Any, mask: Mask | None, count: int) -> Integers:
    """In how many lanes each shift goes beyond the room above, and below: what tells apart how a block would decide."""
    shape = np.broadcast_shapes(np.shape(low_room), np.shape(high_room), (1, 1) if mask is None else mask.shape)
    low, high = (np.broadcast_to(room, (count, shape[1])) for room in (low_room, high_room))
    lanes = np.broadcast_to(np.ones((1, 1), np.bool_) if mask is None else mask, (count, shape[1]))
    found = np.zeros(len(shift), np.int64)
    for row in np.unique(rows).tolist():
        own = rows == row
        above = np.searchsorted(np.sort(high[row, lanes[row]]), shift[own], side="left")
        below = np.searchsorted(np.sort(-low[row, lanes[row]]), -shift[own], side="left")
        found[own] = above - below
    return found
