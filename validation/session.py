"""A prepared folder on the GPU that it was prepared for: what every step of a campaign starts from."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from perfmodel.errors import InputError
from perfmodel.records.schema import Environment, FailureKind, Record, RecordKind

from .device import environment, require_device
from .kernel_job import KernelJob
from .prepared import PreparedFolder, PreparedKernel, Purpose
from .sampling import SamplingPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A prepared folder on the GPU that it was prepared for."""

    folder: Path
    kernels: tuple[PreparedKernel, ...]
    environment: Environment
    gpu: str
    seed: int

    @classmethod
    def open(cls, folder: Path) -> Session:
        """Read the plan, find the GPU, draw a seed for the inputs of this step.

        Raises:
            GpuMissingError: There is no GPU.
            InputError: The folder has no plan, or was prepared for another architecture.
        """
        device = require_device()
        kernels = PreparedFolder(folder).kernels()
        if not kernels:
            raise InputError(f"{folder}: the plan is empty")
        if kernels[0].architecture != device.architecture:
            raise InputError(f"{folder}: prepared for {kernels[0].architecture}, this GPU is {device.architecture}")
        return cls(
            folder=folder,
            kernels=kernels,
            environment=environment(device, kernels[0].compiler_version, kernels[0].commit),
            gpu=device.gpu_id,
            seed=secrets.randbits(32),
        )

    def having(self, purpose: Purpose) -> list[PreparedKernel]:
        """Kernels for a purpose."""
        return [kernel for kernel in self.kernels if purpose in kernel.purposes]

    def kernel_jobs(self, purpose: Purpose, sampling: SamplingPlan) -> list[KernelJob]:
        """Jobs in random order, those of one problem together, so that its inputs and reference are made once."""
        rng = np.random.default_rng(self.seed)
        by_problem: dict[object, list[PreparedKernel]] = {}
        for kernel in self.having(purpose):
            by_problem.setdefault((kernel.name, tuple(kernel.problem.items())), []).append(kernel)
        groups = list(by_problem.values())
        return [
            KernelJob(
                kernel=groups[g][k],
                folder=self.folder,
                environment=self.environment,
                gpu=self.gpu,
                seed=self.seed,
                timed=purpose is Purpose.TIME,
                sampling=sampling,
            )
            for g in rng.permutation(len(groups))
            for k in rng.permutation(len(groups[g]))
        ]

    def families(self, purpose: Purpose) -> list[str]:
        """Families that have kernels for a purpose."""
        return sorted({kernel.name for kernel in self.having(purpose)})

    def indices(self, purpose: Purpose, family: str | None = None) -> list[int]:
        """Places in the plan of the kernels that compiled, for a purpose, of one family or of all."""
        return [
            index
            for index, kernel in enumerate(self.kernels)
            if purpose in kernel.purposes and kernel.failure is None and family in (None, kernel.name)
        ]


def answers(record: Record, timed: bool) -> bool:
    """Whether a record makes running a kernel again needless: it failed, or it has what is asked for."""
    if record.kind is not RecordKind.KERNEL:
        return False
    if record.failure is not None:
        return record.failure.kind is not FailureKind.UNAVAILABLE
    return bool(record.timings) if timed else record.correctness is not None
