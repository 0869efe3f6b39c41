"""What a kernel does, counted: one record of the names that the whole project uses, for one launch or for many at once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .batched import taken

Count = NDArray[np.float64]
"""A count of one launch (shape ``()``) or of n candidate launches (shape ``(n,)``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Counts of the *whole launch*; every field is a number or an array of shape ``(n,)``, one element per candidate.

    Names and meaning follow Nsight Compute; `perfmodel.accuracy.counter_metrics` has the metric of each. Memory requests and the
    executed warp instructions by class (from ``fp32_fma`` to ``tensor``) sum to ``warp_instructions``. A request has an active
    lane. Shared accesses and asynchronous copies with all lanes predicated off stand in ``control``.

    >>> Counts(global_load_requests=np.array([1.0, 2.0])).at(1).global_load_requests
    np.float64(2.0)
    """

    global_load_requests: Any = 0.0
    """Loads from global memory, without asynchronous copies."""
    global_load_sectors: Any = 0.0
    """Distinct 32-byte sectors, summed over these requests."""
    global_load_lines: Any = 0.0
    """Distinct 128-byte lines, summed over these requests."""
    global_store_requests: Any = 0.0
    """Stores to global memory."""
    global_store_sectors: Any = 0.0
    """Distinct 32-byte sectors, summed over these requests."""
    global_reduction_requests: Any = 0.0
    """Atomics on global memory, with or without a returned value."""
    shared_load_requests: Any = 0.0
    """Loads from shared memory, ``ldmatrix`` included."""
    shared_store_requests: Any = 0.0
    """Stores to shared memory, ``stmatrix`` included."""
    shared_load_wavefronts: Any = 0.0
    """Wavefronts that the addresses of these loads need."""
    shared_store_wavefronts: Any = 0.0
    """Wavefronts that the addresses of these stores need."""
    shared_bank_conflicts: Any = 0.0
    """Wavefronts of shared loads and stores beyond the conflict-free number."""
    async_copy_requests: Any = 0.0
    """Asynchronous copies (``cp.async``)."""
    async_copy_wavefronts: Any = 0.0
    """Wavefronts of their writes to shared memory."""
    constant_load_requests: Any = 0.0
    """Loads from constant memory by a computed index; constant operands of other instructions are free."""
    local_load_sectors: Any = 0.0
    """Sectors loaded from local memory (spills and arrays of a thread)."""
    local_store_sectors: Any = 0.0
    """Sectors stored to local memory (spills and arrays of a thread)."""
    warp_instructions: Any = 0.0
    """Executed warp instructions of all classes."""
    fp32_fma: Any = 0.0
    """FP32 fused multiply-adds."""
    fp32_other: Any = 0.0
    """Other FP32 instructions."""
    fp64: Any = 0.0
    """FP64 instructions."""
    fp16: Any = 0.0
    """FP16 and bfloat16 instructions."""
    integer: Any = 0.0
    """Integer and logic instructions, selections and moves."""
    conversion: Any = 0.0
    """Conversions between types."""
    special_function: Any = 0.0
    """Reciprocals, square roots, sines and the like (``MUFU``)."""
    control: Any = 0.0
    """Branches, fences, waits, bulk copies and all instructions of no other class."""
    shuffles: Any = 0.0
    """Shuffles, and moves of matrices between lanes."""
    votes: Any = 0.0
    """Votes, matches and reductions over a warp."""
    barriers: Any = 0.0
    """Barriers of a block or a cluster, and operations on an ``mbarrier``."""
    atomics: Any = 0.0
    """Atomics on shared memory."""
    tensor: Any = 0.0
    """Matrix products on tensor cores."""
    l1_missed_sectors: Any = 0.0
    """Sectors of loads that miss L1 or bypass it."""
    l2_read_sectors: Any = 0.0
    """Sectors read from L2 for these; fewer if requests of several SMs merge."""
    l2_write_sectors: Any = 0.0
    """Sectors stored to L2."""
    dram_read_bytes: Any = 0.0
    """Bytes read from DRAM."""
    dram_write_bytes: Any = 0.0
    """Bytes that have reached DRAM when the launch ends."""
    l2_instruction_sectors: Any = 0.0
    """Sectors read from L2 for misses of instruction caches."""
    l2_atomic_sectors: Any = 0.0
    """Operations of atomics in L2: for each sector of a request, the largest number of lanes on one word."""
    l2_busiest_slice_atomics: Any = 0.0
    """Such operations on the busiest slice of L2; one on a part of a sector is weighted by its time."""
    l2_busiest_word_atomics: Any = 0.0
    """Lanes that change the integer word with the most atomics."""
    l2_busiest_float_atomics: Any = 0.0
    """Operations of floating-point atomics on the sector with the most of them."""
    shared_atomic_wavefronts: Any = 0.0
    """Wavefronts of atomics on shared memory."""
    async_copy_read_requests: Any = 0.0
    """Asynchronous copies that read; those that only fill with zeros are left out."""
    async_copy_read_sectors: Any = 0.0
    """Sectors that they read."""
    async_copy_read_wavefronts: Any = 0.0
    """Wavefronts of these reads."""
    shared_load_predicated_off: Any = 0.0
    """Loads from shared memory with all lanes predicated off; part of ``control``; some hardware counters include them."""
    shared_store_predicated_off: Any = 0.0
    """The same of stores."""
    async_copy_predicated_off: Any = 0.0
    """The same of asynchronous copies."""
    generic_shared_loads: Any = 0.0
    """Shared loads by generic instructions (``LD``); part of ``shared_load_requests``."""
    generic_shared_stores: Any = 0.0
    """Shared stores by generic instructions (``ST``); part of ``shared_store_requests``."""
    texture_requests: Any = 0.0
    """Reads of texture objects."""
    texture_sectors: Any = 0.0
    """Sectors, summed over the groups of lanes that pass the texture pipe together."""
    texture_pipe_passes: Any = 0.0
    """Passes of these groups."""
    surface_load_requests: Any = 0.0
    """Loads from surface objects."""
    surface_load_sectors: Any = 0.0
    """Sectors of these loads, counted as for textures."""
    surface_store_requests: Any = 0.0
    """Stores to surface objects."""
    surface_store_sectors: Any = 0.0
    """Sectors of these stores, counted as for textures."""
    bulk_read_sectors: Any = 0.0
    """Sectors of global memory that bulk copies (TMA) read; they bypass L1."""
    bulk_write_sectors: Any = 0.0
    """Sectors of global memory that bulk copies (TMA) write; they bypass L1."""

    @property
    def memory_requests(self) -> Any:
        """Requests to global and shared memory, by which parts of a launch are compared."""
        of_global = self.global_load_requests + self.global_store_requests
        return of_global + self.shared_load_requests + self.shared_store_requests + self.async_copy_requests

    def at(self, index: int) -> Counts:
        """The counts of one candidate; scalars stay as they are."""
        return taken(self, index)

    def items(self) -> list[tuple[str, Any]]:
        """Pairs of name and value in the order of the record."""
        return [(name, getattr(self, name)) for name in COUNT_NAMES]


COUNT_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Counts))

INSTRUCTION_CLASSES: tuple[str, ...] = (
    "fp32_fma",
    "fp32_other",
    "fp64",
    "fp16",
    "integer",
    "conversion",
    "special_function",
    "control",
    "shuffles",
    "votes",
    "barriers",
    "atomics",
    "tensor",
)
"""Classes of executed warp instructions that are not memory requests."""
