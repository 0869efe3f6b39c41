"""One SM, event by event: warps issue in order, wait for scoreboards, pipes and memory, and blocks follow blocks.

A model of events, not of cycles: the next instruction of the warp that can issue first is issued, and what it occupies and
when its result comes is written down. Compiled by Numba; `sm_time` prepares its arrays and reads its result. What Numba keeps on
disk does not notice changes in other files: with `sm_asynchronous` and `sm_code`, compiled with it, this one has to change, too.
"""

from __future__ import annotations

from ..core.constants import SECTOR_BYTES
from ..core.numba_functions import FunctionT, compiled
from ..machine_code.issue_table import BANKS, Pipe, Wait
from ..profiles.load_streams import CUT
from .sm_asynchronous import (
    ahead_of_dram,
    answered,
    begin_phases,
    freed,
    groups_over,
    hold_back,
    is_cut,
    meet,
    multiplied,
    multiply,
)
from .sm_code import constant_line, fetched, fetched_constants
from .sm_records import Code, Floats, Integers, Machine, Paths, Stall
from .sm_state import (
    AGE,
    ARRIVALS,
    ASKED,
    AT_BARRIER,
    ATOMICS,
    BEGUN,
    CONSTANTS,
    COPY,
    COPY_GROUPS,
    DATA,
    DISPATCHED,
    DRAM,
    DRAM_BUSY,
    EMPTY,
    END,
    ENDED,
    GROUPS,
    L2,
    L2_BUSY,
    LAST,
    LAST_REQUEST,
    LOADED,
    NEVER,
    NEXT,
    OFFSET,
    OTHERS_OVER,
    OVER,
    PRODUCT,
    READ_BUSY,
    READY,
    REQUEST,
    SCOREBOARDS,
    SENT,
    STRETCH,
    TRACE,
    WRITE,
    Memory,
    Schedulers,
    Sm,
    Warps,
)

_SHARED, _GLOBAL_LOAD, _GLOBAL_STORE = int(Wait.SHARED), int(Wait.GLOBAL_LOAD), int(Wait.GLOBAL_STORE)
_REDUCTION, _ATOMIC = int(Wait.GLOBAL_REDUCTION), int(Wait.GLOBAL_ATOMIC)
_LOCAL_LOAD, _LOCAL_STORE, _ASYNC_COPY = int(Wait.LOCAL_LOAD), int(Wait.LOCAL_STORE), int(Wait.ASYNC_COPY)
_NOBODY_ASKS, _ANY_GROUP = -2, -1
"""In place of a group: no lane of the warp takes part; which group is not known."""
_COPY_GROUP, _COPY_WAIT, _BARRIER = int(Wait.COPY_GROUP), int(Wait.COPY_WAIT), int(Wait.BARRIER)
_CONSTANT, _BRANCH = int(Wait.CONSTANT), int(Wait.BRANCH)
_FENCE, _CLUSTER_BARRIER = int(Wait.FENCE), int(Wait.CLUSTER_BARRIER)
_PHASE_WAIT, _BULK_STORE = int(Wait.PHASE_WAIT), int(Wait.BULK_STORE)
_GROUP_PRODUCT, _PRODUCT_WAIT = int(Wait.GROUP_PRODUCT), int(Wait.PRODUCT_WAIT)
_FMA, _FMA_HEAVY, _FMA_LITE = int(Pipe.FMA), int(Pipe.FMA_HEAVY), len(Pipe)
_NO_PIPE = int(Pipe.NONE)
_LONG, _SHORT, _FIXED_STALL = int(Stall.LONG_SCOREBOARD), int(Stall.SHORT_SCOREBOARD), int(Stall.WAIT)
_BARRIER_STALL, _FETCH_STALL, _THROTTLE = int(Stall.BARRIER), int(Stall.NO_INSTRUCTION), int(Stall.THROTTLE)
_NOT_SELECTED = int(Stall.NOT_SELECTED)


