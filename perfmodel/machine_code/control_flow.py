"""Control flow of machine code inside of its procedures, and natural loops."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import networkx as nx

from .operands import Register, parse_operand
from .program import CodeBlock, MachineCode, Transfer

Successors = Sequence[Sequence[int]]
"""Blocks that may follow each block; those past the end are none."""
_ROOT = -1
_CALLS = (Transfer.CALL, Transfer.CALL_THROUGH_POINTER, Transfer.CALL_OUTSIDE)
_LONG_WAY = re.compile(r"__cuda_sm\dx?\d*_d?(?:div|rcp|sqrt)_r[nzdup]")
"""Names of the compiler's functions for quotients, reciprocals and roots of what its short sequences do not work out."""


def within_procedures(blocks: Sequence[CodeBlock]) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """Successors of each block where a call goes on behind it, and the blocks at which procedures begin, the kernel first.

    A call from whose destination no ``RET`` is reached is a jump: ptxas leaves loops by them.
    """
    inside = [_inside(block) for block in blocks]
    before: list[list[int]] = [[] for _ in range(len(blocks) + 1)]
    for index, after in enumerate(inside):
        for successor in after:
            before[successor].append(index)
    returning, waiting = set[int](), [block.index for block in blocks if block.transfer is Transfer.RETURN]
    while waiting:
        index = waiting.pop()
        if index not in returning:
            returning.add(index)
            waiting += before[index]
    entries = {0}
    for block in blocks:
        if block.transfer is Transfer.CALL and block.successors[-1] not in returning:
            inside[block.index] = block.successors
        elif block.transfer in (Transfer.CALL, Transfer.CALL_THROUGH_POINTER):
            entries.update(block.successors[1:] if block.conditional else block.successors)
    return inside, tuple(sorted(entries))


def _inside(block: CodeBlock) -> tuple[int, ...]:
    if block.transfer in _CALLS:
        return (block.index + 1,)
    if block.transfer is Transfer.RETURN:
        return (block.index + 1,) if block.conditional else ()
    return block.successors


def natural_loops(successors: Successors, entries: Sequence[int] = (0,)) -> dict[int, frozenset[int]]:
    """Blocks of each loop, with those of loops inside of it, by the loop's header, which dominates them.

    Cycles without such a header (irreducible control flow) are not among them. Source: Aho, Lam, Sethi, Ullman,
    "Compilers", section 9.6 (natural loops of back edges; loops that share a header are one).

    >>> natural_loops([(1,), (1, 2), (3,)])
    {1: frozenset({1})}
    """
    edges = [(a, b) for a, after in enumerate(successors) for b in after if b < len(successors)]
    graph: nx.DiGraph[int] = nx.DiGraph([*edges, *((_ROOT, entry) for entry in entries)])
    place = {block: number for number, block in enumerate(nx.dfs_postorder_nodes(graph, _ROOT))}
    # only an edge to a block that the search has not left yet closes a cycle
    closing = [(tail, header) for tail, header in edges if tail in place and place[header] >= place[tail]]
    immediate = nx.immediate_dominators(graph, _ROOT) if closing else {}
    bodies: dict[int, set[int]] = {}
    for tail, header in closing:
        above: int | None = tail
        while above not in (header, _ROOT, None):
            above = immediate[above]
        if above == header:
            body, waiting = bodies.setdefault(header, {header}), [tail]
            while waiting:
                block = waiting.pop()
                if block not in body:
                    body.add(block)
                    waiting += (b for b in graph.predecessors(block) if b in place)
    return {header: frozenset(bodies[header]) for header in sorted(bodies)}


def innermost_loops(successors: Successors) -> tuple[frozenset[int], ...]:
    """Blocks of each natural loop that holds no other.

    >>> innermost_loops([(1,), (2,), (2, 3), (1, 4)])
    (frozenset({2}),)
    """
    loops = natural_loops(successors).values()
    return tuple(loop for loop in loops if not any(other < loop for other in loops))


def largest_loop(successors: Successors, sizes: Sequence[int], entries: Sequence[int] = (0,)) -> int:
    """Size of the largest loop from the sizes of the blocks, 0 without loops."""
    loops = natural_loops(successors, entries).values()
    return max((sum(sizes[block] for block in loop) for loop in loops), default=0)


def without_long_ways(code: MachineCode) -> MachineCode:
    """The code in which no quotient, reciprocal or root takes the compiler's long way, so that no operand decides on it.

    The long way is for zeros, denormals, infinities, NaN and numbers near the ends of the range. The code is the same object
    where there is none.
    """
    changed = {}
    for block in code.blocks:
        last = block.first + len(block.instructions) - 1
        if not block.conditional:
            continue
        if calls_long_way(block):
            changed[last] = replace(code.instructions[last], guard=_never())
        elif block.transfer is Transfer.BRANCH:
            behind, target = (
                index < len(code.blocks) and calls_long_way(code.blocks[index]) for index in block.successors
            )
            if behind != target:
                changed[last] = replace(code.instructions[last], guard=None if behind else _never())
    if not changed:
        return code
    return replace(code, instructions=tuple(changed.get(k, one) for k, one in enumerate(code.instructions)))


def calls_long_way(block: CodeBlock) -> bool:
    """Whether a block ends by calling the compiler's function for what a quotient, a reciprocal or a root needs rarely."""
    return block.transfer is Transfer.CALL and _LONG_WAY.search(block.instructions[-1].operand_text) is not None


def _never() -> Register:
    guard = parse_operand("!PT")
    assert isinstance(guard, Register)
    return guard
