"""Which region of the PTX each region of the machine code is: an alignment of two region trees.

The assembler keeps the order and nesting of loops and branches, but turns small branches into predicated
instructions (their region disappears into the enclosing one), adds guards of its own, and unrolls loops. The
alignment of least cost under these operations is found by dynamic programming over forests; instructions that both
languages share (memory accesses, fused multiply-adds, barriers) say how well two regions agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher

from .executed_regions import Region

_INLINE_BRANCH = 0.01
_INLINE_LOOP = 0.5
_ADDED_GUARD = 0.15
_ADDED_CODE = 0.3
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
    """A machine-code region that stands for a PTX region; ``multiple`` iterations at once (0: a region that PTX has not)."""

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
    machine_features: list[tuple[int, ...]] = field(default_factory=list)
    ptx_features: list[tuple[int, ...]] = field(default_factory=list)
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
        distance = _distance(self.machine_features[m], self.ptx_features[p])
        return Alignment((Match(m, p), *inner.matches), inner.cost + distance, inner.certain)

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
            loops = sum(self.ptx[p].is_loop for p in ptx)
            return Alignment((), _INLINE_BRANCH * len(ptx) + _INLINE_LOOP * loops, loops == 0)
        options = [self._added(machine, ptx), self._guard(machine, ptx)]
        if ptx:
            options.append(self._inlined(machine, ptx))
            if self.machine[machine[0]].is_loop == self.ptx[ptx[0]].is_loop:
                options.append(_join([self._pair(machine[0], ptx[0]), self.forests(machine[1:], ptx[1:])]))
            if self.ptx[ptx[0]].is_loop:
                options.extend(self._unrolled(machine, ptx))
        return min(options, key=lambda option: option.cost)

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
        return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + _ADDED_GUARD, False)

    def _added(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> Alignment:
        """The first machine-code region and all inside of it have no counterpart."""
        first = machine[0]
        rest = self.forests(machine[1:], ptx)
        if self._only_goes_back(first):
            return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + _INLINE_BRANCH, rest.certain)
        cost = _ADDED_CODE + _distance(self.machine_features[first], (0,) * len(self.machine_features[first]))
        return Alignment((Match(first, -1, 0), *rest.matches), rest.cost + cost, False)

    def _only_goes_back(self, index: int) -> bool:
        """Whether a region is nothing but a loop's branch back to its header."""
        parent = self.machine[index].parent
        latch = None if parent is None else self.machine[parent].latch
        return latch == index and not any(self.machine_features[index])

    def _unrolled(self, machine: tuple[int, ...], ptx: tuple[int, ...]) -> list[Alignment]:
        """The first PTX loop stands as several copies, of decreasing numbers of iterations at once."""
        body = self.ptx_features[ptx[0]]
        found: list[Alignment] = []
        multiples: list[int] = []
        for count, m in enumerate(machine[:_MAX_COPIES], start=1):
            multiple = _multiple(self.machine_features[m], body)
            if not multiple or (multiples and multiple >= multiples[-1]):
                break
            multiples.append(multiple)
            copies = [Match(copy, ptx[0], k) for copy, k in zip(machine[:count], multiples, strict=True)]
            rest = self.forests(machine[count:], ptx[1:])
            if count > 1 or multiple > 1:
                found.append(Alignment((*copies, *rest.matches), rest.cost + _UNROLL * count, False))
        return found


def _distance(machine: tuple[int, ...], ptx: tuple[int, ...]) -> float:
    different = sum(abs(a - b) for a, b in zip(machine, ptx, strict=True))
    return different / (1.0 + sum(max(a, b) for a, b in zip(machine, ptx, strict=True)))


def _multiple(machine: tuple[int, ...], body: tuple[int, ...]) -> int:
    """How many copies of a loop's body a region holds, 0 where it is no whole number of them."""
    ratios = {a // b if b and a % b == 0 else 0 if a or b else None for a, b in zip(machine, body, strict=True)}
    ratios.discard(None)
    return ratios.pop() or 0 if len(ratios) == 1 else 0


def _join(parts: Sequence[Alignment]) -> Alignment:
    return Alignment(
        tuple(match for part in parts for match in part.matches),
        sum(part.cost for part in parts),
        all(part.certain for part in parts),
    )


def align(machine: Sequence[Region], ptx: Sequence[Region]) -> Alignment:
    """Best alignment of two region trees whose roots stand for one another.

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
        [tuple(int(v) for v in region.subtree) for region in machine],
        [tuple(int(v) for v in region.subtree) for region in ptx],
    )
    return aligner._pair(0, 0)
