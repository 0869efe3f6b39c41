"""Loads, stores and asynchronous copies of all state spaces: bounds and alignment, observation, the bytes themselves.

PTX ISA 5.4 (generic addresses), 9.7.9 (data movement), 9.7.9.25 (``cp.async``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ir.instruction import Space
from ..ir.types import ScalarType, width_bytes
from .access import Action
from .block_classes.classes import NotFollowedError
from .block_classes.values import of_blocks
from .faults import FaultKind
from .global_memory import CONSTANT_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from .machine import CLUSTER_RANK_UNIT, Lanes
from .plan import Mask, Plan, Values

UNCOUNTED = -1
HIGHEST_ADDRESS = 2**62
"""Addresses above are negative ones, from which an offset leads into memory."""


def _bank(lanes: Lanes, space: Space) -> NDArray[np.uint8]:
    environment = lanes.environment
    return environment.constant_bank if space is Space.CONSTANT else environment.parameter_bank


def _limit(lanes: Lanes, space: Space) -> int:
    if space is Space.SHARED:
        return lanes.environment.shared_bytes
    return lanes.environment.local_bytes if space is Space.LOCAL else len(_bank(lanes, space))


def _in_bounds(lanes: Lanes, space: Space, low: int, end: int) -> bool:
    if space is Space.GLOBAL:
        return lanes.environment.memory.holds(low, end)
    return low >= 0 and end <= _limit(lanes, space)


def _outside(lanes: Lanes, space: Space, addresses: NDArray[np.uint64], width: int) -> Mask:
    if space is Space.GLOBAL:
        return ~lanes.environment.memory.inside(addresses, width)
    limit = _limit(lanes, space)
    if limit < width:
        return np.ones(addresses.shape, np.bool_)
    return addresses > np.uint64(limit - width)


def checked(lanes: Lanes, instruction: int, space: Space, plan: Plan, offset: int, width: int) -> tuple[Plan, int]:
    """A plan and offset that are safe to read: in bounds and aligned on every active lane.

    Raises:
        FaultError: an active lane is out of bounds or misaligned.
    """
    if space is Space.SHARED and lanes.environment.cluster_blocks > 1:
        return _checked_in_cluster(lanes, instruction, plan, offset, width)
    if plan.steps:
        _follow(lanes, space, plan, offset, width)
    if (plan.low_bits | offset) & (width - 1):
        plan, offset = plan.shifted(offset), 0
        if plan.low_bits & (width - 1):
            wrong = _active(plan) & (plan.base & np.uint64(width - 1) != 0)
            _report(lanes, FaultKind.MISALIGNED, instruction, space, plan, width, wrong)
    if not _in_bounds(lanes, space, plan.low + offset, plan.high + offset + width):
        plan, offset = plan.shifted(offset), 0
        wrong = _active(plan) & _outside(lanes, space, plan.base, width)
        if wrong.any():
            _report(lanes, FaultKind.OUT_OF_BOUNDS, instruction, space, plan, width, wrong)
    return plan, offset


def _follow(lanes: Lanes, space: Space, plan: Plan, offset: int, width: int) -> None:
    """Keep the blocks whose shifted addresses stay in the segment of global memory; elsewhere, those with the same addresses.

    Constants that whole blocks read at one place are the exception: they may differ.
    """
    classes = lanes.batch.classes
    assert classes is not None
    if space is Space.GLOBAL:
        values = plan.base.view(np.int64) + offset
        low, high = lanes.environment.memory.room(values, width)
        classes.stay_within(values, plan.steps, low, high, plan.mask)
    elif space in (Space.SHARED, Space.LOCAL) or plan.base.shape[1] > 1:
        classes.stay_equal(plan.steps, 0, plan.mask)
        plan.steps = {}
    else:
        values = plan.base.view(np.int64) + offset
        classes.stay_within(values, plan.steps, 0, _limit(lanes, space) - width, plan.mask)


def _checked_in_cluster(lanes: Lanes, instruction: int, plan: Plan, offset: int, width: int) -> tuple[Plan, int]:
    """Likewise for shared memory of the blocks of a cluster, whose addresses hold a block's rank."""
    plan = plan.shifted(offset)
    inside = plan.base & np.uint64(CLUSTER_RANK_UNIT - 1)
    rank = plan.base >> np.uint64(CLUSTER_RANK_UNIT.bit_length() - 1)
    active = _active(plan)
    misaligned = active & (inside & np.uint64(width - 1) != 0)
    if misaligned.any():
        _report(lanes, FaultKind.MISALIGNED, instruction, Space.SHARED, plan, width, misaligned)
    outside = inside + np.uint64(width) > np.uint64(_limit(lanes, Space.SHARED))
    wrong = active & (outside | (rank >= np.uint64(lanes.environment.cluster_blocks)))
    if wrong.any():
        _report(lanes, FaultKind.OUT_OF_BOUNDS, instruction, Space.SHARED, plan, width, wrong)
    return plan, 0


