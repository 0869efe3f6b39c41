"""The one record that a run gives of its memory accesses: what an instruction does, in which lanes of which blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.constants import WARP_SIZE
from ..ir.instruction import ExecutedInstruction, Space
from .plan import Plan


class Action(Enum):
    """What an instruction does with memory, or that it exchanges values within a warp."""

    LOAD = "load"
    STORE = "store"
    REDUCTION = "reduction"
    ASYNC_COPY = "async copy"
    BULK_READ = "bulk read"
    """What bulk copies (TMA) read of global memory, past L1, in whole sectors."""
    BULK_WRITE = "bulk write"
    TEXTURE_READ = "texture read"
    """What lanes of a texture instruction that pass the texture pipe together read, in whole sectors."""
    TEXTURE_HALF_READ = "texture half read"
    """Likewise of half of each texel; two halves pass at once."""
    SURFACE_READ = "surface read"
    SURFACE_WRITE = "surface write"
    SHUFFLE = "shuffle"
    VOTE = "vote"


LANE_GROUPS = frozenset({Action.TEXTURE_READ, Action.TEXTURE_HALF_READ, Action.SURFACE_READ, Action.SURFACE_WRITE})
"""What lanes of a texture or surface instruction do that pass together; the request itself is an access of its own."""


@dataclass(frozen=True, slots=True)
class Site:
    """One instruction as it accesses one space; ``number`` counts the sites of a kernel."""

    number: int
    instruction_index: int
    instruction: ExecutedInstruction
    action: Action
    space: Space
    width_bytes: int


@dataclass(frozen=True, slots=True)
class AccessesOfWarps:
    """An access as one row for each warp with an active lane.

    Shapes: ``block`` (linear index) and ``warp`` (within its block) ``(n,)``, ``addresses`` and ``active`` ``(n, 32)``.
    """

    block: NDArray[np.int64]
    warp: NDArray[np.int64]
    addresses: NDArray[np.uint64]
    active: NDArray[np.bool_]


@dataclass(frozen=True)
class WarpAccess:
    """One execution of an instruction by the warps of several blocks.

    Args:
        site: instruction, space, action and bytes of a lane.
        plan: the lanes that take part and their addresses but for the offset; of shared and local memory within the block's
            or the thread's own, of exchanges 0.
        offset: bytes to add to every address.
        blocks: linear index of the block of each row of the plan.
        positions: where these blocks stand among those that are executed.
        target: shared addresses (a plan and an offset) that an asynchronous copy writes, in the access that reads.
        barriers: how many barriers of all its threads each of these blocks has passed.
    """

    site: Site
    plan: Plan
    offset: int
    blocks: NDArray[np.int64]
    positions: NDArray[np.int64]
    target: tuple[Plan, int] | None = None
    barriers: NDArray[np.int32] | None = None

    @property
    def writes(self) -> bool:
        """Whether it is a store or a reduction."""
        return self.site.action in (Action.STORE, Action.REDUCTION, Action.BULK_WRITE, Action.SURFACE_WRITE)

    @property
    def pattern(self) -> tuple[Plan, int]:
        """The plan that this access is a shift of, for what does not change when all addresses move, and the shift in bytes."""
        return self.plan.root, self.offset + self.plan.shift

    @cached_property
    def of_warps(self) -> AccessesOfWarps:
        """Addresses and masks of the single warps."""
        plan = self.plan
        warps = plan.threads // WARP_SIZE
        addresses = np.broadcast_to(plan.base, plan.shape) + np.uint64(self.offset % 2**64)
        active = np.ones(plan.shape, np.bool_) if plan.mask is None else np.broadcast_to(plan.mask, plan.shape)
        addresses, active = addresses.reshape(-1, WARP_SIZE), active.reshape(-1, WARP_SIZE)
        running = active.any(axis=1)
        block = np.repeat(self.blocks, warps)
        warp = np.tile(np.arange(warps), len(self.blocks))
        return AccessesOfWarps(block[running], warp[running], addresses[running], active[running])


class Observer(Protocol):
    """What gets every access of a run, in program order."""

    def access(self, access: WarpAccess) -> Any:
        """Take note of one access."""


Observers = Sequence[Observer]
