"""Generic addresses: each lane's leads to global, shared, local, constant or parameter memory (PTX ISA 5.4)."""

from __future__ import annotations

import numpy as np

from ..program.instruction import Space
from ..program.types import ScalarType
from .global_memory import CONSTANT_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from .machine import Lanes
from .plan import Mask, Values
from .transfer import load, store, touch

GenericSites = tuple[int, int, int, int]
"""Sites of a generic access as global, shared, local and other memory (the last is `UNCOUNTED`)."""
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
            return [(position, space, base - np.uint64(window), guard)]
    parts: list[tuple[int, Space, Values, Mask | None]] = []
    rest = np.ones((1, 1), np.bool_) if guard is None else guard
    address = base + np.uint64(offset % 2**64)
    for position, space, window in _WINDOWS:
        here = (address >= np.uint64(window)) & (address < np.uint64(window + WINDOW_BYTES))
        parts.append((position, space, base - np.uint64(window), rest & here))
        rest = rest & ~here
    return [(0, Space.GLOBAL, base, rest), *parts]


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
    found: list[Values] | None = None
    for position, space, address, part in generic_parts(lanes, base, offset, guard):
        values = load(lanes, sites[position], instruction, space, address, offset, scalar_type, count, part)
        if found is None or part is None:
            found = values
        else:
            found = [np.where(part, new, old) for new, old in zip(values, found, strict=True)]
    return [np.zeros((1, 1), scalar_type)] * count if found is None else found


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
