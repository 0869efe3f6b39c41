"""The events of `gpc_simulation`, in order of time, as Numba compiles them.

SMs are numbered through, GPC by GPC, and blocks SM by SM, the oldest first. What blocks ask for lies in arrays, one round trip
after the other. Times are cycles.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, SECTOR_BYTES, SECTORS_PER_LINE
from ..core.numba_functions import FunctionT, compiled

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_LONG_AGO = -1e18
_SECTOR_WORDS = SECTOR_BYTES // BANK_BYTES
_SECTOR = (1 << _SECTOR_WORDS) - 1
_LOWER, _UPPER = 0xFFFF, 0xFFFF_0000
"""The words of the halves of a line, as bits."""


def _compiled(function: FunctionT) -> FunctionT:
    """A function that compiled ones alone call."""
    return compiled(function, for_python=False)


class Asked(NamedTuple):
    """What blocks ask for.

    Attributes:
        first_of_sm: first block of each SM, shape ``(SMs + 1,)``.
        gpc_of_sm: GPC of each SM.
        sm_of_block: SM of each block.
        following: the block that begins when a block ends, -1 if there is none.
        counts: whether what a block asks for counts.
        trip_of_block: first round trip of each block, shape ``(blocks + 1,)``.
        number: of each round trip, which of its block's it is, from 0; those that ask for nothing are left out.
        entry_of_trip: first entry of each round trip, shape ``(round trips + 1,)``.
        line: of each entry, numbered from 0.
        of_sm: the pair of SM and line of each entry, numbered from 0.
        of_gpc: the pair of GPC and line of each entry, numbered from 0.
        words: of each entry, as bits.
        load: whether an entry is loaded.
    """

    first_of_sm: Integers
    gpc_of_sm: Integers
    sm_of_block: Integers
    following: Integers
    counts: NDArray[np.bool_]
    trip_of_block: Integers
    number: Integers
    entry_of_trip: Integers
    line: Integers
    of_sm: Integers
    of_gpc: Integers
    words: Integers
    load: NDArray[np.bool_]


class Drawn(NamedTuple):
    """Random numbers, which repeat when all of them have been used.

    Attributes:
        works: cycles of work of a round trip, shape ``(GPCs, n)``.
        slices: cycles that an answer of L2 takes longer, shape ``(GPCs, n)``.
        held: whether L2 holds a line already.
        others: by how many standard deviations before the mean of a round trip others ask for a line.
        places: of L1.
    """

    works: Floats
    slices: Floats
    held: NDArray[np.bool_]
    others: Floats
    places: Integers


class Machine(NamedTuple):
    """Numbers of the GPU and of how fast blocks go on (`gpc_simulation.Pace`).

    Attributes:
        lines: of an L1; 0 where it keeps nothing.
        speeds: what of an SM each of so many blocks has, shape ``(blocks + 1, blocks)``.
        ahead: round trips that a block makes ahead.
        other_lines_cycles: for which a block waits in a round trip for lines that are not looked at.
        sector_cycles, line_cycles: between what an SM asks for.
        l2_sector_cycles: of each GPC.
        dram_sector_cycles: of DRAM.
        l2_latency_cycles, dram_latency_cycles: of L2 and DRAM.
        merging_cycles: for which requests join one that L2 answers.
        merged: requests that join, at most.
        others_ask: whether GPCs that are not simulated ask DRAM for lines.
    """

    lines: int
    speeds: Floats
    ahead: int
    other_lines_cycles: float
    sector_cycles: float
    line_cycles: float
    l2_sector_cycles: Floats
    dram_sector_cycles: float
    l2_latency_cycles: float
    dram_latency_cycles: float
    merging_cycles: float
    merged: int
    others_ask: bool


class State(NamedTuple):
    """What changes: of blocks, SMs, lines of L1s, GPCs, L2 and DRAM. ``loaded``, ``asked`` and ``requests`` are sectors.

    ``ends`` says when each block has what it asked for last.
    """

    trip: Integers
    made: Integers
    came: Floats
    ends: Floats
    working: Integers
    left: Floats
    waiting: Integers
    now: Floats
    port_free: Floats
    next_end: Floats
    done: Integers
    coming: Integers
    coming_at: Floats
    number_coming: Integers
    held: Integers
    since: Floats
    used: Integers
    place: Integers
    in_place: Integers
    filled: Integers
    uses: Integers
    drawn_places: Integers
    pending: Integers
    until: Floats
    answer: Floats
    joined: Integers
    l2_free: Floats
    drawn_works: Integers
    drawn_slices: Integers
    in_l2: Floats
    begun: Integers
    mean: Floats
    squares: Floats
    dram_free: Floats
    drawn_held: Integers
    drawn_others: Integers
    loaded: Integers
    asked: Integers
    requests: Integers


def state_of(asked: Asked, machine: Machine, lines: int) -> State:
    """The state before anything has happened.

    Args:
        asked: what blocks ask for.
        machine: the GPU.
        lines: that are asked for.
    """
    sms, blocks, trips = len(asked.gpc_of_sm), len(asked.sm_of_block), len(asked.number)
    gpcs = len(machine.l2_sector_cycles)
    most = machine.speeds.shape[1]
    of_sm, of_gpc = int(asked.of_sm.max(initial=-1)) + 1, int(asked.of_gpc.max(initial=-1)) + 1
    numbers = int(asked.number.max(initial=-1)) + 1
    whole, real = np.int64, np.float64
    return State(
        trip=np.zeros(blocks, whole),
        made=np.zeros(blocks, whole),
        came=np.zeros(trips, real),
        ends=np.zeros(blocks, real),
        working=np.zeros((sms, most), whole),
        left=np.zeros((sms, most), real),
        waiting=np.zeros(sms, whole),
        now=np.zeros(sms, real),
        port_free=np.zeros(sms, real),
        next_end=np.full(sms, np.inf),
        done=np.zeros(most, whole),
        coming=np.zeros(blocks + 1, whole),
        coming_at=np.zeros(blocks + 1, real),
        number_coming=np.zeros(1, whole),
        held=np.zeros(of_sm, whole),
        since=np.full(of_sm, _LONG_AGO, real),
        used=np.zeros(of_sm, whole),
        place=np.full(of_sm, -1, whole),
        in_place=np.zeros((sms, machine.lines), whole),
        filled=np.zeros(sms, whole),
        uses=np.zeros(sms, whole),
        drawn_places=np.zeros(sms, whole),
        pending=np.zeros((of_gpc, 2), whole),
        until=np.zeros((of_gpc, 2), real),
        answer=np.zeros((of_gpc, 2), real),
        joined=np.zeros((of_gpc, 2), whole),
        l2_free=np.zeros(gpcs, real),
        drawn_works=np.zeros(gpcs, whole),
        drawn_slices=np.zeros(gpcs, whole),
        in_l2=np.full((lines, SECTORS_PER_LINE), np.nan),
        begun=np.zeros(numbers, whole),
        mean=np.zeros(numbers, real),
        squares=np.zeros(numbers, real),
        dram_free=np.zeros(1, real),
        drawn_held=np.zeros(1, whole),
        drawn_others=np.zeros(1, whole),
        loaded=np.zeros(sms, whole),
        asked=np.zeros(sms, whole),
        requests=np.zeros(gpcs, whole),
    )


@_compiled
def _whole_sectors(words: int) -> int:
    """All words of the sectors of which some are given."""
    found = 0
    for sector in range(SECTORS_PER_LINE):
        mask = _SECTOR << (_SECTOR_WORDS * sector)
        if words & mask:
            found |= mask
    return found


@_compiled
def _sectors(words: int) -> int:
    """Of how many sectors some words are given."""
    found = 0
    for sector in range(SECTORS_PER_LINE):
        if words & (_SECTOR << (_SECTOR_WORDS * sector)):
            found += 1
    return found


@_compiled
def _from_dram(s: State, m: Machine, drawn: Drawn, time: float, number: int, sectors: int) -> float:
    """When DRAM gives sectors that are asked for at a time, if no GPC that is not simulated has done so before."""
    if m.others_ask:
        deviations = drawn.others[s.drawn_others[0] % len(drawn.others)]
        s.drawn_others[0] += 1
        time = min(time, s.mean[number] + (s.squares[number] / s.begun[number]) ** 0.5 * deviations)
    served = max(time, s.dram_free[0])
    s.dram_free[0] = served + sectors * m.dram_sector_cycles
    return float(served + m.dram_latency_cycles)


@_compiled
def _in_l2(s: State, m: Machine, drawn: Drawn, line: int, words: int, time: float, number: int) -> float:
    """When L2 has sectors of a line, by their words, that are asked for at a time, in a round trip."""
    came, missing = _LONG_AGO, 0
    for sector in range(SECTORS_PER_LINE):
        if words & (_SECTOR << (_SECTOR_WORDS * sector)):
            if np.isnan(s.in_l2[line, sector]):
                missing += 1
            else:
                came = max(came, s.in_l2[line, sector])
    if missing:
        held = drawn.held[s.drawn_held[0] % len(drawn.held)]
        s.drawn_held[0] += 1
        since = _LONG_AGO if held else _from_dram(s, m, drawn, time, number, missing)
        for sector in range(SECTORS_PER_LINE):
            if words & (_SECTOR << (_SECTOR_WORDS * sector)) and np.isnan(s.in_l2[line, sector]):
                s.in_l2[line, sector] = since
        came = max(came, since)
    return came


@_compiled
def _answered(
    s: State, m: Machine, drawn: Drawn, gpc: int, at: int, line: int, words: int, time: float, number: int, counts: bool
) -> float:
    """When a request for sectors of a line, by their words, made at a time in a round trip of its block, is answered."""
    for half in range(2):
        if s.pending[at, half] == words and time < s.until[at, half] and s.joined[at, half] < m.merged:
            s.joined[at, half] += 1
            return float(s.answer[at, half])
    for half in range(2):
        other = s.pending[at, half]
        if (other & _LOWER and words & _LOWER) or (other & _UPPER and words & _UPPER):
            s.pending[at, half] = 0
    sectors = _sectors(words)
    if counts:
        s.requests[gpc] += sectors
    in_l2 = _in_l2(s, m, drawn, line, words, time, number)
    served = max(time, s.l2_free[gpc])
    s.l2_free[gpc] = served + sectors * m.l2_sector_cycles[gpc]
    slice_cycles = drawn.slices[gpc, s.drawn_slices[gpc] % drawn.slices.shape[1]]
    s.drawn_slices[gpc] += 1
    came = max(served + m.l2_latency_cycles, in_l2) + slice_cycles
    half = 0 if words & _LOWER else 1
    s.pending[at, half] = words
    s.until[at, half] = max(time, in_l2 - m.l2_latency_cycles) + m.merging_cycles
    s.answer[at, half] = came
    s.joined[at, half] = 1
    return float(came)


@_compiled
def _fill(s: State, m: Machine, drawn: Drawn, sm: int, at: int, words: int, since: float) -> None:
    """Put words into L1, where of two lines that are drawn the one that was not used for longer makes room (`l1`)."""
    s.uses[sm] += 1
    if s.place[at] < 0:
        if s.filled[sm] < m.lines:
            place = s.filled[sm]
            s.filled[sm] += 1
        else:
            place = drawn.places[s.drawn_places[sm] % len(drawn.places)]
            other = drawn.places[(s.drawn_places[sm] + 1) % len(drawn.places)]
            s.drawn_places[sm] += 2
            if s.used[s.in_place[sm, other]] < s.used[s.in_place[sm, place]]:
                place = other
            gone = s.in_place[sm, place]
            s.place[gone], s.held[gone], s.since[gone] = -1, 0, _LONG_AGO
        s.in_place[sm, place] = at
        s.place[at] = place
    s.held[at], s.since[at], s.used[at] = words, since, s.uses[sm]


@_compiled
def _make_trip(a: Asked, m: Machine, drawn: Drawn, s: State, sm: int, trip: int, counts: bool) -> float:
    """A block makes a round trip: when it has all that it loads."""
    gpc, number = a.gpc_of_sm[sm], a.number[trip]
    time = s.now[sm]
    distance = time - s.mean[number]
    s.begun[number] += 1
    s.mean[number] += distance / s.begun[number]
    s.squares[number] += distance * (time - s.mean[number])
    came, free = time + m.other_lines_cycles, max(time, s.port_free[sm])
    for entry in range(a.entry_of_trip[trip], a.entry_of_trip[trip + 1]):
        at, words = a.of_sm[entry], a.words[entry]
        held, since = s.held[at], s.since[at]
        if not a.load[entry]:
            if held or (words and m.lines):
                _fill(s, m, drawn, sm, at, held | words, since)
            continue
        came = max(came, since)
        missing = _whole_sectors(words & ~held)
        if counts:
            s.loaded[sm] += _sectors(words)
            s.asked[sm] += _sectors(missing)
        if missing:
            answer = _answered(s, m, drawn, gpc, a.of_gpc[entry], a.line[entry], missing, free, number, counts)
            since = max(since, answer)
            free += max(_sectors(missing) * m.sector_cycles, m.line_cycles)
            came = max(came, since)
        if m.lines:
            _fill(s, m, drawn, sm, at, held | missing, since)
    s.port_free[sm] = free
    return float(came)


@_compiled
def _ask(a: Asked, m: Machine, drawn: Drawn, s: State, sm: int, block: int) -> float:
    """A block has worked: when it has what it needs to go on, after the round trips that it makes now."""
    first, trips = a.trip_of_block[block], a.trip_of_block[block + 1] - a.trip_of_block[block]
    step = s.trip[block]
    while s.made[block] < min(step + m.ahead + 1, trips):
        trip = first + s.made[block]
        s.came[trip] = _make_trip(a, m, drawn, s, sm, trip, a.counts[block])
        s.made[block] += 1
    s.trip[block] += 1
    further = a.number[first + step + 1] - a.number[first + step] - 1 if step + 1 < trips else 0
    s.ends[block] = max(s.now[sm], s.came[first + step]) + further * m.other_lines_cycles
    return float(s.ends[block])


@_compiled
def _has_data(a: Asked, drawn: Drawn, s: State, sm: int, block: int) -> None:
    """A block has what it has waited for, and works until its next round trip of those that are looked at."""
    gpc, trip = a.gpc_of_sm[sm], a.trip_of_block[block] + s.trip[block]
    before = a.number[trip - 1] if s.trip[block] else -1
    works = drawn.works[gpc, s.drawn_works[gpc] % drawn.works.shape[1]] * (a.number[trip] - before)
    s.drawn_works[gpc] += 1
    place = s.waiting[sm]
    while place > 0 and s.working[sm, place - 1] > block:
        s.working[sm, place], s.left[sm, place] = s.working[sm, place - 1], s.left[sm, place - 1]
        place -= 1
    s.working[sm, place], s.left[sm, place] = block, works
    s.waiting[sm] += 1


@_compiled
def _comes_before(s: State, one: int, other: int) -> bool:
    """Whether a block that waits has its data before another one; at the same time the older one comes first."""
    if s.coming_at[one] != s.coming_at[other]:
        return bool(s.coming_at[one] < s.coming_at[other])
    return bool(s.coming[one] < s.coming[other])


@_compiled
def _swap(s: State, one: int, other: int) -> None:
    s.coming_at[one], s.coming_at[other] = s.coming_at[other], s.coming_at[one]
    s.coming[one], s.coming[other] = s.coming[other], s.coming[one]


@_compiled
def _wait(s: State, block: int, time: float) -> None:
    """A block waits until a time: it is put into the heap of those that wait."""
    at = s.number_coming[0]
    s.coming[at], s.coming_at[at] = block, time
    s.number_coming[0] += 1
    while at and _comes_before(s, at, (at - 1) // 2):
        _swap(s, at, (at - 1) // 2)
        at = (at - 1) // 2


@_compiled
def _next_of_waiting(s: State) -> int:
    """The block that waits the least time, which waits no longer."""
    block = s.coming[0]
    s.number_coming[0] -= 1
    _swap(s, 0, s.number_coming[0])
    at = 0
    while True:
        least = at
        for child in range(2 * at + 1, min(2 * at + 3, s.number_coming[0])):
            if _comes_before(s, child, least):
                least = child
        if least == at:
            return int(block)
        _swap(s, at, least)
        at = least


@_compiled
def _finish(a: Asked, m: Machine, drawn: Drawn, s: State, sm: int) -> None:
    """The SM has done the work for blocks, which ask for more."""
    least = s.left[sm, 0]
    for place in range(1, s.waiting[sm]):
        least = min(least, s.left[sm, place])
    least = max(least, 0.0)
    finished, kept = 0, 0
    for place in range(s.waiting[sm]):
        if s.left[sm, place] <= least:
            s.done[finished] = s.working[sm, place]
            finished += 1
        else:
            s.working[sm, kept], s.left[sm, kept] = s.working[sm, place], s.left[sm, place]
            kept += 1
    s.waiting[sm] = kept
    for place in range(finished):
        block = s.done[place]
        came = _ask(a, m, drawn, s, sm, block)
        if a.trip_of_block[block] + s.trip[block] == a.trip_of_block[block + 1]:
            block = a.following[block]
        if block >= 0:
            _wait(s, block, came)


@compiled
def run(a: Asked, m: Machine, drawn: Drawn, s: State, first: Integers, begins: Floats) -> None:
    """Let SMs run all their blocks.

    Args:
        a: what blocks ask for.
        m: the GPU.
        drawn: random numbers.
        s: the state, which changes.
        first: blocks that begin first.
        begins: when each of these begins.
    """
    for number in range(len(first)):
        _wait(s, first[number], begins[number])
    while True:
        sm = 0
        for other in range(1, len(s.next_end)):
            if s.next_end[other] < s.next_end[sm]:
                sm = other
        time, block = s.next_end[sm], -1
        if s.number_coming[0]:
            waiting = a.sm_of_block[s.coming[0]]
            if s.coming_at[0] < time or (s.coming_at[0] == time and waiting < sm):
                time, sm, block = s.coming_at[0], waiting, _next_of_waiting(s)
        if time == np.inf:
            return
        passed, s.now[sm] = time - s.now[sm], time
        if passed > 0.0:
            for place in range(s.waiting[sm]):
                s.left[sm, place] -= passed * m.speeds[s.waiting[sm], place]
        if block >= 0:
            _has_data(a, drawn, s, sm, block)
        else:
            _finish(a, m, drawn, s, sm)
        end = np.inf
        for place in range(s.waiting[sm]):
            end = min(end, s.left[sm, place] / m.speeds[s.waiting[sm], place])
        s.next_end[sm] = time + max(end, 0.0)
