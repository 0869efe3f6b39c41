"""Profiles of launches that do something else than the one that was executed: other accesses, other blocks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES, SECTORS_PER_LINE
from ..core.counts import INSTRUCTION_CLASSES
from ..ir.instruction import Space
from ..memory.access_counts import READS, InstructionCount
from ..profiles.kernel_profile import KernelProfile
from ..profiles.load_streams import CUT, WarpPart, first_touches, regrouped
from ..profiles.phase_streams import NO_PHASES
from ..profiles.warp_traces import WarpTraces
from ..simulator.access import Action
from .subject import Subject

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_SECTOR_COUNTS = {
    Action.LOAD: "global_load_sectors",
    Action.STORE: "global_store_sectors",
    Action.ASYNC_COPY: "async_copy_read_sectors",
}
BUSIEST_COUNTS = ("l2_busiest_slice_atomics", "l2_busiest_word_atomics", "l2_busiest_float_atomics")
ATOMIC_COUNTS = (*BUSIEST_COUNTS, "l2_atomic_sectors")
"""Counts of what L2 has to do for atomics."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one global load asks for in the whole launch: sectors that pass L1, and those that each block needs at least once."""

    behind_l1: float
    first_touches: float


def with_added(profile: KernelProfile, **amounts: float) -> KernelProfile:
    """The profile with counts raised or lowered, none below 0."""
    counts = profile.counts
    changed = {name: max(float(getattr(counts, name)) + amount, 0.0) for name, amount in amounts.items()}
    return replace(profile, counts=replace(counts, **changed))


def with_demand(profile: KernelProfile, instruction: int, **factors: float) -> KernelProfile:
    """The profile with fields of `MemoryDemand` of one instruction multiplied; the same where no warps were followed."""
    traces = profile.traces
    if traces is None:
        return profile
    changed = {}
    for name, factor in factors.items():
        values = getattr(traces.memory, name).copy()
        values[instruction] *= factor
        changed[name] = values
    return replace(profile, traces=structs.replace(traces, memory=replace(traces.memory, **changed)))


def fetched_by_loads(subject: Subject) -> Mapping[int, Fetched]:
    """What each global load fetches, by instruction; empty where no warps were followed.

    What passes L1 is shared out as the time model does: all loads miss in proportion to the part of their sectors that a block
    touches for the first time, none more than all of them, and together as many as were counted.
    """
    traces: WarpTraces | None = subject.profile.traces
    loads = [one for one in subject.instructions if one.space is Space.GLOBAL and one.action in READS and one.sectors]
    if traces is None or not loads:
        return {}
    asked = np.array([float(one.sectors) for one in loads])
    touched = first_touches(traces.loads, traces.warps_per_block, traces.observed, len(traces.table))
    of_all = np.minimum(touched / np.maximum(traces.memory.requests * traces.memory.sectors, 1.0), 1.0)
    first = of_all[[one.instruction for one in loads]]
    counts = subject.profile.counts
    target = min(max(float(counts.l1_missed_sectors), float(counts.l2_read_sectors)), float(asked.sum()))
    low, high = 1e-6, 1e6
    for _ in range(60):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if np.minimum(1.0, middle * first) @ asked < target else (low, middle)
    return {
        one.instruction: Fetched(behind_l1=float(min(1.0, low * share) * ask), first_touches=float(share * ask))
        for one, share, ask in zip(loads, first, asked, strict=True)
    }


def with_sectors(
    subject: Subject,
    profile: KernelProfile,
    count: InstructionCount,
    asked: float,
    fetched: Mapping[int, Fetched],
    behind_l1: float | None,
) -> KernelProfile:
    """The profile in which one global instruction asks for other sectors.

    DRAM gives no more than what passes L1: an instruction's part of its reads is that of the sectors which blocks touch first. As
    many sectors as before are stored for the first time.

    Args:
        subject: the launch as it was executed.
        profile: to be changed.
        count: the instruction.
        asked: sectors that it asks for in the whole launch.
        fetched: what each load fetches before the change.
        behind_l1: those of a load that pass L1; None for a store, which asks L2 for all.
    """
    changes = {_SECTOR_COUNTS[count.action]: asked - count.sectors}
    lines = max(asked / SECTORS_PER_LINE, float(count.requests))
    if count.action is Action.LOAD:
        changes["global_load_lines"] = min(lines - count.lines, 0.0)
    if behind_l1 is None:
        changes["l2_write_sectors"] = asked - count.sectors
        left = max(float(profile.counts.l2_write_sectors) + changes["l2_write_sectors"], 0.0)
        changes["dram_write_bytes"] = min(left * SECTOR_BYTES - float(profile.counts.dram_write_bytes), 0.0)
    else:
        own = fetched[count.instruction]
        everything = sum(one.first_touches for one in fetched.values())
        from_dram = float(subject.profile.counts.dram_read_bytes) * own.first_touches / max(everything, 1.0)
        changes["l1_missed_sectors"] = behind_l1 - own.behind_l1
        changes["l2_read_sectors"] = behind_l1 - own.behind_l1
        changes["dram_read_bytes"] = min(behind_l1 * SECTOR_BYTES - from_dram, 0.0)
    changed = with_added(profile, **changes)
    first = 0.0 if profile.traces is None else float(profile.traces.memory.first_stores[count.instruction])
    return with_demand(
        changed,
        count.instruction,
        sectors=asked / count.sectors,
        lines=min(lines / max(count.lines, 1), 1.0),
        wavefronts=min(lines / max(count.lines, 1), 1.0),
        partial_sectors=1.0 if asked >= count.sectors else 0.0,
        first_stores=min(count.sectors / asked, 1.0 / first) if first else 1.0,
    )


