"""``cp.async``: copies from global to shared memory that pass no register (PTX ISA 9.7.9.25)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..program.instruction import Space
from .machine import Lanes
from .plan import Mask, Values
from .transfer import UNCOUNTED, load, store, touch


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