def _part(function: FunctionT) -> FunctionT:
    """A part of one other function, compiled as if it stood there: handing over all of the state would take longer."""
    return compiled(function, inline="always")


@compiled
def _access(code: Code, machine: Machine, memory: Memory, index: int, first: bool, time: float) -> tuple[float, float]:
    """Issue a memory instruction: when its result is there, and when it has read its operands.

    What a block asks for ``first`` is not looked up here (`_touch`).
    """
    servers, chances, far = memory.servers, memory.chances, memory.far
    wait = code.wait[index]
    read = time + machine.operand_cycles
    if wait == _CONSTANT:
        servers[CONSTANTS] = max(time, servers[CONSTANTS]) + code.data_cycles[index]
        return servers[CONSTANTS] + code.latency[index], read
    start = max(time, servers[DATA])
    servers[DATA] = start + code.data_cycles[index]
    if wait == _SHARED:
        return servers[DATA] + machine.shared_latency + code.latency[index], read
    if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION, _ATOMIC):
        servers[WRITE] = max(servers[WRITE], start) + code.write_cycles[index]
        written = code.written_bytes[index] / machine.dram_bytes_per_cycle
        servers[DRAM] = max(servers[DRAM], start) + written
        servers[DRAM_BUSY] += written
    if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION):
        servers[DATA] = max(servers[DATA], _behind_stores(machine, servers) - machine.write_queue_cycles)
        return servers[DATA], read
    if not first:
        chances[index] += code.miss_chance[index]
    if first or chances[index] < 1.0 - 1e-9:
        return servers[DATA] + machine.l1_latency + code.latency[index], read
    chances[index] -= 1.0
    far[index] += code.far_chance[index]
    waits = far[index] >= 1.0 - 1e-9
    if waits:
        far[index] -= 1.0
    missed = code.missed_bytes[index]
    ahead = 0.0 if waits else NEVER
    lines, past_l1 = missed * code.lines_per_byte[index], code.past_l1_bytes[index] > 0.0
    came = _behind_l1(machine, start, missed, lines, ahead, past_l1, servers)
    if wait == _ATOMIC:
        came = max(came, _behind_stores(machine, servers) + machine.l2_latency) + code.latency[index]
    return came, read


@compiled
def _behind_stores(machine: Machine, servers: Floats) -> float:
    """When the stores so far have left the SM: what DRAM does not take yet fills L2 and holds them up."""
    return float(max(servers[WRITE], servers[DRAM] - machine.dram_latency))


@compiled
def _behind_l1(
    machine: Machine, start: float, missed_bytes: float, lines: float, ahead: float, past_l1: bool, servers: Floats
) -> float:
    """When L2 or DRAM has answered a request: the later the more of the time it has been busy.

    L1 asks for one line after the other, and each that comes takes its data pipe again. Copies past L1 have taken it already.
    """
    filled = 0.0 if past_l1 else lines * machine.fill_cycles
    asked = missed_bytes * (machine.copies_asked if past_l1 else 1.0)
    servers[DATA] = max(servers[DATA], start) + filled
    taken = max(asked / machine.l2_bytes_per_cycle, lines * machine.miss_cycles)
    servers[L2] = max(servers[L2], start) + taken
    servers[L2_BUSY] += asked / machine.l2_share
    moved = missed_bytes * machine.dram_share / machine.dram_bytes_per_cycle
    places = 1.0
    if lines > 0.0:  # a sector of each line, and not more
        apart = min(1.0, max(0.0, 2.0 - missed_bytes / (SECTOR_BYTES * lines)))
        moved *= 1.0 + apart * (machine.dram_scattered_cost - 1.0)
        places += max(0.0, lines * min(1.0, machine.dram_share) - 1.0) * apart
    return answered(machine, servers, start, moved, ahead, filled, places)


