"""Memory instructions by source line: what each asks for, what it moves, and what of that it wastes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from ..core.constants import SECTOR_BYTES, WAVEFRONT_BYTES
from ..core.json_aliases import with_former_names
from ..ir.instruction import Space
from ..memory.access_counts import InstructionCount


@dataclass(frozen=True, slots=True, kw_only=True)
class InstructionListing:
    """One memory instruction of the PTX over the whole launch.

    ``efficiency`` is, for global and local memory, bytes asked for by lanes over bytes of the sectors moved (1 where lanes share
    what they read), and for shared memory wavefronts without bank conflicts over wavefronts. ``excess_bytes`` is what better
    addresses would save: bytes of sectors that no lane asked for, or 128 for each wavefront that a bank conflict costs.
    """

    file: str
    line: int
    instruction: str
    space: str
    action: str
    width_bytes: int
    requests: int
    sectors: int
    sectors_per_request: float
    wavefronts: int
    efficiency: float
    excess_bytes: int
    places: int = 1
    """How many instructions of the PTX stand in this row."""

    def to_json(self) -> dict[str, Any]:
        """The object of the JSON contract."""
        return with_former_names({name: getattr(self, name) for name in self.__dataclass_fields__ if name != "places"})


def listing(counts: Sequence[InstructionCount]) -> tuple[InstructionListing, ...]:
    """The listing of a launch, the instructions that waste most first."""
    rows = [_row(count) for count in counts if count.sectors or count.wavefronts or count.width_bytes]
    return tuple(sorted(rows, key=lambda row: (-row.excess_bytes, row.file, row.line)))


def by_line(rows: Sequence[InstructionListing]) -> tuple[InstructionListing, ...]:
    """Rows of the same source line and opcode joined into one, the lines that waste most first."""
    groups: dict[tuple[str, int, str, str], list[InstructionListing]] = {}
    for row in rows:
        groups.setdefault((row.file, row.line, row.instruction, row.space), []).append(row)
    joined = [_joined(group) for group in groups.values()]
    return tuple(sorted(joined, key=lambda row: (-row.excess_bytes, row.file, row.line)))


def _joined(group: Sequence[InstructionListing]) -> InstructionListing:
    requests, sectors, wavefronts = (sum(getattr(r, n) for r in group) for n in ("requests", "sectors", "wavefronts"))
    weights = [max(row.sectors, row.wavefronts) for row in group]
    useful = sum(row.efficiency * weight for row, weight in zip(group, weights, strict=True))
    return replace(
        group[0],
        requests=requests,
        sectors=sectors,
        wavefronts=wavefronts,
        sectors_per_request=sectors / max(requests, 1),
        efficiency=useful / sum(weights) if sum(weights) else 1.0,
        excess_bytes=sum(row.excess_bytes for row in group),
        places=len(group),
    )


def _row(count: InstructionCount) -> InstructionListing:
    if count.space is Space.SHARED:
        efficiency = count.conflict_free_wavefronts / max(count.wavefronts, 1)
        excess = (count.wavefronts - count.conflict_free_wavefronts) * WAVEFRONT_BYTES
    else:
        asked, moved = count.lanes * count.width_bytes, count.sectors * SECTOR_BYTES
        efficiency = min(asked / moved, 1.0) if moved else 1.0
        excess = max(moved - asked, 0)
    return InstructionListing(
        file=PurePath(count.source.file).name if count.source else "",
        line=count.source.line if count.source else 0,
        instruction=count.opcode,
        space=count.space.value,
        action=count.action.value,
        width_bytes=count.width_bytes,
        requests=count.requests,
        sectors=count.sectors,
        sectors_per_request=count.sectors / max(count.requests, 1),
        wavefronts=count.wavefronts,
        efficiency=efficiency,
        excess_bytes=excess,
    )
