"""Resident blocks and warps of an SM, and what limits them, for one launch or for arrays of candidates at once.

The rules are those of NVIDIA's `cuda_occupancy.h` (CUDA 13.3) for compute capability 6.0 to 12.0, with the
driver's default preferences: the largest carve-out of shared memory, no partitioned global caching, opt-in to large dynamic
shared memory.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.batched import PIECE, joined, pieces, taken
from ..core.constants import WARP_SIZE, ceil_div, round_up
from ..errors import InputError

if TYPE_CHECKING:
    from .gpu import Gpu


class Limiter(Enum):
    """What keeps a further block from an SM, or, for the last five, any block at all."""

    WARPS = "warps"
    BLOCKS = "blocks"
    REGISTERS = "registers"
    SHARED_MEMORY = "shared_memory"
    BARRIERS = "barriers"
    THREADS_PER_BLOCK = "threads_per_block"
    REGISTERS_PER_THREAD = "registers_per_thread"
    REGISTERS_PER_BLOCK = "registers_per_block"
    SHARED_BYTES_PER_BLOCK = "shared_bytes_per_block"
    STATIC_SHARED_BYTES_PER_BLOCK = "static_shared_bytes_per_block"

    @property
    def bit(self) -> int:
        """The bit that stands for this limiter in `Occupancy.limiter_bits`.

        >>> Limiter.REGISTERS.bit
        4
        """
        return 1 << _LIMITERS.index(self)


_LIMITERS = tuple(Limiter)
_UNCOUNTED = 2**30
_KEPT_BY_BLOCKS = (Limiter.BLOCKS, Limiter.SHARED_MEMORY, Limiter.BARRIERS)
"""What stays taken until a block has ended; places and registers of a warp are free when it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """What of a kernel is resident on one SM; every field is a number or an array of shape ``(n,)``.

    `shared_bytes_per_sm` is what the resident blocks allocate, the driver's reservation included. `warp_places` are the warps
    that an SM has places and registers for, whatever their blocks; `most_blocks` are the blocks that fit where warps that have
    ended leave theirs to others. Where not one block fits, `blocks_per_sm`, `warps_per_sm` and `fraction` are 0 and the limiters
    name every limit that the block breaks.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> found = occupancy(load_gpu("h200"), threads_per_block=256, registers_per_thread=[32, 65], shared_bytes_per_block=0)
    >>> found.blocks_per_sm.tolist(), found.fraction.tolist(), found.limiters(1)
    ([8, 3], [1.0, 0.375], (<Limiter.REGISTERS: 'registers'>,))
    """

    blocks_per_sm: Any
    warps_per_sm: Any
    fraction: Any
    shared_bytes_per_sm: Any
    limiter_bits: Any
    warp_places: Any
    most_blocks: Any

    def at(self, index: int) -> Occupancy:
        """The occupancy of one candidate.

        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> t4 = load_gpu("t4")
        >>> occupancy(t4, threads_per_block=[64, 96], registers_per_thread=20, shared_bytes_per_block=0).at(1).warps_per_sm
        np.int32(30)
        """
        return taken(self, index)

    def limiters(self, index: int | None = None) -> tuple[Limiter, ...]:
        """Every limit that binds, of one candidate (no index where there is only one).

        >>> from perfmodel.gpus.catalogue import load_gpu
        >>> occupancy(load_gpu("t4"), threads_per_block=64, registers_per_thread=20, shared_bytes_per_block=0).limiters()
        (<Limiter.WARPS: 'warps'>, <Limiter.BLOCKS: 'blocks'>)
        """
        bits = int(self.limiter_bits if index is None else self.limiter_bits[index])
        return tuple(limiter for limiter in _LIMITERS if bits & limiter.bit)


