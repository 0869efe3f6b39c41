"""What becomes of each tuple of a layer: feasible or why not, both figures of merit, registers, occupancy, waves, choices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...gpus.gpu import Gpu
from ...gpus.occupancy import Occupancy, occupancy
from ..base import Batch
from .blocking import THREADS_PER_BLOCK, Floats, grid, source_tiles
from .candidates import Candidates, candidates
from .configuration import PointwiseConfiguration
from .family import FAMILY
from .plan import SOURCE_CONSTANT, arithmetic_intensity, feasible, planned_registers, source_limits
from .problem import PointwiseConv2d
from .selection import Merits, Rule, select


@dataclass(frozen=True, slots=True, kw_only=True)
class TupleReport:
    """One tuple of one layer on one GPU.

    ``rejection`` names value and limit, None where the tuple is feasible; ``source_feasible`` says whether it is by the
    source's unrounded formulas with whole-number tiles. ``intensity`` is M_A, ``blocks`` M_B. ``waves`` are fillings of the GPU
    with resident blocks; ``tail`` is the part of the last one that stays empty.
    """

    configuration: PointwiseConfiguration
    rejection: str | None
    source_feasible: bool
    filter_tile: int
    position_tile: int
    slab_channels: int
    intensity: float
    blocks: int
    planned_registers: int
    estimated_registers: int
    compiled_registers: int | None
    shared_bytes: int
    blocks_per_sm: int
    occupancy: float
    waves: float
    tail: float
    predicted_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """All tuples of a layer and the index of the one that each rule chooses (None: no tuple is feasible, or no times)."""

    problem: PointwiseConv2d
    gpu_id: str
    tuples: tuple[TupleReport, ...]
    chosen: Mapping[Rule, int | None]

    @property
    def feasible(self) -> int:
        """Number of feasible tuples."""
        return sum(entry.rejection is None for entry in self.tuples)

    @property
    def rejected(self) -> Mapping[str, int]:
        """Number of rejected tuples by reason."""
        reasons = [entry.rejection.partition(":")[0] for entry in self.tuples if entry.rejection is not None]
        return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}


def layer_report(
    problem: PointwiseConv2d,
    batch: Batch[PointwiseConfiguration],
    gpu: Gpu,
    *,
    predicted_s: Floats | None = None,
    compiled_registers: NDArray[np.int32] | None = None,
) -> LayerReport:
    """Report on every tuple of the batch; predicted times and compiled registers, shape ``(n,)``, where they are known.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> from .spaces import source_tuples
    >>> first = PointwiseConv2d(in_channels=32, out_channels=64, height=112, width=112)
    >>> found = layer_report(first, source_tuples(), load_gpu("rtx-2080-ti"))
    >>> sum(entry.source_feasible for entry in found.tuples)
    44
    """
    found = candidates(problem, batch, gpu)
    registers = found.registers if compiled_registers is None else compiled_registers
    resident = occupancy(
        gpu,
        threads_per_block=THREADS_PER_BLOCK,
        registers_per_thread=np.minimum(registers, gpu.max_registers_per_thread),
        shared_bytes_per_block=found.shared_bytes,
    )
    rejections = _rejections(problem, batch, gpu)
    merits = _merits(problem, found, rejections, registers, predicted_s)
    source = source_tiles(problem, batch, gpu.sm_count)
    whole = feasible(source, source_limits(source.blocks_per_sm), SOURCE_CONSTANT) & source.whole
    entries = [
        _entry(found, resident, merits, batch, index, rejections[index], bool(whole[index]), compiled_registers, gpu)
        for index in range(len(batch))
    ]
    rules = [rule for rule in Rule if rule is not Rule.PREDICTED_TIME or predicted_s is not None]
    chosen: dict[Rule, int | None] = dict.fromkeys(Rule) | {rule: select(rule, merits) for rule in rules}
    return LayerReport(problem=problem, gpu_id=gpu.id, tuples=tuple(entries), chosen=chosen)


def _merits(
    problem: PointwiseConv2d,
    found: Candidates,
    rejections: list[str | None],
    registers: NDArray[np.int32],
    predicted_s: Floats | None,
) -> Merits:
    """What the selection rules look at."""
    across, down = grid(problem, found.tile)
    return Merits(
        feasible=np.array([rejection is None for rejection in rejections]),
        intensity=arithmetic_intensity(found.tile),
        blocks=(across * down).astype(np.float64),
        registers=registers.astype(np.float64),
        predicted_s=predicted_s,
    )


def _rejections(problem: PointwiseConv2d, batch: Batch[PointwiseConfiguration], gpu: Gpu) -> list[str | None]:
    """The first limit that each tuple breaks, in words."""
    checks = FAMILY.checks(problem, batch, gpu)
    return [
        next((check.message(index) for check in checks if check.rejected[index]), None) for index in range(len(batch))
    ]


def _entry(
    found: Candidates,
    resident: Occupancy,
    merits: Merits,
    batch: Batch[PointwiseConfiguration],
    index: int,
    rejection: str | None,
    source_feasible: bool,
    compiled_registers: NDArray[np.int32] | None,
    gpu: Gpu,
) -> TupleReport:
    tile = found.tile
    blocks_per_sm = int(resident.blocks_per_sm[index])
    blocks = int(merits.blocks[index])
    waves = blocks / (blocks_per_sm * gpu.sm_count) if blocks_per_sm else float("inf")
    return TupleReport(
        configuration=batch.configuration(index),
        rejection=rejection,
        source_feasible=source_feasible,
        filter_tile=int(tile.filter_tile[index]),
        position_tile=int(tile.position_tile[index]),
        slab_channels=int(found.fetched.slab_channels[index]),
        intensity=float(merits.intensity[index]),
        blocks=blocks,
        planned_registers=int(planned_registers(tile, SOURCE_CONSTANT)[index]),
        estimated_registers=int(found.registers[index]),
        compiled_registers=None if compiled_registers is None else int(compiled_registers[index]),
        shared_bytes=int(found.shared_bytes[index]),
        blocks_per_sm=blocks_per_sm,
        occupancy=float(resident.fraction[index]),
        waves=waves,
        tail=float(np.ceil(waves) - waves) if blocks_per_sm else 0.0,
        predicted_s=None if merits.predicted_s is None else float(merits.predicted_s[index]),
    )
