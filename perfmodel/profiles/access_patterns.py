"""How the lanes of memory instructions lie in some blocks: what of the sectors they use, and which words they share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE, WARP_SIZE
from ..core.distinct_values import distinct
from ..ir.instruction import SourceLine, Space
from ..memory.bank_conflicts import atomic_wavefronts
from ..simulator.access import LANE_GROUPS, AccessesOfWarps, Action, Site, WarpAccess

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

NO_LANE = -1
"""In `AccessPatterns.lanes`: the lane takes no part."""
_BLOCKS = 64
"""Room for the number of a block beside a sector or a word."""
_NOWHERE = 2**64 - 1
_ROW_SHIFT = 48
"""Bits of an address below the number of its request."""
_SEVERAL = -1
"""In the place of a warp: more than one."""
_OF_THREADS = (Space.LOCAL, Space.CONSTANT, Space.PARAMETER)
"""What no other thread sees, or nobody changes."""
_WAITING = 1_000_000
"""Entries that wait until those of one sector are joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPatterns:
    """One element for each instruction, averages over some blocks of the launch; but for ``lone_steps``.

    Attributes:
        filled: Of the bytes of the sectors that an instruction touches in a block, the part that loads of the block ask for,
            or that its stores write; 0 for other instructions.
        reuse: How often a block loads each byte at the load's source line, where a loop may have been unrolled to several loads:
            bytes of the sectors touched by the load that requests of its line ask for, lanes on one place once, over those bytes
            of the same sectors that loads of the block ask for.
        atomic_words_of_requests: Distinct words of atomics on global memory over their lanes, request by request.
        atomic_words_of_blocks: The same over all requests of a block.
        atomic_wavefronts: Passes that a request of such an atomic would need in shared memory.
        lanes: Shape ``(instructions, 32)``: bytes of each lane's address beyond the 128-byte line of the lowest one, in a request
            with most lanes, of these the one that touches most sectors of global or lines of shared memory; `NO_LANE` for lanes
            that take no part.
        lone_steps: One row for each stretch between two barriers in which a single warp of a block uses shared memory and nobody
            global memory: the block's number among those looked at, the barriers that it has passed, the warp, its loads and its
            stores. None in older archives.
    """

    filled: Floats
    reuse: Floats
    atomic_words_of_requests: Floats
    atomic_words_of_blocks: Floats
    atomic_wavefronts: Floats
    lanes: Integers
    lone_steps: Integers = field(default_factory=lambda: np.zeros((0, 5), np.int64))


@dataclass(frozen=True, slots=True)
class _AskedBytes:
    """The sectors of each block that one access asks for, in order, with a bit for each byte, and the bytes of its requests.

    A key is a sector, counted from the line that the access is moved by, and the number of a block.
    """

    keys: NDArray[np.uint64]
    masks: NDArray[np.uint32]
    requested: NDArray[np.uint64]
    amounts: Integers


@dataclass(slots=True)
class _BytesOfSectors:
    """Which bytes of each sector of each block are asked for, and by which instructions the sectors are touched."""

    touched: dict[int, list[NDArray[np.uint64]]] = field(default_factory=dict)
    keys: list[NDArray[np.uint64]] = field(default_factory=list)
    masks: list[NDArray[np.uint32]] = field(default_factory=list)
    lines: dict[int, SourceLine | int] = field(default_factory=dict)
    """Of each instruction its source line, or itself where none is known."""
    requested: dict[SourceLine | int, list[tuple[NDArray[np.uint64], Integers]]] = field(default_factory=dict)
    """For each source line sectors, and the bytes of them that its requests ask for together."""
    waiting: int = 0

    def add(self, site: Site, asked: _AskedBytes, moved: np.uint64) -> None:
        """Take what one access asks for; ``moved``: what to add to its keys."""
        line = self.lines.setdefault(site.instruction_index, site.instruction.source or site.instruction_index)
        keys = asked.keys + moved
        self.requested.setdefault(line, []).append((asked.requested + moved, asked.amounts))
        self.touched.setdefault(site.instruction_index, []).append(keys)
        self.keys.append(keys)
        self.masks.append(asked.masks)
        self.waiting += len(keys)
        if self.waiting > _WAITING:
            self._compact()

    def _compact(self) -> None:
        keys, masks = _joined(np.bitwise_or, np.concatenate(self.keys), np.concatenate(self.masks))
        self.keys, self.masks, self.waiting = [keys], [masks], 0
        self.touched = {index: [distinct(np.concatenate(parts))] for index, parts in self.touched.items()}
        for line, parts in self.requested.items():
            sectors, amounts = zip(*parts, strict=True)
            self.requested[line] = [_joined(np.add, np.concatenate(sectors), np.concatenate(amounts))]

    def filled_and_reuse(self) -> dict[int, tuple[float, float]]:
        """Part of the bytes that are asked for, and how often each of them is, by instruction."""
        if not self.keys:
            return {}
        self._compact()
        bits = np.unpackbits(self.masks[0].view(np.uint8)).reshape(-1, SECTOR_BYTES).sum(axis=1)
        found = {}
        for index, parts in self.touched.items():
            asked = float(bits[np.searchsorted(self.keys[0], parts[0])].sum())
            ((sectors, amounts),) = self.requested[self.lines[index]]
            requested = float(amounts[np.searchsorted(sectors, parts[0])].sum())
            found[index] = asked / (SECTOR_BYTES * len(parts[0])), requested / asked
        return found


