"""Micro-benchmarks of shared accesses beside accesses of other kinds: which of them cost the data pipe further wavefronts.

Each is one launch of one block of eight warps, two on each sub-partition. Where in shared memory the accessed words lie, and how
much of it there is, are settings, because the data of L1 lies in the same memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import partial

import numpy as np
from numpy.typing import NDArray

from perfmodel.core.constants import FLOAT_BYTES, WARP_SIZE
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch

from .benchmark import Clock, MicroBenchmark, MicroCall, exactly, float_noise

ACCESSING = 4
BESIDE_WARPS = 4
ACCESSES = 16
BESIDE_ACCESSES = 4
OWN_WORDS = 128
HELD_LINES = 64
SMALL_BYTES = FLOAT_BYTES * OWN_WORDS * (ACCESSING + BESIDE_WARPS)


class Beside(Enum):
    """What the other warps do; its position is the kernel's constant."""

    NOTHING = "nothing"
    LOADS_HIT = "loads of 64 lines"
    LOADS_MISS = "loads of new lines"
    STORES = "stores of whole lines"
    SCATTERED_STORES = "stores to 32 lines"
    NARROW_COPIES = "copies of 4 bytes"
    WIDE_COPIES = "copies of 16 bytes"
    SHARED_STORES = "shared stores"

    @property
    def slower(self) -> int:
        """About how many times as long as a step of the shared accesses one of these takes, at least 1."""
        return {"LOADS_MISS": 8, "SCATTERED_STORES": 8, "NARROW_COPIES": 8, "WIDE_COPIES": 8}.get(self.name, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentionSizes:
    """Steps of the warps whose shared accesses are counted."""

    steps: int = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the accessed words begin in a block's shared memory, and how large that is."""

    first_byte: int
    shared_bytes: int


def contention_suite(gpu: Gpu, sizes: ContentionSizes) -> tuple[MicroBenchmark, ...]:
    """Loads beside each kind, at the begin and at the end of blocks that fill each carve-out; in some of them stores too."""
    every = places(gpu)
    stored = {every[0], *every[-2:]}
    return tuple(
        shared_contention(sizes, beside, place, store=store)
        for place in every
        for store in (False, True)
        for beside in Beside
        if place in stored or not store
    )


def places(gpu: Gpu) -> tuple[Place, ...]:
    """Begin and end of the largest block that fits each carve-out of a GPU, each once.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> [place.first_byte // 1024 for place in places(load_gpu("rtx-2080-ti"))]
    [0, 28, 0, 60]
    """
    found: dict[Place, None] = {}
    for carve_out in gpu.shared_carve_outs_bytes or (gpu.shared_bytes_per_sm,):
        room = min(carve_out - gpu.shared_reserved_bytes_per_block, gpu.shared_bytes_per_block_opt_in)
        size = room // SMALL_BYTES * SMALL_BYTES
        if size > 0:
            found |= {Place(first_byte=first, shared_bytes=size): None for first in (0, size - SMALL_BYTES)}
    return tuple(found)


def _lasts(beside: Beside, source: NDArray[np.float32], steps: int) -> NDArray[np.float64]:
    """What the accesses of each lane of the other warps brought, the largest of loads, else the last: ``(BESIDE_WARPS, 32)``."""
    last = steps * BESIDE_ACCESSES - 1
    numbers = source.astype(np.float64)
    fresh = (last * BESIDE_WARPS + np.arange(BESIDE_WARPS))[:, None] * WARP_SIZE + np.arange(WARP_SIZE)
    if beside is Beside.NOTHING:
        return np.zeros(fresh.shape)
    if beside in (Beside.LOADS_HIT, Beside.LOADS_MISS):
        lines = np.arange((last + 1) * BESIDE_WARPS).reshape(-1, BESIDE_WARPS)
        read = lines % HELD_LINES if beside is Beside.LOADS_HIT else lines
        return np.asarray(numbers.reshape(-1, WARP_SIZE)[read].max(axis=0, initial=0.0))
    if beside is Beside.NARROW_COPIES:
        return np.take(numbers, fresh)
    if beside is Beside.WIDE_COPIES:
        return np.take(numbers, 4 * fresh)
    return np.full(fresh.shape, float(last))


def _written(beside: Beside, steps: int) -> NDArray[np.float64]:
    """What stands in global memory afterwards, zeros where nothing was stored."""
    area = np.zeros((WARP_SIZE, WARP_SIZE))
    for number in range(steps * BESIDE_ACCESSES):
        if beside is Beside.STORES:
            area[number % WARP_SIZE] = number
        elif beside is Beside.SCATTERED_STORES:
            area[:, number % WARP_SIZE] = number
    return np.tile(area.ravel(), BESIDE_WARPS)


def _call(beside: Beside, store: bool, steps: int, beside_steps: int, rng: np.random.Generator) -> MicroCall:
    lines = max(4 * BESIDE_WARPS * BESIDE_ACCESSES * beside_steps, HELD_LINES)
    source = float_noise(lines * WARP_SIZE, rng)
    written = _written(beside, beside_steps)
    own = steps - 1 + ACCESSES - 4 if store else ACCESSES * steps
    lasts = _lasts(beside, source, beside_steps).ravel()
    parameters = (
        Buffer(name="sums", array=np.full(WARP_SIZE * (ACCESSING + BESIDE_WARPS), np.nan, np.float32), output=True),
        Buffer(name="written", array=np.zeros(written.shape, np.float32), output=True),
        Buffer(name="source", array=source),
        np.int32(steps),
        np.int32(beside_steps),
    )
    sums = np.concatenate([np.full(WARP_SIZE * ACCESSING, float(own)), lasts])
    return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=sums, written=written))


def shared_contention(sizes: ContentionSizes, beside: Beside, place: Place, *, store: bool) -> MicroBenchmark:
    """Shared accesses of 4 bytes a lane at a place, with others beside them; the amount is warp instructions of the former."""
    beside_steps = max(sizes.steps // beside.slower, 1)
    return MicroBenchmark(
        kernel="shared_contention",
        defines=(
            ("FIRST", place.first_byte // FLOAT_BYTES),
            ("ACCESSING", ACCESSING),
            ("BESIDE_WARPS", BESIDE_WARPS),
            ("STORE", int(store)),
            ("BESIDE", list(Beside).index(beside)),
        ),
        setting={
            "beside": beside.value,
            "store": store,
            "first_byte": place.first_byte,
            "shared_bytes": place.shared_bytes,
        },
        launch=Launch(
            grid_x=1, block_x=WARP_SIZE * (ACCESSING + BESIDE_WARPS), dynamic_shared_bytes=place.shared_bytes
        ),
        clock=Clock.EVENTS,
        amount=float(ACCESSING * ACCESSES * sizes.steps),
        make_call=partial(_call, beside, store, sizes.steps, beside_steps),
    )
