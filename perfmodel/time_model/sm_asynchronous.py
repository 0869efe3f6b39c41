"""What goes on beside the warps of an SM: phases of ``mbarrier`` objects, bulk copies, products of warpgroups.

Parts of `sm_simulation`, compiled with it. What Numba keeps on disk of that file does not notice changes here: it has to change,
too.
"""

from __future__ import annotations

import math

import numpy as np

from ..core.constants import SECTOR_BYTES
from ..core.numba_functions import compiled
from ..machine_code.issue_table import Pipe, Wait
from ..profiles.phase_streams import NO_PHASE
from ..simulator.phases import CUT
from .sm_records import Code, Floats, Integers, Machine, Paths, Stall
from .sm_state import (
    AWAITED,
    BULK,
    COPY,
    COPY_GROUPS,
    DRAM,
    DRAM_BUSY,
    DRAW,
    EVENT,
    L2,
    L2_BUSY,
    LAST,
    LAST_EVENT,
    NEVER,
    NEXT,
    PRODUCT,
    PRODUCTS,
    READ_BUSY,
    READY,
    SCOREBOARDS,
    SENT,
    WAITS_AT,
    WRITE,
    Memory,
    Sm,
    Warps,
)

_PHASE_WAIT, _PHASE_ARRIVAL = int(Wait.PHASE_WAIT), int(Wait.PHASE_ARRIVAL)
_COPIES_ARRIVAL, _BULK_LOAD = int(Wait.COPIES_ARRIVAL), int(Wait.BULK_LOAD)
_TENSOR = int(Pipe.TENSOR)
_LONG = int(Stall.LONG_SCOREBOARD)

DRAW_FACTOR, DRAW_MODULUS = 16807.0, 2147483647.0
"""Of the linear congruential generator of Lewis, Goodman and Miller, which is exact in floating-point numbers."""


@compiled
def freed(releases: Floats, mask: int) -> float:
    """When the scoreboards of a mask are free."""
    time = 0.0
    for board in range(SCOREBOARDS):
        if mask >> board & 1 and releases[board] > time:
            time = releases[board]
    return time


@compiled
def ahead_of_dram(
    machine: Machine, memory: Memory, met: Floats, slot: int, common: int, chance: int, start: float
) -> float:
    """Cycles by which a request for a pair of sectors that a block lacks is answered before one that DRAM answers.

    0 where the block is the first to ask, `NEVER` where L2 has them. Where another block has just asked, both wait for DRAM; the
    less, the longer ago the block has waited like this: blocks begin in step, drift apart, and meet again where one waits.
    """
    firsts = memory.firsts[common]
    firsts[chance] += machine.common_far if common else machine.first_far
    if firsts[chance] >= 1.0 - 1e-9:
        firsts[chance] -= 1.0
        met[slot] = start + machine.dram_latency - machine.l2_latency
        return 0.0
    firsts[chance + 2] += machine.common_joint if common else machine.first_joint
    if firsts[chance + 2] < 1.0 - 1e-9:
        return NEVER
    firsts[chance + 2] -= 1.0
    whole = machine.dram_latency - machine.l2_latency
    waited = max(0.0, whole - machine.drift * max(0.0, start - met[slot]))
    met[slot] = start + waited
    return float(whole - waited)


@compiled
def answered(
    machine: Machine, servers: Floats, start: float, moved: float, ahead: float, filled: float, places: float
) -> float:
    """When L2 or DRAM has answered a request: the later the more of the time it has been busy.

    ``moved``: cycles that DRAM takes for what L2 lacks. ``ahead``: cycles by which the answer comes before one of DRAM, at the
    earliest when L2 gives it. DRAM answers for each of so many ``places`` by itself; neighbouring lines are one.
    """
    servers[DRAM] = max(servers[DRAM], start) + moved
    servers[DRAM_BUSY] += moved
    servers[READ_BUSY] += moved
    since = start - machine.first_cycles
    busy = min(1.0, servers[L2_BUSY] / (since + machine.l2_latency))
    near = servers[L2] + filled + machine.l2_latency * (1.0 + machine.l2_loaded_latency * busy * busy)
    if ahead >= NEVER:
        return float(near)
    busy = min(1.0, servers[DRAM_BUSY] / (since + machine.dram_latency))
    loaded = machine.dram_loaded_latency * busy * busy
    latency = machine.dram_latency * (1.0 + loaded + machine.dram_latency_spread * _drawn(servers, places))
    far = max(servers[L2], servers[DRAM]) + filled + latency
    return float(far if ahead == 0.0 else max(near, far - ahead))


