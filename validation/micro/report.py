"""Measured facts beside the GPU file's values, and as a GPU file of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from perfmodel.gpus.gpu import Gpu

from .facts import MeasuredFact

GPU_FIELDS = frozenset(field.name for field in fields(Gpu))
WHOLE_NUMBER_FIELDS = frozenset({"fp32_lanes_per_sm", "int32_lanes_per_sm"})
"""Fields that a data sheet gives exactly: measured to be compared, never to be replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactComparison:
    """A measured fact beside the value that the GPU's file has; ``file_value`` is None where it has none."""

    fact: MeasuredFact
    file_value: float | None

    @property
    def ratio(self) -> float | None:
        """Measured over the file's value."""
        return self.fact.value / self.file_value if self.file_value else None


def compare_facts(facts: Sequence[MeasuredFact], gpu: Gpu) -> tuple[FactComparison, ...]:
    """Each fact with the value of the GPU's file."""
    return tuple(
        FactComparison(fact=fact, file_value=float(getattr(gpu, fact.name)) if fact.name in GPU_FIELDS else None)
        for fact in facts
    )


def gpu_file(gpu: Gpu, facts: Sequence[MeasuredFact]) -> str:
    """The text of a GPU file that takes everything from this GPU and replaces what was measured, with its source."""
    lines = [f'base = "{gpu.id}"', f'name = "{gpu.name}"', ""]
    for fact in facts:
        if fact.name in GPU_FIELDS and fact.name not in WHOLE_NUMBER_FIELDS:
            lines.append(f'{fact.name} = {{ value = {fact.value:.6g}, source = "micro-benchmark: {fact.source}" }}')
    return "\n".join(lines) + "\n"
