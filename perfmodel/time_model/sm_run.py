"""A run of one SM: from its state at the start, by the simulation of its events, to what its readers ask for."""

from __future__ import annotations

from typing import Any, get_type_hints

import numpy as np

from .sm_records import Code, Floats, Integers, Machine, Paths, Run
from .sm_simulation import simulate
from .sm_state import ATOMICS, BEGUN, DRAM_BUSY, END, L2_BUSY, OFFSET, OVER, STRETCH, Warps, sm_at_start


def simulate_sm(
    code: Code,
    paths: Paths,
    machine: Machine,
    resident: int,
    blocks: int,
    budget: int,
    most: int = 0,
    log: Floats | None = None,
) -> Run:
    """Run blocks on one SM until all have ended, or until the budget of instructions is used up.

    Args:
        code: the instructions.
        paths: what the warps of each traced block issue; blocks take them in turn.
        machine: the SM.
        resident: blocks for whose warps it has places: those that begin together.
        blocks: blocks that it runs one after the other.
        budget: instructions to issue at most.
        most: blocks that it holds where warps have ended before their blocks: when a block ends, here or on the other SM of the
            TPC, as many begin as the places of all ended warps hold. No more than begin together where it is 0.
        log: shape ``(n, 3)``: warp, instruction and cycle of the first n instructions are written into it.
    """
    sm = sm_at_start(code, paths, machine, max(resident, most), blocks)
    kept = np.zeros((0, 3)) if log is None else log
    early = np.zeros(len(sm.stalls) + 1)
    cycles, wave, issued = simulate(code, paths, _as_record(machine), sm, resident, blocks, budget, early, kept)
    finished = sm.blocks.finished[: sm.blocks.numbers[OVER]]
    begun = int(sm.blocks.numbers[BEGUN])
    servers, shape = sm.memory.servers, (-1, paths.warps_per_block)
    return Run(
        cycles=cycles,
        wave_cycles=wave,
        issued=issued,
        early_issued=budget // 2 if issued >= budget // 2 else 0,
        early_cycles=float(early[-1]),
        early_stalls=early[:-1],
        finished=finished,
        stalls=sm.stalls,
        atomics=float(servers[ATOMICS]),
        left=_left(paths, sm.warps).reshape(shape),
        homes=sm.warps.home.reshape(shape),
        begun=begun,
        memory_cycles=float(max(servers[L2_BUSY], servers[DRAM_BUSY])),
    )


_FIELDS = np.dtype([(name, np.dtype(kind)) for name, kind in get_type_hints(Machine).items()])


def _as_record(machine: Machine) -> Any:
    """The machine as NumPy holds a record: Numba hands its address on, where it would hand on each value of a tuple."""
    return np.array([tuple(machine)], _FIELDS)[0]


def _left(paths: Paths, warps: Warps) -> Integers:
    """Instructions that each warp still has before it."""
    ends = np.append(0, np.cumsum(paths.length))
    stretch, end = warps.places[:, STRETCH], warps.places[:, END]
    left = np.where(stretch < end, ends[end] - ends[stretch] - warps.places[:, OFFSET], 0)
    return np.asarray(left, np.int64)
