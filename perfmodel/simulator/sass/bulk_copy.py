"""Bulk copies and bulk tensor copies (TMA; PTX ISA 9.7.9.25), done at once and in order, which is one of the orders allowed.

One instruction is executed once by each warp that reaches it. Observers are given the sectors of global memory that it reads
or writes past L1, as accesses of warps with a sector for each lane.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.constants import LINE_BYTES, SECTOR_BYTES, WARP_SIZE
from ...core.distinct_values import distinct
from ...errors import SimulationError
from ...ir.types import ScalarType
from ...launch.tensor_map import TENSOR_MAP_BYTES, TensorTiling, decoded
from ..block_classes.classes import NotFollowedError
from ..faults import FaultKind
from ..functions.atomics import folded
from ..global_memory import PARAMETER_WINDOW, WINDOW_BYTES
from ..machine import Lanes
from ..plan import Mask, Plan, both, rows_and_warps
from . import mbarrier
from .functions import to_tf32

Values = NDArray[Any]
Numbers = NDArray[np.int64]
PIECE_BYTES = 16
_LARGEST_UNIT_BYTES = 8
_UNSIGNED: dict[int, ScalarType] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_FLOATS: dict[str, ScalarType] = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def _warps(lanes: Lanes, instruction: int, guard: Mask | None) -> tuple[Numbers, Numbers]:
    """Row and warp of each warp with an active lane.

    Raises:
        NotFollowedError: other blocks are followed; each of them is executed then.
    """
    if lanes.batch.classes is not None:
        raise NotFollowedError(f"bulk copies ({lanes.environment.instructions[instruction].text})")
    effective = both(lanes.active, guard)
    if effective is None:
        rows, warps = np.divmod(np.arange(lanes.rows * (lanes.threads // WARP_SIZE)), lanes.threads // WARP_SIZE)
        return rows, warps
    found = rows_and_warps(np.broadcast_to(effective, (lanes.rows, effective.shape[1])), lanes.threads)
    rows, warps = np.nonzero(found)
    return rows, warps


def _of_warps(lanes: Lanes, values: Values, rows: Numbers, warps: Numbers) -> Values:
    """What some warps hold in a uniform register."""
    taken: Values = np.broadcast_to(values, lanes.shape)[rows, warps * WARP_SIZE]
    return taken


def _shared_start(lanes: Lanes, rows: Numbers, addresses: Values) -> tuple[Numbers, Numbers]:
    """Row of the batch and offset in the block's shared memory of addresses of the cluster's shared memory."""
    address = addresses.astype(np.int64)
    return lanes.rows_of_cluster(rows, address), lanes.offset_in_block(address)


def _require_shared(lanes: Lanes, instruction: int, rows: Numbers, start: Numbers, size: Numbers | int) -> None:
    wrong = (start < 0) | (start + size > lanes.environment.shared_bytes)
    if wrong.any():
        where = int(np.flatnonzero(wrong)[0])
        mask = (np.arange(lanes.rows) == rows[where])[:, None]
        detail = f"a bulk copy at shared address {int(start[where]):#x} of {lanes.environment.shared_bytes} bytes"
        lanes.fault(FaultKind.OUT_OF_BOUNDS, instruction, mask, detail)


def _touch(lanes: Lanes, addresses: Values, unit: int) -> None:
    """Have the pages of global memory in place that some addresses lie in."""
    if len(addresses):
        known = addresses.astype(np.uint64)
        lanes.environment.memory.touch(int(known.min()), int(known.max()) + unit, lambda: known)


def _require_global(lanes: Lanes, instruction: int, rows: Numbers, addresses: Values, sizes: Values) -> None:
    address, size = addresses.astype(np.int64), sizes.astype(np.int64)
    first, last = lanes.environment.memory.room(address, size)
    for wrong in np.flatnonzero((size > 0) & ((address < first) | (address > last))).tolist():
        mask = (np.arange(lanes.rows) == rows[wrong])[:, None]
        detail = f"a bulk copy of {size[wrong]} bytes at global address {addresses[wrong]:#x}"
        lanes.fault(FaultKind.OUT_OF_BOUNDS, instruction, mask, detail)


def _observe(lanes: Lanes, site: int, rows: Numbers, copy: Numbers, addresses: Numbers) -> None:
    """Give the observers the sectors of global memory that copies access, by address and by number of the copy."""
    if not lanes.environment.observers or not len(addresses):
        return
    keys = distinct(copy << 48 | addresses // SECTOR_BYTES)
    of_sector = rows[keys >> 48]
    order = np.argsort(of_sector, kind="stable")
    of_sector, sectors = of_sector[order], (keys[order] & (2**48 - 1)) * SECTOR_BYTES
    counts = np.bincount(of_sector, minlength=lanes.rows)
    place = np.arange(len(of_sector)) - np.repeat(np.cumsum(counts) - counts, counts)
    # as many at once as the block has lanes: whoever watches knows warps of the block alone
    for first in range(0, int(counts.max()), lanes.threads):
        now = (place >= first) & (place < first + lanes.threads)
        base = np.zeros((lanes.rows, lanes.threads), np.uint64)
        mask = np.zeros((lanes.rows, lanes.threads), np.bool_)
        at = of_sector[now], place[now] - first
        base[at] = sectors[now].astype(np.uint64)
        mask[at] = True
        plan = Plan(base, mask, lanes.rows, lanes.threads)
        lanes.observe(site, lanes.environment.families.placed(plan), 0)


def _cells(lanes: Lanes, row: Numbers, start: Numbers) -> Numbers:
    """Words of ``mbarrier`` objects at an offset in the shared memory of the block of a row."""
    return (row * lanes.batch.shared_stride + start) // mbarrier.WORD_BYTES


def _signal(lanes: Lanes, instruction: int, rows: Numbers, row: Numbers, start: Numbers, done: Numbers) -> None:
    """Report bytes to the ``mbarrier`` of each copy, at an offset in the shared memory of the block of a row."""
    _require_shared(lanes, instruction, rows, start, mbarrier.WORD_BYTES)
    mbarrier.change_owed(lanes, _cells(lanes, row, start), -done)


def _note(
    lanes: Lanes,
    instruction: int,
    rows: Numbers,
    warps: Numbers,
    copy: Numbers,
    addresses: Numbers,
    barrier: Values | None,
) -> None:
    """Note of the copies of blocks that are followed which sectors they access, and which phase their bytes belong to.

    Args:
        lanes: who is here.
        instruction: its index.
        rows: of each copy.
        warps: of each copy.
        copy: of each address the number of its copy, in order.
        addresses: in global memory.
        barrier: address of each copy's ``mbarrier``.
    """
    logs = lanes.environment.phases
    if not logs:
        return
    cells = None if barrier is None else _cells(lanes, *_shared_start(lanes, rows, barrier))
    blocks = lanes.block_ids[rows]
    watched = np.flatnonzero(np.isin(blocks, list(logs)))
    begins, ends = (np.searchsorted(copy, watched, side=side).tolist() for side in ("left", "right"))
    sectors = (addresses.astype(np.int64) // SECTOR_BYTES).tolist()
    for number, begin, end in zip(watched.tolist(), begins, ends, strict=True):
        row, warp, log = int(rows[number]), int(warps[number]), logs[int(blocks[number])]
        phase = None if cells is None else mbarrier.phase_of_cell(lanes, log, row, int(cells[number]), ends=True)
        log.add(warp, instruction, phase, ends=True, sectors=sorted(set(sectors[begin:end])))


# ---- contiguous bytes


def bulk_copy(
    lanes: Lanes,
    site: int,
    instruction: int,
    direction: str,
    target: Values,
    source: Values,
    pieces: Values,
    barrier: Values | None,
    reduction: tuple[str, ScalarType] | None,
    guard: Mask | None,
    moves: bool,
) -> None:
    """``cp.async.bulk`` and ``cp.reduce.async.bulk``.

    Args:
        lanes: who is here.
        site: of the access to global memory.
        instruction: its index.
        direction: ``S.G`` (global to shared), ``G.S`` or ``S.S``.
        target: addresses, of shared memory in the cluster or of global memory.
        source: likewise.
        pieces: how many 16 bytes are copied.
        barrier: of the ``mbarrier`` that gets the bytes; None for copies in a bulk group.
        reduction: operation and type where the target's values are combined with the source's.
        guard: lanes that execute it.
        moves: whether the bytes themselves are wanted.
    """
    rows, warps = _warps(lanes, instruction, guard)
    if direction != "S.S":
        mbarrier.note_absent(lanes, instruction, guard)
    if not len(rows):
        return
    to, by = (_of_warps(lanes, values, rows, warps) for values in (target, source))
    sizes = _of_warps(lanes, pieces, rows, warps).astype(np.int64) * PIECE_BYTES
    outside, within = (to, by) if direction == "G.S" else (by, to)
    if direction != "S.S":
        _require_global(lanes, instruction, rows, outside, sizes)
        each = np.repeat(np.arange(len(rows)), sizes // PIECE_BYTES)
        steps = np.arange(len(each)) - np.repeat(
            np.cumsum(sizes // PIECE_BYTES) - sizes // PIECE_BYTES, sizes // PIECE_BYTES
        )
        touched = outside.astype(np.int64)[each] + steps * PIECE_BYTES
        # what goes to one line of shared memory is read at once; a sector that goes to two lines is read for each
        here = within.astype(np.int64)
        apart = (direction == "S.G") & ((outside.astype(np.int64) - here) % SECTOR_BYTES != 0)
        parity = ((here[each] + steps * PIECE_BYTES) // LINE_BYTES - (here // LINE_BYTES)[each]) % 2 * apart[each]
        for own in (parity == turn for turn in range(2)):
            _observe(lanes, site, rows, each[own], touched[own])
        if moves:
            _touch(lanes, touched, PIECE_BYTES)
        signal = None if barrier is None else _of_warps(lanes, barrier, rows, warps)
        _note(lanes, instruction, rows, warps, each, touched, signal)
    row, start = _shared_start(lanes, rows, within)
    _require_shared(lanes, instruction, rows, start, sizes)
    if moves:
        shared = lanes.batch.shared
        memory, base = lanes.environment.memory, lanes.environment.memory.base
        from_row, from_start = _shared_start(lanes, rows, by) if direction == "S.S" else (row, start)
        for k, size in enumerate(sizes.tolist()):
            own = int(row[k]) * lanes.batch.shared_stride + int(start[k])
            part = shared[own : own + size]
            if direction == "S.S":
                other = int(from_row[k]) * lanes.batch.shared_stride + int(from_start[k])
                _combine(part, shared[other : other + size], reduction)
                continue
            begin = int(outside[k]) - base
            there = memory.view(np.uint8)[begin : begin + size]
            to, by = (part, there) if direction == "S.G" else (there, part)
            _combine(to, by, reduction)
    if barrier is not None:
        to, start = _shared_start(lanes, rows, _of_warps(lanes, barrier, rows, warps))
        _signal(lanes, instruction, rows, to, start, sizes)


def _combine(target: Values, source: Values, reduction: tuple[str, ScalarType] | None) -> None:
    """Put bytes in the place of others, or combine the elements that they are."""
    if reduction is None:
        target[:] = source
        return
    operation, kind = reduction
    cells = target.view(kind)
    folded(cells, np.arange(len(cells)), operation, [source.view(kind)], False)


# ---- boxes of tensors


def rounded_to_tf32(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """FP32 numbers as copies round them where a map has TF32 elements (``CU_TENSOR_MAP_DATA_TYPE_TFLOAT32``), found on an H200.

    65,287 numbers, ties and subnormal ones among them, become the nearest TF32 number, ties even; no number stays none.

    >>> values = np.array([1 + 2.0**-11, 1 + 3 * 2.0**-11, 3.4028e38, np.nan], np.float32)
    >>> rounded_to_tf32(values.view(np.uint32)).view(np.float32)
    array([1.       , 1.0019531,       inf,       nan], dtype=float32)
    """
    return np.where(np.isnan(words.view(np.float32)), np.uint32(0x7FFFE000), to_tf32(words.view(np.float32)))


def _map_of(lanes: Lanes, instruction: int, address: int) -> tuple[int, TensorTiling]:
    """The tensor map at a generic address."""
    environment = lanes.environment
    if PARAMETER_WINDOW <= address < PARAMETER_WINDOW + WINDOW_BYTES:
        begin = address - PARAMETER_WINDOW
        data = environment.parameter_bank[begin : begin + TENSOR_MAP_BYTES].tobytes()
    elif environment.memory.holds(address, address + TENSOR_MAP_BYTES):
        begin = address - environment.memory.base
        environment.memory.touch(address, address + TENSOR_MAP_BYTES)
        data = environment.memory.view(np.uint8)[begin : begin + TENSOR_MAP_BYTES].tobytes()
    else:
        data = b""
    found = decoded(data)
    if found is None:
        raise environment.instructions[instruction].error(
            "there is no tensor map at its address: give the argument as tensormap=f16[512,64]:box=128,64:swizzle=128"
        )
    return found


def _unit_bytes(tiling: TensorTiling, first: Numbers) -> int:
    """Bytes that are moved as one: of each row all or none of them are inside the tensor."""
    unit = tiling.element_bytes
    if tiling.element_strides[-1] != 1 or tiling.element == "tf32":
        return unit
    bits = int(np.bitwise_or.reduce(first)) | tiling.box[-1] | tiling.shape[-1]
    while unit < _LARGEST_UNIT_BYTES and bits * tiling.element_bytes % (2 * unit) == 0:
        unit *= 2
    return unit


def _swizzled(addresses: Numbers, width: int) -> Numbers:
    """Addresses of shared memory with their 16-byte pieces spread over the banks."""
    if not width:
        return addresses
    pattern = width // PIECE_BYTES - 1
    return addresses ^ ((addresses >> 3) & (pattern << 4))


def _boxes(tiling: TensorTiling, address: int, coordinates: Numbers) -> tuple[Numbers, NDArray[np.bool_], Numbers, int]:
    """Global addresses of the units of each box, which of them are inside the tensor, their places in the box, their size.

    ``coordinates`` are of the first elements, outermost first, shape ``(n, rank)``.
    """
    unit = _unit_bytes(tiling, coordinates[:, -1])
    per_unit = unit // tiling.element_bytes
    count = len(coordinates)
    steps = (*tiling.strides_bytes, tiling.element_bytes)
    where = np.full((count, 1), address, np.int64)
    inside = np.ones((count, 1), np.bool_)
    for axis, extent in enumerate(tiling.copied):
        places = np.arange(0, extent, per_unit if axis == tiling.rank - 1 else 1) * tiling.element_strides[axis]
        index = coordinates[:, axis, None] + places
        fits = (index >= 0) & (index < tiling.shape[axis])
        where = (where[:, :, None] + (index * steps[axis])[:, None, :]).reshape(count, -1)
        inside = (inside[:, :, None] & fits[:, None, :]).reshape(count, -1)
    row, column = np.divmod(np.arange(where.shape[1]), tiling.copied[-1] // per_unit)
    return where, inside, row * tiling.row_bytes + column * unit, unit


def tensor_copy(
    lanes: Lanes,
    site: int,
    instruction: int,
    action: str,
    map_address: Values,
    shared: Values | None,
    coordinates: tuple[Values, ...],
    barrier: Values | None,
    multicast: Values | None,
    reduction: str | None,
    guard: Mask | None,
    moves: bool,
) -> None:
    """``cp.async.bulk.tensor``: a box of a tensor to shared memory (``load``), from it (``store``), or to L2 (``prefetch``).

    Elements outside of the tensor are zero and are not read; what lies outside is not written. ``coordinates`` begin with the
    innermost axis. ``multicast`` names the blocks of the cluster that get the box.
    """
    rows, warps = _warps(lanes, instruction, guard)
    if shared is not None:
        mbarrier.note_absent(lanes, instruction, guard)
    if not len(rows):
        return
    maps = _of_warps(lanes, map_address, rows, warps)
    first = np.stack([_of_warps(lanes, c, rows, warps).astype(np.int64) for c in coordinates[::-1]], axis=1)
    first = first.astype(np.uint32).view(np.int32).astype(np.int64)
    targets = None if shared is None else _of_warps(lanes, shared, rows, warps)
    signals = None if barrier is None else _of_warps(lanes, barrier, rows, warps)
    chosen = None if multicast is None else _of_warps(lanes, multicast, rows, warps).astype(np.int64)
    for address in np.unique(maps).tolist():
        start, tiling = _map_of(lanes, instruction, address)
        if tiling.rank != len(coordinates):
            raise lanes.environment.instructions[instruction].error(
                f"names {len(coordinates)} coordinates; its tensor map has {tiling.rank} axes"
            )
        of_map = np.flatnonzero(maps == address)
        own = rows[of_map]
        _require_alignment(lanes, instruction, action, tiling, own, first[of_map])
        where, inside, place, unit = _boxes(tiling, start, first[of_map])
        op = np.broadcast_to(np.arange(len(of_map))[:, None], where.shape)[inside]
        touched = where[inside]
        if len(touched):
            low, end = int(touched.min()), int(touched.max()) + unit
            _require_global(lanes, instruction, own[:1], np.array([low]), np.array([end - low]))
        _observe(lanes, site, own, op, touched)
        if moves:
            _touch(lanes, touched, unit)
        if targets is None:
            continue
        of_copies = None if signals is None else signals[of_map]
        _note(lanes, instruction, own, warps[of_map], op, touched, of_copies)
        for member in range(lanes.environment.cluster_blocks) if chosen is not None else (None,):
            going = np.arange(len(of_map)) if member is None else np.flatnonzero(chosen[of_map] >> member & 1)  # type: ignore[index]
            if not len(going):
                continue
            row, begin = _shared_start(lanes, own[going], targets[of_map][going])
            if member is not None:
                row = lanes.row_of_member(own[going], member)
            _require_shared(lanes, instruction, own[going], begin, tiling.shared_bytes)
            if moves:
                places = (
                    _swizzled(begin[:, None] + place, tiling.swizzle_bytes) + (row * lanes.batch.shared_stride)[:, None]
                )
                _move(lanes, action, reduction, tiling, where[going], inside[going], places, unit)
            if signals is not None:
                at, offset = _shared_start(lanes, own[going], signals[of_map][going])
                at = row if member is not None else at
                _signal(lanes, instruction, own[going], at, offset, np.full(len(going), tiling.box_bytes))


def _require_alignment(
    lanes: Lanes, instruction: int, action: str, tiling: TensorTiling, rows: Numbers, coordinates: Numbers
) -> None:
    """End the simulation where an H200 ends the launch, with an illegal instruction."""
    misaligned = coordinates[:, -1] * tiling.element_bytes % PIECE_BYTES != 0
    negative = (coordinates < 0).any(axis=1) & (action == "store")
    for wrong, reason in (
        (misaligned, f"a box must begin at a multiple of {PIECE_BYTES} bytes along the innermost axis"),
        (negative, "a box that is stored must not begin at a negative coordinate"),
    ):
        if wrong.any():
            where = int(np.flatnonzero(wrong)[0])
            mask = (np.arange(lanes.rows) == rows[where])[:, None]
            kind = FaultKind.MISALIGNED if wrong is misaligned else FaultKind.OUT_OF_BOUNDS
            lanes.fault(kind, instruction, mask, f"{reason}, not at {tuple(coordinates[where].tolist())}")


def _move(
    lanes: Lanes,
    action: str,
    reduction: str | None,
    tiling: TensorTiling,
    where: Numbers,
    inside: NDArray[np.bool_],
    places: Numbers,
    unit: int,
) -> None:
    """Move the units of boxes between global and shared memory."""
    memory = lanes.environment.memory
    if reduction is not None and tiling.element not in _FLOATS and tiling.element == "bf16":
        raise SimulationError("reductions of bf16 by bulk tensor copies are not supported")
    kind = _UNSIGNED[unit]
    if reduction is not None:
        kind = tiling.element_dtype.type
        if unit != tiling.element_bytes:
            parts = unit // tiling.element_bytes
            step = np.arange(parts) * tiling.element_bytes
            where, places = ((part[:, :, None] + step).reshape(len(part), -1) for part in (where, places))
            inside, unit = np.repeat(inside, parts, axis=1), tiling.element_bytes
    cells, shared = memory.view(kind), lanes.batch.shared.view(kind)
    outside = (where - memory.base) // unit
    if action == "load":
        values = cells.take(np.where(inside, outside, 0))
        if tiling.element == "tf32":
            values = rounded_to_tf32(values)
        shared[places // unit] = np.where(inside, values, kind(0))
    elif reduction is None:
        cells[outside[inside]] = shared[places[inside] // unit]
    else:
        folded(cells, outside[inside], reduction, [shared[places[inside] // unit]], False)
