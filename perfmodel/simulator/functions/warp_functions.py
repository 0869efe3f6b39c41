"""Exchanges within a warp and barriers, on the lanes of a batch (PTX ISA 9.7.9.5, 9.7.12, 9.7.13)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import WARP_SIZE
from ..block_classes.values import permuted
from ..faults import FaultKind
from ..machine import Lanes
from ..plan import Mask, both

Values = NDArray[Any]
_NO_ADDRESS = np.zeros((1, 1), np.uint64)
_BITS = np.uint64(1) << np.arange(WARP_SIZE, dtype=np.uint64)


def _by_warp(lanes: Lanes, values: Values) -> Values:
    """Values with the lanes of a warp on the last axis: shape ``(1 | rows, warps, 32)``."""
    rows = values.shape[0]
    return np.broadcast_to(values, (rows, lanes.threads)).reshape(rows, -1, WARP_SIZE)


def _flat(lanes: Lanes, values: Values) -> Values:
    return values.reshape(values.shape[0], lanes.threads)


def _ballot(mask: Mask) -> NDArray[np.uint64]:
    """Bits of the true lanes of each warp, from shape ``(rows, warps, 32)`` to ``(rows, warps, 1)``."""
    bits = np.packbits(mask, axis=2, bitorder="little").view("<u4")
    return bits.astype(np.uint64)


def member_lanes(lanes: Lanes, mask: Values | None, guard: Mask | None) -> Mask:
    """Active lanes that the member mask names, by warp."""
    effective = both(lanes.active, guard)
    here = np.ones((1, 1), np.bool_) if effective is None else effective
    by_warp = _by_warp(lanes, here)
    if mask is None:
        return by_warp
    named: Mask = (_by_warp(lanes, mask).astype(np.uint64) >> np.arange(WARP_SIZE, dtype=np.uint64)) & np.uint64(1) == 1
    return by_warp & named


def exchange(lanes: Lanes, site: int, guard: Mask | None) -> None:
    """Observe an exchange within warps without computing it."""
    plan = lanes.plan(_NO_ADDRESS, guard)
    if not plan.empty:
        lanes.observe(site, plan, 0)
    warp_barrier(lanes, guard)


def _source_lane(lanes: Lanes, mode: str, b: Values, c: Values) -> tuple[Values, Mask]:
    """The lane that each lane asks for, itself where that is outside its segment, and whether it is inside."""
    lane = lanes.batch.thread % WARP_SIZE
    distance = (b & np.uint32(31)).astype(np.int64)
    clamp = (c & np.uint32(31)).astype(np.int64)
    segment = ((c >> np.uint32(8)) & np.uint32(31)).astype(np.int64)
    last = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - distance
        inside = source >= last
    else:
        source = {"bfly": lane ^ distance, "down": lane + distance}.get(mode, (lane & segment) | (distance & ~segment))
        inside = source <= last
    return np.where(inside, source, lane), inside


def shuffle_source(
    lanes: Lanes,
    site: int,
    instruction: int,
    mode: str,
    b: Values,
    c: Values,
    mask: Values | None,
    guard: Mask | None,
) -> None:
    """Observe a shuffle, and check which lanes are asked, without moving values."""
    exchange(lanes, site, guard)
    if lanes.environment.check:
        index, _ = _asked(lanes, mode, b, c)
        _check_source(lanes, instruction, index, mask, both(lanes.active, guard))


def shuffle(
    lanes: Lanes,
    site: int,
    instruction: int,
    mode: str,
    a: Values,
    b: Values,
    c: Values,
    mask: Values | None,
    guard: Mask | None,
) -> tuple[Values, Mask]:
    """The value of the lane that each lane asks for, and whether that lane is in its segment."""
    exchange(lanes, site, guard)
    index, inside = _asked(lanes, mode, b, c)

    def pick(held: Values) -> Values:
        full = np.broadcast_to(held, (max(held.shape[0], index.shape[0]), lanes.threads))
        return full.take(index[0], axis=1) if index.shape[0] == 1 else np.take_along_axis(full, index, axis=1)

    values = permuted(a, pick)
    if lanes.environment.check:
        _check_source(lanes, instruction, index, mask, both(lanes.active, guard))
    return values, inside


def _asked(lanes: Lanes, mode: str, b: Values, c: Values) -> tuple[Values, Mask]:
    """Thread of the block that each lane asks for, and whether it is in the lane's segment."""
    source, inside = _source_lane(lanes, mode, b, c)
    return lanes.batch.thread // WARP_SIZE * WARP_SIZE + source, inside


def _check_source(lanes: Lanes, instruction: int, index: Values, mask: Values | None, effective: Mask | None) -> None:
    wrong = np.zeros((1, 1), np.bool_)
    if effective is not None:
        full = np.broadcast_to(effective, (max(effective.shape[0], index.shape[0]), lanes.threads))
        wrong = ~(full.take(index[0], axis=1) if index.shape[0] == 1 else np.take_along_axis(full, index, axis=1))
    if mask is not None:
        source_lane = (index % WARP_SIZE).astype(np.uint32)
        wrong = wrong | ((mask >> source_lane) & np.uint32(1) == 0)
    if effective is not None:
        wrong = wrong & effective
    if wrong.any():
        lanes.fault(FaultKind.INACTIVE_LANE, instruction, wrong, "the source lane does not take part")


