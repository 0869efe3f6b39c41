"""Which lines of constant memory the warps of a block read by index, one after the other.

Warps of a block read the same places in most kernels, so the first of them stands for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..core.constants import CONSTANT_LINE_BYTES
from ..ir.instruction import Space
from ..simulator.access import WarpAccess

Integers = NDArray[np.int64]

KEPT_READS = 1 << 14
"""Reads of a block that are kept; a warp that goes on begins again with the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantWalks:
    """The lines that one warp of some blocks reads by index, in order, for each instruction.

    Attributes:
        instructions: Those that read by index, shape ``(n,)``.
        lines: Line of each read, among all constant banks.
        offsets: First read of each block and instruction, shape ``(blocks * n + 1,)``.
    """

    instructions: Integers
    lines: Integers
    offsets: Integers


NO_WALKS = ConstantWalks(instructions=np.zeros(0, np.int64), lines=np.zeros(0, np.int64), offsets=np.zeros(1, np.int64))
"""Of a kernel that reads no constants by index."""


@dataclass(slots=True)
class ConstantObserver:
    """An observer that keeps the lines of constants that the first warp of each block reads; of several words the first."""

    _found: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    """By block and instruction."""
    _kept: dict[int, int] = field(default_factory=dict)

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.space is not Space.CONSTANT:
            return
        warps = access.of_warps
        first = np.flatnonzero(warps.warp == 0)
        lanes = warps.active[first].argmax(axis=1)
        lines = warps.addresses[first, lanes] // np.uint64(CONSTANT_LINE_BYTES)
        for block, line in zip(warps.block[first].tolist(), lines.tolist(), strict=True):
            if self._kept.setdefault(block, 0) < KEPT_READS:
                self._kept[block] += 1
                self._found.setdefault(block, {}).setdefault(site.instruction_index, []).append(line)

    def walks(self, blocks: Sequence[int]) -> ConstantWalks:
        """The walks of some of the blocks that were seen."""
        found = [self._found.get(block, {}) for block in blocks]
        instructions = sorted({index for block in found for index in block})
        walks = [block.get(index, []) for block in found for index in instructions]
        return ConstantWalks(
            instructions=np.array(instructions, np.int64),
            lines=np.array([line for walk in walks for line in walk], np.int64),
            offsets=np.cumsum([0, *map(len, walks)]),
        )
