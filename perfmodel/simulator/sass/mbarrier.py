"""``mbarrier`` objects (PTX ISA 9.7.13.15): arrivals, bytes that asynchronous copies still owe, phases.

From sm_90 on an object is one 64-bit word whose fields the code that initialises it shows: bits 1 to 20 hold 2**20 less the
expected arrivals, bits 21 to 42 the bytes that are owed, bits 43 to 62 2**20 less the pending arrivals, bit 63 the phase. Words
are kept beside shared memory, unless the code initialises them by ordinary stores, after which it says that they have changed
(``SYNCS.CCTL.IVALL``). Before sm_90 the object lies in shared memory
itself, because ordinary instructions initialise and read it: expected arrivals in the lower half, phase and pending arrivals
in the upper one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ...ir.instruction import ExecutedInstruction, Space
from ...machine_code.instruction import MachineInstruction
from ..faults import FaultKind
from ..machine import Lanes
from ..phases import Phase, PhaseLog
from ..plan import Mask, Plan, both, rows_and_warps
from ..transfer import checked, index_of

Values = NDArray[Any]
Numbers = NDArray[np.int64]
WORD_BYTES = 8
_ARRIVALS = 2**20
_OWED_BITS = 22
_OLD_ARRIVALS = 2**31
_OLD_EXPECTED = 2**30
_NOBODY = (np.zeros((1, 1), np.uint32), np.zeros((1, 1), np.uint32))
"""What is given where no lane takes part."""


@dataclass(slots=True)
class _Objects:
    """Fields of some objects, shape ``(n,)``."""

    expected: Numbers
    owed: Numbers
    pending: Numbers
    phase: Numbers

    def of(self, place: Numbers) -> _Objects:
        """The objects at some places of these, one for each place."""
        return _Objects(self.expected[place], self.owed[place], self.pending[place], self.phase[place])


def _unpacked(words: NDArray[np.uint64]) -> _Objects:
    bits = words.astype(np.uint64)
    owed = ((bits >> np.uint64(21)) & np.uint64(2**_OWED_BITS - 1)).astype(np.int64)
    field = ((bits >> np.uint64(43)) & np.uint64(_ARRIVALS - 1)).astype(np.int64)
    return _Objects(
        expected=_ARRIVALS - ((bits >> np.uint64(1)) & np.uint64(_ARRIVALS - 1)).astype(np.int64),
        owed=np.where(owed >= 2 ** (_OWED_BITS - 1), owed - 2**_OWED_BITS, owed),
        # at most 2**20 - 1 arrivals can be pending, so that a field of zero says that none is
        pending=np.where(field == 0, 0, _ARRIVALS - field),
        phase=(bits >> np.uint64(63)).astype(np.int64),
    )


def _upper(phase: Numbers, pending: Numbers) -> NDArray[np.uint64]:
    """The upper half of an object's word."""
    field = (_ARRIVALS - pending) % _ARRIVALS
    return (phase.astype(np.uint64) << np.uint64(31)) | (field.astype(np.uint64) << np.uint64(11))


def _packed(objects: _Objects) -> NDArray[np.uint64]:
    expected = ((_ARRIVALS - objects.expected) % _ARRIVALS).astype(np.uint64) << np.uint64(1)
    owed = (objects.owed % 2**_OWED_BITS).astype(np.uint64) << np.uint64(21)
    upper = _upper(objects.phase, objects.pending) << np.uint64(32)
    packed: NDArray[np.uint64] = expected | owed | upper
    return packed


def rereads_objects(i: ExecutedInstruction) -> bool:
    """Whether an instruction says that ordinary stores have changed objects."""
    return isinstance(i, MachineInstruction) and i.name == "SYNCS" and i.has("IVALL") and not i.never