@compiled
def _touch(
    machine: Machine,
    size: float,
    lines: float,
    past_l1: bool,
    fresh: int,
    common: int,
    start: float,
    hit: float,
    joint: bool,
    memory: Memory,
    met: Floats,
    slot: int,
) -> float:
    """When the bytes of a group are there that a block asks for first; ``hit``: if L1 has them, which copies past it never find.

    ``joint``: other blocks of the SM began with this one, so that what it finds in L1 they have just asked for: it waits with
    them.
    """
    firsts = memory.firsts[common]
    firsts[0] += 1.0 if past_l1 else machine.common_missed if common else machine.first_missed
    missed = firsts[0] >= 1.0 - 1e-9
    if missed:
        firsts[0] -= 1.0
    elif not joint:
        return hit
    ahead = NEVER
    if fresh > 0:
        ahead = ahead_of_dram(machine, memory, met, slot, common, 1 if missed else 2, start)
    if not missed:
        return max(hit, start + max(machine.l2_latency, machine.dram_latency - ahead))
    return max(hit, _behind_l1(machine, start, size, lines, ahead, past_l1, memory.servers))


@compiled
def _next_group(paths: Paths, warp: int, index: int, places: Integers) -> int:
    """The group that the next request of a warp touches, where it is of that instruction."""
    at = places[warp, REQUEST]
    if at >= places[warp, LAST_REQUEST] or paths.request_instruction[at] != index:
        return _NOBODY_ASKS
    places[warp, REQUEST] = at + 1
    return int(paths.request_group[at])


@compiled
def _keep(times: Floats, turn: int, time: float) -> None:
    """Let what came first in a ring make room for something that comes at a time; the ring has them in the order of times."""
    size, place = len(times), turn
    while place > turn - size + 1 and times[(place - 1) % size] > time:
        times[place % size] = times[(place - 1) % size]
        place -= 1
    times[place % size] = time


@compiled
def _is_cut(paths: Paths, warp: int, places: Integers) -> bool:
    """Whether the next request of a warp has not been kept."""
    at = places[warp, REQUEST]
    return bool(at < places[warp, LAST_REQUEST] and paths.request_instruction[at] == CUT)


@compiled
def _lost(code: Code, schedulers: Schedulers, scheduler: int, warp: int, index: int) -> int:
    """1 where another warp has been issued since an instruction's operands were kept for reuse, else 0."""
    return int(schedulers.last[scheduler] != warp or schedulers.row[scheduler] < code.kept_for[index])


@_part
def _earliest(code: Code, machine: Machine, warps: Warps, schedulers: Schedulers, scheduler: int) -> None:
    """Find the warp of a scheduler that can issue first, and when: of several the one that issued last, then the oldest."""
    times, places = warps.times, warps.places
    pipes, banks = schedulers.pipes[scheduler], schedulers.banks[scheduler]
    free, last = schedulers.free[scheduler], schedulers.last[scheduler]
    best, chosen, age = NEVER, -1, 0
    for warp in warps.members[scheduler]:
        if warp < 0:
            break
        time = times[warp, READY]
        if time >= NEVER:
            continue
        time = max(time, free)
        index = places[warp, NEXT]
        pipe = code.pipe[index]
        lost = _lost(code, schedulers, scheduler, warp, index)
        for bank in range(BANKS):
            if code.bank_reads[index, lost, bank] > 0.0:
                time = max(time, banks[bank] - machine.operand_queue_cycles)
        if pipe == _FMA and machine.split_fma:
            time = max(time, min(pipes[_FMA_HEAVY], pipes[_FMA_LITE]))
        elif pipe == _FMA_HEAVY and not machine.split_fma:
            time = max(time, pipes[_FMA])
        elif pipe != _NO_PIPE:
            time = max(time, pipes[pipe])
        better = time == best and (warp == last or (chosen != last and places[warp, AGE] < age))
        if time < best or better:
            best, chosen, age = time, warp, places[warp, AGE]
    schedulers.earliest[scheduler], schedulers.chosen[scheduler] = best, chosen
    schedulers.stale[scheduler] = False


