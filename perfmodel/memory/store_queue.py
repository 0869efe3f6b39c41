"""Stores of an SM on their way to L2: what is stored to a line that still waits there joins it.

A queue of store requests, first come first served, at the rate of the SM's port to L2. All lines of a request leave together. A
store takes the lines that it shares with requests before it to the end of the queue, each sector once. Where the lines have no
room, the SM waits until the oldest request has left. So words of a sector that a warp stores one after the other join, unless so
many warps store at a time that the queue is full before a warp's next store.

When warps store is known only about. Stores of a warp without a load or a barrier between follow one another as the machine code
has them, an instruction at the pace at which the warps of an SM share its schedulers. Warps that a barrier has held since their
last load begin about together, others at any time: warps that share a scheduler come the further apart the more they have issued
since the barrier, and the more others there are.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, fields

import numpy as np

from ..core.constants import BANK_BYTES, LINE_BYTES, SECTOR_BYTES, SECTORS_PER_LINE
from ..gpus.gpu import Gpu
from ..ir.instruction import Space
from ..simulator.access import Action, WarpAccess
from .access_counts import READS, patterns_of
from .fitted_shares import shares
from .trace import LOCAL_LINES, SECTORS_OF_MASK, Integers, lines_of_rows, sectors_of

_MOST_ENTRIES = 60_000
"""Lines of stores that are kept."""
_REQUESTS = 4_000
"""Store requests in a row that pass the simulated queue."""
_BLOCK_BITS = 36
"""Words of a block's stacks are fewer than ``2 ** 36``."""
_LEAST_ROUND = 8
"""Instructions from a loop's last store to the first one of its next round, at least."""
_WIDE_BYTES = 8
"""Bytes of a lane up to which a warp's next store follows as soon as that of a word."""
_SECTORS: list[int] = SECTORS_OF_MASK.tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Lines that stores of the blocks of one SM touch, in order of the requests: an entry a line, ``sectors`` as bits.

    ``loads`` counts the loads of the block before, ``barriers`` its barriers and ``barriers_at_load`` those before its last
    load; ``instruction`` and ``cycle`` say where the instruction stands in the code and when a warp alone would issue it,
    ``width`` how many bytes a lane stores.
    """

    block: Integers
    warp: Integers
    request: Integers
    loads: Integers
    barriers: Integers
    barriers_at_load: Integers
    instruction: Integers
    cycle: Integers
    width: Integers
    line: Integers
    sectors: Integers


class StoreTrace:
    """An observer that keeps the stores of some blocks.

    Args:
        blocks: linear indices of the blocks executed.
        of_sm: those that one SM holds together.
        cycles: when a warp alone would issue each instruction, from the begin of the code; all at once when empty.
    """

    def __init__(self, blocks: Integers, of_sm: Integers, cycles: Integers) -> None:
        self._of_sm = np.isin(blocks, of_sm)
        self._cycles = cycles
        self._loads, self._barriers, self._at_load = (np.zeros(len(blocks), np.int64) for _ in range(3))
        self._kept: list[tuple[Integers, ...]] = []
        self._entries = self._requests = 0
        self._positions, self._some = np.zeros(0, np.int64), False

    def access(self, access: WarpAccess) -> None:
        """Keep one access; the order of the calls is the order of time."""
        site, positions = access.site, access.positions
        local = site.space is Space.LOCAL
        if site.space not in (Space.GLOBAL, Space.LOCAL):
            return
        if positions is not self._positions:
            self._positions, self._some = positions, bool(self._of_sm[positions].any())
        if not self._some:
            return
        if access.barriers is not None:
            self._barriers[positions] = access.barriers
        if site.action in READS and not local:
            self._loads[positions] += 1
            self._at_load[positions] = self._barriers[positions]
        if site.action is not Action.STORE or self._entries > _MOST_ENTRIES:
            return
        plan, offset = access.pattern
        patterns = patterns_of(plan)
        size = BANK_BYTES if local else LINE_BYTES
        touched = (patterns.local_lines if local else patterns.lines)(site.width_bytes, offset % size)
        row, warp, line, words = lines_of_rows(plan, touched)
        own = self._of_sm[positions[row]]
        position, warp, line, words = positions[row][own], warp[own], line[own] + offset // size, words[own]
        if local:
            line = LOCAL_LINES + (position << _BLOCK_BITS) + (line << 5) + warp
        self._requests += 1
        cycle = int(self._cycles[site.instruction_index]) if len(self._cycles) else 0
        same = self._requests, site.instruction_index, cycle, site.width_bytes
        request, *of_instruction = (np.full(len(line), value) for value in same)
        of_block = (state[position] for state in (self._loads, self._barriers, self._at_load))
        self._kept.append((position, warp, request, *of_block, *of_instruction, line, sectors_of(words)))
        self._entries += len(line)

    def stores(self) -> Stores:
        """What was kept, warp by warp."""
        columns = [np.concatenate(column) for column in zip(*self._kept, strict=True)] or [np.zeros(0, np.int64)] * 11
        order = np.lexsort((columns[2], columns[1], columns[0]))
        return Stores(**{field.name: column[order] for field, column in zip(fields(Stores), columns, strict=True)})


def left_share(stores: Stores, gpu: Gpu, *, busy_cycles: float, issued: float, warps: int, seed: int = 0) -> float:
    """Sectors that leave the SM, as a part of those stored.

    Args:
        stores: of the blocks of one SM.
        gpu: its schedulers, latencies and port to L2.
        busy_cycles: for which the SM is busy with these blocks.
        issued: their warp instructions.
        warps: of all of them.
        seed: of the times at which warps begin.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> one, both = np.zeros(2, np.int64), np.arange(2)  # a warp stores two words of a sector, and the next one elsewhere
    >>> rest = dict.fromkeys(("loads", "barriers", "barriers_at_load"), one) | {"width": one + 4}
    >>> pair = Stores(block=one, warp=one, request=both, instruction=both, cycle=both, line=one, sectors=one + 1, **rest)
    >>> left_share(pair, load_gpu("h200"), busy_cycles=1000.0, issued=100.0, warps=1)
    0.5
    """
    entry, sector = np.nonzero(stores.sectors[:, None] >> np.arange(SECTORS_PER_LINE) & 1)
    if len(np.unique(stores.line[entry] * SECTORS_PER_LINE + sector)) == len(entry):
        return 1.0  # no sector is stored twice
    who = np.stack([stores.block, stores.warp, stores.request])
    begins = np.flatnonzero(np.append(True, (who[:, 1:] != who[:, :-1]).any(axis=0)))
    times = _times(stores, begins, gpu, busy_cycles, issued, warps, np.random.default_rng(seed))
    order = np.argsort(times, kind="stable")
    first = int(np.random.default_rng(seed).integers(0, max(len(order) - _REQUESTS, 0) + 1))
    ends = np.append(begins[1:], len(stores.line))
    queue = _StoreQueue(SECTOR_BYTES / gpu.l2_store_port_bytes_per_cycle)
    line, sectors = stores.line.tolist(), stores.sectors.tolist()
    for request in order[first : first + _REQUESTS].tolist():
        begin, end = int(begins[request]), int(ends[request])
        queue.store(float(times[request]), line[begin:end], sectors[begin:end])
    return queue.left_share()


def _times(
    stores: Stores,
    begins: Integers,
    gpu: Gpu,
    busy_cycles: float,
    issued: float,
    warps: int,
    rng: np.random.Generator,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """When each request is made, of requests that begin at some entries, warp by warp."""
    columns = (getattr(stores, field.name)[begins] for field in fields(stores))
    block, warp, _, loads, barriers, at_load, instruction, cycle, width, _, _ = columns
    turn = np.unique(np.stack([loads, barriers]), axis=1, return_inverse=True)[1].reshape(-1)
    turns = int(turn.max()) + 1
    span = max(busy_cycles / turns, gpu.dram_latency_cycles)
    pace = max(issued * warps / gpu.schedulers_per_sm**2 / (span * turns), 1.0)
    phase = np.stack([block, loads, barriers, warp])
    new = np.append(True, (phase[:, 1:] != phase[:, :-1]).any(axis=0))
    gap, waits = np.append(0, np.diff(instruction)), np.append(0, np.diff(cycle))
    gap = np.where(gap > 0, gap, _LEAST_ROUND)
    wide = np.append(False, width[:-1] > _WIDE_BYTES)
    least = np.where(wide, shares().wide_store_issue_cycles, shares().store_issue_cycles)
    apart = np.maximum(np.maximum(waits, gap * pace), least)
    since = np.cumsum(np.where(new, 0.0, apart))
    first = np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))
    held = barriers > at_load
    of_phase = np.stack([block, loads, barriers, np.where(held, -1, warp)])
    _, number = np.unique(of_phase, axis=1, return_inverse=True)
    starts = rng.random(int(number.max()) + 1)[number.reshape(-1)]
    in_turn = warp / gpu.schedulers_per_sm * shares().store_issue_cycles
    others = 1.0 - gpu.schedulers_per_sm / warps
    if others > 0.0:
        section = issued / warps / (barriers + 1)
        spread = others * np.hypot(shares().barrier_spread_cycles, shares().issue_spread_cycles * np.sqrt(section))
        _, of_warp = np.unique(phase, axis=1, return_inverse=True)
        in_turn = in_turn + spread * rng.standard_normal(int(of_warp.max()) + 1)[of_warp.reshape(-1)]
    begin = turn * span + starts * gpu.dram_latency_cycles
    found: np.ndarray[tuple[int], np.dtype[np.float64]] = begin + since - since[first]
    found += np.where(held, in_turn, 0.0)
    return found


class _StoreQueue:
    """Requests on their way, the oldest first: their lines with sectors as bits, and when they came."""

    def __init__(self, sector_cycles: float) -> None:
        self._sector_cycles = sector_cycles
        self._requests: OrderedDict[int, tuple[dict[int, int], float]] = OrderedDict()
        self._request_of: dict[int, int] = {}
        self._free = self._busy_until = 0.0
        self._number = self._stored = self._left = 0

    def _leaves(self) -> float:
        """When the oldest request has left."""
        lines, came = next(iter(self._requests.values()))
        sectors = sum(_SECTORS[mask] for mask in lines.values())
        begins: float = max(self._free, came + shares().store_latency_cycles)
        return begins + sectors * self._sector_cycles

    def _leave(self) -> None:
        self._free = self._leaves()
        lines, _ = self._requests.popitem(last=False)[1]
        for line, mask in lines.items():
            self._left += _SECTORS[mask]
            del self._request_of[line]

    def store(self, time: float, lines: list[int], sectors: list[int]) -> None:
        """One request, after those before it."""
        time = max(time, self._busy_until)
        while self._requests and self._leaves() <= time:
            self._leave()
        own: dict[int, int] = {}
        for line, mask in zip(lines, sectors, strict=True):
            self._stored += _SECTORS[mask]
            before = self._request_of.pop(line, None)
            if before is not None:
                waiting = self._requests[before][0]
                own[line] = waiting.pop(line) | mask
                if not waiting:
                    del self._requests[before]
            else:
                own[line] = own.get(line, 0) | mask
        while self._requests and len(self._request_of) + len(own) > shares().store_queue_lines:
            time = max(time, self._leaves())
            self._leave()
        self._number += 1
        self._requests[self._number] = own, time
        self._request_of |= dict.fromkeys(own, self._number)
        self._busy_until = time + len(lines) * shares().store_line_cycles

    def left_share(self) -> float:
        """Sectors that have left, once the queue is empty, as a part of those stored."""
        while self._requests:
            self._leave()
        return self._left / self._stored
