"""What the simulation of one SM takes and gives: instructions, the ways of warps, the SM, and a run."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Stall(IntEnum):
    """Why a warp could not issue its next instruction (Nsight Compute: warp states)."""

    WAIT = 0
    """The cycles that the control bits of the instruction before say."""
    SHORT_SCOREBOARD = 1
    """Shared memory, special functions, constants."""
    LONG_SCOREBOARD = 2
    """Global and local memory."""
    BARRIER = 3
    NO_INSTRUCTION = 4
    """Code from beyond the scheduler's instruction cache."""
    THROTTLE = 5
    """The queue of the data pipe of L1 is full (LG and MIO throttle)."""
    NOT_SELECTED = 6
    """Its pipe is taken, or the scheduler issues from another warp."""


STALLS = len(Stall)


class Code(NamedTuple):
    """One element for each instruction.

    ``pipe`` has the numbers of `Pipe`. ``issue_cycles`` are cycles of the issue slot, ``bank_reads`` registers that it reads from
    each bank, which gives one a cycle, shape ``(n, 2, BANKS)``: without those that are kept for reuse, and with them, where the
    scheduler has issued from another warp among the last ``kept_for`` instructions. ``pipe_cycles`` are cycles of the pipe,
    ``data_cycles`` of the data pipe of L1 or of the cache of indexed constants; ``latency`` from there to the result, of global
    loads what many wavefronts add to it; ``miss_chance`` the part of the requests that go behind L1, each for ``missed_bytes``,
    though all of their sectors have been asked for before; ``far_chance`` the part of these that wait for DRAM.
    ``lines_per_byte``: the lines that a request touches, for each byte of its sectors. A store takes ``write_cycles`` on its
    way to L2; ``written_bytes`` of it go to DRAM. A reduction takes ``atomic_cycles`` of the place of L2 that does most of
    them. ``constant_line`` is the line of constants that stands in the instruction, ``constant_walk`` the walk of one that
    reads them by index, -1 for others. ``past_l1_bytes`` come for an asynchronous copy past L1, 0 for others.
    """

    pipe: Integers
    wait: Integers
    stall_cycles: Floats
    write_barrier: Integers
    read_barrier: Integers
    wait_mask: Integers
    groups_left: Integers
    issue_cycles: Floats
    bank_reads: Floats
    kept_for: Integers
    pipe_cycles: Floats
    latency: Floats
    data_cycles: Floats
    miss_chance: Floats
    missed_bytes: Floats
    atomic_cycles: Floats
    lines_per_byte: Floats
    far_chance: Floats
    write_cycles: Floats
    written_bytes: Floats
    constant_line: Integers
    constant_walk: Integers
    past_l1_bytes: Floats


class Paths(NamedTuple):
    """Stretches of instructions that the warps of some blocks issue (`WarpTraces`), their loads (`LoadStreams`) and constants.

    Constants are known by their lines, and these by the group of lines that come from L2 together (``constant_far``),
    and by the set of the caches that they belong to.

    Without any request, loads go behind L1 by chance alone. Events are those of `PhaseStreams`.
    """

    first: Integers
    length: Integers
    offsets: Integers
    warps_per_block: int
    blocks: int
    request_instruction: Integers
    request_group: Integers
    request_offsets: Integers
    group_sectors: Integers
    group_fresh: Integers
    group_common: Integers
    group_offsets: Integers
    walk_lines: Integers
    walk_offsets: Integers
    walks: int
    constant_far: Integers
    constant_set: Integers
    event_instruction: Integers
    event_phase: Integers
    event_sectors: Integers
    event_fresh: Integers
    event_common: Integers
    event_offsets: Integers
    phase_ends: Integers
    phase_offsets: Integers