@_part
def _first_scheduler(code: Code, machine: Machine, warps: Warps, schedulers: Schedulers) -> int:
    """The scheduler that issues next."""
    first = 0
    for scheduler in range(machine.schedulers):
        if schedulers.stale[scheduler]:
            _earliest(code, machine, warps, schedulers, scheduler)
        if schedulers.earliest[scheduler] < schedulers.earliest[first]:
            first = scheduler
    return first


@compiled
def _occupy(code: Code, machine: Machine, index: int, lost: int, time: float, pipes: Floats, banks: Floats) -> None:
    """Take the pipe of an instruction, and the banks of registers that it reads; ``lost``: none are kept for reuse."""
    for bank in range(BANKS):
        if code.bank_reads[index, lost, bank] > 0.0:
            banks[bank] = max(banks[bank], time) + code.bank_reads[index, lost, bank]
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


@_part
def _serve(
    code: Code, machine: Machine, paths: Paths, sm: Sm, resident: int, warp: int, index: int, time: float
) -> tuple[float, float]:
    """Access memory once there is room among what is under way: when the result is there, and when the operands have been read.

    Of loads whose requests are followed, what a block asks for first comes when L2 or DRAM has given it, to all who ask.
    """
    memory, places, wait = sm.memory, sm.warps.places, code.wait[index]
    servers, turns = memory.servers, memory.turns
    follows = wait in (_GLOBAL_LOAD, _ASYNC_COPY)
    group = _ANY_GROUP
    if follows and len(paths.request_instruction) > 0:
        group = _next_group(paths, warp, index, places)
    if group == _NOBODY_ASKS:
        read = time + machine.operand_cycles
        return read, read
    if follows:
        servers[DATA] = max(servers[DATA], memory.flying[turns[LOADED] % machine.loads_in_flight])
    slot = warp // paths.warps_per_block
    arrive = sm.blocks.groups_arrive[slot]
    first = group != _ANY_GROUP and arrive[group] == 0.0
    number = paths.group_offsets[places[warp, TRACE]] + group if first else 0
    start = max(time, servers[DATA])
    result, read = _access(code, machine, memory, index, first, time)
    if wait in (_GLOBAL_STORE, _LOCAL_STORE, _REDUCTION):
        sm.warps.times[warp, SENT] = max(sm.warps.times[warp, SENT], _behind_stores(machine, servers))
    if code.atomic_cycles[index] > 0.0:
        servers[ATOMICS] = max(servers[ATOMICS], start) + code.atomic_cycles[index]
    if first:
        sectors, fresh, common = paths.group_sectors[number], paths.group_fresh[number], paths.group_common[number]
        hit = servers[DATA] + machine.l1_latency
        past_l1 = code.past_l1_bytes[index] > 0.0
        size = code.past_l1_bytes[index] if past_l1 else float(sectors * SECTOR_BYTES)
        lines = size * code.lines_per_byte[index]
        joint = resident > 1 and places[warp, AGE] < resident
        arrive[group] = _touch(
            machine, size, lines, past_l1, fresh, common, start, hit, joint, memory, sm.blocks.met, slot
        )
    if group != _ANY_GROUP:
        result = max(result, arrive[group] + code.latency[index])
    if follows:
        _keep(memory.flying, turns[LOADED], result)
        turns[LOADED] += 1
    return result, read


@_part
def _ask(
    code: Code, machine: Machine, paths: Paths, sm: Sm, resident: int, warp: int, index: int, time: float
) -> tuple[float, float]:
    """Issue an instruction that goes through the data pipe or to constants: when its result is there, and its operands read."""
    memory, wait = sm.memory, code.wait[index]
    server = CONSTANTS if wait == _CONSTANT else DATA
    memory.queue[memory.turns[ASKED] % machine.data_queue] = max(time, memory.servers[server])
    memory.turns[ASKED] += 1
    result, read = _serve(code, machine, paths, sm, resident, warp, index, time)
    if wait == _CONSTANT and code.constant_walk[index] >= 0:
        line = constant_line(code, paths, warp, index, sm.warps.places, sm.warps.walked)
        cycles, begin = machine.constant_line_cycles, memory.servers[CONSTANTS]
        came = fetched_constants(sm.constants, machine, paths, memory.servers, -1, line, cycles, begin)
        result = max(result, came + code.latency[index])
    if wait == _ASYNC_COPY:
        sm.warps.times[warp, COPY] = max(sm.warps.times[warp, COPY], result)
    return result, read


