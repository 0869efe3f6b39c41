"""Exchange plans: which taps of a row a lane loads, and from which lanes it gets the others.

A lane needs the elements t … t + F − 1 of a row, t its number. In one exchange with the lane whose number differs in bit
``mask``, a lane with that bit clear publishes its tap ``tap + mask`` and one with it set ``tap − mask``; both then hold
``tap``. So a tap comes for one shuffle from two others that lie ``2 · mask`` apart. The search grows, from a choice of loads,
the graph of taps that depend on one another, and takes the smallest choice whose graph holds all F.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations, count

import networkx as nx

from ...core.constants import WARP_SIZE

_MASKS = (16, 8, 4, 2, 1)


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
    def tap_count(self) -> int:
        """Taps that a lane names, needed or over-read."""
        return max(self.load_offsets[-1] + 1, self.filter_width)

    @property
    def pipe_slots(self) -> int:
        """Slots of the load/store pipe for one row of a warp whose first element opens a line.

        A shuffle takes one, a load one for each 128-byte line that it touches: two unless its offset is a multiple of 32.
        """
        return self.shuffles + sum(1 if offset % WARP_SIZE == 0 else 2 for offset in self.load_offsets)


def _dependencies(load_offsets: tuple[int, ...]) -> nx.DiGraph[int]:
    """All taps that exchanges give from these loads, each with edges from the two that it comes from and its mask.

    Generation by generation, so that each tap comes by as few exchanges in a row as possible.
    """
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(load_offsets, mask=0)
    while True:
        new = {
            tap + mask: mask
            for mask in reversed(_MASKS)
            for tap in graph
            if tap + 2 * mask in graph and tap + mask not in graph
        }
        if not new:
            return graph
        for tap, mask in new.items():
            graph.add_node(tap, mask=mask)
            graph.add_edges_from(((tap - mask, tap), (tap + mask, tap)))


def _plan(filter_width: int, load_offsets: tuple[int, ...]) -> tuple[ExchangePlan, int] | None:
    """The plan with these loads and its longest chain of exchanges; None where they do not give every tap."""
    graph = _dependencies(load_offsets)
    wanted = range(filter_width)
    if not all(tap in graph for tap in wanted):
        return None
    needed = graph.subgraph(set(wanted).union(*(nx.ancestors(graph, tap) for tap in wanted)))
    if not all(load in needed for load in load_offsets):
        return None
    steps = tuple(
        ExchangeStep(tap, needed.nodes[tap]["mask"])
        for generation in nx.topological_generations(needed)
        for tap in sorted(generation)
        if needed.nodes[tap]["mask"]
    )
    plan = ExchangePlan(filter_width=filter_width, load_offsets=load_offsets, steps=steps)
    return plan, nx.dag_longest_path_length(needed)


def _plans(filter_width: int, farthest_load: int, loads: int) -> list[tuple[ExchangePlan, int]]:
    """All plans with so many loads; tap 0 is always loaded, because nothing lies before it."""
    choices = combinations(range(1, farthest_load + 1), loads - 1)
    return [plan for others in choices if (plan := _plan(filter_width, (0, *others))) is not None]


@cache
def smallest_plan(filter_width: int, farthest_load: int) -> ExchangePlan:
    """Fewest loads up to an offset; among these fewest shuffles, then the shortest chain of exchanges, then farthest loads.

    Where no load may lie beyond the last tap, loads and shuffles sum to the width of the filter.

    >>> smallest_plan(5, 4)
    ExchangePlan(filter_width=5, load_offsets=(0, 4), steps=(ExchangeStep(tap=2, mask=2), ExchangeStep(tap=1, mask=1), \
ExchangeStep(tap=3, mask=1)))
    """
    plans = next(given for loads in count(1) if (given := _plans(filter_width, farthest_load, loads)))
    return min(plans, key=lambda one: (one[0].shuffles, one[1], [-offset for offset in one[0].load_offsets]))[0]


@cache
def executed_plan(filter_width: int) -> ExchangePlan:
    """The plan that the kernel executes: over-reading only where that takes fewer slots of the load/store pipe.

    >>> executed_plan(11).load_offsets, executed_plan(31).load_offsets
    ((0, 8, 10), (0, 32))
    """
    plans = (smallest_plan(filter_width, farthest_load) for farthest_load in (filter_width - 1, WARP_SIZE))
    return min(plans, key=lambda plan: plan.pipe_slots)


def all_loaded(filter_width: int) -> ExchangePlan:
    """The plan without any exchange.

    >>> all_loaded(3).load_offsets
    (0, 1, 2)
    """
    return ExchangePlan(filter_width=filter_width, load_offsets=tuple(range(filter_width)), steps=())