def _active(plan: Plan) -> Mask:
    return np.ones((1, 1), np.bool_) if plan.mask is None else plan.mask


def _report(lanes: Lanes, kind: FaultKind, instruction: int, space: Space, plan: Plan, width: int, wrong: Mask) -> None:
    row, thread = (int(k) for k in np.argwhere(np.broadcast_to(wrong, lanes.shape))[0])
    address = int(np.broadcast_to(plan.base, lanes.shape)[row, thread])
    detail = f"{width} bytes at {space.value} address {address:#x}"
    if space is Space.GLOBAL:
        memory = lanes.environment.memory
        below = [s for s in memory.segments if s.start <= address]
        before = memory.segments[0].start - address if memory.segments else 0
        if 0 < before <= WINDOW_BYTES:  # a null pointer is far from everything
            detail += f", {before} bytes before the start of {memory.segments[0].name!r}"
        elif below and memory.segment_at(address) is None:
            detail += f", {address - below[-1].start - below[-1].size_bytes} bytes past the end of {below[-1].name!r}"
    else:
        detail += f" of {_limit(lanes, space)} bytes"
    lanes.fault(kind, instruction, wrong, detail)


def _start(lanes: Lanes, space: Space) -> int:
    """Address of the first byte of a space's storage."""
    return lanes.environment.memory.base if space is Space.GLOBAL else 0