@_part
def _passed(code: Code, machine: Machine, warps: Warps, servers: Floats, warp: int, index: int, time: float) -> float:
    """When a warp has passed a fence, or the copies are there that it waits for; 0 for other instructions.

    DRAM does not answer in the order in which it was asked: what all have asked for since the copies were asked for comes before
    the last of them.
    """
    times, places, wait = warps.times, warps.places, code.wait[index]
    passed = 0.0
    if wait == _FENCE:
        sent = times[warp, SENT] + machine.l2_latency if times[warp, SENT] > 0.0 else time
        passed = max(time, sent) + machine.l2_latency
    elif wait == _COPY_GROUP:
        warps.groups[warp, places[warp, GROUPS] % COPY_GROUPS] = times[warp, COPY]
        warps.asked[warp, places[warp, GROUPS] % COPY_GROUPS] = servers[READ_BUSY]
        places[warp, GROUPS] += 1
    elif wait == _COPY_WAIT:
        over = places[warp, GROUPS] - code.groups_left[index]
        passed = groups_over(warps.groups[warp], over)
        if over > 0:
            passed += servers[READ_BUSY] - warps.asked[warp, (over - 1) % COPY_GROUPS]
    elif wait == _PRODUCT_WAIT:
        passed = multiplied(code, warps, warp, index)
    return passed


@_part
def _keep_boards(code: Code, warps: Warps, warp: int, index: int, result: float, read: float) -> None:
    """Hold the scoreboards that an instruction sets: of its result, and of its operands."""
    releases, kinds, wait = warps.releases[warp], warps.kinds[warp], code.wait[index]
    far = (wait > _SHARED and wait <= _ASYNC_COPY) or wait == _PHASE_WAIT
    board = code.write_barrier[index]
    if board < SCOREBOARDS and result > releases[board]:
        releases[board], kinds[board] = result, _LONG if far else _SHORT
    board = code.read_barrier[index]
    if board < SCOREBOARDS and read > releases[board]:
        releases[board], kinds[board] = read, _SHORT


@_part
def _ready(
    code: Code, machine: Machine, paths: Paths, sm: Sm, scheduler: int, warp: int, index: int, time: float, fixed: float
) -> float:
    """When a warp can issue its next instruction: scoreboards are free, code and constants there."""
    warps, servers, stalls = sm.warps, sm.memory.servers, sm.stalls
    following = warps.places[warp, NEXT]
    ready = fixed
    mask = code.wait_mask[following]
    if mask:
        for board in range(SCOREBOARDS):
            if mask >> board & 1 and warps.releases[warp, board] > ready:
                stalls[warps.kinds[warp, board]] += warps.releases[warp, board] - ready
                ready = warps.releases[warp, board]
    if machine.l0_lines < machine.code_lines and following >> 3 != index >> 3:
        next_line = following >> 3
        jumped = next_line != (index >> 3) + 1
        line = fetched(sm.code, machine, servers, scheduler, next_line, time, jumped)
        ahead = min(1, machine.prefetched_lines) if jumped else machine.prefetched_lines
        for behind in range(next_line + 1, min(next_line + 1 + ahead, machine.code_lines)):
            fetched(sm.code, machine, servers, scheduler, behind, time, False)
        if line > ready:
            stalls[_FETCH_STALL] += line - ready
            ready = line
    constant = code.constant_line[following]
    if code.constant_walk[following] >= 0 and code.wait[following] != _CONSTANT:
        constant = constant_line(code, paths, warp, following, warps.places, warps.walked)
    if constant >= 0:
        cycles = machine.constant_operand_line_cycles
        came = fetched_constants(sm.constants, machine, paths, servers, scheduler, constant, cycles, time)
        if came > ready:
            stalls[_SHORT] += came - ready
            ready = came
    return ready


