"""Natural loops of a control-flow graph, with nesting and code size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import networkx as nx
import numpy as np

from .control_flow import ControlFlow
from .dominators import DominatorTree

_ROOT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A natural loop: header, blocks (with inner loops'), enclosing loop, depth (outermost is 1), bytes of code."""

    header: int
    blocks: tuple[int, ...]
    latches: tuple[int, ...]
    parent: int | None
    depth: int
    code_bytes: int


def natural_loops(flow: ControlFlow) -> tuple[Loop, ...]:
    """Loops in order of their header's address; a loop has one header that dominates its blocks.

    Cycles without such a header (irreducible control flow) are not among them. Source: Aho, Lam, Sethi, Ullman,
    "Compilers", section 9.6 (natural loops of back edges; loops that share a header are one).

    >>> import numpy as np
    >>> flow = ControlFlow(first=np.array([0, 1, 3]), stop=np.array([1, 3, 4]), edges=((0, 1), (1, 1), (1, 2)),
    ...                    calls=(), entries=(0,), indirect=(), reachable=np.ones(3, bool))
    >>> [(loop.header, loop.code_bytes) for loop in natural_loops(flow)]
    [(1, 32)]
    """
    graph: nx.DiGraph[int] = nx.DiGraph([(a, b) for a, b in flow.edges if flow.reachable[a]])
    graph.add_edges_from((_ROOT, entry) for entry in flow.entries)
    bodies: dict[int, set[int]] = {}
    latches: dict[int, list[int]] = {}
    for tail, header in _back_edges(graph):
        bodies.setdefault(header, {header}).update(_body(graph, tail, header))
        latches.setdefault(header, []).append(tail)
    sizes = flow.sizes_bytes()
    headers = sorted(bodies)
    loops = []
    for header in headers:
        around = [h for h in headers if h != header and header in bodies[h] and bodies[header] <= bodies[h]]
        parent = min(around, key=lambda h: len(bodies[h]), default=None)
        loops.append(
            Loop(
                header=header,
                blocks=tuple(sorted(bodies[header])),
                latches=tuple(latches[header]),
                parent=None if parent is None else headers.index(parent),
                depth=len(around) + 1,
                code_bytes=int(sizes[sorted(bodies[header])].sum()),
            )
        )
    return tuple(loops)


def innermost_loops(successors: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Blocks of each natural loop that holds no other, from the successors of each block; those past the end are none.

    >>> innermost_loops([(1,), (2,), (2, 3), (1, 4)])
    ((2,),)
    """
    edges = tuple((a, b) for a, after in enumerate(successors) for b in after if b < len(successors))
    flow = ControlFlow(
        first=np.arange(len(successors)),
        stop=np.arange(1, len(successors) + 1),
        edges=edges,
        calls=(),
        entries=(0,),
        indirect=(),
        reachable=np.ones(len(successors), np.bool_),
    )
    loops = natural_loops(flow)
    around = {loop.parent for loop in loops}
    return tuple(loop.blocks for position, loop in enumerate(loops) if position not in around)


def _back_edges(graph: nx.DiGraph[int]) -> list[tuple[int, int]]:
    """Edges whose head dominates their tail; without an edge to an earlier address there is no cycle to look for."""
    if all(a < b for a, b in graph.edges):
        return []
    dominators = DominatorTree(nx.immediate_dominators(graph, _ROOT))
    return [(tail, header) for tail, header in graph.edges if dominators.dominates(header, tail)]


def _body(graph: nx.DiGraph[int], tail: int, header: int) -> set[int]:
    body = {header}
    stack = [tail]
    while stack:
        block = stack.pop()
        if block not in body:
            body.add(block)
            stack.extend(graph.predecessors(block))
    return body