def vote(lanes: Lanes, site: int, mode: str, predicate: Mask, mask: Values | None, guard: Mask | None) -> Values:
    """Predicates of the member lanes joined; ballots as bits."""
    exchange(lanes, site, guard)
    members = member_lanes(lanes, mask, guard)
    holds = _by_warp(lanes, predicate) & members
    result: Values
    if mode == "ballot":
        result = _ballot(holds).astype(np.uint32)
    elif mode == "any":
        result = np.logical_or.reduce(holds, axis=2, keepdims=True)
    else:
        every = np.logical_and.reduce(holds == members, axis=2, keepdims=True)
        result = every if mode == "all" else every | ~np.logical_or.reduce(holds, axis=2, keepdims=True)
    return _spread(lanes, result)


def _spread(lanes: Lanes, per_warp: Values) -> Values:
    """One value for each warp, given to all its lanes; uniform where there is only one."""
    if per_warp.shape[1] == 1:
        return per_warp.reshape(per_warp.shape[0], 1)
    return np.repeat(per_warp[:, :, 0], WARP_SIZE, axis=1)


def match(lanes: Lanes, site: int, mode: str, value: Values, mask: Values, guard: Mask | None) -> tuple[Values, Mask]:
    """Bits of the member lanes with the same value (any), or of all members if all agree (all), and whether all agree."""
    exchange(lanes, site, guard)
    members = member_lanes(lanes, mask, guard)
    values = _by_warp(lanes, value)
    same = (values[..., :, None] == values[..., None, :]) & members[..., None, :]
    bits = (same * _BITS).sum(axis=3, dtype=np.uint64)
    everyone = _ballot(members)
    agree = bits == everyone
    if mode == "all":
        agree_all = (agree | ~members).all(axis=2, keepdims=True)
        bits = np.where(agree_all, everyone, np.uint64(0)) + np.zeros_like(bits)
        agree = np.broadcast_to(agree_all, bits.shape)
    return _flat(lanes, bits.astype(np.uint32)), _flat(lanes, np.ascontiguousarray(agree))


def reduce_warp(lanes: Lanes, site: int, operation: str, value: Values, mask: Values, guard: Mask | None) -> Values:
    """One value reduced over the member lanes of each warp."""
    exchange(lanes, site, guard)
    members = member_lanes(lanes, mask, guard)
    kind = value.dtype.type
    functions: dict[str, tuple[np.ufunc, int]] = {
        "add": (np.add, 0),
        "or": (np.bitwise_or, 0),
        "xor": (np.bitwise_xor, 0),
        "and": (np.bitwise_and, -1),
        "min": (np.minimum, int(np.iinfo(kind).max)),
        "max": (np.maximum, int(np.iinfo(kind).min)),
    }
    function, neutral = functions[operation]
    filled = np.where(members, _by_warp(lanes, value), np.array(neutral).astype(kind))
    return _spread(lanes, function.reduce(filled, axis=2, keepdims=True).astype(kind))


def active_mask(lanes: Lanes) -> Values:
    """Bits of the lanes of the warp that run together here."""
    if lanes.active is None:
        return np.full((1, 1), 2**32 - 1, np.uint32)
    return _spread(lanes, _ballot(_by_warp(lanes, lanes.active)).astype(np.uint32))


def warp_barrier(lanes: Lanes, guard: Mask | None) -> None:
    """Order the shared-memory accesses of the warps that are here."""
    if lanes.batch.race_detector is not None:
        lanes.batch.race_detector.warp_barrier(lanes, both(lanes.active, guard))


def block_barrier(lanes: Lanes, number: int) -> None:
    """Order the accesses of all lanes to memory, which are here together."""
    lanes.batch.barriers[lanes.row_index] += 1
    if lanes.batch.race_detector is not None:
        lanes.batch.race_detector.complete(lanes, number, lanes.active)


def guarded_barrier(lanes: Lanes, instruction: int, guard: Mask) -> None:
    """Check that a barrier under a predicate is for all lanes of a block that come to it, or for none."""
    if not lanes.environment.check or guard.size == 1:
        return
    here = np.ones((1, 1), np.bool_) if lanes.active is None else lanes.active
    passing, staying = guard & here, ~guard & here
    wrong = passing & np.broadcast_to(staying, (staying.shape[0], lanes.threads)).any(axis=1, keepdims=True)
    if wrong.any():
        lanes.fault(FaultKind.DIVERGENT_BARRIER, instruction, wrong, "other threads of the block pass it by")


def reduce_block(lanes: Lanes, mode: str, predicate: Mask) -> Values:
    """A predicate reduced over the lanes of each block at a barrier."""
    here = np.ones((1, 1), np.bool_) if lanes.active is None else lanes.active
    shape = (max(predicate.shape[0], here.shape[0]), lanes.threads)
    holds = np.broadcast_to(predicate & here, shape)
    result: Values
    if mode == "popc":
        result = holds.sum(axis=1, keepdims=True).astype(np.uint32)
    elif mode == "or":
        result = np.logical_or.reduce(holds, axis=1, keepdims=True)
    else:
        result = np.logical_and.reduce(holds == np.broadcast_to(here, shape), axis=1, keepdims=True)
    return result


def trap(lanes: Lanes, instruction: int, guard: Mask | None) -> None:
    """End the simulation if a lane is here."""
    effective = both(lanes.active, guard)
    if effective is None or effective.any():
        wrong = np.ones((1, 1), np.bool_) if effective is None else effective
        lanes.fault(FaultKind.TRAP, instruction, wrong, "the kernel stops itself (trap or failed assertion)")
