"""The pivot of the pipeline: what launches of a kernel do and need, from execution or from closed forms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiler.resources import Resources
from ..core.batched import mapped, taken
from ..core.counts import Counts
from ..launch.launch import Launch


class Fidelity(Enum):
    """Where counts and registers come from; see the manual."""

    ANALYTIC = "analytic"
    COMPILED = "compiled"
    SIMULATED = "simulated"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelProfile:
    """Launch, resources, counts and critical path of one launch, or of n candidates as arrays of shape ``(n,)``.

    NaN in a count or in a field of the critical path means that the source of the profile does not know it
    (`completed_by` puts closed forms there).

    Attributes:
        launch: Grid, block and shared memory.
        resources: By the compiler, or estimated where nothing was compiled.
        counts: Of the whole launch.
        global_round_trips: Groups of global loads that a warp issues together and then waits for, one group after the
            other, in the slowest warp of a block.
        warp_cycles: Cycles that the slowest warp of a block needs alone where memory behind L1 answers at once.
        longest_warp_instructions: What that warp executes.
        first_fill_sectors: Sectors that a block copies from L2 to shared memory before its warps compute, NaN where it does
            not begin with such a copy.
        loop_code_bytes: Code of the largest loop that a warp runs through more than once, 0 without a loop.
        tensor_cycles: Cycles that the launch's matrix products hold the tensor cores of sub-partitions, added up.
        read_only_share: Part of the global loads by the read-only path (``ld.global.nc``); asynchronous copies are not.
        reloaded_lines: Lines of 128 bytes that a block loads through L1 in turn, and then again; 0 where it loads each once, or
            again at once.
        touched_bytes: Bytes of global memory in all sectors that the launch reads, stores or changes, each counted once.
        exact: Whether the counts are what the hardware would count.
        approximate: Whether they are those of an equivalent configuration.
        caches_simulated: Whether traffic behind L1 was simulated; else it is in closed form.
        notes: What a reader should know, one line each.
        traces: What the warps of some blocks issue (`WarpTraces`), None where nobody followed them.
    """

    launch: Launch
    resources: Resources
    counts: Counts
    global_round_trips: Any = 1.0
    warp_cycles: Any = np.nan
    longest_warp_instructions: Any = np.nan
    first_fill_sectors: Any = np.nan
    loop_code_bytes: Any = 0.0
    tensor_cycles: Any = 0.0
    read_only_share: Any = 0.0
    reloaded_lines: Any = 0.0
    touched_bytes: Any = np.nan
    exact: Any = False
    approximate: Any = False
    caches_simulated: Any = False
    notes: Any = ""
    traces: Any = None

    def at(self, index: int) -> KernelProfile:
        """The profile of one candidate, its resources as integers."""
        one = taken(self, index)
        return replace(one, launch=self.launch.at(index), resources=mapped(int, one.resources))

    @property
    def registers(self) -> NDArray[np.int32]:
        """Registers of a thread."""
        return np.asarray(self.resources.registers_per_thread, np.int32)

    @property
    def local_bytes_per_thread(self) -> Any:
        """Stack and spills whose traffic behind L1 is not in the counts yet."""
        return np.where(self.caches_simulated, 0.0, self.resources.stack_bytes_per_thread)

    def with_notes(self, *notes: str) -> KernelProfile:
        """The profile of one launch with further notes."""
        return replace(self, notes="\n".join([*filter(None, [self.notes]), *notes]))


TRAFFIC_COUNTS = (
    "l1_missed_sectors",
    "l2_read_sectors",
    "l2_write_sectors",
    "dram_read_bytes",
    "dram_write_bytes",
    "l2_busiest_slice_atomics",
    "l2_busiest_word_atomics",
    "l2_busiest_float_atomics",
)
"""Traffic behind L1, which only a simulation of the caches knows, or a closed form."""
_CRITICAL_PATH = (
    "global_round_trips",
    "warp_cycles",
    "longest_warp_instructions",
    "first_fill_sectors",
    "read_only_share",
)


def stacked(profiles: Sequence[KernelProfile]) -> KernelProfile:
    """Profiles of single launches as one of n, at least one."""
    return mapped(lambda *values: np.array(values), *profiles)


def completed_by(closed: KernelProfile, executed: KernelProfile) -> KernelProfile:
    """The executed profile of n candidates with closed forms where execution does not know a number.

    The wavefronts of approximate candidates are scaled by the closed forms' wavefronts of a request.
    """

    def known(own: Any, form: Any) -> Any:
        return np.where(np.isnan(own), form, own)

    counts = mapped(known, executed.counts, closed.counts)
    if np.any(executed.approximate):
        for kind in ("shared_load", "shared_store"):
            requests, wavefronts = (getattr(closed.counts, f"{kind}_{what}") for what in ("requests", "wavefronts"))
            scaled = getattr(counts, f"{kind}_requests") * (wavefronts / np.maximum(requests, 1.0))
            own = getattr(counts, f"{kind}_wavefronts")
            counts = replace(counts, **{f"{kind}_wavefronts": np.where(executed.approximate, scaled, own)})
    path = {name: known(getattr(executed, name), getattr(closed, name)) for name in _CRITICAL_PATH}
    lines = np.where(executed.caches_simulated, 0.0, closed.reloaded_lines)
    return replace(executed, counts=counts, tensor_cycles=closed.tensor_cycles, reloaded_lines=lines, **path)


def estimated_resources(launch: Launch, registers: Any, *, stack_bytes: Any = 0, code_bytes: Any = 0) -> Resources:
    """Resources where nothing was compiled: registers and stack of a thread estimated, code unknown where it is 0."""
    return Resources(
        registers_per_thread=registers,
        static_shared_bytes=launch.static_shared_bytes,
        dynamic_shared_bytes=launch.dynamic_shared_bytes,
        stack_bytes_per_thread=stack_bytes,
        spill_load_bytes=0,
        spill_store_bytes=0,
        code_bytes=code_bytes,
    )