@compiled
def _drawn(servers: Floats, places: float) -> float:
    """A number from a Gumbel distribution of scale 1, 0 on average for a single place; of several the last.

    The most of n such numbers is one of the same distribution, but for ln n on top. The sequence is the same for each run.
    """
    servers[DRAW] = (servers[DRAW] * DRAW_FACTOR + 1.0) % DRAW_MODULUS
    return math.log(max(1.0, places)) - math.log(-math.log((servers[DRAW] + 0.5) / DRAW_MODULUS)) - np.euler_gamma


@compiled
def is_cut(paths: Paths, warp: int, places: Integers) -> bool:
    """Whether the next event of a warp has not been kept."""
    at = places[warp, EVENT]
    return bool(at < places[warp, LAST_EVENT] and paths.event_instruction[at] == CUT)


@compiled
def begin_phases(paths: Paths, sm: Sm, slot: int, trace: int) -> None:
    """Put a block and its warps before their first events."""
    if len(paths.event_instruction) == 0:
        return
    first, warps = paths.phase_offsets[trace], paths.warps_per_block
    sm.blocks.phases_over[slot, :] = 0.0
    for phase in range(paths.phase_offsets[trace + 1] - first):
        sm.blocks.phases_left[slot, phase] = paths.phase_ends[first + phase]
    for own in range(warps):
        places, number = sm.warps.places[slot * warps + own], trace * warps + own
        places[EVENT], places[LAST_EVENT] = paths.event_offsets[number], paths.event_offsets[number + 1]
        places[AWAITED] = NO_PHASE
        places[PRODUCTS] = 0


@compiled
def meet(code: Code, machine: Machine, paths: Paths, sm: Sm, warp: int, index: int, time: float) -> tuple[float, bool]:
    """Execute an instruction of a phase or a bulk copy: when its result is there, and whether its warp waits for others."""
    places, slot = sm.warps.places, warp // paths.warps_per_block
    wait, at = code.wait[index], places[warp, EVENT]
    result = time + machine.phase_latency
    if at >= places[warp, LAST_EVENT] or paths.event_instruction[at] != index:
        return result, False
    places[warp, EVENT] = at + 1
    phase = paths.event_phase[at]
    if wait == _PHASE_WAIT:
        if phase == NO_PHASE:
            return result, False
        if sm.blocks.phases_left[slot, phase] > 0:
            return time, True
        return max(result, sm.blocks.phases_over[slot, phase] + machine.phase_latency), False
    done = time + machine.operand_cycles
    if wait == _COPIES_ARRIVAL:
        done = max(done, sm.warps.times[warp, COPY])
    elif wait == _BULK_LOAD:
        done = _bulk_load(machine, paths, at, time, sm.memory, sm.blocks.met, slot)
    elif wait != _PHASE_ARRIVAL:
        sent = _bulk_store(machine, paths.event_sectors[at], time, sm.memory.servers)
        sm.warps.times[warp, SENT] = max(sm.warps.times[warp, SENT], sent)
    if phase != NO_PHASE:
        _end_phase(code, paths, machine, sm, slot, phase, done)
    return time + machine.operand_cycles, False


@compiled
def hold_back(sm: Sm, paths: Paths, warp: int, index: int, time: float) -> None:
    """Let a warp wait for the phase of the event that it has just executed."""
    places = sm.warps.places[warp]
    places[AWAITED], places[WAITS_AT] = paths.event_phase[places[EVENT] - 1], index
    sm.warps.times[warp, LAST] = time
    sm.warps.times[warp, READY] = NEVER