def _words(lanes: Lanes) -> NDArray[np.uint64]:
    """The words of all objects that the blocks of a batch may have."""
    batch = lanes.batch
    if batch.barrier_words is None:
        if any(map(rereads_objects, lanes.environment.instructions)):
            batch.barrier_words = batch.shared.view(np.uint64)
        else:
            batch.barrier_words = np.zeros(batch.rows * batch.shared_stride // WORD_BYTES, np.uint64)
    return batch.barrier_words


def _cells(lanes: Lanes, instruction: int, base: Values, offset: int, guard: Mask | None) -> tuple[Plan, Numbers]:
    """The lanes that take part, and which word each of them names, in the order block, warp, lane."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return plan, np.zeros(0, np.int64)
    safe, shift = checked(lanes, instruction, Space.SHARED, plan, offset, WORD_BYTES)
    index, moved = index_of(lanes, Space.SHARED, safe, WORD_BYTES)
    return safe, safe.chosen(index) + (moved + shift // WORD_BYTES)


def _spread(lanes: Lanes, plan: Plan, values: Values) -> Values:
    """Values of the lanes that take part, in their places."""
    full = np.zeros(lanes.shape, values.dtype)
    full[np.ones(lanes.shape, np.bool_) if plan.mask is None else np.broadcast_to(plan.mask, lanes.shape)] = values
    return full


def _settle(objects: _Objects, arrivals: Numbers, owed: Numbers, drops: Numbers) -> _Objects:
    """Objects after arrivals and a change of the bytes owed; phases end where nothing is pending and nothing owed."""
    expected = objects.expected - drops
    total = objects.owed + owed
    rest = objects.pending - arrivals
    ends = (rest <= 0) & (total == 0)
    divisor = np.maximum(expected, 1)
    further = np.where(ends, -rest // divisor, 0)
    pending = np.where(ends, expected - np.where(ends, -rest, 0) % divisor, np.maximum(rest, 0))
    phase = objects.phase ^ np.where(ends, (1 + further) & 1, 0)
    return _Objects(expected=expected, owed=total, pending=pending, phase=phase)


def exchange_barrier(
    lanes: Lanes,
    instruction: int,
    base: Values,
    offset: int,
    value: NDArray[np.uint64],
    guard: Mask | None,
) -> NDArray[np.uint64]:
    """Put a word in an object's place (``mbarrier.init``); gives the one before."""
    plan, cells = _cells(lanes, instruction, base, offset, guard)
    if plan.empty:
        return np.zeros((1, 1), np.uint64)
    words = _words(lanes)
    before = words[cells]
    words[cells] = plan.chosen(value)
    for block, places in _by_log(lanes, cells):
        block.initialise(places)
    return _spread(lanes, plan, before)


def arrive_barrier(
    lanes: Lanes,
    instruction: int,
    base: Values,
    offset: int,
    arrivals: Values,
    owed: Values,
    drops: bool,
    guard: Mask | None,
) -> tuple[Values, Values]:
    """Lanes arrive and change the bytes owed; gives both halves of the word that each lane's warp found, as an H200 does."""
    plan, cells = _cells(lanes, instruction, base, offset, guard)
    _note_lanes(lanes, instruction, guard, plan, cells, ends=True)
    return _NOBODY if plan.empty else _arrived(lanes, plan, cells, arrivals, owed, drops)


def _arrived(
    lanes: Lanes, plan: Plan, cells: Numbers, arrivals: Values, owed: Values, drops: bool
) -> tuple[Values, Values]:
    """Both halves of the words that the lanes of a plan found before their warp arrived."""
    words = _words(lanes)
    counts = plan.chosen(arrivals).astype(np.int64)
    debts = plan.chosen(owed.astype(np.int32)).astype(np.int64)
    known, place = np.unique(cells, return_inverse=True)
    objects = _unpacked(words[known])
    debt = np.bincount(place, debts, len(known)).astype(np.int64)
    total = np.bincount(place, counts, len(known)).astype(np.int64)
    warp = plan.chosen(np.arange(lanes.rows * lanes.threads).reshape(lanes.shape)) // WARP_SIZE
    before = _before_warp(place, warp, counts)
    found = _settle(objects.of(place), before, debt[place], np.zeros_like(before))
    low = (words[cells] & np.uint64(2**32 - 1)).astype(np.uint32)
    high = np.where(
        before == 0, _upper(objects.phase[place], objects.pending[place]), _upper(found.phase, found.pending)
    )
    after = _settle(objects, total, debt, total if drops else np.zeros_like(total))
    words[known] = _packed(after)
    _note_ends(lanes, known[objects.phase != after.phase])
    return _spread(lanes, plan, low), _spread(lanes, plan, high.astype(np.uint32))


def _before_warp(place: Numbers, warp: Numbers, counts: Numbers) -> Numbers:
    """For each lane, the counts of the warps before its own with the same place."""
    running = _running_sum(place, counts)
    _, first, group = np.unique(place * (int(warp.max()) + 1) + warp, return_index=True, return_inverse=True)
    taken: Numbers = running[first][group.reshape(-1)]
    return taken


def _running_sum(place: Numbers, counts: Numbers) -> Numbers:
    """For each lane, the counts of the lanes before it with the same place."""
    order = np.argsort(place, kind="stable")
    sums = np.cumsum(counts[order]) - counts[order]
    first = np.append(True, place[order][1:] != place[order][:-1])
    start = np.maximum.accumulate(np.where(first, np.arange(len(order)), 0))
    running = np.empty_like(sums)
    running[order] = sums - sums[start]
    return running


def arrive_together(
    lanes: Lanes,
    instruction: int,
    base: Values,
    offset: int,
    arrivals: Values,
    drops: bool,
    guard: Mask | None,
) -> tuple[Values, Values]:
    """As `arrive_barrier` for ``.noComplete``; gives the lanes of the warp at the same object, and the upper half before them."""
    plan, cells = _cells(lanes, instruction, base, offset, guard)
    _note_lanes(lanes, instruction, guard, plan, cells, ends=True)
    if plan.empty:
        return _NOBODY
    _, high = _arrived(lanes, plan, cells, arrivals, np.zeros((1, 1), np.int32), drops)
    owner = _spread(lanes, plan, cells + 1).reshape(lanes.rows, -1, WARP_SIZE)
    same = (owner[:, :, :, None] == owner[:, :, None, :]) & (owner[:, :, :, None] > 0)
    bits = np.uint64(1) << np.arange(WARP_SIZE, dtype=np.uint64)
    mask = (same * bits).sum(axis=3, dtype=np.uint64).astype(np.uint32).reshape(lanes.shape)
    first = same.argmax(axis=3)
    upper = np.take_along_axis(high.reshape(owner.shape), first, axis=2).reshape(lanes.shape)
    return mask, upper


def change_owed(lanes: Lanes, cells: Numbers, change: Numbers) -> None:
    """Add to the bytes that objects, by the places of their words, are owed."""
    words = _words(lanes)
    known, place = np.unique(cells, return_inverse=True)
    total = np.bincount(place, change, len(known)).astype(np.int64)
    zero = np.zeros_like(total)
    before = _unpacked(words[known])
    after = _settle(before, zero, total, zero)
    words[known] = _packed(after)
    _note_ends(lanes, known[before.phase != after.phase])


def phase_complete(
    lanes: Lanes, instruction: int, base: Values, offset: int, token: NDArray[np.uint32], guard: Mask | None
) -> Mask:
    """Whether the phase that the upper half of a token (or a parity in its top bit) names is over."""
    plan, cells = _cells(lanes, instruction, base, offset, guard)
    if plan.empty:
        return np.zeros((1, 1), np.bool_)
    phase = (_words(lanes)[cells] >> np.uint64(63)).astype(np.uint32)
    over: Mask = _spread(lanes, plan, phase != plan.chosen(token) >> np.uint32(31))
    return over


def try_phase(
    lanes: Lanes, instruction: int, base: Values, offset: int, token: NDArray[np.uint32], guard: Mask | None
) -> Mask:
    """`phase_complete` as the program asks for it; it is noted who has waited."""
    over = phase_complete(lanes, instruction, base, offset, token, guard)
    if lanes.environment.phases:
        plan, cells = _cells(lanes, instruction, base, offset, guard)
        _note_lanes(lanes, instruction, guard, plan, cells, ends=False)
    return over


# ---- what is noted of blocks that are followed


def _by_log(lanes: Lanes, cells: Numbers) -> Iterator[tuple[PhaseLog, list[int]]]:
    """The logs of blocks that have words at some places of the batch, with the places of these words in the block."""
    logs = lanes.environment.phases
    if not logs or not len(cells):
        return
    rows, places = np.divmod(cells, lanes.batch.shared_stride // WORD_BYTES)
    for row in np.unique(rows).tolist():
        log = logs.get(int(lanes.batch.block_ids[row]))
        if log is not None:
            yield log, places[rows == row].tolist()


def _note_ends(lanes: Lanes, cells: Numbers) -> None:
    """Phases of the objects at some places are over."""
    for log, places in _by_log(lanes, cells):
        log.over(places)


def _note_lanes(lanes: Lanes, instruction: int, guard: Mask | None, plan: Plan, cells: Numbers, *, ends: bool) -> None:
    """Note of each warp that executes an instruction the phase that its first lane takes part in or waits for."""
    if not lanes.environment.phases:
        return
    note_absent(lanes, instruction, guard)
    if plan.empty:
        return
    of_warp = plan.chosen(np.arange(lanes.rows * lanes.threads).reshape(lanes.shape)) // WARP_SIZE
    numbers, first = np.unique(of_warp, return_index=True)
    rows, warps = np.divmod(numbers, lanes.threads // WARP_SIZE)
    for row, warp, cell in zip(rows.tolist(), warps.tolist(), cells[first].tolist(), strict=True):
        log = lanes.environment.phases.get(int(lanes.block_ids[row]))
        if log is not None:
            log.add(warp, instruction, phase_of_cell(lanes, log, row, cell, ends=ends), ends=ends)


def phase_of_cell(lanes: Lanes, log: PhaseLog, row: int, cell: int, *, ends: bool) -> Phase | None:
    """The phase of the object at a place of the batch that is in now, or was over last; None for that of another block."""
    of_row, place = divmod(cell, lanes.batch.shared_stride // WORD_BYTES)
    if of_row != int(lanes.row_index[row]):
        return None
    return log.current(place) if ends else log.before(place)


def note_absent(lanes: Lanes, instruction: int, guard: Mask | None) -> None:
    """Note of warps that are here that no lane of theirs executes an instruction."""
    if guard is None or not lanes.environment.phases:
        return
    here = both(lanes.active, guard)
    taking = rows_and_warps(np.broadcast_to(np.True_ if here is None else here, lanes.shape), lanes.threads)
    all_here = np.True_ if lanes.active is None else lanes.active
    present = rows_and_warps(np.broadcast_to(all_here, lanes.shape), lanes.threads)
    for row, warp in np.argwhere(present & ~taking).tolist():
        log = lanes.environment.phases.get(int(lanes.block_ids[row]))
        if log is not None:
            log.add(warp, instruction, None, ends=False)


# ---- before sm_90


def arrive_in_shared(
    lanes: Lanes, instruction: int, base: Values, offset: int, guard: Mask | None
) -> tuple[Values, Values]:
    """``ATOMS.ARRIVE.64``: one arrival of each lane at an object in shared memory; gives the word that each lane found."""
    plan, cells = _cells(lanes, instruction, base, offset, guard)
    if plan.empty:
        return _NOBODY
    words = lanes.batch.shared.view(np.uint64)
    known, place = np.unique(cells, return_inverse=True)
    low = (words[known] & np.uint64(2**32 - 1)).astype(np.int64)
    high = (words[known] >> np.uint64(32)).astype(np.int64)
    ones = np.ones(len(place), np.int64)
    objects = _Objects(
        expected=_OLD_EXPECTED - low % _OLD_EXPECTED,
        owed=np.zeros_like(low),
        pending=_OLD_ARRIVALS - high % _OLD_ARRIVALS,
        phase=high // _OLD_ARRIVALS,
    )
    before = _running_sum(place, ones)
    found = _settle(objects.of(place), before, np.zeros_like(before), np.zeros_like(before))
    upper = np.where(
        before == 0, high[place], found.phase * _OLD_ARRIVALS + (_OLD_ARRIVALS - found.pending) % _OLD_ARRIVALS
    )
    zero = np.zeros_like(low)
    after = _settle(objects, np.bincount(place, ones, len(known)).astype(np.int64), zero, zero)
    above = after.phase * _OLD_ARRIVALS + (_OLD_ARRIVALS - after.pending) % _OLD_ARRIVALS
    words[known] = low.astype(np.uint64) | (above.astype(np.uint64) << np.uint64(32))
    return _spread(lanes, plan, low[place].astype(np.uint32)), _spread(lanes, plan, upper.astype(np.uint32))


def never_completes(lanes: Lanes, instruction: int, mask: Mask) -> None:
    """End the simulation: lanes wait for a phase that nobody ends."""
    lanes.fault(
        FaultKind.DEADLOCK, instruction, mask, "the phase of its mbarrier never ends: all other threads wait too"
    )