def element_index(lanes: Lanes, space: Space, plan: Plan, width: int) -> NDArray[np.int64]:
    """Index of each lane's address among values of a width; inactive lanes stand where they may be read."""
    shift = np.int64(width.bit_length() - 1)
    # signed: a base register may lie below the memory that an offset from it leads into
    index: NDArray[np.int64] = (plan.read_base.view(np.int64) - _start(lanes, space)) >> shift
    if space is Space.SHARED and lanes.environment.cluster_blocks > 1:
        address = plan.read_base.view(np.int64)
        row = lanes.rows_of_cluster(np.arange(lanes.rows)[:, None], address)
        index = (lanes.offset_in_block(address) >> shift) + row * (lanes.batch.shared_stride // width)
    elif space is Space.SHARED:
        index = index + (lanes.row_index * (lanes.batch.shared_stride // width))[:, None]
    if space is Space.LOCAL:
        lane = lanes.row_index[:, None] * lanes.threads + lanes.batch.thread
        index = index + lane * (lanes.batch.local_stride // width)
    return index


def storage(lanes: Lanes, space: Space, scalar_type: ScalarType) -> NDArray[Any]:
    """All bytes of a space as values of a type, flat."""
    if space is Space.GLOBAL:
        return lanes.environment.memory.view(scalar_type)
    if space is Space.SHARED:
        return lanes.batch.shared.view(scalar_type)
    if space is Space.LOCAL:
        return lanes.batch.local_memory().view(scalar_type)
    return _bank(lanes, space).view(scalar_type)


def index_of(lanes: Lanes, space: Space, plan: Plan, width: int) -> tuple[NDArray[np.int64], int]:
    """`element_index` of the plan, or of the plan that it is a shift of, kept with it; and the shift in elements."""
    root = plan.root
    if space is Space.SHARED and lanes.environment.cluster_blocks > 1:
        root = plan
    if plan.shift % width or root.low < _start(lanes, space) or root.high > HIGHEST_ADDRESS:
        root = plan
    rows, index = root.indices.get((space.value, width), (None, None))
    if index is None or (rows is not lanes.row_index and space is not Space.GLOBAL):
        index = element_index(lanes, space, root, width)
        root.indices[space.value, width] = lanes.row_index, index
    return index, 0 if root is plan else plan.shift // width


def hold(lanes: Lanes, space: Space, plan: Plan, offset: int, width: int, *, written: bool = False) -> None:
    """Let global memory hold what is read or written next."""
    if space is Space.GLOBAL:
        low, end, shifted = plan.low + offset, plan.high + offset + width, np.uint64(offset % 2**64)
        lanes.environment.memory.touch(low, end, lambda: plan.read_base + shifted, written=written)


def touch(
    lanes: Lanes,
    site: int,
    instruction: int,
    space: Space,
    base: Values,
    offset: int,
    width: int,
    guard: Mask | None,
    target: tuple[Plan, int] | None = None,
) -> None:
    """Observe an access and check it, without moving data; ``target`` is where an asynchronous copy writes."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return
    safe, shift = checked(lanes, instruction, space, plan, offset, width)
    if site != UNCOUNTED:
        lanes.observe(site, plan, offset, target)
    if space is Space.SHARED and lanes.batch.race_detector is not None:
        action = lanes.environment.sites[site].action
        if action is Action.LOAD:
            lanes.batch.race_detector.read(lanes, instruction, safe, shift, width)
        else:
            lanes.batch.race_detector.write(
                lanes, instruction, safe, shift, width, None, atomic=action is Action.REDUCTION
            )


def load(
    lanes: Lanes,
    site: int,
    instruction: int,
    space: Space,
    base: Values,
    offset: int,
    scalar_type: ScalarType,
    count: int,
    guard: Mask | None,
) -> list[Values]:
    """Values of a load, one array for each element of the vector; inactive lanes hold anything."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return [np.zeros((1, 1), scalar_type)] * count
    width = width_bytes(scalar_type)
    safe, shift = checked(lanes, instruction, space, plan, offset, width * count)
    if site != UNCOUNTED:
        lanes.observe(site, plan, offset)
    if space is Space.SHARED and lanes.batch.race_detector is not None:
        lanes.batch.race_detector.read(lanes, instruction, safe, shift, width * count)
    if safe.steps:
        return _load_of_blocks(lanes, instruction, space, safe, shift, scalar_type, count)
    note_read(lanes, space, safe, shift, width * count)
    hold(lanes, space, safe, shift, width * count)
    index, moved = index_of(lanes, space, safe, width)
    values = storage(lanes, space, scalar_type)
    step = moved + shift // width
    if step >= 0 and (moved or safe.low >= _start(lanes, space)) and safe.high <= HIGHEST_ADDRESS:
        loaded = [values[step + k :].take(index) for k in range(count)]
    else:
        loaded = [values.take(index + (step + k)) for k in range(count)]
    return lanes.batch.stored.loaded(space, safe, shift, width, loaded)


def note_read(lanes: Lanes, space: Space, plan: Plan, offset: int, width: int) -> None:
    """Note, where blocks are followed, that what they do depends on a buffer."""
    classes = lanes.batch.classes
    if classes is not None and space is Space.GLOBAL:
        classes.note(read=lanes.environment.memory.starts_between(plan.low + offset, plan.high + offset + width))


def _load_of_blocks(
    lanes: Lanes, instruction: int, space: Space, plan: Plan, offset: int, scalar_type: ScalarType, count: int
) -> list[Values]:
    """Values of a load that each block does at a place of its own, all its lanes at one."""
    classes = lanes.batch.classes
    assert classes is not None
    if plan.base.shape[1] > 1 or any(c.shape[1] > 1 for c in plan.steps.values()):
        text = lanes.environment.instructions[instruction].text
        raise NotFollowedError(f"what lanes of each block load from {space.value} memory ({text})")
    width = width_bytes(scalar_type)
    rows = np.arange(classes.count)
    here = np.ones(classes.count, np.bool_) if plan.mask is None else np.broadcast_to(plan.mask.any(axis=1), rows.shape)
    shift = classes.shift(classes.by_row(plan.steps, None) or ())
    addresses = np.broadcast_to(plan.base[:, 0], rows.shape)[classes.rows].view(np.int64) + shift + offset
    some = addresses[here[classes.rows]]
    addresses = np.where(here[classes.rows], addresses, some[0])
    base = 0
    if space is Space.GLOBAL:
        memory = lanes.environment.memory
        base = memory.base
        low, end = int(some.min()), int(some.max()) + width * count
        classes.note(read=memory.starts_between(low, end))
        memory.touch(low, end, lambda: addresses.view(np.uint64))
    index = (addresses - base) // width
    values = storage(lanes, space, scalar_type)
    return [of_blocks(classes, values.take(index + k)) for k in range(count)]


def store(
    lanes: Lanes,
    site: int,
    instruction: int,
    space: Space,
    base: Values,
    offset: int,
    scalar_type: ScalarType,
    elements: tuple[Values, ...],
    guard: Mask | None,
) -> None:
    """Write the elements of a vector; where lanes write one place, the last in the order block, warp, lane stays."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return
    width = width_bytes(scalar_type)
    safe, shift = checked(lanes, instruction, space, plan, offset, width * len(elements))
    if site != UNCOUNTED:
        lanes.observe(site, plan, offset)
    if space is Space.SHARED and lanes.batch.race_detector is not None:
        lanes.batch.race_detector.write(lanes, instruction, safe, shift, width * len(elements), elements)
    elements = lanes.batch.stored.plain(space, safe, shift, width, elements)
    hold(lanes, space, safe, shift, width * len(elements), written=True)
    index, moved = index_of(lanes, space, safe, width)
    index = safe.chosen(index)
    values = storage(lanes, space, scalar_type)
    for position, element in enumerate(elements):
        values[index + (moved + shift // width + position)] = safe.chosen(element)


GenericSites = tuple[int, int, int, int]
"""Sites of a generic access as global, shared, local and other memory (the last is `UNCOUNTED`)."""
_OTHER = 3
_WINDOWS = (
    (1, Space.SHARED, SHARED_WINDOW),
    (2, Space.LOCAL, LOCAL_WINDOW),
    (3, Space.CONSTANT, CONSTANT_WINDOW),
    (3, Space.PARAMETER, PARAMETER_WINDOW),
)
"""Position among the sites of a generic access, space and first generic address."""


def generic_parts(
    lanes: Lanes, base: Values, offset: int, guard: Mask | None
) -> list[tuple[int, Space, Values, Mask | None]]:
    """Site position, space, address within it and guard, for each space that the lanes' generic addresses lead to."""
    plan = lanes.plan(base, guard)
    if plan.empty:
        return []
    low, high = plan.low + offset, plan.high + offset
    if low >= SHARED_WINDOW + WINDOW_BYTES or high < PARAMETER_WINDOW:
        return [(0, Space.GLOBAL, base, guard)]
    for position, space, window in _WINDOWS:
        if low >= window and high < window + WINDOW_BYTES:
            return _of_cluster(lanes, position, space, base - np.uint64(window), guard)
    parts: list[tuple[int, Space, Values, Mask | None]] = []
    rest = np.ones((1, 1), np.bool_) if guard is None else guard
    address = base + np.uint64(offset % 2**64)
    for position, space, window in _WINDOWS:
        here = (address >= np.uint64(window)) & (address < np.uint64(window + WINDOW_BYTES))
        parts += _of_cluster(lanes, position, space, base - np.uint64(window), rest & here)
        rest = rest & ~here
    return [(0, Space.GLOBAL, base, rest), *parts]


def _of_cluster(
    lanes: Lanes, position: int, space: Space, address: Values, guard: Mask | None
) -> list[tuple[int, Space, Values, Mask | None]]:
    """Accesses to shared memory of other blocks of the cluster apart: they are no wavefronts of this block's (H200)."""
    if space is not Space.SHARED or lanes.environment.cluster_blocks == 1:
        return [(position, space, address, guard)]
    own = (address & np.uint64(WINDOW_BYTES - 1)) // np.uint64(CLUSTER_RANK_UNIT) == lanes.special["%cluster_ctarank"]
    here, there = (own, ~own) if guard is None else (guard & own, guard & ~own)
    return [(position, space, address, here), (_OTHER, space, address, there)]


def touch_generic(
    lanes: Lanes, sites: GenericSites, instruction: int, base: Values, offset: int, width: int, guard: Mask | None
) -> None:
    """Count a generic access where each lane's address leads."""
    for position, space, address, part in generic_parts(lanes, base, offset, guard):
        touch(lanes, sites[position], instruction, space, address, offset, width, part)


def load_generic(
    lanes: Lanes,
    sites: GenericSites,
    instruction: int,
    base: Values,
    offset: int,
    scalar_type: ScalarType,
    count: int,
    guard: Mask | None,
) -> list[Values]:
    """Values of a generic load, from the space that each lane's address leads to."""
    loaded: list[Values] | None = None
    for position, space, address, part in generic_parts(lanes, base, offset, guard):
        values = load(lanes, sites[position], instruction, space, address, offset, scalar_type, count, part)
        if loaded is None or part is None:
            loaded = values
        else:
            loaded = [np.where(part, new, old) for new, old in zip(values, loaded, strict=True)]
    return [np.zeros((1, 1), scalar_type)] * count if loaded is None else loaded


def store_generic(
    lanes: Lanes,
    sites: GenericSites,
    instruction: int,
    base: Values,
    offset: int,
    scalar_type: ScalarType,
    elements: tuple[Values, ...],
    guard: Mask | None,
) -> None:
    """Write to the space that each lane's address leads to."""
    for position, space, address, part in generic_parts(lanes, base, offset, guard):
        store(lanes, sites[position], instruction, space, address, offset, scalar_type, elements, part)


def copy_async(
    lanes: Lanes,
    read_site: int,
    write_site: int,
    instruction: int,
    target: Values,
    target_offset: int,
    source: Values,
    source_offset: int,
    size: int,
    source_size: NDArray[np.uint32] | None,
    guard: Mask | None,
    moves: bool,
) -> None:
    """Copy ``size`` bytes from global to shared memory; bytes from ``source_size`` on are zero and not read."""
    count_read = guard
    if source_size is not None:
        some = source_size > 0
        count_read = some if guard is None else guard & some
    written = (lanes.plan(target, count_read), target_offset)
    touch(lanes, read_site, instruction, Space.GLOBAL, source, source_offset, size, count_read, written)
    if not moves:
        touch(lanes, write_site, instruction, Space.SHARED, target, target_offset, size, guard)
        return
    elements = load(
        lanes, UNCOUNTED, instruction, Space.GLOBAL, source, source_offset, np.uint32, size // 4, count_read
    )
    if source_size is not None:
        valid = np.minimum(source_size, np.uint32(size))
        elements = [_first_bytes(element, valid, 4 * k) for k, element in enumerate(elements)]
    store(lanes, write_site, instruction, Space.SHARED, target, target_offset, np.uint32, tuple(elements), guard)


def _first_bytes(words: Values, valid: NDArray[np.uint32], begin: int) -> Values:
    """Words whose bytes from ``valid - begin`` on are zero."""
    count = np.clip(valid.astype(np.int64) - begin, 0, 4).astype(np.uint64)
    mask = ((np.uint64(1) << (count * np.uint64(8))) - np.uint64(1)).astype(np.uint32)
    return words & mask
