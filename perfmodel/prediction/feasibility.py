"""Which of many candidates can run: what is resident on an SM, and the first limit that each of the others breaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..families.base import Check
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Limiter, Occupancy, occupancy, unfit_text
from ..launch.launch import Launch

FITS = -1
"""Reason code of a candidate that can run."""

_NO_BLOCK = (
    Limiter.THREADS_PER_BLOCK,
    Limiter.REGISTERS_PER_THREAD,
    Limiter.REGISTERS_PER_BLOCK,
    Limiter.SHARED_BYTES_PER_BLOCK,
    Limiter.STATIC_SHARED_BYTES_PER_BLOCK,
    Limiter.WARPS,
    Limiter.REGISTERS,
    Limiter.SHARED_MEMORY,
    Limiter.BARRIERS,
    Limiter.BLOCKS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feasibility:
    """n launches: what is resident of them, and why the others cannot run; arrays of shape ``(n,)``.

    ``reason_codes`` is ``FITS`` or an index into ``reasons``: the family's checks, then the limits of the GPU.
    """

    launch: Launch
    registers: NDArray[np.int32]
    occupancy: Occupancy
    reason_codes: NDArray[np.int16]
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]

    def __len__(self) -> int:
        return len(self.reason_codes)

    def rejected(self) -> dict[str, int]:
        """How many candidates each reason rejects, the most frequent first."""
        codes, times = np.unique(self.reason_codes[self.reason_codes != FITS], return_counts=True)
        found: Counter[str] = Counter()
        for code, count in zip(codes[::-1].tolist(), times[::-1].tolist(), strict=True):
            found[self.reasons[code]] += count  # a family's own check may have the name of a limit of the GPU
        return dict(found.most_common())

    def rejection(self, index: int, gpu: Gpu) -> str | None:
        """Why one candidate cannot run, naming value and limit; None where it can."""
        code = int(self.reason_codes[index])
        if code == FITS:
            return None
        if code < len(self.checks):
            return self.checks[code].message(index)
        threads, shared = (
            int(np.broadcast_to(values, len(self))[index])
            for values in (
                self.launch.threads_per_block,
                self.launch.static_shared_bytes + self.launch.dynamic_shared_bytes,
            )
        )
        limiter = _NO_BLOCK[code - len(self.checks)]
        return f"{self.reasons[code]}: {unfit_text(gpu, limiter, threads, int(self.registers[index]), shared)}"


def feasibility(launch: Launch, registers: NDArray[np.int32], gpu: Gpu, checks: Sequence[Check] = ()) -> Feasibility:
    """Test n launches with so many registers a thread, shape ``(n,)``, against the checks, then against the GPU's limits."""
    count = len(registers)
    found = launch_occupancy(launch, registers, gpu)
    codes, reasons = _reasons(checks, found, count)
    return Feasibility(
        launch=launch,
        registers=registers,
        occupancy=found,
        reason_codes=codes,
        reasons=reasons,
        checks=tuple(checks),
    )


def launch_occupancy(launch: Launch, registers: ArrayLike, gpu: Gpu) -> Occupancy:
    """What of launches with so many registers a thread, a number or shape ``(n,)``, is resident on an SM."""
    return occupancy(
        gpu,
        threads_per_block=np.broadcast_to(launch.threads_per_block, np.shape(registers)),
        registers_per_thread=registers,
        shared_bytes_per_block=launch.static_shared_bytes + launch.dynamic_shared_bytes,
        static_shared_bytes_per_block=launch.static_shared_bytes,
    )


def _reasons(checks: Sequence[Check], found: Occupancy, count: int) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """First reason that rejects each candidate: the family's limits, then those of the GPU."""
    codes = np.full(count, FITS, np.int16)
    names = [check.reason for check in checks]
    for code, check in enumerate(checks):
        codes[(codes == FITS) & check.rejected] = code
    lost = (codes == FITS) & (found.blocks_per_sm == 0)
    for limiter in _NO_BLOCK:
        names.append(limiter.value.replace("_", " "))
        if lost.any():
            codes[lost & (codes == FITS) & (found.limiter_bits & limiter.bit > 0)] = len(names) - 1
    return codes, tuple(names)