@compiled
def _end_phase(code: Code, paths: Paths, machine: Machine, sm: Sm, slot: int, phase: int, time: float) -> None:
    """Let an event take part in the end of a phase; with the last one the warps go on that wait for it."""
    blocks, warps = sm.blocks, sm.warps
    blocks.phases_over[slot, phase] = max(blocks.phases_over[slot, phase], time)
    blocks.phases_left[slot, phase] -= 1
    if blocks.phases_left[slot, phase] > 0:
        return
    over = blocks.phases_over[slot, phase] + machine.phase_latency
    for warp in range(slot * paths.warps_per_block, (slot + 1) * paths.warps_per_block):
        places, releases = warps.places[warp], warps.releases[warp]
        if places[AWAITED] != phase:
            continue
        places[AWAITED] = NO_PHASE
        opened = max(over, warps.times[warp, LAST] + machine.phase_latency)
        board = code.write_barrier[places[WAITS_AT]]
        if board < SCOREBOARDS:
            releases[board] = max(releases[board], opened)
        sm.stalls[_LONG] += opened - warps.times[warp, LAST]
        warps.times[warp, READY] = max(opened, freed(releases, code.wait_mask[places[NEXT]]))
        sm.schedulers.stale[warps.home[warp]] = True


@compiled
def _bulk_load(
    machine: Machine, paths: Paths, event: int, time: float, memory: Memory, met: Floats, slot: int
) -> float:
    """When the bytes of a bulk copy are in shared memory: it passes its engine, and no L1."""
    servers, size = memory.servers, paths.event_sectors[event] * SECTOR_BYTES
    common = paths.event_common[event]
    ahead = NEVER
    if paths.event_fresh[event] > 0:
        ahead = ahead_of_dram(machine, memory, met, slot, common, 1, time)
    start = max(servers[BULK], time) if servers[BULK] > 0.0 else time + machine.bulk_first_cycles
    servers[BULK] = start + size / machine.bulk_bytes_per_cycle
    asked = size * machine.bulk_asked
    taken = max(size / machine.bulk_port_bytes_per_cycle, asked / machine.l2_share)
    servers[L2] = max(max(servers[L2], start) + taken, servers[BULK])
    servers[L2_BUSY] += asked / machine.l2_share
    moved = asked * machine.dram_share / machine.dram_bytes_per_cycle
    return answered(machine, servers, start, moved, ahead, 0.0, 1.0)


@compiled
def _bulk_store(machine: Machine, sectors: int, time: float, servers: Floats) -> float:
    """When the bytes of a bulk copy have left the SM."""
    size = sectors * SECTOR_BYTES
    servers[WRITE] = max(servers[WRITE], time) + size / machine.store_bytes_per_cycle
    written = size * machine.bulk_written / machine.dram_bytes_per_cycle
    servers[DRAM] = max(servers[DRAM], time) + written
    servers[DRAM_BUSY] += written
    return float(max(servers[WRITE], servers[DRAM] - machine.dram_latency))


@compiled
def multiply(code: Code, machine: Machine, warps: Warps, warp: int, index: int, pipes: Floats) -> None:
    """Note when a product of a warpgroup is there, whose pipe has been taken, and close its group if it is the last one."""
    times, places = warps.times[warp], warps.places[warp]
    times[PRODUCT] = max(times[PRODUCT], pipes[_TENSOR] + machine.product_latency)
    if code.groups_left[index]:
        warps.products[warp, places[PRODUCTS] % COPY_GROUPS] = times[PRODUCT]
        places[PRODUCTS] += 1


@compiled
def groups_over(times: Floats, groups: int) -> float:
    """When the first so many groups of a warp are over; the time of a group is that of all before it, too."""
    return float(times[(groups - 1) % COPY_GROUPS]) if groups > 0 else 0.0


@compiled
def multiplied(code: Code, warps: Warps, warp: int, index: int) -> float:
    """When the groups of products are there that a warp waits for."""
    return groups_over(warps.products[warp], warps.places[warp, PRODUCTS] - code.groups_left[index])
