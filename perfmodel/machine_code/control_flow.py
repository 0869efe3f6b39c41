"""Control flow of machine code: basic blocks, edges between them, procedures and calls.

``BSYNC`` falls through, as ptxas puts it directly before the reconvergence point that its ``BSSY`` names; ``CALL``
returns to the next instruction (unless it is a long jump); a procedure ends at ``EXIT`` or ``RET``. The table of an indirect
branch (``BRX``) lies outside of the code: its targets are taken to be the blocks that nothing else reaches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES
from .decode import NO_TARGET, Instructions

_JUMPS = ("BRA", "JMP")
_INDIRECT = ("BRX", "JMX")
_ENDS = ("EXIT", "RET", "KILL", "RTT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlFlow:
    """Basic blocks ``[first[i], stop[i])`` by instruction index, edges in procedures, calls as (caller, entry).

    ``entries`` are the blocks at which procedures begin, the kernel first; ``reachable`` marks blocks that some
    entry reaches.
    """

    first: NDArray[np.int64]
    stop: NDArray[np.int64]
    edges: tuple[tuple[int, int], ...]
    calls: tuple[tuple[int, int], ...]
    entries: tuple[int, ...]
    indirect: tuple[int, ...]
    reachable: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.first)

    def sizes_bytes(self) -> NDArray[np.int64]:
        """Code bytes of every block."""
        return (self.stop - self.first) * INSTRUCTION_BYTES

    def block_of_instruction(self) -> NDArray[np.int64]:
        """Block that every instruction belongs to."""
        return np.repeat(np.arange(len(self)), self.stop - self.first)


def control_flow(instructions: Instructions) -> ControlFlow:
    """Basic blocks and edges of one code section.

    >>> from perfmodel.machine_code.decode import decode
    >>> exit_then_self_branch = bytes.fromhex("4d79000000000000 0000800300ea0f00 47790000f0ffffff ffff830300c00f00")
    >>> control_flow(decode(exit_then_self_branch, "sm_75")).reachable.tolist()
    [True, False]
    """
    enders = instructions.is_mnemonic(*_JUMPS, *_INDIRECT, *_ENDS, "CALL")
    targets = np.where(instructions.never, NO_TARGET, instructions.target)
    leaders = np.zeros(len(instructions) + 1, dtype=np.bool_)
    leaders[0] = True
    leaders[targets[targets != NO_TARGET] // INSTRUCTION_BYTES] = True
    leaders[1:] |= enders
    first = np.flatnonzero(leaders[:-1])
    stop = np.append(first[1:], len(instructions))
    block_of = np.repeat(np.arange(len(first)), stop - first)
    edges, calls, indirect = _edges(instructions, stop, block_of)
    edges, calls = _long_jumps(instructions, stop, edges, calls)
    entries = (0, *sorted({entry for _, entry in calls}))
    if indirect:
        edges += _table_edges(len(first), edges, entries, indirect)
    return ControlFlow(
        first=first,
        stop=stop,
        edges=tuple(dict.fromkeys(edges)),
        calls=tuple(calls),
        entries=entries,
        indirect=tuple(indirect),
        reachable=_reachable(len(first), edges, entries),
    )


def _edges(
    instructions: Instructions, stop: NDArray[np.int64], block_of: NDArray[np.int64]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]], list[int]]:
    edges: list[tuple[int, int]] = []
    calls: list[tuple[int, int]] = []
    indirect: list[int] = []
    last = stop - 1
    jumps, tables = instructions.is_mnemonic(*_JUMPS)[last], instructions.is_mnemonic(*_INDIRECT)[last]
    ends, call = instructions.is_mnemonic(*_ENDS)[last], instructions.is_mnemonic("CALL")[last]
    falls = ~(jumps | tables | ends) | instructions.conditional[last]
    for block in range(len(stop)):
        target = int(instructions.target[last[block]])
        if falls[block] and block + 1 < len(stop):
            edges.append((block, block + 1))
        if target != NO_TARGET and jumps[block]:
            edges.append((block, int(block_of[target // INSTRUCTION_BYTES])))
        if target != NO_TARGET and call[block]:
            calls.append((block, int(block_of[target // INSTRUCTION_BYTES])))
        if tables[block]:
            indirect.append(block)
    return edges, calls, indirect


def _long_jumps(
    instructions: Instructions, stop: NDArray[np.int64], edges: list[tuple[int, int]], calls: list[tuple[int, int]]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Take calls from whose destination no ``RET`` is reached for what they are: jumps (ptxas leaves loops by them)."""
    returns = np.flatnonzero(instructions.is_mnemonic("RET")[stop - 1]).tolist()
    returning = _reachable(len(stop), [(b, a) for a, b in edges], tuple(returns))
    jumps = [(block, entry) for block, entry in calls if not returning[entry]]
    unconditional = {block for block, _ in jumps if not instructions.conditional[stop[block] - 1]}
    kept = [(a, b) for a, b in edges if a not in unconditional]
    return kept + jumps, [(block, entry) for block, entry in calls if returning[entry]]


def _table_edges(
    blocks: int, edges: list[tuple[int, int]], entries: tuple[int, ...], indirect: list[int]
) -> list[tuple[int, int]]:
    """Edges of indirect branches: from each, in order, to the unreached blocks that lie before the next one's code."""
    reached = {b for a, b in edges if a != b} | set(entries)
    orphans = [block for block in range(blocks) if block not in reached and (block, block) not in edges]
    bounds = [*indirect[1:], blocks]
    return [(source, b) for source, end in zip(indirect, bounds, strict=True) for b in orphans if source < b <= end]


def _reachable(blocks: int, edges: list[tuple[int, int]], entries: tuple[int, ...]) -> NDArray[np.bool_]:
    successors: list[list[int]] = [[] for _ in range(blocks)]
    for a, b in edges:
        successors[a].append(b)
    seen = np.zeros(blocks, dtype=np.bool_)
    stack = list(entries)
    while stack:
        block = stack.pop()
        if not seen[block]:
            seen[block] = True
            stack.extend(successors[block])
    return seen
