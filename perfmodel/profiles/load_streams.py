"""What the global loads of a block ask for, one after the other: which of them are the first to touch a sector.

Sectors that one request touches first are a group. A later request waits until the newest group that it touches has come, so
that warps which read the same line need it once, whoever of them comes first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES, ceil_div
from ..ir.instruction import Space
from ..simulator.access import Action, WarpAccess

Integers = NDArray[np.int64]

KEPT_REQUESTS = 1 << 15
"""Requests of a block that are kept; what follows is known by its averages alone."""
_SPACES = (Space.GLOBAL, Space.TEXTURE, Space.SURFACE)
CUT = -1
"""Stands at the end of a warp's requests for those that were not kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadStreams:
    """Requests of global loads and asynchronous copies by the warps of some blocks, in order, and the groups of their blocks.

    Attributes:
        instruction: Of each request the instruction, or `CUT`.
        group: The newest group of sectors that it touches, among those of its block.
        offsets: First request of each warp, shape ``(blocks * warps_per_block + 1,)``.
        sectors: Of each group its number of sectors.
        fresh: Of each group the pairs of sectors (64 bytes) of which the block has asked for none before.
        common: Of each group 1 where others of the blocks ask for all of its sectors, too, else 0.
        group_offsets: First group of each block, shape ``(blocks + 1,)``.
    """

    instruction: Integers
    group: Integers
    offsets: Integers
    sectors: Integers
    fresh: Integers
    common: Integers
    group_offsets: Integers

    def of_blocks(self, blocks: Sequence[int]) -> LoadStreams:
        """The streams of some of the blocks."""
        warps = (len(self.offsets) - 1) // (len(self.group_offsets) - 1)
        of_warps = [slice(self.offsets[b * warps], self.offsets[(b + 1) * warps]) for b in blocks]
        groups = [slice(self.group_offsets[b], self.group_offsets[b + 1]) for b in blocks]
        requests = [np.diff(self.offsets[b * warps : (b + 1) * warps + 1]) for b in blocks]
        return LoadStreams(
            instruction=np.concatenate([self.instruction[part] for part in of_warps]),
            group=np.concatenate([self.group[part] for part in of_warps]),
            offsets=np.append(0, np.cumsum(np.concatenate(requests))),
            sectors=np.concatenate([self.sectors[part] for part in groups]),
            fresh=np.concatenate([self.fresh[part] for part in groups]),
            common=np.concatenate([self.common[part] for part in groups]),
            group_offsets=np.append(0, np.cumsum([part.stop - part.start for part in groups])),
        )


@dataclass(slots=True)
class _Block:
    """Requests of the warps of one block, and the group of each sector."""

    requests: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)
    group_of: dict[int, int] = field(default_factory=dict)
    pairs: set[int] = field(default_factory=set)
    sectors: list[int] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    kept: int = 0

    def add(self, warp: int, instruction: int, sectors: list[int]) -> None:
        """Take note of a request."""
        new = [sector for sector in sectors if sector not in self.group_of]
        group = len(self.sectors)
        if new:
            self.group_of.update(dict.fromkeys(new, group))
            before = len(self.pairs)
            self.pairs.update(sector >> 1 for sector in new)
            self.fresh.append(len(self.pairs) - before)
            self.sectors.append(len(new))
        else:
            group = max(self.group_of[sector] for sector in sectors)
        instructions, groups = self.requests.setdefault(warp, ([], []))
        instructions.append(instruction)
        groups.append(group)
        self.kept += 1

    def common(self, asked: Mapping[int, int]) -> list[int]:
        """Of each group 1 where all of its sectors are ``asked`` for by other blocks, too."""
        alone = {group for sector, group in self.group_of.items() if asked[sector] == 1}
        return [int(group not in alone) for group in range(len(self.sectors))]