def occupancy(
    gpu: Gpu,
    *,
    threads_per_block: ArrayLike,
    registers_per_thread: ArrayLike,
    shared_bytes_per_block: ArrayLike,
    static_shared_bytes_per_block: ArrayLike = 0,
    barriers_per_block: ArrayLike = 1,
) -> Occupancy:
    """Blocks and warps that are resident on one SM at once when the grid is large enough.

    Args:
        gpu: the GPU.
        threads_per_block: threads of a block, integers of 1 or more; like all that follow a number or an array ``(n,)``.
        registers_per_thread: as the compiler reports them.
        shared_bytes_per_block: static and dynamic together, without the driver's reservation.
        static_shared_bytes_per_block: how much of that is static, which no opt-in raises above 48 KiB.
        barriers_per_block: named barriers (``bar.sync`` ids) that the kernel uses.

    Returns:
        Arrays of the broadcast shape. A candidate that cannot run has 0 blocks.

    Raises:
        InputError: a value is no integer, or negative, there are no threads, or the static part exceeds the whole.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> one = occupancy(load_gpu("rtx-3090"), threads_per_block=256, registers_per_thread=40, shared_bytes_per_block=30_000)
    >>> one.blocks_per_sm, one.limiters()  # 102,400 // round_up(30,000 + 1,024, 128)
    (np.int32(3), (<Limiter.SHARED_MEMORY: 'shared_memory'>,))
    """
    arguments = {
        "threads_per_block": threads_per_block,
        "registers_per_thread": registers_per_thread,
        "shared_bytes_per_block": shared_bytes_per_block,
        "static_shared_bytes_per_block": static_shared_bytes_per_block,
        "barriers_per_block": barriers_per_block,
    }
    arrays = {name: _integers(name, values) for name, values in arguments.items()}
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    if len(shape) != 1 or shape[0] <= PIECE:
        return _occupancy(gpu, **arrays)
    return joined(
        *(
            _occupancy(gpu, **{name: array[piece] if array.size > 1 else array for name, array in arrays.items()})
            for piece in pieces(shape[0])
        )
    )


def carve_out_bytes(gpu: Gpu, shared_bytes_per_sm_in_use: ArrayLike) -> NDArray[np.int64]:
    """Shared memory that the driver sets aside on an SM: the smallest carve-out that holds what the blocks allocate.

    Args:
        gpu: the GPU.
        shared_bytes_per_sm_in_use: `Occupancy.shared_bytes_per_sm`, a number or an array.

    Returns:
        Bytes; where shared memory stands apart from L1 (Pascal), always all of it.

    Raises:
        InputError: more is in use than an SM has.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> carve_out_bytes(load_gpu("v100-sxm2-32gb"), [0, 8192, 8193]).tolist()
    [0, 8192, 16384]
    """
    in_use = np.asarray(shared_bytes_per_sm_in_use, np.int64)
    if np.any(in_use > gpu.shared_bytes_per_sm):
        raise InputError(f"{in_use.max()} bytes of shared memory in use, {gpu.id} has {gpu.shared_bytes_per_sm} per SM")
    choices = np.array(gpu.shared_carve_outs_bytes or (gpu.shared_bytes_per_sm,), np.int64)
    return np.asarray(choices[np.searchsorted(choices, in_use)])


def l1_cache_bytes(gpu: Gpu, shared_bytes_per_sm_in_use: ArrayLike) -> NDArray[np.int64]:
    """Lines that L1 of an SM holds beside the carve-out of shared memory, in bytes.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> int(l1_cache_bytes(load_gpu("rtx-2080-ti"), 40_000))  # 96 KiB - 64 KiB
    32768
    """
    carve_out = carve_out_bytes(gpu, shared_bytes_per_sm_in_use)
    beside = carve_out if gpu.shared_carve_outs_bytes else np.zeros_like(carve_out)
    return gpu.l1_bytes_per_sm - gpu.l1_reserved_bytes - beside