class Machine(NamedTuple):
    """One SM and its share of the memories; cycles of the SM, bytes a cycle.

    It has places and registers for ``warp_places``, which blocks take as a block of one of ``sms_per_tpc`` SMs ends.
    ``dram_share`` are the bytes that DRAM gives for each byte behind L1; ``l2_loaded_latency`` and ``dram_loaded_latency`` the
    latencies of L2 and of DRAM that come on top where it is always busy, and less with the square of how busy it is. Latencies of
    DRAM are spread around their mean by ``dram_latency_spread`` of it, the scale of a Gumbel distribution. L1 asks L2
    for a line in ``miss_cycles``, and its data pipe takes ``fill_cycles`` for a line that comes. ``l2_share`` is the SM's share
    of L2's bandwidth, ``l2_bytes_per_cycle`` what of it passes its port. Of the sectors that a block asks for first, the part
    ``first_missed`` is not in L1; of those that no other sector came with, ``first_far`` wait for DRAM; of those that blocks all
    over the grid ask for, ``common_missed`` and ``common_far``. L1 keeps
    ``loads_in_flight`` requests until they are answered, those with them that wait for what another one has asked for. Nothing is
    issued before ``first_cycles``. An instruction is issued though a bank that it reads is busy for ``operand_queue_cycles``
    more. One warp after the other arrives at barriers, each in ``arrival_cycles``; they open ``barrier_cycles`` after the last
    one. A scheduler keeps ``l0_lines`` of code and gets further ones, ``fetch_latency`` later, from the SM, which gives one in
    ``fetch_cycles`` and keeps ``sm_lines``. What the SM lacks comes in ``line_fetch_cycles`` a line from a cache of several SMs,
    which keeps ``l1_lines``, and what that lacks from L2, a line in ``far_fetch_cycles``. With a line that is entered in order
    the ``prefetched_lines`` behind it are asked for, one with a line that is jumped to, which comes ``jump_fetch_cycles`` or a
    latency of L2 later. Each scheduler keeps ``constant_sets`` of ``constant_ways`` lines of constants for operands, the SM as
    many for what is loaded by index; others come one in ``constant_operand_line_cycles`` or ``constant_line_cycles``, after
    ``constant_latency``, and after ``constant_far_latency`` where the SM reads them first.

    A warp goes on ``phase_latency`` after the end of the phase that it waits for. The engine of bulk copies takes
    ``bulk_bytes_per_cycle``, and begins the first one ``bulk_first_cycles`` later.
    What comes passes the SM's port to L2; L2 is asked for the part ``bulk_asked`` of it, as some answers serve several SMs;
    of what asynchronous copies past L1 bring for ``copies_asked``.
    Copies to global memory leave the SM at ``store_bytes_per_cycle``, and the part ``bulk_written`` of them goes on to DRAM.
    A warp goes on ``product_latency`` after tensor cores have done the last product of a warpgroup that it waits for.
    """

    schedulers: int
    sms_per_tpc: int
    warp_places: int
    split_fma: bool
    l1_latency: float
    shared_latency: float
    l2_latency: float
    dram_latency: float
    l2_loaded_latency: float
    dram_loaded_latency: float
    dram_latency_spread: float
    fill_cycles: float
    miss_cycles: float
    l2_bytes_per_cycle: float
    l2_share: float
    dram_bytes_per_cycle: float
    dram_share: float
    dram_scattered_cost: float
    first_missed: float
    first_far: float
    first_joint: float
    common_missed: float
    common_far: float
    common_joint: float
    drift: float
    data_queue: int
    loads_in_flight: int
    write_queue_cycles: float
    operand_cycles: float
    operand_queue_cycles: float
    barrier_cycles: float
    arrival_cycles: float
    branch_cycles: float
    block_start_cycles: float
    first_cycles: float
    dispatch_cycles: float
    l0_lines: int
    fetch_cycles: float
    fetch_latency: float
    sm_lines: int
    line_fetch_cycles: float
    jump_fetch_cycles: float
    l1_lines: int
    far_fetch_cycles: float
    code_lines: int
    prefetched_lines: int
    constant_sets: int
    constant_ways: int
    constant_line_cycles: float
    constant_operand_line_cycles: float
    constant_latency: float
    constant_far_latency: float
    cluster_barrier_cycles: float
    phase_latency: float
    bulk_bytes_per_cycle: float
    bulk_first_cycles: float
    store_bytes_per_cycle: float
    bulk_port_bytes_per_cycle: float
    bulk_asked: float
    copies_asked: float
    bulk_written: float
    product_latency: float


class Run(NamedTuple):
    """What `simulate_sm` gives: cycles, instructions issued, ends of blocks in order, stalled warp cycles by `Stall`.

    ``wave_cycles``: when as many instructions had been issued as the blocks have that share the SM; ``early_issued``, ``_cycles``
    and ``_stalls``: instructions, cycle and stalls when half of the budget had been used; ``atomics``: when L2 has done all
    reductions; ``left``: instructions that each warp still has before it, shape ``(places, warps of a block)``, of blocks
    that have ``begun``; ``homes``: the scheduler of each; ``memory_cycles``: how long L2 or DRAM has been busy, the longer.
    """

    cycles: float
    wave_cycles: float
    issued: int
    early_issued: int
    early_cycles: float
    early_stalls: Floats
    finished: Floats
    stalls: Floats
    atomics: float
    left: Integers
    homes: Integers
    begun: int
    memory_cycles: float

    def warp_cycles(self) -> float:
        """Cycles from one instruction of a warp to its next one where no other warp is in its way, nor waits for it.

        In the second half of the budget: what is cold at first, and waited for by all, says nothing of what follows.
        """
        stalls = self.stalls - self.early_stalls
        others = stalls[Stall.NOT_SELECTED] + stalls[Stall.BARRIER]
        return 1.0 + float(stalls.sum() - others) / max(self.issued - self.early_issued, 1)
