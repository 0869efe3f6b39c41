"""Which region of the PTX each region of the machine code is: an alignment of two region trees.

The assembler keeps the order and nesting of loops and branches, but turns small branches into predicated
instructions (their region disappears into the enclosing one), adds guards of its own, and unrolls loops. The
alignment of least cost under these operations is found by dynamic programming over forests; instructions that both
languages share (memory accesses, fused multiply-adds, barriers) say how well two regions agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from .executed_likeness import distance, multiple, numbers
from .executed_regions import Region

Amounts = Callable[[NDArray[np.int64]], NDArray[np.int64]]

_INLINE_BRANCH = 0.01
_INLINE_LOOP = 0.5
_ADDED_GUARD = 0.15
_ADDED_CODE = 0.3
_ADDED_LOOP = 0.5
_ADDED_ACCESS = 20.0
"""The assembler adds code (slow paths of divisions), but no access to memory that PTX has not."""
_UNROLL = 0.05
_MAX_COPIES = 4
_MAX_SEARCH = 2500
"""Most pairs of siblings without equal ones that are searched; beyond, siblings are paired in order, which is not certain."""
_MAX_LIST = 1000
_ANCHORED_PAIRS = 1_000_000
"""Most pairs of siblings among which equal ones are looked for."""
_SEARCHED_PAIRS = 400
"""Pairs of siblings up to which every alignment is considered; a search costs the third power of the lists' length."""


@dataclass(frozen=True, slots=True)
class Match:
    """A machine-code region that stands for a PTX region; ``multiple`` iterations at once.

    0 is a region that PTX has not: ``ptx`` is then -1, or the loop whose copies the region guards.
    """

    machine: int
    ptx: int
    multiple: int = 1


@dataclass(frozen=True, slots=True)
class Alignment:
    """Matches of least cost; ``certain`` when no region was added, and no loop unrolled or dissolved."""

    matches: tuple[Match, ...]
    cost: float
    certain: bool


