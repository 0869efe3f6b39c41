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

    Names and meaning follow Nsight Compute (see the manual's table). Memory requests and the executed warp instructions by
    class (from ``fp32_fma`` on) sum to ``warp_instructions``. A request has an active lane; shared accesses and asynchronous
    copies issued with all lanes predicated off, which some counters include, stand in ``control`` and beside it in
    ``…_predicated_off``. Of shared requests ``generic_shared_…`` are those of instructions that may access any memory.
    ``l1_missed_sectors`` is what loads miss in L1 and what passes it by, ``l2_read_sectors`` what is asked of L2 for it, which
    may be less where SMs that ask together are served by one request; what instruction caches miss is in
    ``l2_instruction_sectors``.
    ``bulk_…_sectors`` are what bulk copies (TMA) read and write of global memory, past L1.
    ``texture_…`` and ``surface_…`` are warp instructions on texture and surface objects; sectors are summed over the groups of
    lanes that pass the texture pipe together, and ``texture_pipe_passes`` are the passes of these groups.
    ``async_copy_read_…`` is what asynchronous copies read, those that only fill with zeros left out; ``global_load_…`` is
    without them.
    ``l2_atomic_sectors`` are operations that atomics on global memory ask of L2: in each sector as many as the most lanes on
    one word. ``l2_busiest_slice_atomics`` are those on one slice of L2, where an operation on a part of a sector counts as what
    it takes relative to one that changes all of it; ``l2_busiest_word_atomics`` and ``l2_busiest_float_atomics`` are the
    lanes that change one word, an integer or a floating-point number.

    >>> Counts(global_load_requests=np.array([1.0, 2.0])).at(1).global_load_requests
    np.float64(2.0)
    """

    global_load_requests: Any = 0.0
    global_load_sectors: Any = 0.0
    global_load_lines: Any = 0.0
    global_store_requests: Any = 0.0
    global_store_sectors: Any = 0.0
    global_reduction_requests: Any = 0.0
    shared_load_requests: Any = 0.0
    shared_store_requests: Any = 0.0
    shared_load_wavefronts: Any = 0.0
    shared_store_wavefronts: Any = 0.0
    shared_bank_conflicts: Any = 0.0
    async_copy_requests: Any = 0.0
    async_copy_wavefronts: Any = 0.0
    constant_load_requests: Any = 0.0
    local_load_sectors: Any = 0.0
    local_store_sectors: Any = 0.0
    warp_instructions: Any = 0.0
    fp32_fma: Any = 0.0
    fp32_other: Any = 0.0
    fp64: Any = 0.0
    fp16: Any = 0.0
    integer: Any = 0.0
    conversion: Any = 0.0
    special_function: Any = 0.0
    control: Any = 0.0
    shuffles: Any = 0.0
    votes: Any = 0.0
    barriers: Any = 0.0
    atomics: Any = 0.0
    tensor: Any = 0.0
    l1_missed_sectors: Any = 0.0
    l2_read_sectors: Any = 0.0
    l2_write_sectors: Any = 0.0
    dram_read_bytes: Any = 0.0
    dram_write_bytes: Any = 0.0
    l2_instruction_sectors: Any = 0.0
    l2_atomic_sectors: Any = 0.0
    l2_busiest_slice_atomics: Any = 0.0
    l2_busiest_word_atomics: Any = 0.0
    l2_busiest_float_atomics: Any = 0.0
    shared_atomic_wavefronts: Any = 0.0
    async_copy_read_requests: Any = 0.0
    async_copy_read_sectors: Any = 0.0
    async_copy_read_wavefronts: Any = 0.0
    shared_load_predicated_off: Any = 0.0
    shared_store_predicated_off: Any = 0.0
    async_copy_predicated_off: Any = 0.0
    generic_shared_loads: Any = 0.0
    generic_shared_stores: Any = 0.0
    texture_requests: Any = 0.0
    texture_sectors: Any = 0.0
    texture_pipe_passes: Any = 0.0
    surface_load_requests: Any = 0.0
    surface_load_sectors: Any = 0.0
    surface_store_requests: Any = 0.0
    surface_store_sectors: Any = 0.0
    bulk_read_sectors: Any = 0.0
    bulk_write_sectors: Any = 0.0

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
