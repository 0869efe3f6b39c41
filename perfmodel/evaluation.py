"""Many candidates evaluated at once: feasibility, occupancy and time, over arrays from beginning to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .families.base import Batch, Check, Family
from .gpu import Gpu
from .occupancy import Limiter, Occupancy, limit_text, occupancy
from .shared_contention import with_contention
from .time.calibration import Calibration
from .time.combine import Terms, launch_seconds
from .work import Work

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
class Evaluation:
    """n candidates: what they do, what is resident, how long they take; arrays of shape ``(n,)``.

    ``seconds`` is infinite where a candidate cannot run; ``reason_codes`` is ``FITS`` or an index into ``reasons``.
    """

    batch: Batch[Any]
    work: Work
    registers: NDArray[np.int32]
    occupancy: Occupancy
    seconds: NDArray[np.float64]
    terms: Terms
    reason_codes: NDArray[np.int16]
    reasons: tuple[str, ...]
    checks: tuple[Check, ...]

    def __len__(self) -> int:
        return len(self.seconds)

    def rejected(self) -> dict[str, int]:
        """How many candidates each reason rejects, the most frequent first."""
        codes, times = np.unique(self.reason_codes[self.reason_codes != FITS], return_counts=True)
        pairs = sorted(zip(times.tolist(), codes.tolist(), strict=True), reverse=True)
        return {self.reasons[code]: count for count, code in pairs}

    def rejection(self, index: int, gpu: Gpu) -> str | None:
        """Why one candidate cannot run, naming value and limit; None where it can."""
        code = int(self.reason_codes[index])
        if code == FITS:
            return None
        if code < len(self.checks):
            return self.checks[code].message(index)
        launch = self.work.launch
        shared = np.broadcast_to(launch.static_shared_bytes + launch.dynamic_shared_bytes, len(self))[index]
        threads = np.broadcast_to(launch.threads_per_block, len(self))[index]
        limit = limit_text(gpu, _NO_BLOCK[code - len(self.checks)])
        return (
            f"{self.reasons[code]}: {threads} threads, {self.registers[index]} registers per thread and {shared} bytes of "
            f"shared memory per block do not fit {limit} of {gpu.id}"
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


def evaluate(
    family: Family[Any, Any],
    problem: Any,
    batch: Batch[Any],
    gpu: Gpu,
    calibration: Calibration,
    *,
    work: Work | None = None,
    registers: NDArray[np.int32] | None = None,
) -> Evaluation:
    """Evaluate every candidate of a batch.

    ``work`` and ``registers`` replace the family's closed forms and its register estimate where more is known
    (``compiled`` and ``simulated`` fidelity).
    """
    work = family.work(problem, batch, gpu) if work is None else work
    registers = family.registers(problem, batch, gpu) if registers is None else registers
    launch = work.launch
    found = occupancy(
        gpu,
        threads_per_block=np.broadcast_to(launch.threads_per_block, len(batch)),
        registers_per_thread=registers,
        shared_bytes_per_block=launch.static_shared_bytes + launch.dynamic_shared_bytes,
        static_shared_bytes_per_block=launch.static_shared_bytes,
    )
    checks = family.checks(problem, batch, gpu)
    codes, reasons = _reasons(checks, found, len(batch))
    seconds, terms = launch_seconds(work, np.maximum(found.blocks_per_sm, 1), gpu, calibration.coefficients)
    return Evaluation(
        batch=batch,
        work=replace(work, counts=with_contention(work.counts, launch, found, gpu)),
        registers=registers,
        occupancy=found,
        seconds=np.where(codes == FITS, seconds, np.inf),
        terms=terms,
        reason_codes=codes,
        reasons=reasons,
        checks=checks,
    )
