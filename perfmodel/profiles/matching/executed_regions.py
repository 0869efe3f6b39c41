"""Regions of a control-flow graph: sets of blocks that a warp executes equally often, in a tree of who encloses whom.

Two blocks are of one region when the first dominates the second, the second postdominates the first, and no loop
lies around one of them alone. PTX and machine code of a kernel have like trees, whatever blocks the assembler split,
merged or moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from ...machine_code.dominators import DominatorTree

_END = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A control-flow graph: edges between blocks, blocks that leave the kernel, and features counted in every block.

    ``features`` has one row for each block, one column for each kind of instruction that PTX and machine code share.
    """

    edges: tuple[tuple[int, int], ...]
    exits: tuple[int, ...]
    features: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """Blocks executed equally often. ``subtree`` sums the features of this region and all inside of it.

    ``children`` are the regions directly inside, in an order that agrees with every path through the code; ``latch`` is
    the only region that a loop goes back to its header from, None without one; ``tests_at_end`` where that is the
    loop itself.
    """

    blocks: tuple[int, ...]
    parent: int | None
    is_loop: bool
    latch: int | None
    tests_at_end: bool
    children: tuple[int, ...]
    features: NDArray[np.int64]
    subtree: NDArray[np.int64]


def region_tree(graph: Graph, entry: int = 0) -> tuple[Region, ...]:
    """Regions reached from the entry, the outermost one (which holds the entry block) first.

    Source: control equivalence as in Ferrante, Ottenstein, Warren, "The program dependence graph", 1987.

    >>> diamond = Graph(edges=((0, 1), (0, 2), (1, 2)), exits=(2,), features=np.zeros((3, 1), np.int64))
    >>> [region.blocks for region in region_tree(diamond)]
    [(0, 2), (1,)]
    """
    flow: nx.DiGraph[int] = nx.DiGraph()
    flow.add_node(entry)
    flow.add_edges_from(graph.edges)
    flow = flow.subgraph(nx.descendants(flow, entry) | {entry}).copy()
    order = _order(flow, graph.edges, entry)
    dominators = DominatorTree(nx.immediate_dominators(flow, entry))
    latches = _latches(flow, dominators)
    loops = _innermost_loops(flow, latches)
    postdominators = _postdominators(flow, graph.exits, loops)
    region_of: dict[int, int] = {}
    members: list[list[int]] = []
    parents: list[int | None] = []
    for block in order:
        same, around = _above(block, dominators, loops, postdominators, region_of, members)
        if same is None:
            region_of[block] = len(members)
            members.append([block])
            parents.append(around)
        else:
            region_of[block] = same
            members[same].append(block)
    latch_of = {header: {region_of[tail] for tail in tails} for header, tails in latches.items()}
    return _regions(graph, members, parents, latch_of)


def _above(
    block: int,
    dominators: DominatorTree,
    loops: dict[int, tuple[int, ...]],
    postdominators: DominatorTree,
    region_of: dict[int, int],
    members: list[list[int]],
) -> tuple[int | None, int | None]:
    """The region that a block belongs to, None for a new one, and the region around it.

    Goes up the dominators region by region: where a block does not postdominate one member of a region, it postdominates none.
    The region around is the nearest one that lies in no loop that the block, or the block's own loop, is not in.
    """
    is_header = bool(loops[block]) and loops[block][0] == block
    allowed = set(loops[block][1:] if is_header else loops[block])
    around: int | None = None
    dominator = dominators.parent.get(block)
    while dominator is not None:
        region = region_of[dominator]
        if loops[dominator] == loops[block] and postdominators.dominates(block, dominator):
            return region, None
        if around is None and set(loops[dominator]) <= allowed:
            around = region
        dominator = dominators.parent.get(members[region][0])
    return None, around


def _order(flow: nx.DiGraph[int], edges: Sequence[tuple[int, int]], entry: int) -> list[int]:
    """Reverse postorder that visits a block's later successors first, so that fall-through code precedes branch targets."""
    successors: dict[int, list[int]] = {block: [] for block in flow}
    for a, b in edges:
        if a in flow:
            successors[a].append(b)
    finished: list[int] = []
    seen = {entry}
    stack = [(entry, iter(sorted(successors[entry], reverse=True)))]
    while stack:
        block, pending = stack[-1]
        following = next((b for b in pending if b not in seen), None)
        if following is None:
            finished.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(sorted(successors[following], reverse=True))))
    return finished[::-1]


def _latches(flow: nx.DiGraph[int], dominators: DominatorTree) -> dict[int, list[int]]:
    """Blocks that go back to a loop's header, by header."""
    found: dict[int, list[int]] = {}
    for tail, header in flow.edges:
        if dominators.dominates(header, tail):
            found.setdefault(header, []).append(tail)
    return found


def _innermost_loops(flow: nx.DiGraph[int], latches: dict[int, list[int]]) -> dict[int, tuple[int, ...]]:
    """Headers of the loops around every block, innermost first."""
    bodies: dict[int, set[int]] = {}
    for header, tails in latches.items():
        body = bodies.setdefault(header, {header})
        stack = list(tails)
        while stack:
            block = stack.pop()
            if block not in body:
                body.add(block)
                stack.extend(flow.predecessors(block))
    by_size = sorted(bodies, key=lambda header: len(bodies[header]))
    return {block: tuple(header for header in by_size if block in bodies[header]) for block in flow}


def _postdominators(flow: nx.DiGraph[int], exits: Sequence[int], loops: dict[int, tuple[int, ...]]) -> DominatorTree:
    """Postdominators of every block; an endless loop counts as left through its header."""
    leaving = set(exits)
    backward: Any = flow.reverse(copy=True)
    backward.add_node(_END)
    backward.add_edges_from((_END, block) for block in flow if block in leaving or not flow.out_degree(block))
    stuck = set(flow) - nx.descendants(backward, _END)
    backward.add_edges_from((_END, block) for block in stuck if loops[block] and loops[block][0] == block)
    return DominatorTree(nx.immediate_dominators(backward, _END))


def _regions(
    graph: Graph, members: list[list[int]], parents: list[int | None], latches: dict[int, set[int]]
) -> tuple[Region, ...]:
    own = np.array([graph.features[blocks].sum(axis=0) for blocks in members])
    subtree = own.copy()
    children: list[list[int]] = [[] for _ in members]
    for index in range(len(members) - 1, 0, -1):
        parent = parents[index]
        if parent is not None:
            subtree[parent] += subtree[index]
            children[parent].insert(0, index)
    return tuple(
        Region(
            blocks=tuple(blocks),
            parent=parents[index],
            is_loop=blocks[0] in latches,
            latch=min(latches[blocks[0]]) if len(latches.get(blocks[0], ())) == 1 else None,
            tests_at_end=latches.get(blocks[0]) == {index},
            children=tuple(children[index]),
            features=own[index],
            subtree=subtree[index],
        )
        for index, blocks in enumerate(members)
    )
