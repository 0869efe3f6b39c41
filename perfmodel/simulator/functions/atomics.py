"""Atomic operations of the lanes of a batch on global and shared memory (PTX ISA 9.7.13.5).

Lanes of one instruction act one after the other in the order block, warp, lane; blocks that run in one batch execute
the same instruction together, batches follow one another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...ir.instruction import Space
from ...ir.types import ScalarType, width_bytes
from ..block_classes.classes import NotFollowedError
from ..machine import Lanes
from ..plan import Mask
from ..transfer import UNCOUNTED, GenericSites, checked, generic_parts, hold, index_of, storage
from .floats import add_wide, greatest, least, narrow

Values = NDArray[Any]

_FOLDS: dict[str, np.ufunc] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _increment(old: Values, limit: Values) -> Values:
    new: Values = np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))
    return new


def _decrement(old: Values, limit: Values) -> Values:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


def _step(operation: str, old: Values, operands: list[Values]) -> Values:
    """New contents after one lane's operation."""
    name, _, kind = operation.partition(".")
    if kind:
        functions: dict[str, Callable[..., Values]] = {"add": add_wide, "min": least, "max": greatest}
        return narrow(functions[name], kind.removesuffix("x2"), kind.endswith("x2"), False, False, old, operands[0])
    if name == "cas":
        return np.where(old == operands[0], operands[1], old)
    if name == "exch":
        return operands[0]
    if name in ("inc", "dec"):
        return (_increment if name == "inc" else _decrement)(old, operands[0])
    return np.asarray(_FOLDS[name](old, operands[0]))


def folded(cells: Values, index: Values, operation: str, operands: list[Values], returns: bool) -> Values | None:
    """Apply operations to ``cells[index]`` in order; gives the contents before each."""
    fold = _FOLDS.get(operation)
    if fold is not None and not returns:
        fold.at(cells, index, operands[0])
        return None
    order = np.argsort(index, kind="stable")
    place = index[order]
    starts = np.flatnonzero(np.concatenate(([True], place[1:] != place[:-1])))
    lengths = np.diff(np.append(starts, len(place)))
    before = np.empty(len(index), cells.dtype)
    if fold is not None and len(starts) < int(lengths.max()):
        for start, length in zip(starts, lengths, strict=True):
            group = order[start : start + length]
            running = fold.accumulate(np.concatenate((cells[place[start : start + 1]], operands[0][group])))
            before[group] = running[:-1]
            cells[place[start]] = running[-1]
        return before
    for rank in range(int(lengths.max())):
        turn = order[starts[lengths > rank] + rank]
        old = cells[index[turn]]
        before[turn] = old
        cells[index[turn]] = _step(operation, old, [operand[turn] for operand in operands])
    return before


def atomic(
    lanes: Lanes,
    site: int,
    instruction: int,
    space: Space,
    base: Values,
    offset: int,
    operation: str,
    scalar_type: ScalarType,
    operands: tuple[Values, ...],
    returns: bool,
    guard: Mask | None,
) -> Values:
    """Contents before each lane's operation; inactive lanes hold zero."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return np.zeros((1, 1), scalar_type)
    width = width_bytes(scalar_type)
    safe, shift = checked(lanes, instruction, space, plan, offset, width)
    if site != UNCOUNTED:
        lanes.observe(site, plan, offset)
    if space is Space.SHARED and lanes.batch.race_detector is not None:
        lanes.batch.race_detector.write(lanes, instruction, safe, shift, width, None, atomic=True)
    if returns and lanes.batch.classes is not None:
        raise NotFollowedError(f"results of atomic operations ({lanes.environment.instructions[instruction].text})")
    lanes.batch.stored.forget(space)
    hold(lanes, space, safe, shift, width, written=True)
    index, moved = index_of(lanes, space, safe, width)
    index = safe.chosen(index) + (moved + shift // width)
    chosen = [safe.chosen(operand) for operand in operands]
    before = folded(storage(lanes, space, scalar_type), index, operation, chosen, returns)
    if before is None:
        return np.zeros((1, 1), scalar_type)
    result = np.zeros(lanes.shape, scalar_type)
    if safe.mask is None:
        result[...] = before.reshape(lanes.shape)
    else:
        result[np.broadcast_to(safe.mask, lanes.shape)] = before
    return result


def atomic_generic(
    lanes: Lanes,
    sites: GenericSites,
    instruction: int,
    base: Values,
    offset: int,
    operation: str,
    scalar_type: ScalarType,
    operands: tuple[Values, ...],
    returns: bool,
    guard: Mask | None,
) -> Values:
    """An atomic operation in the space that each lane's address leads to."""
    result = np.zeros((1, 1), scalar_type)
    for position, space, address, part in generic_parts(lanes, base, offset, guard):
        before = atomic(
            lanes, sites[position], instruction, space, address, offset, operation, scalar_type, operands, returns, part
        )
        result = before if part is None else np.where(part, before, result)
    return result