def registers_left(gpu: Gpu, registers: int, threads: ArrayLike) -> NDArray[np.int64]:
    """Registers of a thread where so many threads, in whole warps, share so many registers; 0 where they are too many.

    Whole allocation units, and never more than an instruction can name.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> gpu = load_gpu("h200")
    >>> registers_left(gpu, gpu.registers_per_sm, [256, 768])  # 65,536 // 768 = 85
    array([255,  80])
    """
    unit = gpu.register_allocation_unit // WARP_SIZE
    left = registers // np.asarray(threads, np.int64) // unit * unit
    return np.minimum(left, gpu.max_registers_per_thread)


def limit_text(gpu: Gpu, limiter: Limiter) -> str:
    """The limit as a user reads it, for messages and tables.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> limit_text(load_gpu("t4"), Limiter.SHARED_BYTES_PER_BLOCK)
    '65536 bytes of shared memory per block'
    """
    texts = {
        Limiter.WARPS: f"{gpu.max_warps_per_sm} warps per SM",
        Limiter.BLOCKS: f"{gpu.max_blocks_per_sm} blocks per SM",
        Limiter.REGISTERS: f"{gpu.registers_per_sm} registers per SM",
        Limiter.SHARED_MEMORY: f"{gpu.shared_bytes_per_sm} bytes of shared memory per SM",
        Limiter.BARRIERS: f"{gpu.barriers_per_sm} barriers per SM",
        Limiter.THREADS_PER_BLOCK: f"{gpu.max_threads_per_block} threads per block",
        Limiter.REGISTERS_PER_THREAD: f"{gpu.max_registers_per_thread} registers per thread",
        Limiter.REGISTERS_PER_BLOCK: f"{gpu.registers_per_block} registers per block",
        Limiter.SHARED_BYTES_PER_BLOCK: f"{gpu.shared_bytes_per_block_opt_in} bytes of shared memory per block",
        Limiter.STATIC_SHARED_BYTES_PER_BLOCK: f"{gpu.shared_bytes_per_block} bytes of static shared memory per block",
    }
    return texts[limiter]


def unfit_text(gpu: Gpu, limiter: Limiter, threads: int, registers: int, shared_bytes: int) -> str:
    """Why a block cannot run, for messages: what it asks for of what the limiter limits, and how much there is.

    Args:
        gpu: the GPU.
        limiter: the limit that the block breaks.
        threads: threads of the block.
        registers: registers per thread.
        shared_bytes: its shared memory, static and dynamic.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> unfit_text(load_gpu("t4"), Limiter.REGISTERS_PER_BLOCK, 1024, 80, 0)
    '1024 threads of 80 registers do not fit 65536 registers per block of t4'
    """
    if limiter in (Limiter.REGISTERS, Limiter.REGISTERS_PER_BLOCK):
        asked = f"{threads} threads of {registers} registers"
    elif limiter is Limiter.REGISTERS_PER_THREAD:
        asked = f"{registers} registers per thread"
    elif limiter in (Limiter.SHARED_MEMORY, Limiter.SHARED_BYTES_PER_BLOCK, Limiter.STATIC_SHARED_BYTES_PER_BLOCK):
        asked = f"{shared_bytes} bytes of shared memory per block"
    else:
        asked = f"{threads} threads"
    return f"{asked} do not fit {limit_text(gpu, limiter)} of {gpu.id}"