def _joined(join: np.ufunc, keys: NDArray[np.uint64], values: NDArray[Any]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Each key once, in order, with its values joined."""
    order = np.argsort(keys, kind="stable")
    keys, values = keys[order], values[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    return keys[first], join.reduceat(values, first)


@dataclass(slots=True)
class _AtomicWords:
    """Of one atomic instruction: lanes, requests, distinct words of requests, those of blocks, passes in shared memory."""

    lanes: int = 0
    requests: int = 0
    of_requests: int = 0
    of_blocks: list[NDArray[np.uint64]] = field(default_factory=list)
    wavefronts: int = 0

    def add(self, warps: AccessesOfWarps, blocks: Integers, width_bytes: int) -> None:
        """Take one access; ``blocks``: the number of each row's block."""
        rows, lanes = np.nonzero(warps.active)
        words = warps.addresses[rows, lanes] // np.uint64(max(width_bytes, BANK_BYTES))
        self.lanes += len(rows)
        self.requests += len(warps.active)
        self.of_requests += len(distinct(words + (rows.astype(np.uint64) << np.uint64(_ROW_SHIFT))))
        self.of_blocks.append(distinct(words * np.uint64(_BLOCKS) + blocks[rows].astype(np.uint64)))
        self.wavefronts += int(atomic_wavefronts(warps.addresses, warps.active, width_bytes)[0].sum())


@dataclass(slots=True)
class _Step:
    """What a block's warps do to shared memory between two barriers: which warp (or `_SEVERAL`), its loads and stores."""

    warp: int | None = None
    loads: int = 0
    stores: int = 0


def _widest_request(warps: AccessesOfWarps, unit_bytes: int) -> tuple[int, Integers]:
    """The rank of a request with most lanes and, of these, units of memory, and the bytes of its lanes (`AccessPatterns`)."""
    touched = np.sort(np.where(warps.active, warps.addresses // np.uint64(unit_bytes), np.uint64(_NOWHERE)), axis=1)
    units = (touched[:, 1:] != touched[:, :-1]).sum(axis=1)
    rank = warps.active.sum(axis=1) * (WARP_SIZE + 1) + units
    row = int(rank.argmax())
    addresses, taking_part = warps.addresses[row], warps.active[row]
    lowest = addresses[taking_part].min() // np.uint64(LINE_BYTES) * np.uint64(LINE_BYTES)
    offsets = np.where(taking_part, addresses - lowest, 0).astype(np.int64)
    return int(rank[row]), np.where(taking_part, offsets, NO_LANE)


class PatternObserver:
    """An observer of a run that executes at most 64 blocks."""

    def __init__(self) -> None:
        self._read, self._written = _BytesOfSectors(), _BytesOfSectors()
        self._atomics: dict[int, _AtomicWords] = {}
        self._lanes: dict[int, tuple[int, Integers]] = {}
        self._blocks: dict[int, int] = {}
        self._steps: dict[tuple[int, int], _Step] = {}
        self._of_several: set[bytes] = set()
        """Blocks and the barriers that they have passed, where more than one warp of each has been seen."""

    def access(self, access: WarpAccess) -> None:
        """Take note of one access to global or shared memory."""
        site = access.site
        of_groups = site.action in LANE_GROUPS or site.action in (Action.BULK_READ, Action.BULK_WRITE)
        if site.space in _OF_THREADS:
            return
        self._keep_steps(access)
        if site.space not in (Space.GLOBAL, Space.SHARED) or of_groups:
            return
        if access.plan.empty:
            return
        self._keep_lanes(access, LINE_BYTES if site.space is Space.SHARED else SECTOR_BYTES)
        if site.space is Space.SHARED:
            return
        if site.action is Action.REDUCTION:
            words = self._atomics.setdefault(site.instruction_index, _AtomicWords())
            words.add(access.of_warps, self._numbers(access.of_warps), site.width_bytes)
            return
        plan, moved = access.pattern
        lines = np.uint64(moved // LINE_BYTES * SECTORS_PER_LINE * _BLOCKS % 2**64)
        key = (PatternObserver, id(self), site.width_bytes, moved % LINE_BYTES, access.blocks.tobytes())
        asked: _AskedBytes | None = plan.cache.get(key)
        if asked is None:
            asked = plan.cache[key] = self._asked(access, lines)
        kept = self._written if site.action is Action.STORE else self._read
        kept.add(site, asked, lines)

    def _numbers(self, warps: AccessesOfWarps) -> Integers:
        """The number of each warp's block, in the order in which blocks were seen."""
        return np.array([self._blocks.setdefault(one, len(self._blocks)) for one in warps.block.tolist()], np.int64)

    def _asked(self, access: WarpAccess, lines: np.uint64) -> _AskedBytes:
        warps, width = access.of_warps, access.site.width_bytes
        rows, lanes = np.nonzero(warps.active)
        addresses = warps.addresses[rows, lanes]
        keys = addresses // np.uint64(SECTOR_BYTES) * np.uint64(_BLOCKS) + self._numbers(warps)[rows].astype(np.uint64)
        keys = keys - lines
        asked = np.uint64(2 ** min(width, SECTOR_BYTES) - 1)
        masks = (asked << (addresses % np.uint64(SECTOR_BYTES))) & np.uint64(2**SECTOR_BYTES - 1)
        places = addresses // np.uint64(width) + (rows.astype(np.uint64) << np.uint64(_ROW_SHIFT))
        _, once = np.unique(places, return_index=True)
        requested, counts = np.unique(keys[once], return_counts=True)
        return _AskedBytes(*_joined(np.bitwise_or, keys, masks.astype(np.uint32)), requested, counts * width)

    def _keep_steps(self, access: WarpAccess) -> None:
        if access.barriers is None:
            return
        key = access.blocks.tobytes() + access.barriers.tobytes()
        if key in self._of_several:
            return
        action, warps = access.site.action, access.of_warps
        plain = access.site.space is Space.SHARED and action in (Action.LOAD, Action.STORE)
        steps = [
            self._steps.setdefault(one, _Step())
            for one in zip(access.blocks.tolist(), access.barriers.tolist(), strict=True)
        ]
        for step, block in zip(steps, access.blocks.tolist(), strict=True):
            own = warps.warp[warps.block == block]
            if len(own):
                step.warp = int(own[0]) if step.warp is None else step.warp
                if not plain or len(own) > 1 or own[0] != step.warp:
                    step.warp = _SEVERAL
                step.loads += action is Action.LOAD
                step.stores += action is Action.STORE
        if all(step.warp == _SEVERAL for step in steps):
            self._of_several.add(key)

    def _keep_lanes(self, access: WarpAccess, unit_bytes: int) -> None:
        plan, moved = access.pattern
        key = (PatternObserver, unit_bytes, moved % LINE_BYTES)
        found: tuple[int, Integers] | None = plan.cache.get(key)
        if found is None:
            found = plan.cache[key] = _widest_request(access.of_warps, unit_bytes)
        known = self._lanes.get(access.site.instruction_index)
        if known is None or found[0] > known[0]:
            self._lanes[access.site.instruction_index] = found

    def patterns(self, instructions: int, blocks: Sequence[int]) -> AccessPatterns:
        """What was seen of these blocks, for so many instructions of the code."""
        filled, reuse, of_requests, of_blocks, wavefronts = np.zeros((5, instructions))
        for index, found in (self._read.filled_and_reuse() | self._written.filled_and_reuse()).items():
            filled[index], reuse[index] = found
        for index, words in self._atomics.items():
            of_requests[index] = words.of_requests / words.lanes
            of_blocks[index] = len(distinct(np.concatenate(words.of_blocks))) / words.lanes
            wavefronts[index] = words.wavefronts / words.requests
        lanes = np.full((instructions, WARP_SIZE), NO_LANE, np.int64)
        for index, (_, offsets) in self._lanes.items():
            lanes[index] = offsets
        steps = [
            (blocks.index(block), passed, step.warp, step.loads, step.stores)
            for (block, passed), step in sorted(self._steps.items())
            if step.warp not in (None, _SEVERAL)
        ]
        return AccessPatterns(
            filled=filled,
            reuse=reuse,
            atomic_words_of_requests=of_requests,
            atomic_words_of_blocks=of_blocks,
            atomic_wavefronts=wavefronts,
            lanes=lanes,
            lone_steps=np.array(steps, np.int64).reshape(-1, 5),
        )