@compiled
def simulate(
    code: Code,
    paths: Paths,
    machine: Machine,
    sm: Sm,
    resident: int,
    blocks: int,
    budget: int,
    early: Floats,
    log: Floats,
) -> tuple[float, float, int]:
    """Run blocks on one SM, from its state at the start, until all have ended or the budget is used up (`sm_run.simulate_sm`).

    Gives the cycle of the last instruction, that at which the first wave's instructions had been issued, and how many were. When
    half of the budget has been used, stalls and the cycle are put into ``early``.
    """
    warps, schedulers, memory, stalls = sm.warps, sm.schedulers, sm.memory, sm.stalls
    streams = len(paths.request_instruction) > 0
    in_wave = paths.length.sum() * resident // paths.blocks
    issued, now, wave = 0, 0.0, 0.0
    for slot in range(min(resident, blocks)):
        begin = max(sm.blocks.clock[DISPATCHED] + machine.block_start_cycles, machine.first_cycles)
        sm.blocks.clock[DISPATCHED] += machine.dispatch_cycles
        _start_block(paths, sm, slot, begin)
    while sm.blocks.numbers[OVER] < blocks and issued < budget and sm.blocks.numbers[EMPTY] < resident:
        scheduler = _first_scheduler(code, machine, warps, schedulers)
        time, warp = schedulers.earliest[scheduler], schedulers.chosen[scheduler]
        if warp < 0:
            break
        if time >= sm.blocks.clock[OTHERS_OVER]:
            _begin_blocks(machine, paths, sm, blocks, sm.blocks.clock[OTHERS_OVER])
            sm.blocks.clock[OTHERS_OVER] = NEVER
            continue
        index = warps.places[warp, NEXT]
        wait = code.wait[index]
        in_memory = (wait >= _SHARED and wait <= _ASYNC_COPY) or wait == _CONSTANT
        if streams and wait in (_GLOBAL_LOAD, _ASYNC_COPY) and _is_cut(paths, warp, warps.places):
            break
        meets = wait >= _PHASE_WAIT and wait <= _BULK_STORE
        if meets and is_cut(paths, warp, warps.places):
            break
        schedulers.stale[scheduler] = True
        until = memory.queue[memory.turns[ASKED] % machine.data_queue]
        if in_memory and until > time:
            stalls[_THROTTLE] += until - time
            warps.times[warp, READY] = until
            continue
        stalls[_NOT_SELECTED] += time - warps.times[warp, READY]
        if issued < len(log):
            log[issued, 0], log[issued, 1], log[issued, 2] = warp, index, time
        issued += 1
        now = time
        if issued <= in_wave:
            wave = now
        if issued == budget // 2:
            early[-1] = now
            for reason in range(len(stalls)):
                early[reason] = stalls[reason]
        schedulers.free[scheduler] = time + code.issue_cycles[index]
        lost = _lost(code, schedulers, scheduler, warp, index)
        schedulers.row[scheduler] = schedulers.row[scheduler] + 1 if schedulers.last[scheduler] == warp else 1
        schedulers.last[scheduler] = warp
        _occupy(code, machine, index, lost, time, schedulers.pipes[scheduler], schedulers.banks[scheduler])
        fixed = time + code.stall_cycles[index]
        if wait == _BRANCH:
            fixed += machine.branch_cycles
        result, read = time + code.latency[index], time + machine.operand_cycles
        if in_memory:
            result, read = _ask(code, machine, paths, sm, resident, warp, index, time)
        held_back = False
        if meets:
            result, held_back = meet(code, machine, paths, sm, warp, index, time)
        elif wait == _GROUP_PRODUCT:
            multiply(code, machine, warps, warp, index, schedulers.pipes[scheduler])
        _keep_boards(code, warps, warp, index, result, read)
        stalls[_FIXED_STALL] += max(0.0, fixed - time - 1.0)
        passed = _passed(code, machine, warps, memory.servers, warp, index, time)
        if passed > fixed:
            stalls[_LONG] += passed - fixed
            fixed = passed
        if not _advance(paths, warp, warps.places):
            _end_warp(code, machine, paths, sm, blocks, warp, time, fixed)
            continue
        warps.times[warp, READY] = _ready(code, machine, paths, sm, scheduler, warp, index, time, fixed)
        if wait in (_BARRIER, _CLUSTER_BARRIER):
            _arrive(code, machine, paths, sm, warp, time, wait == _CLUSTER_BARRIER)
        elif held_back:
            hold_back(sm, paths, warp, index, time)
    return now, wave, issued


