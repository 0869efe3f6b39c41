"""Which buffers hold values that branches or addresses depend on, seen while a kernel is traced."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from ..core.distinct_values import distinct
from ..ir.instruction import Space
from .access import Action, WarpAccess
from .global_memory import Segment

_LOOKED_AT = 4
"""Executions of each load whose addresses are looked at: a load reads the same buffers all over the launch."""


class SteeringLoads:
    """An observer of a traced run: where the instructions read that ``steering`` names (`steering_instructions`)."""

    def __init__(self, steering: Collection[int]) -> None:
        self._steering = steering
        self._executions: dict[int, int] = {}
        self._addresses: list[NDArray[np.uint64]] = []

    def access(self, access: WarpAccess) -> None:
        """Take note of one access."""
        site = access.site
        if site.action is Action.STORE or site.space not in (Space.GLOBAL, Space.GENERIC):
            return
        executions = self._executions.get(site.number, 0)
        if site.instruction_index in self._steering and executions < _LOOKED_AT:
            self._executions[site.number] = executions + 1
            of_warps = access.of_warps
            self._addresses.append(distinct(of_warps.addresses[of_warps.active]))

    def buffers(self, segments: Sequence[Segment]) -> frozenset[str]:
        """Names of the segments that were read."""
        if not self._addresses:
            return frozenset()
        found = distinct(np.concatenate(self._addresses))
        names = set()
        for segment in segments:
            first, last = np.searchsorted(
                found, np.array([segment.start, segment.start + segment.size_bytes], np.uint64)
            )
            if last > first:
                names.add(segment.name)
        return frozenset(names)
