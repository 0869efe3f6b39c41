"""Parts of long blocks that stand for the whole: what their warps issue in some windows, one after the other.

Blocks change as they go on: a tree of sums has fewer and fewer warps at work, a triangle shorter and shorter rows. What an SM
does in the first instructions of a long block therefore says little of the rest. Windows all over the block say more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..core.numba_functions import compiled
from ..machine_code.issue_table import Wait
from ..profiles.load_streams import CUT
from ..profiles.warp_traces import WarpTraces
from .sm_records import Integers

Floats = NDArray[np.float64]

WINDOWS = 8
"""Windows of a block that are followed, the first from its beginning and the last up to its end."""
LEAST_WINDOW = 16
"""Instructions of a warp in a window of the shorter sample, at least."""
PARTS = 3
"""Parts of the budget: the shorter sample has one of them, the longer one two."""
ANY_GROUP = -1
"""In place of the group of a load: which one is not known, and another load has asked for it before."""
_LOADS = (Wait.GLOBAL_LOAD, Wait.ASYNC_COPY)
_BARRIERS = (Wait.BARRIER, Wait.CLUSTER_BARRIER)


def samples(traces: WarpTraces, instructions: float) -> tuple[WarpTraces, WarpTraces] | None:
    """The same blocks twice, with windows of them: a third of so many instructions for a block on average, and two thirds.

    The first window begins with the block and the last one ends with it; these two are as long in both. All warps of a block are
    at the same place where a window begins or ends: behind as many barriers, and at the same part of what they issue up to the
    next one. So each meets all barriers of a window. Loads go with their instructions. Of long blocks only the first loads are
    kept one by one: windows are of the part in which all are known.

    None where that part is too short, or windows would be (`LEAST_WINDOW`), and for blocks with phases of an ``mbarrier``.
    """
    if len(traces.phases) or instructions < PARTS * WINDOWS * LEAST_WINDOW * traces.warps_per_block:
        return None
    blocks = [_Block.of(traces, block) for block in range(traces.blocks)]
    known = sum(block.known for block in blocks)
    if known <= instructions * len(blocks):
        return None
    share = instructions * len(blocks) / known / PARTS / WINDOWS
    return _within_windows(traces, blocks, share, share), _within_windows(traces, blocks, share, _longer(share))


def _longer(share: float) -> float:
    """The share of a window between the first and the last one, so that all of them together are twice as long."""
    return share * (2.0 * WINDOWS - 2.0) / (WINDOWS - 2.0)


def _within_windows(traces: WarpTraces, blocks: list[_Block], edge: float, middle: float) -> WarpTraces:
    parts = [block.windows(edge, middle) for block in blocks]
    ways = [way for block, part in zip(blocks, parts, strict=True) for way in block.cut(part)]
    asked = [one for block, part in zip(blocks, parts, strict=True) for one in block.loads_within(part)]
    return structs.replace(
        traces,
        first=np.concatenate([way[0] for way in ways]),
        length=np.concatenate([way[1] for way in ways]),
        offsets=np.append(0, np.cumsum([len(way[0]) for way in ways])),
        loads=replace(
            traces.loads,
            instruction=np.concatenate([one[0] for one in asked]),
            group=np.concatenate([one[1] for one in asked]),
            offsets=np.append(0, np.cumsum([len(one[0]) for one in asked])),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Warp:
    """The way of a warp, and where on it are its barriers and loads, in instructions from its beginning.

    ``begins`` are the places behind its barriers, its beginning first and its end last.
    """

    first: Integers
    length: Integers
    begins: Integers
    asks: Integers
    instruction: Integers
    group: Integers
    cut: bool

    @classmethod
    def of(cls, traces: WarpTraces, warp: int) -> _Warp:
        own = slice(traces.offsets[warp], traces.offsets[warp + 1])
        asked = slice(traces.loads.offsets[warp], traces.loads.offsets[warp + 1])
        first, length = traces.first[own], traces.length[own]
        barriers = _places(first, length, np.isin(traces.table.wait, _BARRIERS))[0]
        places, loads = _places(first, length, np.isin(traces.table.wait, _LOADS))
        instruction, group = traces.loads.instruction[asked], traces.loads.group[asked]
        kept = instruction != CUT
        found = np.zeros(np.count_nonzero(kept), np.int64)
        _match(loads, instruction[kept], found)
        return cls(
            first=first,
            length=length,
            begins=np.concatenate([[0], barriers + 1, [length.sum()]]),
            asks=np.append(places, length.sum())[found],
            instruction=instruction[kept],
            group=group[kept],
            cut=not kept.all(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The warps of a block, and how far it is behind each barrier: instructions of all warps up to there."""

    warps: list[_Warp]
    behind: Integers
    known: float

    @classmethod
    def of(cls, traces: WarpTraces, block: int) -> _Block:
        each = traces.warps_per_block
        warps = [_Warp.of(traces, warp) for warp in range(block * each, block * each + each)]
        lengths = np.zeros(max(len(warp.begins) for warp in warps) - 1, np.int64)
        for warp in warps:
            lengths[: len(warp.begins) - 1] += np.diff(warp.begins)
        found = cls(warps=warps, behind=np.append(0, np.cumsum(lengths)), known=float(lengths.sum()))
        ends = [found.passed(warp, warp.asks[-1:] + 1) for warp in warps if warp.cut and len(warp.asks)]
        return replace(found, known=float(min([found.known, *(float(end[0]) for end in ends)])))

    def passed(self, warp: _Warp, places: Integers) -> Floats:
        """How far the block is when a warp is at these places."""
        part = np.clip(np.searchsorted(warp.begins, places, side="right") - 1, 0, len(warp.begins) - 2)
        own = np.maximum(np.diff(warp.begins)[part], 1)
        return self.behind[part] + (places - warp.begins[part]) / own * np.diff(self.behind)[part]

    def places(self, warp: _Warp, passed: Floats) -> Integers:
        """Where a warp is when the block has come so far."""
        part = np.clip(np.searchsorted(self.behind, passed, side="right") - 1, 0, len(self.behind) - 2)
        share = (passed - self.behind[part]) / np.maximum(np.diff(self.behind)[part], 1)
        ends = len(warp.begins) - 1
        own = np.append(np.diff(warp.begins), 0)[np.minimum(part, ends)]
        return np.asarray(warp.begins[np.minimum(part, ends)] + np.floor(share * own), np.int64)

    def windows(self, edge: float, middle: float) -> Floats:
        """From where to where windows reach, shape ``(WINDOWS, 2)``: shares of what is known of the block.

        Those between the first and the last one lie in the middle of parts of equal length.
        """
        centers = edge + (np.arange(WINDOWS - 2) + 0.5) * (1.0 - 2.0 * edge) / (WINDOWS - 2)
        begin = np.concatenate([[0.0], centers - middle / 2.0, [1.0 - edge]])
        end = np.concatenate([[edge], centers + middle / 2.0, [1.0]])
        return self.known * np.stack([begin, end], axis=1)

    def cut(self, windows: Floats) -> list[tuple[Integers, Integers]]:
        """The stretches of each warp within windows."""
        found = []
        for warp in self.warps:
            ends = np.cumsum(warp.length)
            parts = []
            for begin, end in self.places(warp, windows.ravel()).reshape(-1, 2).tolist():
                inside = slice(np.searchsorted(ends, begin, side="right"), np.searchsorted(ends - warp.length, end))
                late = np.maximum(begin - (ends - warp.length)[inside], 0)
                early = np.maximum(ends[inside] - end, 0)
                parts.append((warp.first[inside] + late, warp.length[inside] - late - early))
            found.append((np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])))
        return found

    def loads_within(self, windows: Floats) -> list[tuple[Integers, Integers]]:
        """Instructions and groups of the loads of each warp within windows.

        A group that was asked for first outside of them is none of theirs.
        """
        passed = [self.passed(warp, warp.asks) for warp in self.warps]
        inside = [_within(warp.asks, self.places(warp, windows.ravel()).reshape(-1, 2)) for warp in self.warps]
        groups = np.concatenate([warp.group for warp in self.warps])
        order = np.argsort(np.concatenate(passed), kind="stable")
        numbers, firsts = np.unique(groups[order], return_index=True)
        here = np.concatenate(inside)[order][firsts]
        asked_here = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 0, np.bool_)
        asked_here[numbers] = here
        return [
            (warp.instruction[kept], np.where(asked_here[warp.group], warp.group, ANY_GROUP)[kept])
            for warp, kept in zip(self.warps, inside, strict=True)
        ]


def _within(places: Integers, windows: Integers) -> NDArray[np.bool_]:
    """Which places lie in one of some windows, which are in order."""
    window = np.maximum(np.searchsorted(windows[:, 0], places, side="right") - 1, 0)
    return np.asarray((places >= windows[window, 0]) & (places < windows[window, 1]), np.bool_)


def _places(first: Integers, length: Integers, chosen: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Where on a way are the instructions that were chosen, and which ones these are."""
    instructions = np.flatnonzero(chosen)
    begin, end = np.searchsorted(instructions, first), np.searchsorted(instructions, first + length)
    number = end - begin
    stretch = np.repeat(np.arange(len(first)), number)
    further = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
    found = instructions[begin[stretch] + further]
    return (np.cumsum(length) - length)[stretch] + found - first[stretch], found


@compiled
def _match(executed: Integers, asked: Integers, places: Integers) -> None:
    """Which executed loads are those that lanes took part in; the number of all where there is none."""
    at = 0
    for request in range(len(asked)):
        while at < len(executed) and executed[at] != asked[request]:
            at += 1
        places[request] = at
        at = min(at + 1, len(executed))
