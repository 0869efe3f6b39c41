"""Many candidates evaluated at once: feasibility, occupancy and time, over arrays from beginning to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..families.base import Batch, Family
from ..gpus.gpu import Gpu
from ..gpus.occupancy import Occupancy
from ..profiles.work import Work
from ..time_model.calibration import Calibration
from ..time_model.combine import Terms, launch_seconds
from .feasibility import FITS, Feasibility, feasibility


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """n candidates: which can run, what they do, how long they take; ``seconds`` of shape ``(n,)``, infinite where one cannot."""

    feasibility: Feasibility
    work: Work
    seconds: NDArray[np.float64]
    terms: Terms

    def __len__(self) -> int:
        return len(self.seconds)

    @property
    def batch(self) -> Batch[Any]:
        """The candidates."""
        return self.feasibility.batch

    @property
    def registers(self) -> NDArray[np.int32]:
        """Registers per thread of each candidate."""
        return self.feasibility.registers

    @property
    def occupancy(self) -> Occupancy:
        """What of each candidate is resident on an SM."""
        return self.feasibility.occupancy


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
    can_run = feasibility(family, problem, batch, gpu, work.launch, registers)
    resident = can_run.occupancy
    seconds, terms = launch_seconds(work, np.maximum(resident.blocks_per_sm, 1), gpu, calibration.coefficients)
    return Evaluation(
        feasibility=can_run,
        work=work,
        seconds=np.where(can_run.reason_codes == FITS, seconds, np.inf),
        terms=terms,
    )