@compiled
def _start_block(paths: Paths, sm: Sm, slot: int, begin: float) -> None:
    """Put the warps of the next block at the beginning of their ways."""
    times, places, blocks = sm.warps.times, sm.warps.places, sm.blocks
    warps, number = paths.warps_per_block, blocks.numbers[BEGUN]
    trace = number % paths.blocks
    living = 0
    blocks.groups_arrive[slot, :] = 0.0
    blocks.met[slot] = begin
    sm.warps.walked[slot * warps : (slot + 1) * warps, :] = 0
    followed = len(paths.request_offsets) > trace * warps + warps
    for own in range(warps):
        warp = slot * warps + own
        places[warp, TRACE] = trace
        if followed:
            places[warp, REQUEST] = paths.request_offsets[trace * warps + own]
            places[warp, LAST_REQUEST] = paths.request_offsets[trace * warps + own + 1]
        sm.warps.releases[warp, :] = 0.0
        times[warp, COPY] = 0.0
        times[warp, SENT] = 0.0
        times[warp, ENDED] = 0.0
        times[warp, PRODUCT] = 0.0
        places[warp, GROUPS] = 0
        places[warp, AT_BARRIER] = 0
        places[warp, AGE] = number
        places[warp, OFFSET] = 0
        places[warp, STRETCH] = paths.offsets[trace * warps + own]
        places[warp, END] = paths.offsets[trace * warps + own + 1]
        if places[warp, STRETCH] < places[warp, END]:
            places[warp, NEXT] = paths.first[places[warp, STRETCH]]
            times[warp, READY] = begin
            living += 1
        else:
            times[warp, READY] = NEVER
    begin_phases(paths, sm, slot, trace)
    blocks.living[slot] = living
    blocks.occupied[slot] = True
    blocks.numbers[EMPTY] += living == 0
    blocks.numbers[BEGUN] += 1


@compiled
def _advance(paths: Paths, warp: int, places: Integers) -> bool:
    """Go to the next instruction of a warp; False where there is none."""
    places[warp, OFFSET] += 1
    if places[warp, OFFSET] >= paths.length[places[warp, STRETCH]]:
        places[warp, OFFSET] = 0
        places[warp, STRETCH] += 1
        if places[warp, STRETCH] >= places[warp, END]:
            return False
    places[warp, NEXT] = paths.first[places[warp, STRETCH]] + places[warp, OFFSET]
    return True