@dataclass(slots=True)
class _Aligner:
    machine: Sequence[Region]
    ptx: Sequence[Region]
    accesses: Callable[[NDArray[np.int64]], bool]
    machine_features: list[tuple[int, ...]] = field(default_factory=list)
    ptx_features: list[tuple[int, ...]] = field(default_factory=list)
    machine_amounts: list[tuple[int, ...]] = field(default_factory=list)
    ptx_amounts: list[tuple[int, ...]] = field(default_factory=list)
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], Alignment] = field(default_factory=dict)

    def forests(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """Best alignment of two ordered lists of sibling regions."""
        key = (machine, ptx)
        if key not in self.known:
            self.known[key] = self._direct(machine, ptx) or self._search(machine, ptx)
        return self.known[key]

    def _direct(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment | None:
        return self._same(machine, ptx) or self._between_anchors(machine, ptx)

    def _between_anchors(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment | None:
        """Long lists (unrolled loops) are cut at regions that agree in kind and features, and searched in between."""
        if not _SEARCHED_PAIRS < len(machine) * len(ptx) <= _ANCHORED_PAIRS:
            return None
        kinds: list[list[tuple[object, object]]] = [
            [(regions[i].is_loop, features[i]) if any(features[i]) else (side, i) for i in listed]
            for side, regions, features, listed in (
                ("machine", self.machine, self.machine_features, machine),
                ("ptx", self.ptx, self.ptx_features, ptx),
            )
        ]
        anchors = SequenceMatcher(None, kinds[0], kinds[1], autojunk=False).get_matching_blocks()
        if len(anchors) == 1:
            return None
        parts: list[Alignment] = []
        m = p = 0
        for anchor in anchors:
            parts.append(self.forests(machine[m : anchor.a], ptx[p : anchor.b]))
            parts.extend(self._pair(machine[anchor.a + k], ptx[anchor.b + k]) for k in range(anchor.size))
            m, p = anchor.a + anchor.size, anchor.b + anchor.size
        return _join(parts)

    def _same(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment | None:
        """Pairwise alignment where both lists agree one by one, which saves the search."""
        if len(machine) != len(ptx) or not machine:
            return None
        pairs = list(zip(machine, ptx, strict=True))
        if any(
            self.machine[m].is_loop != self.ptx[p].is_loop or self.machine_features[m] != self.ptx_features[p]
            for m, p in pairs
        ):
            return None
        return _join([self._pair(m, p) for m, p in pairs])

    def _pair(self, m: int, p: int) -> Alignment:
        inner = self.forests(self.machine[m].children, self.ptx[p].children)
        own = distance(numbers(self.machine[m].features), numbers(self.ptx[p].features))
        least = min(own, distance(self.machine_features[m], self.ptx_features[p]))
        return Alignment((Match(m, p), *inner.matches), inner.cost + least, inner.certain)

    def _search(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """Least cost of all operations on the first regions; lists with the first PTX region dissolved are done before.

        Going from the shortest of them on, long lists need no deep recursion.
        """
        if len(machine) * len(ptx) > _MAX_SEARCH or len(ptx) > _MAX_LIST:
            return self._in_order(machine, ptx)
        pending: list[tuple[int, ...]] = []
        forest = ptx
        while (machine, forest) not in self.known:
            direct = self._direct(machine, forest) if pending else None
            if direct is not None:
                self.known[machine, forest] = direct
                break
            pending.append(forest)
            if not forest:
                break
            forest = self.ptx[forest[0]].children + forest[1:]
        for forest in reversed(pending):
            self.known[machine, forest] = self._least(machine, forest)
        return self.known[machine, ptx]

    def _in_order(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """Siblings paired in order as far as both lists go."""
        pairs = [self._pair(m, p) for m, p in zip(machine, ptx, strict=False)]
        return Alignment(_join(pairs).matches, float(abs(len(machine) - len(ptx))), False)

    def _least(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        if not machine:
            loops = sum(self._loops(p) for p in ptx)
            return Alignment((), _INLINE_BRANCH * len(ptx) + _INLINE_LOOP * loops, loops == 0)
        options = [self._added(machine, ptx), self._guard(machine, ptx)]
        if ptx:
            options.append(self._inlined(machine, ptx))
            if self.machine[machine[0]].is_loop == self.ptx[ptx[0]].is_loop:
                options.append(_join([self._pair(machine[0], ptx[0]), self.forests(machine[1:], ptx[1:])]))
            if self.ptx[ptx[0]].is_loop:
                options.extend(self._unrolled(machine, ptx))
        return min(options, key=lambda option: option.cost)

    def _loops(self, p: int) -> int:
        """PTX loops in a region, itself among them."""
        return int(self.ptx[p].is_loop) + sum(self._loops(child) for child in self.ptx[p].children)

    def _inlined(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """The first PTX region has no region of its own in the machine code."""
        first = self.ptx[ptx[0]]
        rest = self.forests(machine, first.children + ptx[1:])
        extra = _INLINE_LOOP if first.is_loop else _INLINE_BRANCH
        return Alignment(rest.matches, rest.cost + extra, rest.certain and not first.is_loop)

    def _guard(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """The first machine-code region is a guard that PTX has not, around regions that it has."""
        first = machine[0]
        children = self.machine[first].children
        if not children:
            return Alignment((), float("inf"), False)
        rest = self.forests(children + machine[1:], ptx)
        cost = _ADDED_GUARD + _ADDED_LOOP * self.machine[first].is_loop
        return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + cost, False)

    def _added(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """The first machine-code region and all inside of it have no counterpart."""
        first = machine[0]
        rest = self.forests(machine[1:], ptx)
        if self._only_goes_back(first):
            return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + _INLINE_BRANCH, rest.certain)
        cost = _ADDED_CODE + distance(self.machine_features[first], (0,) * len(self.machine_features[first]))
        cost += _ADDED_ACCESS * self.accesses(self.machine[first].subtree)
        return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + cost, False)

    def _only_goes_back(self, index: int) -> bool:
        """Whether a region is nothing but a loop's branch back to its header."""
        parent = self.machine[index].parent
        latch = None if parent is None else self.machine[parent].latch
        return latch == index and not any(self.machine_features[index])

    def _unrolled(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> list[Alignment]:
        """The first PTX loop stands as several copies, of decreasing numbers of iterations at once.

        The assembler puts guards around them: first a loop of many iterations at once, then code of half as many, then a
        quarter, or a loop over the rest.
        """
        body = ptx[0]
        found: list[Alignment] = []
        inside: list[Alignment] = []
        multiples: list[int] = []
        for count, first in enumerate(machine[:_MAX_COPIES], start=1):
            guards, copies = self._behind_guards(first)
            inside += [Alignment((Match(guard, body, 0),), 0.0, False) for guard in guards]
            for m in copies:
                times = multiple(self.machine_amounts[m], self.ptx_amounts[body])
                if not times or (multiples and times >= multiples[-1]):
                    return found
                multiples.append(times)
                inside.append(self._copy(m, body, times))
            if len(multiples) > 1 or multiples[0] > 1:
                rest = self.forests(machine[count:], ptx[1:])
                cost = _UNROLL * len(multiples) + sum(part.cost for part in inside)
                matches = (match for part in (*inside, rest) for match in part.matches)
                found.append(Alignment(tuple(matches), rest.cost + cost, False))
        return found

    def _behind_guards(self, index: int) -> tuple[list[int], list[int]]:
        """Guards that a region consists of, and the regions with work that they guard, both in order."""
        region = self.machine[index]
        if region.is_loop or not region.children or region.features.any():
            return [], [index]
        parts = [self._behind_guards(child) for child in region.children]
        return [index, *(guard for guards, _ in parts for guard in guards)], [m for _, copies in parts for m in copies]

    def _copy(self, m: int, body: int, multiple: int) -> Alignment:
        """A copy of so many iterations, with what each of them has inside."""
        children = self.machine[m].children
        inner = self.ptx[body].children * multiple
        if not children or not inner or len(children) * len(inner) > _MAX_SEARCH:
            return Alignment((Match(m, body, multiple),), 0.0, False)
        within = self.forests(children, inner)
        return Alignment((Match(m, body, multiple), *within.matches), within.cost, False)


def _join(parts: Sequence[Alignment]) -> Alignment:
    return Alignment(
        tuple(match for part in parts for match in part.matches),
        sum(part.cost for part in parts),
        all(part.certain for part in parts),
    )


def align(
    machine: Sequence[Region],
    ptx: Sequence[Region],
    amounts: Amounts = lambda features: features,
    accesses: Callable[[NDArray[np.int64]], bool] = lambda features: False,
) -> Alignment:
    """Best alignment of two region trees whose roots stand for one another.

    ``amounts``: the work that a region's features are, by which copies of a loop are told; the features themselves if none.
    ``accesses``: whether memory is among them.

    >>> import numpy as np
    >>> none = np.zeros(1, np.int64)
    >>> leaf = Region(blocks=(0,), parent=None, is_loop=False, latch=None, tests_at_end=False, children=(),
    ...               features=none, subtree=none)
    >>> align([leaf], [leaf]).matches
    (Match(machine=0, ptx=0, multiple=1),)
    """
    aligner = _Aligner(
        machine,
        ptx,
        accesses,
        [numbers(region.subtree) for region in machine],
        [numbers(region.subtree) for region in ptx],
        [numbers(amounts(region.subtree)) for region in machine],
        [numbers(amounts(region.subtree)) for region in ptx],
    )
    return aligner._pair(0, 0)