def _integers(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise InputError(f"{name} must be an integer, not {array.flat[0] if array.size else array.dtype}")
    return array


def _bounded(name: str, values: NDArray[Any], least: int, most: int) -> NDArray[np.int32]:
    """The values in 32 bits, those above the limit cut to one above it, which breaks it all the same."""
    if values.size and values.min() < least:
        raise InputError(f"{name}={values.min()} must be at least {least}")
    return np.asarray(np.minimum(values, most + 1), np.int32)


def _occupancy(
    gpu: Gpu,
    threads_per_block: NDArray[Any],
    registers_per_thread: NDArray[Any],
    shared_bytes_per_block: NDArray[Any],
    static_shared_bytes_per_block: NDArray[Any],
    barriers_per_block: NDArray[Any],
) -> Occupancy:
    threads = _bounded("threads_per_block", threads_per_block, 1, gpu.max_threads_per_block)
    registers = _bounded("registers_per_thread", registers_per_thread, 0, gpu.max_registers_per_thread)
    shared = _bounded("shared_bytes_per_block", shared_bytes_per_block, 0, gpu.shared_bytes_per_block_opt_in)
    static = _bounded("static_shared_bytes_per_block", static_shared_bytes_per_block, 0, gpu.shared_bytes_per_block)
    barriers = _bounded("barriers_per_block", barriers_per_block, 0, gpu.barriers_per_sm)
    if np.any(static > shared):
        raise InputError("static_shared_bytes_per_block must not exceed shared_bytes_per_block, of which it is a part")

    warps = ceil_div(threads, WARP_SIZE)
    registers_per_warp = round_up(np.maximum(registers, 1) * WARP_SIZE, gpu.register_allocation_unit)
    shared_allocated = round_up(shared + gpu.shared_reserved_bytes_per_block, gpu.shared_allocation_unit_bytes)
    registers_per_sub_partition = gpu.registers_per_sm // gpu.sub_partitions_per_sm
    warps_of_registers = registers_per_sub_partition // registers_per_warp * gpu.sub_partitions_per_sm
    resident = {  # one barrier for each block there always is
        Limiter.WARPS: gpu.max_warps_per_sm // warps,
        Limiter.BLOCKS: np.int32(gpu.max_blocks_per_sm),
        Limiter.REGISTERS: warps_of_registers // warps,
        Limiter.SHARED_MEMORY: gpu.shared_bytes_per_sm // np.maximum(shared_allocated, 1),
        Limiter.BARRIERS: np.where(
            barriers > 1, (gpu.barriers_per_sm or _UNCOUNTED) // np.maximum(barriers, 1), _UNCOUNTED
        ),
    }
    registers_checked = registers_per_warp * round_up(warps, gpu.warp_allocation_granularity)
    broken = {
        Limiter.THREADS_PER_BLOCK: threads > gpu.max_threads_per_block,
        Limiter.REGISTERS_PER_THREAD: registers > gpu.max_registers_per_thread,
        Limiter.REGISTERS_PER_BLOCK: registers_checked > gpu.registers_per_block,
        Limiter.SHARED_BYTES_PER_BLOCK: shared > gpu.shared_bytes_per_block_opt_in,
        Limiter.STATIC_SHARED_BYTES_PER_BLOCK: static > gpu.shared_bytes_per_block,
    }
    places = np.minimum(warps_of_registers, gpu.max_warps_per_sm)
    return _combined(gpu, warps, shared_allocated, resident, broken, places)


def _combined(
    gpu: Gpu,
    warps: NDArray[np.int32],
    shared_allocated: NDArray[np.int32],
    resident: dict[Limiter, Any],
    broken: dict[Limiter, Any],
    warp_places: NDArray[np.int32],
) -> Occupancy:
    broken_bits = _bits(broken)
    fits = broken_bits == 0
    blocks = functools.reduce(np.minimum, resident.values()) * fits
    binding_bits = _bits({limiter: limit == blocks for limiter, limit in resident.items()}) * fits
    warps_per_sm = blocks * warps
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=warps_per_sm,
        fraction=warps_per_sm / gpu.max_warps_per_sm,
        shared_bytes_per_sm=blocks * shared_allocated,
        limiter_bits=binding_bits | broken_bits,
        warp_places=warp_places,
        most_blocks=functools.reduce(np.minimum, (resident[limiter] for limiter in _KEPT_BY_BLOCKS)) * fits,
    )


def _bits(holds: dict[Limiter, Any]) -> Any:
    return functools.reduce(np.bitwise_or, (where * np.uint16(limiter.bit) for limiter, where in holds.items()))