class LoadObserver:
    """An observer that keeps the requests of loads of each block; a lane that reads across sectors counts by its first."""

    def __init__(self) -> None:
        self._blocks: dict[int, _Block] = {}

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.space not in _SPACES or site.action not in (Action.LOAD, Action.ASYNC_COPY):
            return
        warps = access.of_warps
        touched = (warps.addresses // np.uint64(SECTOR_BYTES)).astype(np.int64)
        index = site.instruction_index
        for block, warp, sectors, active in zip(
            warps.block.tolist(), warps.warp.tolist(), touched, warps.active, strict=True
        ):
            of_block = self._blocks.setdefault(block, _Block())
            if of_block.kept < KEPT_REQUESTS:
                of_block.add(warp, index, list(dict.fromkeys(sectors[active].tolist())))

    def streams(self, blocks: Sequence[int], warps_per_block: int) -> LoadStreams:
        """The streams of some of the blocks that were seen."""
        found = [self._blocks.get(block, _Block()) for block in blocks]
        asked = Counter(sector for block in found for sector in block.group_of)
        instructions: list[int] = []
        groups: list[int] = []
        offsets = [0]
        for block in found:
            end = [CUT] if block.kept >= KEPT_REQUESTS else []
            for warp in range(warps_per_block):
                own, own_groups = block.requests.get(warp, ([], []))
                instructions += own + end
                groups += own_groups + [0] * len(end)
                offsets.append(len(instructions))
        return LoadStreams(
            instruction=np.array(instructions, np.int64),
            group=np.array(groups, np.int64),
            offsets=np.array(offsets, np.int64),
            sectors=np.array([count for block in found for count in block.sectors], np.int64),
            fresh=np.array([one for block in found for one in block.fresh], np.int64),
            common=np.array([one for block in found for one in block.common(asked)], np.int64),
            group_offsets=np.cumsum([0, *(len(block.sectors) for block in found)]),
        )


def joined(parts: Sequence[LoadStreams]) -> LoadStreams:
    """Streams of blocks one behind the other."""

    def offsets(all_of_them: Sequence[Integers]) -> Integers:
        return np.append(0, np.cumsum(np.concatenate([np.diff(one) for one in all_of_them])))

    return LoadStreams(
        instruction=np.concatenate([part.instruction for part in parts]),
        group=np.concatenate([part.group for part in parts]),
        offsets=offsets([part.offsets for part in parts]),
        sectors=np.concatenate([part.sectors for part in parts]),
        fresh=np.concatenate([part.fresh for part in parts]),
        common=np.concatenate([part.common for part in parts]),
        group_offsets=offsets([part.group_offsets for part in parts]),
    )


class WarpPart(NamedTuple):
    """A warp whose requests another one takes over: its number among all, which requests, and of which copy of its block."""

    warp: int
    kept: Integers
    copy: int = 0


def regrouped(
    streams: LoadStreams, warps_per_block: int, blocks: Sequence[Sequence[Sequence[WarpPart]]]
) -> LoadStreams:
    """Streams of blocks whose warps are put together of parts of others; each block has the groups that its warps touch."""
    instructions, groups, sectors, fresh, common = [], [], [], [], []
    offsets, group_offsets = [0], [0]
    for warps in blocks:
        numbers: dict[tuple[int, int], int] = {}
        for parts in warps:
            offsets.append(offsets[-1])
            for warp, kept, copy in parts:
                own = slice(streams.offsets[warp], streams.offsets[warp + 1])
                first = int(streams.group_offsets[warp // warps_per_block])
                touched = [(copy, first + group) for group in streams.group[own][kept].tolist()]
                instructions.append(streams.instruction[own][kept])
                groups.append(np.array([numbers.setdefault(one, len(numbers)) for one in touched], np.int64))
                offsets[-1] += len(touched)
        whole = np.array([number for _, number in numbers], np.int64)
        sectors.append(streams.sectors[whole])
        fresh.append(streams.fresh[whole])
        common.append(streams.common[whole])
        group_offsets.append(group_offsets[-1] + len(whole))
    return LoadStreams(
        instruction=np.concatenate(instructions),
        group=np.concatenate(groups),
        offsets=np.array(offsets, np.int64),
        sectors=np.concatenate(sectors),
        fresh=np.concatenate(fresh),
        common=np.concatenate(common),
        group_offsets=np.array(group_offsets, np.int64),
    )


def spread(streams: LoadStreams, warps_per_block: int, needed: Mapping[int, float]) -> LoadStreams:
    """Streams in which lanes lie side by side: every request of some instructions is the first to ask for its own sectors.

    ``needed`` has the sectors that a request of such an instruction then asks for. Where one request of a warp has touched what
    the next ones ask for, as lanes do that walk along rows of their own, each of them asks for as many new sectors. What lies
    side by side comes in whole pairs: no more of a warp's are fresh than before, in the same proportion in each request.
    Groups that other warps or instructions touch, too, stay as they are.
    """
    groups, instructions = streams.group.tolist(), streams.instruction.tolist()
    of_groups = streams.sectors.tolist(), streams.fresh.tolist(), streams.common.tolist()
    group_offsets = [0]
    sectors: list[int] = []
    fresh: list[int] = []
    common: list[int] = []
    warp_of = np.repeat(np.arange(len(streams.offsets) - 1), np.diff(streams.offsets)).tolist()
    for block, (first, last) in enumerate(pairwise(streams.group_offsets.tolist())):
        own = slice(streams.offsets[block * warps_per_block], streams.offsets[(block + 1) * warps_per_block])
        touched: dict[int, list[int]] = {}
        for place in (own.start + np.flatnonzero(streams.instruction[own] != CUT)).tolist():
            touched.setdefault(groups[place], []).append(place)
        of_warp: dict[int, _Spread] = {}
        for group in range(last - first):
            places = touched.get(group, [])
            warps = {warp_of[place] for place in places}
            amount, of_fresh, of_common = (numbers[first + group] for numbers in of_groups)
            begin, parts = len(sectors), 1
            if len(warps) == 1 and all(instructions[place] in needed for place in places):
                asked = sum(needed[instructions[place]] for place in places)
                amount = min(amount, max(round(asked), 1))
                parts = min(len(places), amount)
                of_warp.setdefault(warps.pop(), _Spread()).add(range(begin, begin + parts), of_fresh)
            for number, place in enumerate(places):
                groups[place] = begin + number % parts - group_offsets[-1]
            sectors += [_share(amount, parts, number) for number in range(parts)]
            fresh += [of_fresh] * parts
            common += [of_common] * parts
        for one in of_warp.values():
            for number, pairs in zip(one.groups, one.fresh_pairs([sectors[k] for k in one.groups]), strict=True):
                fresh[number] = pairs
        group_offsets.append(len(sectors))
    return replace(
        streams,
        group=np.array(groups, np.int64),
        sectors=np.array(sectors, np.int64),
        fresh=np.array(fresh, np.int64),
        common=np.array(common, np.int64),
        group_offsets=np.array(group_offsets, np.int64),
    )


@dataclass(slots=True)
class _Spread:
    """The groups of a warp whose lanes then lie side by side, and how many pairs were fresh before."""

    groups: list[int] = field(default_factory=list)
    pairs: int = 0

    def add(self, groups: Iterable[int], pairs: int) -> None:
        self.groups += groups
        self.pairs += int(pairs)

    def fresh_pairs(self, sectors: Sequence[int]) -> list[int]:
        """Pairs of each of its groups that are fresh.

        >>> _Spread(pairs=4).fresh_pairs([4, 4, 2]), _Spread(pairs=32).fresh_pairs([4])
        ([1, 2, 1], [2])
        """
        pairs = min(self.pairs, ceil_div(sum(sectors), 2))
        ends = [pairs * end // sum(sectors) for end in accumulate(sectors, initial=0)]
        return [after - before for before, after in pairwise(ends)]


def _share(amount: int, parts: int, number: int) -> int:
    """The part with this number of an amount that is shared out evenly.

    >>> [_share(5, 3, number) for number in range(3)]
    [2, 2, 1]
    """
    return amount // parts + (number < amount % parts)


def first_touches(streams: LoadStreams, warps_per_block: int, blocks: int, instructions: int) -> NDArray[np.float64]:
    """Sectors that each instruction is the first of its block to ask for, in the first so many blocks; shape ``(instructions,)``.

    A group counts for the first of the warps that touches it.
    """
    found = np.zeros(instructions)
    for block in range(blocks):
        own = slice(streams.offsets[block * warps_per_block], streams.offsets[(block + 1) * warps_per_block])
        kept = streams.instruction[own] != CUT
        groups, first = np.unique(streams.group[own][kept], return_index=True)
        sectors = streams.sectors[streams.group_offsets[block] + groups]
        np.add.at(found, streams.instruction[own][kept][first], sectors)
    return found