@_part
def _end_warp(
    code: Code, machine: Machine, paths: Paths, sm: Sm, blocks: int, warp: int, time: float, fixed: float
) -> None:
    """Let a warp end, and its block with the last one: its stores leave the SM, and as many blocks begin as have room.

    Blocks also begin as a block of the other SM of the TPC ends: half a gap between two ends later, if none ends here before.
    """
    own, times, warps = sm.blocks, sm.warps.times, paths.warps_per_block
    slot = warp // warps
    times[warp, READY] = NEVER
    times[warp, ENDED] = max(fixed, times[warp, SENT])
    own.living[slot] -= 1
    if own.living[slot] > 0:
        if own.waiting[slot] == own.living[slot]:
            own.arrived[slot] = max(own.arrived[slot], time)
            _open_barrier(code, machine, paths, sm, slot)
        return
    drained = 0.0
    for ended in range(slot * warps, (slot + 1) * warps):
        drained = max(drained, times[ended, ENDED])
    own.finished[own.numbers[OVER]] = drained
    own.numbers[OVER] += 1
    own.occupied[slot] = False
    _begin_blocks(machine, paths, sm, blocks, drained)
    if machine.sms_per_tpc > 1 and own.numbers[OVER] > 1:
        gap = max(0.0, drained - own.finished[own.numbers[OVER] - 2])
        own.clock[OTHERS_OVER] = drained + gap / machine.sms_per_tpc


@compiled
def _begin_blocks(machine: Machine, paths: Paths, sm: Sm, blocks: int, time: float) -> None:
    """Let as many blocks begin as have room on each scheduler, beside its warps that have not ended."""
    own, warps = sm.blocks, paths.warps_per_block
    room = sm.schedulers.room
    room[:] = machine.warp_places // machine.schedulers
    for warp in range(len(own.occupied) * warps):
        if own.occupied[warp // warps] and sm.warps.places[warp, STRETCH] < sm.warps.places[warp, END]:
            room[sm.warps.home[warp]] -= 1
    for free in range(len(own.occupied)):
        if own.occupied[free]:
            continue
        fits = own.numbers[BEGUN] < blocks
        for warp in range(free * warps, free * warps + warps):
            room[sm.warps.home[warp]] -= 1
            fits = fits and room[sm.warps.home[warp]] >= 0
        if not fits:
            break
        own.clock[DISPATCHED] = max(time, own.clock[DISPATCHED]) + machine.dispatch_cycles
        begin = own.clock[DISPATCHED] - machine.dispatch_cycles + machine.block_start_cycles
        _start_block(paths, sm, free, begin)
        sm.schedulers.stale[:] = True


@_part
def _arrive(code: Code, machine: Machine, paths: Paths, sm: Sm, warp: int, time: float, of_cluster: bool) -> None:
    """Let a warp arrive at a barrier, one after the other; the last one opens it."""
    blocks, servers, slot = sm.blocks, sm.memory.servers, warp // paths.warps_per_block
    blocks.waiting[slot] += 1
    servers[ARRIVALS] = max(servers[ARRIVALS], time) + machine.arrival_cycles
    blocks.arrived[slot] = servers[ARRIVALS]
    sm.warps.times[warp, READY] = NEVER
    sm.warps.times[warp, LAST] = time
    sm.warps.places[warp, AT_BARRIER] = 2 if of_cluster else 1
    if blocks.waiting[slot] == blocks.living[slot]:
        _open_barrier(code, machine, paths, sm, slot)


@compiled
def _open_barrier(code: Code, machine: Machine, paths: Paths, sm: Sm, slot: int) -> None:
    """Let the warps of a block go on that wait at its barrier."""
    times, places = sm.warps.times, sm.warps.places
    begin, end = slot * paths.warps_per_block, (slot + 1) * paths.warps_per_block
    opened = sm.blocks.arrived[slot] + machine.barrier_cycles
    for warp in range(begin, end):
        if places[warp, AT_BARRIER] == 2:  # at least one waits for other blocks
            opened = sm.blocks.arrived[slot] + machine.cluster_barrier_cycles
    for warp in range(begin, end):
        if places[warp, AT_BARRIER]:
            places[warp, AT_BARRIER] = 0
            sm.stalls[_BARRIER_STALL] += opened - times[warp, LAST]
            mask = code.wait_mask[places[warp, NEXT]]
            times[warp, READY] = max(opened, freed(sm.warps.releases[warp], mask))
            sm.schedulers.stale[sm.warps.home[warp]] = True
    sm.blocks.waiting[slot] = 0
    sm.blocks.arrived[slot] = 0.0
