"""One SM, cycle by cycle of what happens: warps issue in order, wait for scoreboards, pipes and memory, and blocks follow blocks.

A model of events, not of cycles: the next instruction of the warp that can issue first is issued, and what it occupies and
when its result comes is written down. Compiled by Numba; `sm_time` prepares its arrays and reads its result.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ..core.constants import LINE_BYTES, SECTOR_BYTES
from ..machine_code.issue_table import BANKS, Pipe, Wait
from ..profiles.load_streams import CUT
from .sm_records import STALLS, Code, Floats, Integers, Machine, Paths, Run, Stall

PIPES = len(Pipe) + 1
SCOREBOARDS = 6
SECTORS_PER_LINE = LINE_BYTES // SECTOR_BYTES
COPY_GROUPS = 16
"""Groups of asynchronous copies of a warp that are distinguished."""
NEVER = 1e18

# columns of the state of a warp
_READY, _LAST, _COPY, _SENT, _ENDED = 0, 1, 2, 3, 4
_TIMES = 5
_STRETCH, _OFFSET, _END, _NEXT, _AGE, _GROUPS, _AT_BARRIER, _REQUEST, _LAST_REQUEST, _TRACE = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
)
_PLACES = 10
# servers of the SM
_DATA, _L2, _DRAM, _WRITE, _FETCH, _DRAM_BUSY, _CONSTANTS, _FAR_FETCH, _L2_BUSY = 0, 1, 2, 3, 4, 5, 6, 7, 8
_CONSTANT_LINES, _FAR_CONSTANTS, _ARRIVALS, _ATOMICS = 9, 10, 11, 12
_SERVERS = 13

_SHARED, _GLOBAL_LOAD, _GLOBAL_STORE = int(Wait.SHARED), int(Wait.GLOBAL_LOAD), int(Wait.GLOBAL_STORE)
_REDUCTION, _ATOMIC = int(Wait.GLOBAL_REDUCTION), int(Wait.GLOBAL_ATOMIC)
_LOCAL_LOAD, _LOCAL_STORE, _ASYNC_COPY = int(Wait.LOCAL_LOAD), int(Wait.LOCAL_STORE), int(Wait.ASYNC_COPY)
_NOBODY_ASKS, _ANY_GROUP = -2, -1
"""In place of a group: no lane of the warp takes part; which group is not known."""
_COPY_GROUP, _COPY_WAIT, _BARRIER = int(Wait.COPY_GROUP), int(Wait.COPY_WAIT), int(Wait.BARRIER)
_CONSTANT, _BRANCH = int(Wait.CONSTANT), int(Wait.BRANCH)
_FENCE, _CLUSTER_BARRIER = int(Wait.FENCE), int(Wait.CLUSTER_BARRIER)
_FMA, _FMA_HEAVY, _FMA_LITE = int(Pipe.FMA), int(Pipe.FMA_HEAVY), len(Pipe)
_NO_PIPE = int(Pipe.NONE)
_LONG, _SHORT, _FIXED_STALL = int(Stall.LONG_SCOREBOARD), int(Stall.SHORT_SCOREBOARD), int(Stall.WAIT)
_BARRIER_STALL, _FETCH_STALL, _THROTTLE = int(Stall.BARRIER), int(Stall.NO_INSTRUCTION), int(Stall.THROTTLE)
_NOT_SELECTED = int(Stall.NOT_SELECTED)


def _freed(releases: Floats, mask: int) -> float:
    """When the scoreboards of a mask are free."""
    time = 0.0
    for board in range(SCOREBOARDS):
        if mask >> board & 1 and releases[board] > time:
            time = releases[board]
    return time


def _fetched(
    lines: Floats,
    inserted: Integers,
    held: Integers,
    reached: Floats,
    machine: Machine,
    servers: Floats,
    line: int,
    time: float,
) -> float:
    """When a line of code is in the scheduler's cache, which keeps the last ones that it took in order.

    ``lines``: arrival of each line; ``inserted``: its number in the order, at the end the count of all; ``held`` and
    ``reached``: order and arrival of lines in the SM's cache, from which schedulers take what they lack.
    """
    if inserted[line] > 0 and inserted[line] > inserted[-1] - machine.l0_lines:
        return float(lines[line])
    servers[_FETCH] = max(servers[_FETCH], time) + machine.fetch_cycles
    if held[line] == 0 or held[line] <= held[-1] - machine.l1_lines:
        servers[_FAR_FETCH] = max(servers[_FAR_FETCH], time) + machine.far_fetch_cycles
        reached[line] = servers[_FAR_FETCH]
        held[-1] += 1
        held[line] = held[-1]
    inserted[-1] += 1
    inserted[line] = inserted[-1]
    lines[line] = max(servers[_FETCH], reached[line]) + machine.fetch_latency
    return float(lines[line])


def _walked(code: Code, paths: Paths, warp: int, index: int, places: Integers, walked: Integers) -> int:
    """The line of constants that a warp reads next by an instruction, -1 where that is not known."""
    walk = code.constant_walk[index]
    of_block = places[warp, _AGE] % ((len(paths.walk_offsets) - 1) // paths.walks) * paths.walks + walk
    first, end = paths.walk_offsets[of_block], paths.walk_offsets[of_block + 1]
    if end == first:
        return -1
    walked[warp, walk] += 1
    return int(paths.walk_lines[first + (walked[warp, walk] - 1) % (end - first)])


def _constant(
    lines: Floats,
    inserted: Integers,
    machine: Machine,
    paths: Paths,
    servers: Floats,
    reached: Floats,
    line: int,
    cycles: float,
    time: float,
) -> float:
    """When a line of constants is in a cache, each set of which keeps the last ones that it took in order.

    ``lines`` and ``inserted`` as for `_fetched`, at the end a count for each set; ``reached``: when the group of lines that comes
    from L2 is in the SM.
    """
    if line < 0:
        return time
    last, far = len(lines) + paths.constant_set[line], paths.constant_far[line]
    if inserted[line] > 0 and inserted[line] > inserted[last] - machine.constant_ways:
        return float(lines[line])
    if reached[far] == 0.0:
        servers[_FAR_CONSTANTS] = max(servers[_FAR_CONSTANTS], time) + machine.constant_far_latency
        reached[far] = servers[_FAR_CONSTANTS]
    start = max(servers[_CONSTANT_LINES], time, reached[far])
    servers[_CONSTANT_LINES] = start + cycles
    inserted[last] += 1
    inserted[line] = inserted[last]
    lines[line] = start + machine.constant_latency
    return float(lines[line])


def _access(
    code: Code,
    machine: Machine,
    index: int,
    first: bool,
    time: float,
    servers: Floats,
    chances: Floats,
    far: Floats,
) -> tuple[float, float]:
    """Issue a memory instruction: when its result is there, and when it has read its operands.

    What a block asks for ``first`` is not looked up here (`_touch`). ``chances`` and ``far`` add up the chances of each
    instruction to go behind L1 and to wait for DRAM, so that as many requests do as the counts say, evenly.
    """
    wait = code.wait[index]
    read = time + machine.operand_cycles
    if wait == _CONSTANT:
        servers[_CONSTANTS] = max(time, servers[_CONSTANTS]) + code.data_cycles[index]
        return servers[_CONSTANTS] + code.latency[index], read
    start = max(time, servers[_DATA])
    servers[_DATA] = start + code.data_cycles[index]
    if wait == _SHARED:
        return servers[_DATA] + machine.shared_latency + code.latency[index], read
    if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION, _ATOMIC):
        servers[_WRITE] = max(servers[_WRITE], start) + code.write_cycles[index]
        written = code.written_bytes[index] / machine.dram_bytes_per_cycle
        servers[_DRAM] = max(servers[_DRAM], start) + written
        servers[_DRAM_BUSY] += written
    if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION):
        servers[_DATA] = max(servers[_DATA], _behind_stores(machine, servers) - machine.write_queue_cycles)
        return servers[_DATA], read
    if not first:
        chances[index] += code.miss_chance[index]
    if first or chances[index] < 1.0 - 1e-9:
        return servers[_DATA] + machine.l1_latency + code.latency[index], read
    chances[index] -= 1.0
    far[index] += code.far_chance[index]
    waits = far[index] >= 1.0 - 1e-9
    if waits:
        far[index] -= 1.0
    missed = code.missed_bytes[index]
    came = _behind_l1(machine, start, missed, missed * code.lines_per_byte[index], waits, servers)
    if wait == _ATOMIC:
        came = max(came, _behind_stores(machine, servers) + machine.l2_latency) + code.latency[index]
    return came, read


def _behind_stores(machine: Machine, servers: Floats) -> float:
    """When the stores so far have left the SM: what DRAM does not take yet fills L2 and holds them up."""
    return float(max(servers[_WRITE], servers[_DRAM] - machine.dram_latency))


def _behind_l1(machine: Machine, start: float, missed_bytes: float, lines: float, far: bool, servers: Floats) -> float:
    """When L2 or DRAM has answered a request: the later the more of the time it has been busy.

    L1 asks for one line after the other, and each that comes takes its data pipe again.
    """
    filled = lines * machine.fill_cycles
    servers[_DATA] = max(servers[_DATA], start) + filled
    taken = max(missed_bytes / machine.l2_bytes_per_cycle, lines * machine.miss_cycles)
    servers[_L2] = max(servers[_L2], start) + taken
    servers[_L2_BUSY] += missed_bytes / machine.l2_share
    moved = missed_bytes * machine.dram_share / machine.dram_bytes_per_cycle
    if lines > 0.0:  # a sector of each line, and not more
        apart = min(1.0, max(0.0, 2.0 - missed_bytes / (SECTOR_BYTES * lines)))
        moved *= 1.0 + apart * (machine.dram_scattered_cost - 1.0)
    servers[_DRAM] = max(servers[_DRAM], start) + moved
    servers[_DRAM_BUSY] += moved
    since = start - machine.first_cycles
    if not far:
        busy = min(1.0, servers[_L2_BUSY] / (since + machine.l2_latency))
        return float(servers[_L2] + filled + machine.l2_latency * (1.0 + machine.l2_loaded_latency * busy * busy))
    busy = min(1.0, servers[_DRAM_BUSY] / (since + machine.dram_latency))
    latency = machine.dram_latency * (1.0 + machine.dram_loaded_latency * busy * busy)
    return float(max(servers[_L2], servers[_DRAM]) + filled + latency)


def _touch(
    machine: Machine,
    sectors: int,
    lines: float,
    fresh: int,
    start: float,
    hit: float,
    joint: bool,
    servers: Floats,
    firsts: Floats,
) -> float:
    """When the sectors of a group are there that a block asks for first; ``hit``: if L1 has them.

    ``joint``: other blocks of the SM began with this one, so that what it finds in L1 they have just asked for: it waits with
    them. ``firsts`` adds up the chances of such sectors to be missed by L1, and to wait for DRAM, and of joint waits likewise.
    """
    firsts[0] += machine.first_missed
    missed = firsts[0] >= 1.0 - 1e-9
    if missed:
        firsts[0] -= 1.0
    elif not joint:
        return hit
    far, chance = False, 1 if missed else 2
    if fresh > 0:
        firsts[chance] += machine.first_far
        far = firsts[chance] >= 1.0 - 1e-9
        if far:
            firsts[chance] -= 1.0
    if not missed:
        return max(hit, start + (machine.dram_latency if far else machine.l2_latency))
    return max(hit, _behind_l1(machine, start, sectors * SECTOR_BYTES, lines, far, servers))


def _next_group(paths: Paths, warp: int, index: int, places: Integers) -> int:
    """The group that the next request of a warp touches, where it is of that instruction."""
    at = places[warp, _REQUEST]
    if at >= places[warp, _LAST_REQUEST] or paths.request_instruction[at] != index:
        return _NOBODY_ASKS
    places[warp, _REQUEST] = at + 1
    return int(paths.request_group[at])


def _last_of(times: Floats, first: int, count: int) -> float:
    """The last of so many times in a ring."""
    last = 0.0
    for place in range(first, first + count):
        last = max(last, times[place % len(times)])
    return last


def _is_cut(paths: Paths, warp: int, places: Integers) -> bool:
    """Whether the next request of a warp has not been kept."""
    at = places[warp, _REQUEST]
    return bool(at < places[warp, _LAST_REQUEST] and paths.request_instruction[at] == CUT)


def _earliest(
    code: Code,
    machine: Machine,
    members: Integers,
    times: Floats,
    places: Integers,
    pipes: Floats,
    banks: Floats,
    free: float,
    last: int,
) -> tuple[float, int]:
    """The warp of a scheduler that can issue first, and when: of several the one that issued last, then the oldest."""
    best, chosen, age = NEVER, -1, 0
    for warp in members:
        if warp < 0:
            break
        time = times[warp, _READY]
        if time >= NEVER:
            continue
        time = max(time, free)
        index = places[warp, _NEXT]
        pipe = code.pipe[index]
        for bank in range(BANKS):
            if code.bank_reads[index, bank] > 0.0:
                time = max(time, banks[bank] - machine.operand_queue_cycles)
        if pipe == _FMA and machine.split_fma:
            time = max(time, min(pipes[_FMA_HEAVY], pipes[_FMA_LITE]))
        elif pipe == _FMA_HEAVY and not machine.split_fma:
            time = max(time, pipes[_FMA])
        elif pipe != _NO_PIPE:
            time = max(time, pipes[pipe])
        better = time == best and (warp == last or (chosen != last and places[warp, _AGE] < age))
        if time < best or better:
            best, chosen, age = time, warp, places[warp, _AGE]
    return best, chosen


def _occupy(code: Code, machine: Machine, index: int, time: float, pipes: Floats, banks: Floats) -> None:
    """Take the pipe of an instruction, and the banks of registers that it reads."""
    for bank in range(BANKS):
        if code.bank_reads[index, bank] > 0.0:
            banks[bank] = max(banks[bank], time) + code.bank_reads[index, bank]
    pipe = code.pipe[index]
    until = time + code.pipe_cycles[index]
    if pipe == _FMA and machine.split_fma:
        if pipes[_FMA_LITE] <= time:
            pipes[_FMA_LITE] = until
        else:
            pipes[_FMA_HEAVY] = until
    elif pipe == _FMA_HEAVY and not machine.split_fma:
        pipes[_FMA] = until
    elif pipe != _NO_PIPE:
        pipes[pipe] = until


def _simulate(
    code: Code, paths: Paths, machine: Machine, resident: int, most: int, blocks: int, budget: int, log: Floats
) -> Run:
    """Run blocks on one SM until all have ended, or until the budget of instructions is used up.

    Args:
        code: the instructions.
        paths: what the warps of each traced block issue; blocks take them in turn.
        machine: the SM.
        resident: blocks for whose warps it has places: those that begin together.
        most: blocks that it holds where warps have ended before their blocks: when a block ends, as many begin as the places of
            all ended warps hold.
        blocks: blocks that it runs one after the other.
        budget: instructions to issue at most.
        log: shape ``(n, 3)``: warp, instruction and cycle of the first n instructions are written into it.
    """
    warps = paths.warps_per_block
    count = most * warps
    times = np.zeros((count, _TIMES))
    times[:, _READY] = NEVER
    places = np.zeros((count, _PLACES), np.int64)
    releases = np.zeros((count, SCOREBOARDS))
    kinds = np.zeros((count, SCOREBOARDS), np.int64)
    groups = np.zeros((count, COPY_GROUPS))
    pipes = np.zeros((machine.schedulers, PIPES))
    banks = np.zeros((machine.schedulers, BANKS))
    free = np.zeros(machine.schedulers)
    last = np.full(machine.schedulers, -1, np.int64)
    arrivals = np.zeros((machine.schedulers, machine.code_lines))
    inserted = np.zeros((machine.schedulers, machine.code_lines + 1), np.int64)
    held, reached = np.zeros(machine.code_lines + 1, np.int64), np.zeros(machine.code_lines)
    if machine.code_lines <= machine.l1_lines:  # fetched as the launch begins, and kept
        held[-1] = machine.code_lines
    for fetched in range(held[-1]):
        held[fetched] = fetched + 1
    servers = np.zeros(_SERVERS)
    chances, far = np.zeros(len(code.pipe)), np.zeros(len(code.pipe))
    firsts = np.zeros(3)
    groups_of_block = 1
    for trace in range(len(paths.group_offsets) - 1):
        groups_of_block = max(groups_of_block, paths.group_offsets[trace + 1] - paths.group_offsets[trace])
    groups_arrive = np.zeros((most, groups_of_block))
    constants = len(paths.constant_far)
    held_constants = np.zeros((machine.schedulers + 1, constants))  # the last one is the SM's, for reads by index
    constant_order = np.zeros((machine.schedulers + 1, constants + machine.constant_sets), np.int64)
    constant_groups = np.zeros(constants)
    walked = np.zeros((count, max(paths.walks, 1)), np.int64)
    streams = len(paths.request_instruction) > 0
    in_wave = paths.length.sum() * resident // paths.blocks
    living = np.zeros(most, np.int64)
    waiting = np.zeros(most, np.int64)
    arrived = np.zeros(most)
    occupied = np.zeros(most, np.bool_)
    finished = np.zeros(blocks)
    stalls = np.zeros(STALLS)
    earliest = np.full(machine.schedulers, NEVER)
    chosen = np.full(machine.schedulers, -1, np.int64)
    stale = np.ones(machine.schedulers, np.bool_)
    home, members = _homes(most, warps, machine.schedulers)
    queue = np.zeros(machine.data_queue)
    flying = np.zeros(machine.loads_in_flight)
    copies = np.zeros(machine.copied_lines)
    loaded, copied = 0, 0
    started, ended, issued, asked = 0, 0, 0, 0
    dispatched, now, wave = 0.0, 0.0, 0.0
    empty = 0

    for slot in range(min(resident, blocks)):
        begin = max(dispatched + machine.block_start_cycles, machine.first_cycles)
        dispatched += machine.dispatch_cycles
        living[slot] = _start_block(paths, slot, started, begin, times, places, releases, groups_arrive, walked)
        empty += living[slot] == 0
        occupied[slot] = True
        started += 1
    while ended < blocks and issued < budget and empty < resident:
        scheduler = 0
        for s in range(machine.schedulers):
            if stale[s]:
                earliest[s], chosen[s] = _earliest(
                    code, machine, members[s], times, places, pipes[s], banks[s], free[s], last[s]
                )
                stale[s] = False
            if earliest[s] < earliest[scheduler]:
                scheduler = s
        time, warp = earliest[scheduler], chosen[scheduler]
        if warp < 0:
            break
        index = places[warp, _NEXT]
        wait = code.wait[index]
        in_memory = (wait >= _SHARED and wait <= _ASYNC_COPY) or wait == _CONSTANT
        loads = streams and wait in (_GLOBAL_LOAD, _ASYNC_COPY)
        if loads and _is_cut(paths, warp, places):
            break
        if in_memory and queue[asked % machine.data_queue] > time:
            until = queue[asked % machine.data_queue]
            stalls[_THROTTLE] += until - time
            times[warp, _READY] = until
            stale[scheduler] = True
            continue
        stalls[_NOT_SELECTED] += time - times[warp, _READY]
        if issued < len(log):
            log[issued, 0], log[issued, 1], log[issued, 2] = warp, index, time
        issued += 1
        now = time
        if issued <= in_wave:
            wave = now
        free[scheduler] = time + code.issue_cycles[index]
        last[scheduler] = warp
        _occupy(code, machine, index, time, pipes[scheduler], banks[scheduler])
        fixed = time + code.stall_cycles[index]
        if wait == _BRANCH:
            fixed += machine.branch_cycles
        result, read = time + code.latency[index], time + machine.operand_cycles
        kind, arrival = _SHORT, 0.0
        if in_memory:
            group = _next_group(paths, warp, index, places) if loads else _ANY_GROUP
            server = _CONSTANTS if wait == _CONSTANT else _DATA
            queue[asked % machine.data_queue] = max(time, servers[server])
            asked += 1
            if group == _NOBODY_ASKS:
                result = read
            else:
                follows = wait in (_GLOBAL_LOAD, _ASYNC_COPY)
                if follows:
                    servers[_DATA] = max(servers[_DATA], flying[loaded % machine.loads_in_flight])
                place = warp // warps
                first = group != _ANY_GROUP and groups_arrive[place, group] == 0.0
                entries = 0
                if wait == _ASYNC_COPY:
                    entries = 1  # of what was asked for before
                    if first:
                        number = paths.group_offsets[places[warp, _TRACE]] + group
                        entries = min(-(-paths.group_sectors[number] // SECTORS_PER_LINE), machine.copied_lines)
                    servers[_DATA] = max(servers[_DATA], _last_of(copies, copied, entries))
                start = max(time, servers[_DATA])
                result, read = _access(code, machine, index, first, time, servers, chances, far)
                if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION):
                    times[warp, _SENT] = max(times[warp, _SENT], _behind_stores(machine, servers))
                if code.atomic_cycles[index] > 0.0:
                    servers[_ATOMICS] = max(servers[_ATOMICS], start) + code.atomic_cycles[index]
                if group != _ANY_GROUP:
                    if first:
                        number = paths.group_offsets[places[warp, _TRACE]] + group
                        sectors, fresh = paths.group_sectors[number], paths.group_fresh[number]
                        hit = servers[_DATA] + machine.l1_latency
                        lines = sectors * SECTOR_BYTES * code.lines_per_byte[index]
                        joint = resident > 1 and places[warp, _AGE] < resident
                        groups_arrive[place, group] = _touch(
                            machine, sectors, lines, fresh, start, hit, joint, servers, firsts
                        )
                    result = max(result, groups_arrive[place, group] + code.latency[index])
                if follows:
                    flying[loaded % machine.loads_in_flight] = result
                    loaded += 1
                for entry in range(copied, copied + entries):
                    copies[entry % machine.copied_lines] = result
                copied += entries
            if wait != _SHARED and wait != _CONSTANT:
                kind = _LONG
            if wait == _CONSTANT and code.constant_walk[index] >= 0:
                read_line = _walked(code, paths, warp, index, places, walked)
                came = _constant(
                    held_constants[-1],
                    constant_order[-1],
                    machine,
                    paths,
                    servers,
                    constant_groups,
                    read_line,
                    machine.constant_line_cycles,
                    servers[_CONSTANTS],
                )
                result = max(result, came + code.latency[index])
            if wait == _ASYNC_COPY:
                times[warp, _COPY] = max(times[warp, _COPY], result)
        elif wait == _FENCE:
            sent = times[warp, _SENT] + machine.l2_latency if times[warp, _SENT] > 0.0 else time
            arrival = max(time, sent) + machine.l2_latency
        elif wait == _COPY_GROUP:
            groups[warp, places[warp, _GROUPS] % COPY_GROUPS] = times[warp, _COPY]
            places[warp, _GROUPS] += 1
        elif wait == _COPY_WAIT:
            newest = places[warp, _GROUPS] - 1 - code.groups_left[index]
            for group in range(max(0, newest - COPY_GROUPS + 2), newest + 1):
                arrival = max(arrival, groups[warp, group % COPY_GROUPS])
        board = code.write_barrier[index]
        if board < SCOREBOARDS and result > releases[warp, board]:
            releases[warp, board], kinds[warp, board] = result, kind
        board = code.read_barrier[index]
        if board < SCOREBOARDS and read > releases[warp, board]:
            releases[warp, board], kinds[warp, board] = read, _SHORT
        stale[scheduler] = True
        slot = warp // warps
        stalls[_FIXED_STALL] += max(0.0, fixed - time - 1.0)
        if arrival > fixed:
            stalls[_LONG] += arrival - fixed
            fixed = arrival
        if not _advance(paths, warp, places):
            times[warp, _READY] = NEVER
            times[warp, _ENDED] = max(fixed, times[warp, _SENT])
            living[slot] -= 1
            if living[slot] > 0:
                if waiting[slot] == living[slot]:
                    latest = max(arrived[slot], time)
                    _open_barrier(code, machine, slot, warps, latest, times, places, releases, stalls, home, stale)
                    waiting[slot] = 0
                    arrived[slot] = 0.0
                continue
            drained = times[slot * warps : (slot + 1) * warps, _ENDED].max()
            finished[ended] = drained
            ended += 1
            occupied[slot] = False
            room = resident * warps - living.sum()
            while started < blocks and room >= warps and not occupied.all():
                slot = int(np.argmin(occupied))
                dispatched = max(drained, dispatched) + machine.dispatch_cycles
                begin = dispatched - machine.dispatch_cycles + machine.block_start_cycles
                living[slot] = _start_block(paths, slot, started, begin, times, places, releases, groups_arrive, walked)
                empty += living[slot] == 0
                occupied[slot] = True
                room -= warps
                started += 1
                stale[:] = True
            continue
        following = places[warp, _NEXT]
        ready = fixed
        mask = code.wait_mask[following]
        if mask:
            for board in range(SCOREBOARDS):
                if mask >> board & 1 and releases[warp, board] > ready:
                    stalls[kinds[warp, board]] += releases[warp, board] - ready
                    ready = releases[warp, board]
        if machine.l0_lines < machine.code_lines and following >> 3 != index >> 3:
            next_line, own, taken = following >> 3, arrivals[scheduler], inserted[scheduler]
            line = _fetched(own, taken, held, reached, machine, servers, next_line, time)
            if next_line + 1 < machine.code_lines:
                _fetched(own, taken, held, reached, machine, servers, next_line + 1, time)
            if line > ready:
                stalls[_FETCH_STALL] += line - ready
                ready = line
        constant = code.constant_line[following]
        if code.constant_walk[following] >= 0 and code.wait[following] != _CONSTANT:
            constant = _walked(code, paths, warp, following, places, walked)
        if constant >= 0:
            came = _constant(
                held_constants[scheduler],
                constant_order[scheduler],
                machine,
                paths,
                servers,
                constant_groups,
                constant,
                machine.constant_operand_line_cycles,
                time,
            )
            if came > ready:
                stalls[_SHORT] += came - ready
                ready = came
        times[warp, _READY] = ready
        if wait in (_BARRIER, _CLUSTER_BARRIER):
            waiting[slot] += 1
            servers[_ARRIVALS] = max(servers[_ARRIVALS], time) + machine.arrival_cycles
            arrived[slot] = servers[_ARRIVALS]
            times[warp, _READY] = NEVER
            times[warp, _LAST] = time
            places[warp, _AT_BARRIER] = 2 if wait == _CLUSTER_BARRIER else 1
            if waiting[slot] == living[slot]:
                _open_barrier(code, machine, slot, warps, arrived[slot], times, places, releases, stalls, home, stale)
                waiting[slot] = 0
                arrived[slot] = 0.0
    return Run(now, wave, issued, finished[:ended], stalls, servers[_ATOMICS])


def _homes(resident: int, warps: int, schedulers: int) -> tuple[Integers, Integers]:
    """Scheduler of each warp, and the warps of each scheduler (-1 behind the last): every block begins with another one."""
    home = np.zeros(resident * warps, np.int64)
    members = np.full((schedulers, resident * warps), -1, np.int64)
    held = np.zeros(schedulers, np.int64)
    for warp in range(resident * warps):
        scheduler = (warp % warps + warp // warps) % schedulers
        home[warp] = scheduler
        members[scheduler, held[scheduler]] = warp
        held[scheduler] += 1
    return home, members


def _start_block(
    paths: Paths,
    slot: int,
    number: int,
    begin: float,
    times: Floats,
    places: Integers,
    releases: Floats,
    groups_arrive: Floats,
    walked: Integers,
) -> int:
    """Put the warps of a block at the beginning of their ways; how many of them have one."""
    warps = paths.warps_per_block
    trace = number % paths.blocks
    living = 0
    groups_arrive[slot, :] = 0.0
    walked[slot * warps : (slot + 1) * warps, :] = 0
    followed = len(paths.request_offsets) > trace * warps + warps
    for own in range(warps):
        warp = slot * warps + own
        places[warp, _TRACE] = trace
        if followed:
            places[warp, _REQUEST] = paths.request_offsets[trace * warps + own]
            places[warp, _LAST_REQUEST] = paths.request_offsets[trace * warps + own + 1]
        releases[warp, :] = 0.0
        times[warp, _COPY] = 0.0
        times[warp, _SENT] = 0.0
        times[warp, _ENDED] = 0.0
        places[warp, _GROUPS] = 0
        places[warp, _AT_BARRIER] = 0
        places[warp, _AGE] = number
        places[warp, _OFFSET] = 0
        places[warp, _STRETCH] = paths.offsets[trace * warps + own]
        places[warp, _END] = paths.offsets[trace * warps + own + 1]
        if places[warp, _STRETCH] < places[warp, _END]:
            places[warp, _NEXT] = paths.first[places[warp, _STRETCH]]
            times[warp, _READY] = begin
            living += 1
        else:
            times[warp, _READY] = NEVER
    return living


def _advance(paths: Paths, warp: int, places: Integers) -> bool:
    """Go to the next instruction of a warp; False where there is none."""
    places[warp, _OFFSET] += 1
    if places[warp, _OFFSET] >= paths.length[places[warp, _STRETCH]]:
        places[warp, _OFFSET] = 0
        places[warp, _STRETCH] += 1
        if places[warp, _STRETCH] >= places[warp, _END]:
            return False
    places[warp, _NEXT] = paths.first[places[warp, _STRETCH]] + places[warp, _OFFSET]
    return True


def _open_barrier(
    code: Code,
    machine: Machine,
    slot: int,
    warps: int,
    arrived: float,
    times: Floats,
    places: Integers,
    releases: Floats,
    stalls: Floats,
    home: Integers,
    stale: NDArray[np.bool_],
) -> None:
    """Let the warps of a block go on that wait at its barrier."""
    opened = arrived + machine.barrier_cycles
    for warp in range(slot * warps, (slot + 1) * warps):
        if places[warp, _AT_BARRIER] == 2:  # at least one waits for other blocks
            opened = arrived + machine.cluster_barrier_cycles
    for warp in range(slot * warps, (slot + 1) * warps):
        if places[warp, _AT_BARRIER]:
            places[warp, _AT_BARRIER] = 0
            stalls[_BARRIER_STALL] += opened - times[warp, _LAST]
            times[warp, _READY] = max(opened, _freed(releases[warp], code.wait_mask[places[warp, _NEXT]]))
            stale[home[warp]] = True


def _compiled(function: Any) -> Any:
    """A function as Numba compiles it, kept on disk for the next process."""
    return numba.njit(cache=True)(function)


_freed = _compiled(_freed)
_behind_stores = _compiled(_behind_stores)
_homes = _compiled(_homes)
_fetched = _compiled(_fetched)
_behind_l1 = _compiled(_behind_l1)
_walked = _compiled(_walked)
_constant = _compiled(_constant)
_access = _compiled(_access)
_touch = _compiled(_touch)
_next_group = _compiled(_next_group)
_last_of = _compiled(_last_of)
_is_cut = _compiled(_is_cut)
_earliest = _compiled(_earliest)
_occupy = _compiled(_occupy)
_start_block = _compiled(_start_block)
_advance = _compiled(_advance)
_open_barrier = _compiled(_open_barrier)
simulate_logged = _compiled(_simulate)
"""`_simulate`, compiled."""


def simulate_sm(
    code: Code, paths: Paths, machine: Machine, resident: int, blocks: int, budget: int, most: int = 0
) -> Run:
    """`_simulate` without a log; as many blocks at most as begin together where ``most`` is 0."""
    found: Run = simulate_logged(code, paths, machine, resident, max(resident, most), blocks, budget, np.zeros((0, 3)))
    return found
