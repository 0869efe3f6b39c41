"""Exchange plans: which taps of a row a lane loads, and from which lanes it gets the others.

A lane needs the elements t … t + F − 1 of a row, t its number. In one exchange with the lane whose number differs in bit
``mask``, a lane with that bit clear publishes its tap ``tap + mask`` and one with it set ``tap − mask``; both then hold
``tap``. So a tap comes for one shuffle from two others that lie ``2 · mask`` apart, and two loads that lie a power of two
apart give everything between them. Few loads are then a shortest path over the taps from 0 to F − 1 whose steps are 1 or
such a power; the exchanges are the dependency graph of the taps, cut down to what is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ...definitions import WARP_SIZE

_MASKS = (16, 8, 4, 2, 1)
_FARTHEST_LOAD = WARP_SIZE


@dataclass(frozen=True, slots=True)
class ExchangeStep:
    """One shuffle: ``tap`` from the taps ``tap − mask`` and ``tap + mask`` of the lanes that differ in ``mask``."""

    tap: int
    mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangePlan:
    """Loads at ``load_offsets`` and then ``steps`` in order give a lane the taps 0 … ``filter_width`` − 1."""

    filter_width: int
    load_offsets: tuple[int, ...]
    steps: tuple[ExchangeStep, ...]

    @property
    def loads(self) -> int:
        """Loads of a lane for one row."""
        return len(self.load_offsets)

    @property
    def shuffles(self) -> int:
        """Shuffles of a warp for one row."""
        return len(self.steps)

    @property
    def over_reads(self) -> bool:
        """Whether a load lies beyond the last tap that is needed."""
        return self.load_offsets[-1] > self.filter_width - 1

    @property
    def tap_count(self) -> int:
        """Taps that a lane names, needed or over-read."""
        return max(self.load_offsets[-1] + 1, self.filter_width)

    @property
    def pipe_slots(self) -> int:
        """Slots of the load/store pipe for one row of a warp whose first element opens a line.

        A shuffle takes one, a load one for each 128-byte line that it touches: two unless its offset is a multiple of 32.
        """
        return self.shuffles + sum(1 if offset % WARP_SIZE == 0 else 2 for offset in self.load_offsets)


def _reach_graph() -> nx.DiGraph[int]:
    """Taps as nodes; an edge joins two loads between which exchanges give every tap."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(_FARTHEST_LOAD + 1))
    spans = [*(2 * mask for mask in _MASKS), 1]
    graph.add_edges_from((tap, tap + span) for span in spans for tap in range(_FARTHEST_LOAD + 1 - span))
    return graph


def _between(low: int, high: int) -> Iterator[tuple[int, int]]:
    """Taps between two loads with the mask that each is exchanged by, halving the gap."""
    mask = (high - low) // 2
    if mask:
        yield low + mask, mask
        yield from _between(low, low + mask)
        yield from _between(low + mask, high)


def _plan(filter_width: int, load_offsets: tuple[int, ...]) -> ExchangePlan:
    """The plan with these loads and no exchange that is not needed."""
    dependencies: nx.DiGraph[int] = nx.DiGraph()
    dependencies.add_nodes_from(load_offsets)
    masks: dict[int, int] = {}
    for low, high in zip(load_offsets[:-1], load_offsets[1:], strict=True):
        for tap, mask in _between(low, high):
            masks[tap] = mask
            dependencies.add_edges_from(((tap - mask, tap), (tap + mask, tap)))
    wanted = set(range(filter_width))
    needed = wanted.union(*(nx.ancestors(dependencies, tap) for tap in wanted))
    ordered = nx.lexicographical_topological_sort(dependencies, key=lambda tap: (-masks.get(tap, WARP_SIZE), tap))
    steps = tuple(ExchangeStep(tap, masks[tap]) for tap in ordered if tap in masks and tap in needed)
    return ExchangePlan(
        filter_width=filter_width, load_offsets=tuple(o for o in load_offsets if o in needed), steps=steps
    )


def _fewest_loads(filter_width: int, last_loads: range) -> ExchangePlan:
    """Fewest loads, then fewest shuffles, then the widest gaps first, among plans whose last load is in the range."""
    graph = _reach_graph()
    distances = nx.single_source_shortest_path_length(graph, 0)
    fewest = min(distances[last] for last in last_loads)
    paths = (
        tuple(path)
        for last in last_loads
        if distances[last] == fewest
        for path in nx.all_shortest_paths(graph, 0, last)
    )
    plans = (_plan(filter_width, path) for path in paths)
    return min(plans, key=lambda plan: (plan.loads, plan.shuffles, [-offset for offset in plan.load_offsets]))


def all_loaded(filter_width: int) -> ExchangePlan:
    """The plan without any exchange.

    >>> all_loaded(3).load_offsets
    (0, 1, 2)
    """
    return ExchangePlan(filter_width=filter_width, load_offsets=tuple(range(filter_width)), steps=())


@cache
def in_range_plan(filter_width: int) -> ExchangePlan:
    """Fewest loads where none lies beyond the last tap; loads and shuffles then sum to the width of the filter.

    >>> in_range_plan(5)
    ExchangePlan(filter_width=5, load_offsets=(0, 4), steps=(ExchangeStep(tap=2, mask=2), ExchangeStep(tap=1, mask=1), \
ExchangeStep(tap=3, mask=1)))
    """
    return _fewest_loads(filter_width, range(filter_width - 1, filter_width))


@cache
def over_reading_plan(filter_width: int) -> ExchangePlan:
    """Fewest loads, wherever the last one lies.

    >>> plan = over_reading_plan(11)
    >>> plan.load_offsets, plan.shuffles
    ((0, 16), 11)
    """
    return _fewest_loads(filter_width, range(filter_width - 1, _FARTHEST_LOAD + 1))


@cache
def executed_plan(filter_width: int) -> ExchangePlan:
    """The plan that the kernel executes: over-reading only where that takes fewer slots of the load/store pipe.

    >>> executed_plan(11).load_offsets, executed_plan(15).load_offsets
    ((0, 8, 10), (0, 16))
    """
    return min(in_range_plan(filter_width), over_reading_plan(filter_width), key=lambda plan: plan.pipe_slots)


def element_held(plan: ExchangePlan) -> NDArray[np.int64]:
    """Which element of the row each lane of a warp holds after the plan, shape ``(filter_width, 32)``.

    The plan is executed with every lane's own selection and the exchange between lanes, so that this is its proof:

    >>> bool((element_held(in_range_plan(7)) == np.arange(7)[:, None] + np.arange(32)).all())
    True
    """
    lane = np.arange(WARP_SIZE)
    taps = {offset: lane + offset for offset in plan.load_offsets}
    for step in plan.steps:
        published = np.where(lane & step.mask, taps[step.tap - step.mask], taps[step.tap + step.mask])
        taps[step.tap] = published[lane ^ step.mask]
    return np.array([taps[tap] for tap in range(plan.filter_width)])


def element_held_by_rotation(filter_width: int) -> NDArray[np.int64]:
    """Which element each lane holds by ``rotate``: own element and the one 32 further, selected and shuffled by index.

    >>> bool((element_held_by_rotation(33) == np.arange(33)[:, None] + np.arange(32)).all())
    True
    """
    lane = np.arange(WARP_SIZE)
    here, beyond = lane, np.where(lane < filter_width - 1, lane + WARP_SIZE, -1)
    taps = [np.where(lane < tap, beyond, here)[(lane + tap) % WARP_SIZE] for tap in range(filter_width)]
    return np.array(taps)