def with_smaller_blocks(profile: KernelProfile, groups: int, pieces: int = 1) -> KernelProfile:
    """The profile of the same work in ``groups · pieces`` times as many blocks.

    A block's warps are dealt out to ``groups`` new blocks, which its warps must divide by. The passes of each warp through loops
    are dealt out to ``pieces``, so that further blocks do the rest of them; what stands outside of loops all of them do.
    Shared memory goes with the threads.
    """
    launch, parts = profile.launch, groups * pieces
    threads = max(int(launch.threads_per_block) // groups, 1)
    smaller = replace(
        launch,
        grid_x=int(launch.blocks) * parts,
        grid_y=1,
        grid_z=1,
        block_x=threads,
        block_y=1,
        block_z=1,
        static_shared_bytes=int(launch.static_shared_bytes) // groups,
        dynamic_shared_bytes=int(launch.dynamic_shared_bytes) // groups,
    )
    traces: WarpTraces | None = profile.traces
    if traces is None:
        return replace(profile, launch=smaller)
    size = traces.warps_per_block // groups
    ways, loading = sequences(traces), np.split(traces.loads.instruction, traces.loads.offsets[1:-1])
    ways_of_pieces, loads_of_pieces = ([_dealt_out(own, pieces) for own in every] for every in (ways, loading))
    new = [
        (range(begin, begin + size), piece)
        for begin in range(0, traces.blocks * traces.warps_per_block, size)
        for piece in range(pieces)
    ]
    left = [ways[warp][ways_of_pieces[warp][piece]] for warps, piece in new for warp in warps]
    blocks = [[[WarpPart(warp, loads_of_pieces[warp][piece])] for warp in warps] for warps, piece in new]
    followed = np.array([len(own) for own in left]).reshape(traces.blocks, parts, size).sum(axis=2)
    before = np.array([len(own) for own in ways]).reshape(traces.blocks, -1).sum(axis=1, keepdims=True)
    share = followed / np.maximum(before, 1)
    changed = _of_sequences(traces, left)
    observed = traces.observed * traces.warps_per_block
    executed, more = (_executions(every, len(traces.table)) for every in (ways[:observed], left[: observed * pieces]))
    changed = structs.replace(
        changed,
        loads=regrouped(traces.loads, traces.warps_per_block, blocks),
        warps_per_block=traces.warps_per_block // groups,
        instructions=(traces.instructions[:, None] * share).reshape(-1),
        observed=traces.observed * parts,
        working=traces.working * parts,
        memory=replace(traces.memory, requests=traces.memory.requests * more / np.maximum(executed, 1)),
    )
    return replace(profile, launch=smaller, traces=changed)


def with_larger_blocks(profile: KernelProfile, times: int) -> KernelProfile:
    """The profile of the same work in blocks of so many times the threads; shared memory goes with the threads."""
    launch = profile.launch
    larger = replace(
        launch,
        grid_x=max(int(launch.blocks) // times, 1),
        grid_y=1,
        grid_z=1,
        block_x=int(launch.threads_per_block) * times,
        block_y=1,
        block_z=1,
        static_shared_bytes=int(launch.static_shared_bytes) * times,
        dynamic_shared_bytes=int(launch.dynamic_shared_bytes) * times,
    )
    traces: WarpTraces | None = profile.traces
    if traces is None:
        return replace(profile, launch=larger)
    warps = traces.warps_per_block
    sequences = [
        _sequence(traces, block * warps + warp)
        for block in range(traces.blocks)
        for _ in range(times)
        for warp in range(warps)
    ]
    every = [np.arange(count) for count in np.diff(traces.loads.offsets).tolist()]
    blocks = [
        [
            [WarpPart(block * warps + warp, every[block * warps + warp], copy)]
            for copy in range(times)
            for warp in range(warps)
        ]
        for block in range(traces.blocks)
    ]
    changed = structs.replace(
        _of_sequences(traces, sequences),
        loads=regrouped(traces.loads, warps, blocks),
        warps_per_block=warps * times,
        working=-(-traces.working // times),
        instructions=traces.instructions * times,
        memory=replace(traces.memory, requests=traces.memory.requests * times),
    )
    return replace(profile, launch=larger, traces=changed)


def _dealt_out(sequence: Integers, pieces: int) -> list[NDArray[np.int64]]:
    """Places of a sequence of instructions that each piece executes: its part of the passes of loops, and what is no loop.

    An instruction that is executed n times is executed n / pieces times by each, rounded up or down, but once at least.

    >>> [places.tolist() for places in _dealt_out(np.array([7, 1, 2, 1, 2, 1, 2, 8]), 2)]
    [[0, 1, 2, 3, 4, 7], [0, 5, 6, 7]]
    """
    if pieces == 1:
        return [np.arange(len(sequence))]
    _, which, times = np.unique(sequence, return_inverse=True, return_counts=True)
    passes, rank = times[which], _occurrences(sequence)
    return [
        np.flatnonzero(
            np.where(passes < pieces, rank == piece * passes // pieces, rank * pieces // np.maximum(passes, 1) == piece)
        )
        for piece in range(pieces)
    ]


def _executions(ways: Sequence[Integers], instructions: int) -> NDArray[np.float64]:
    """How often each instruction stands in some sequences."""
    return np.bincount(np.concatenate(ways), minlength=instructions).astype(np.float64)


def with_more_work_per_block(profile: KernelProfile, times: int, once: Collection[int] = ()) -> KernelProfile:
    """The profile of the same work in blocks that each do so many times as much, one part after the other.

    Some instructions (``once``) are executed for the last part alone.
    """
    launch = profile.launch
    fewer = replace(launch, grid_x=max(int(launch.blocks) // times, 1), grid_y=1, grid_z=1)
    traces: WarpTraces | None = profile.traces
    if traces is None:
        return replace(profile, launch=fewer)
    warps = traces.warps_per_block
    leave_out = np.zeros(len(traces.table), np.bool_)
    leave_out[list(once)] = True
    sequences, parts = [], []
    for warp in range(traces.blocks * warps):
        own = _sequence(traces, warp)
        before = own[~leave_out[own]]
        sequences.append(np.concatenate([*[before] * (times - 1), own]))
        loading = traces.loads.instruction[traces.loads.offsets[warp] : traces.loads.offsets[warp + 1]]
        parts.append((np.flatnonzero(~leave_out[loading]), np.arange(len(loading))))
    blocks = [
        [
            [WarpPart(warp, parts[warp][copy == times - 1], copy) for copy in range(times)]
            for warp in range(block * warps, (block + 1) * warps)
        ]
        for block in range(traces.blocks)
    ]
    requests = traces.memory.requests * np.where(leave_out, 1.0, float(times))
    ends = traces.offsets[::warps]
    followed = [int(traces.length[begin:end].sum()) for begin, end in pairwise(ends.tolist())]
    grown = [sum(map(len, sequences[block * warps : (block + 1) * warps])) for block in range(traces.blocks)]
    changed = structs.replace(
        _of_sequences(traces, sequences),
        loads=regrouped(traces.loads, warps, blocks),
        instructions=traces.instructions * np.array(grown) / np.maximum(followed, 1),
        working=-(-traces.working // times),
        memory=replace(traces.memory, requests=requests),
    )
    return replace(profile, launch=fewer, traces=changed)


def with_executions(profile: KernelProfile, shares: Mapping[int, float]) -> KernelProfile:
    """The profile in which warps execute some instructions only in a share of the cases, evenly spread.

    Counts of the launch stay as they are (`with_fewer_instructions` lowers them).
    """
    traces: WarpTraces | None = profile.traces
    if traces is None:
        return profile
    share = np.ones(len(traces.table))
    share[list(shares)] = list(shares.values())
    left, loads = [], []
    executed = 0
    before = np.zeros(len(share), np.int64)
    for warp in range(len(traces.offsets) - 1):
        sequence = _sequence(traces, warp)
        loading = traces.loads.instruction[traces.loads.offsets[warp] : traces.loads.offsets[warp + 1]]
        left.append(sequence[_kept(sequence, before, share)])
        loads.append([WarpPart(warp, np.flatnonzero(_kept(loading, before, share)))])
        before += np.bincount(sequence, minlength=len(share))
        executed += len(sequence)
    kept = sum(map(len, left)) / max(executed, 1)
    warps = traces.warps_per_block
    blocks = [loads[begin : begin + warps] for begin in range(0, len(loads), warps)]
    changed = structs.replace(
        _of_sequences(traces, left),
        instructions=traces.instructions * kept,
        loads=regrouped(traces.loads, warps, blocks),
        memory=replace(traces.memory, requests=traces.memory.requests * share),
    )
    return replace(profile, traces=changed)


def _kept(sequence: Integers, before: Integers, share: Floats) -> NDArray[np.bool_]:
    """Which places of a sequence stay, where so many executions came before; ends of kept requests (`CUT`) do."""
    number, part = before[sequence] + _occurrences(sequence), share[sequence]
    stays = np.ceil((number + 1) * part - _ROUNDING) > np.ceil(number * part - _ROUNDING)
    return np.asarray(stays | (sequence == CUT))


def _occurrences(sequence: Integers) -> NDArray[np.int64]:
    """How many of the same stand before each element of a sequence.

    >>> _occurrences(np.array([7, 1, 2, 1, 7, 1])).tolist()
    [0, 0, 0, 1, 1, 2]
    """
    order = np.argsort(sequence, kind="stable")
    ordered = sequence[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)])
    found = np.empty(len(sequence), np.int64)
    found[order] = np.arange(len(ordered)) - np.repeat(starts, np.diff(np.append(starts, len(ordered))))
    return found


def with_fewer_instructions(subject: Subject, profile: KernelProfile, shares: Mapping[int, float]) -> KernelProfile:
    """`with_executions`, with the launch's counts of instructions lowered by those that go."""
    gone = {index: float(subject.executions[index]) * (1.0 - share) for index, share in shares.items()}
    return with_executions(_with_lowered_counts(subject, profile, gone), shares)


def without_places(subject: Subject, gone: Sequence[NDArray[np.bool_]]) -> KernelProfile:
    """The profile in which the followed warps leave out some of what they execute, and the others as much of it.

    Args:
        subject: the launch as it was executed.
        gone: of each warp of the observed blocks, which of the instructions in its sequence (`sequences`) go; no global loads.
    """
    traces: WarpTraces = subject.profile.traces
    count = traces.observed * traces.warps_per_block
    every = sequences(traces)
    left = [own[~places] for own, places in zip(every, gone, strict=False)] + every[count:]
    executed, dropped = np.zeros((2, len(traces.table)))
    for own, places in zip(every, gone, strict=False):
        executed += np.bincount(own, minlength=len(executed))
        dropped += np.bincount(own[places], minlength=len(executed))
    share = dropped / np.maximum(executed, 1)
    amounts = {int(index): float(subject.executions[index] * share[index]) for index in np.flatnonzero(share)}
    changed = structs.replace(
        _of_sequences(traces, left),
        instructions=traces.instructions * sum(map(len, left)) / max(sum(map(len, every)), 1),
    )
    return replace(_with_lowered_counts(subject, subject.profile, amounts), traces=changed)


def _with_lowered_counts(subject: Subject, profile: KernelProfile, gone: Mapping[int, float]) -> KernelProfile:
    """The profile with the launch's counts of instructions lowered by so many executions of some."""
    lowered: dict[str, float] = {}
    for index, amount in gone.items():
        name = subject.code[index].class_name
        for count in ("warp_instructions", *((name,) if name in INSTRUCTION_CLASSES else ())):
            lowered[count] = lowered.get(count, 0.0) - amount
    return with_added(profile, **lowered)


def sequences(traces: WarpTraces) -> list[Integers]:
    """The instructions that each warp issues, one after the other."""
    return [_sequence(traces, warp) for warp in range(len(traces.offsets) - 1)]


def _sequence(traces: WarpTraces, warp: int) -> Integers:
    """The instructions that a warp issues, one after the other."""
    own = slice(traces.offsets[warp], traces.offsets[warp + 1])
    first, length = traces.first[own], traces.length[own]
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(first - (ends - length), length) + np.arange(total)


def _of_sequences(traces: WarpTraces, sequences: list[Integers]) -> WarpTraces:
    """Traces of warps that issue these instructions; how they meet at ``mbarrier`` objects is not known."""
    firsts: list[Any] = []
    lengths: list[Any] = []
    offsets = [0]
    for sequence in sequences:
        begins = np.flatnonzero(np.append(True, np.diff(sequence) != 1))[: len(sequence)]
        firsts.append(sequence[begins])
        lengths.append(np.diff(np.append(begins, len(sequence))))
        offsets.append(offsets[-1] + len(begins))
    return structs.replace(
        traces,
        first=np.concatenate(firsts).astype(np.int64),
        length=np.concatenate(lengths).astype(np.int64),
        offsets=np.array(offsets, np.int64),
        phases=NO_PHASES,
    )


def widest_request_sectors(count: InstructionCount) -> float:
    """Sectors that an instruction would ask for if its lanes lay side by side: at least one a request."""
    return float(max(count.requests, -(-count.lanes * count.width_bytes // SECTOR_BYTES)))
