"""The state of one SM while `sm_simulation` runs it: warps, blocks, schedulers, caches of code and constants, memory."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..machine_code.issue_table import BANKS, Pipe
from .sm_records import STALLS, Code, Floats, Integers, Machine, Paths

PIPES = len(Pipe) + 1
SCOREBOARDS = 6
COPY_GROUPS = 64
"""Groups of asynchronous copies, and of products, of a warp that are distinguished: more than an instruction can let run on."""
NEVER = 1e18

READY, LAST, COPY, SENT, ENDED, PRODUCT = range(6)
"""Columns of `Warps.times`: it can issue, came to where it waits, its copies are there, its stores have left, it has ended,
its products are there."""
STRETCH, OFFSET, END, NEXT, AGE, GROUPS, AT_BARRIER, REQUEST, LAST_REQUEST, TRACE = range(10)
EVENT, LAST_EVENT, AWAITED, WAITS_AT, PRODUCTS = range(10, 15)
"""Columns of `Warps.places`; ``AWAITED`` is the phase that a warp waits for, by the instruction ``WAITS_AT``, or `NO_PHASE`."""
BEGUN, OVER, EMPTY = range(3)
"""Elements of `Blocks.numbers`: blocks that have begun, that are over, that had nothing to do."""
DISPATCHED, OTHERS_OVER = range(2)
"""Elements of `Blocks.clock`: when the last block was given out, when a block of the other SM of the TPC ends next."""
DATA, L2, DRAM, WRITE, FETCH, DRAM_BUSY, CONSTANTS, FAR_FETCH, L2_BUSY = range(9)
CONSTANT_LINES, FAR_CONSTANTS, ARRIVALS, ATOMICS, LINE_FETCH, BULK, DRAW, READ_BUSY = range(9, 17)
"""Elements of `Memory.servers`: until when each is busy, of ``_BUSY`` for how long it has been (``READ_BUSY``: DRAM, by reads
alone); the last latency drawn."""
ASKED, LOADED = range(2)
"""Elements of `Memory.turns`: how many have entered each of its rings."""


class Warps(NamedTuple):
    """A row for each place of a warp; those of a block lie side by side.

    ``releases`` and ``kinds``: when each scoreboard is free, and why it is held (`Stall`); ``groups`` and ``products``: when the
    copies or the products of a group are there, ``asked``: for how long DRAM was asked for until then; ``walked``: steps of each
    walk through constants. ``home`` is the scheduler of a warp, ``members`` has the warps of each scheduler, -1 behind the last.
    """

    times: Floats
    places: Integers
    releases: Floats
    kinds: Integers
    groups: Floats
    asked: Floats
    products: Floats
    walked: Integers
    home: Integers
    members: Integers


class Blocks(NamedTuple):
    """An element for each place of a block: warps that have not ended, that wait at its barrier, when the last one came there.

    ``groups_arrive``: when the sectors of a group of its requests are there; 0 before they are asked for. ``finished`` has the
    ends of all blocks in order. ``phases_left``: how many events must still take part in the end of each phase; ``phases_over``:
    when the last of them did; ``met``: when the block last waited with others for DRAM.
    """

    living: Integers
    waiting: Integers
    arrived: Floats
    occupied: NDArray[np.bool_]
    groups_arrive: Floats
    phases_left: Integers
    phases_over: Floats
    met: Floats
    finished: Floats
    numbers: Integers
    clock: Floats


class Schedulers(NamedTuple):
    """A row for each scheduler: until when its pipes, banks of registers and issue slot are taken, and the warp that issued last.

    ``row``: instructions that this warp has issued without another one's in between.
    ``chosen`` can issue first, at ``earliest``; where it is ``stale`` both are to be worked out again. ``room``: places of warps
    that were free when blocks last began.
    """

    pipes: Floats
    banks: Floats
    free: Floats
    last: Integers
    row: Integers
    earliest: Floats
    chosen: Integers
    stale: NDArray[np.bool_]
    room: Integers


class CodeCaches(NamedTuple):
    """Lines of code: when each came to a scheduler, its number in the order in which they came, at the end how many did.

    ``near`` and ``came``: order and arrival in the SM's cache, from which schedulers take what they lack; ``held`` and
    ``reached`` likewise in that of several SMs, from which the SM takes what it lacks.
    """

    arrivals: Floats
    inserted: Integers
    near: Integers
    came: Floats
    held: Integers
    reached: Floats


class ConstantCaches(NamedTuple):
    """Lines of constants likewise, with a count for each set at the end; the last row is the SM's, for reads by index.

    ``reached``: when the group of lines that comes from L2 is in the SM.
    """

    arrivals: Floats
    inserted: Integers
    reached: Floats


class Memory(NamedTuple):
    """Servers, and rings of what is under way: the queue of the data pipe; loads as they come.

    ``chances`` and ``far`` add up the chances of each instruction to go behind L1 and to wait for DRAM, so that as many requests
    do as the counts say, evenly; ``firsts`` those of sectors that a block asks for first to be missed by L1 and to wait for DRAM,
    and of joint waits, of the block's own and of common ones.
    """

    servers: Floats
    queue: Floats
    flying: Floats
    turns: Integers
    chances: Floats
    far: Floats
    firsts: Floats


class Sm(NamedTuple):
    """All of it; ``stalls`` are warp cycles by `Stall`."""

    warps: Warps
    blocks: Blocks
    schedulers: Schedulers
    code: CodeCaches
    constants: ConstantCaches
    memory: Memory
    stalls: Floats


def sm_at_start(code: Code, paths: Paths, machine: Machine, places: int, blocks: int) -> Sm:
    """One SM before its first block, with places for so many blocks, and so many to run."""
    warps, schedulers = places * paths.warps_per_block, machine.schedulers
    times = np.zeros((warps, PRODUCT + 1))
    times[:, READY] = NEVER
    home, members = _homes(places, paths.warps_per_block, schedulers)
    near, held = np.zeros((2, machine.code_lines + 1), np.int64)
    for cache, lines in ((near, machine.sm_lines), (held, machine.l1_lines)):
        if machine.code_lines <= lines:  # fetched as the launch begins, and kept
            cache[:-1] = np.arange(1, machine.code_lines + 1)
            cache[-1] = machine.code_lines
    groups = int(np.diff(paths.group_offsets).max(initial=1))
    phases = int(np.diff(paths.phase_offsets).max(initial=0))
    constants = len(paths.constant_far)
    return Sm(
        warps=Warps(
            times=times,
            places=np.zeros((warps, PRODUCTS + 1), np.int64),
            releases=np.zeros((warps, SCOREBOARDS)),
            kinds=np.zeros((warps, SCOREBOARDS), np.int64),
            groups=np.zeros((warps, COPY_GROUPS)),
            asked=np.zeros((warps, COPY_GROUPS)),
            products=np.zeros((warps, COPY_GROUPS)),
            walked=np.zeros((warps, max(paths.walks, 1)), np.int64),
            home=home,
            members=members,
        ),
        blocks=Blocks(
            living=np.zeros(places, np.int64),
            waiting=np.zeros(places, np.int64),
            arrived=np.zeros(places),
            occupied=np.zeros(places, np.bool_),
            groups_arrive=np.zeros((places, groups)),
            phases_left=np.zeros((places, phases), np.int64),
            phases_over=np.zeros((places, phases)),
            met=np.zeros(places),
            finished=np.zeros(blocks),
            numbers=np.zeros(EMPTY + 1, np.int64),
            clock=np.array([0.0, NEVER]),
        ),
        schedulers=Schedulers(
            pipes=np.zeros((schedulers, PIPES)),
            banks=np.zeros((schedulers, BANKS)),
            free=np.zeros(schedulers),
            last=np.full(schedulers, -1, np.int64),
            row=np.zeros(schedulers, np.int64),
            earliest=np.full(schedulers, NEVER),
            chosen=np.full(schedulers, -1, np.int64),
            stale=np.ones(schedulers, np.bool_),
            room=np.zeros(schedulers, np.int64),
        ),
        code=CodeCaches(
            arrivals=np.zeros((schedulers, machine.code_lines)),
            inserted=np.zeros((schedulers, machine.code_lines + 1), np.int64),
            near=near,
            came=np.zeros(machine.code_lines),
            held=held,
            reached=np.zeros(machine.code_lines),
        ),
        constants=ConstantCaches(
            arrivals=np.zeros((schedulers + 1, constants)),
            inserted=np.zeros((schedulers + 1, constants + machine.constant_sets), np.int64),
            reached=np.zeros(constants),
        ),
        memory=Memory(
            servers=np.zeros(READ_BUSY + 1),
            queue=np.zeros(machine.data_queue),
            flying=np.zeros(machine.loads_in_flight),
            turns=np.zeros(LOADED + 1, np.int64),
            chances=np.zeros(len(code.pipe)),
            far=np.zeros(len(code.pipe)),
            firsts=np.zeros((2, 5)),
        ),
        stalls=np.zeros(STALLS),
    )


def _homes(places: int, warps: int, schedulers: int) -> tuple[Integers, Integers]:
    """Scheduler of each warp, and the warps of each scheduler (-1 behind the last).

    They take turns, also from block to block; where a block has as many for each, the next block begins one further on
    (`validation/data/h200-warp-schedulers.json`).
    """
    block, warp = np.divmod(np.arange(places * warps), warps)
    home = (block * (warps if warps % schedulers else 1) + warp) % schedulers
    members = np.full((schedulers, places * warps), -1, np.int64)
    for scheduler in range(schedulers):
        own = np.flatnonzero(home == scheduler)
        members[scheduler, : len(own)] = own
    return home, members
