"""Counts of a whole launch from a few of its blocks: classes of blocks that behave alike, each weighed by its size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.counts import Counts
from ...launch.launch import KernelCall, Launch
from ...machine_code.program import MachineCode
from ...memory.access_counts import InstructionCount
from ...program.instruction import Space
from ...simulator.access import Action
from ...simulator.execution import Code
from ...simulator.simulation import Budget
from ..totals import launch_counts
from .launch_alignment import AlignedTotals, aligned_totals, edge_lines
from .launch_boxes import Box, Executed, agreeing_boxes, drawn_members, edge_boxes, merged_boxes
from .launch_rows import BlockRows, Key
from .launch_shape import launch_shape, probed_blocks
from .watched_block import WatchedBlock

_ALL_BLOCKS_BELOW = 32
"""Grids of at most so many blocks are executed wholly."""
_SAMPLED_BLOCKS = 192
"""Blocks drawn from a class whose members go on to disagree."""
_NORMAL_95 = 1.96
_ROUNDS = 3
"""How often boxes are cut again because of blocks that were executed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCounts:
    """Counts of a whole launch.

    ``counts`` has the classes of PTX instructions; ``visits`` how many warps entered each basic block; ``requests`` memory
    requests by action, space and width in bytes; ``instructions`` totals of each PTX instruction, where they were asked for;
    ``shape`` the grid's extents, x first, with an axis that the kernel splits by division split (`launch_shape`).
    ``exact`` says that all blocks were executed or that those drawn agreed; otherwise ``relative_error`` is the half width of
    the 95 % interval of the count that is known least, and ``notes`` says why.
    ``watched`` is the block in the middle, for the critical path.
    """

    kernel: Code
    counts: Counts
    visits: NDArray[np.float64]
    requests: Mapping[tuple[Action, Space, int], float]
    instructions: tuple[InstructionCount, ...]
    shape: tuple[int, ...]
    exact: bool
    relative_error: float
    notes: tuple[str, ...]
    blocks_executed: int
    watched: WatchedBlock


@dataclass(frozen=True, slots=True)
class _Stratum:
    """Blocks that stand for ``population`` blocks; more than one only where they differ."""

    blocks: NDArray[np.int64]
    population: int


def count_launch(
    kernel: Code,
    launch: Launch,
    call: KernelCall,
    *,
    all_blocks: bool = False,
    instructions: bool = False,
    seed: int = 0,
    budget: Budget | None = None,
) -> LaunchCounts:
    """Count a whole launch by executing blocks that stand for the others.

    The grid is cut into first, inner and last blocks along each axis. Members of each part are drawn at random and executed;
    where they differ the part is cut further (`launch_boxes`). Sectors and lines, which depend on the alignment of a block's
    addresses, are summed over the periods of the block index (`launch_alignment`). What still differs is estimated from a
    larger sample.

    Args:
        kernel: the kernel.
        launch: the launch.
        call: its arguments.
        all_blocks: execute every block.
        instructions: give totals by PTX instruction too (sectors by instruction are then scaled from the executed blocks).
        seed: of the blocks that are drawn.
        budget: of each simulation.
    """
    rows = BlockRows(kernel, launch, call, budget)
    blocks = int(np.prod(launch.grid, dtype=np.int64))
    if all_blocks or blocks <= _ALL_BLOCKS_BELOW:
        return _of_all(rows, blocks, instructions)
    rows.at(np.concatenate([probed_blocks(launch.grid), _likely_blocks(launch.grid, seed)]))
    shape = launch_shape(launch.grid, rows.first_stores, np.random.default_rng(seed))
    return _of_classes(rows, shape, np.random.default_rng(seed), instructions)


def _of_classes(rows: BlockRows, shape: tuple[int, ...], rng: np.random.Generator, instructions: bool) -> LaunchCounts:
    executed = Executed(lambda positions: rows.at(_linear(positions, shape)))
    executed.at(_positions(np.array(list(rows.known), dtype=np.int64), shape))
    classes, alignments, disagreed = _classes(rows, executed, shape, rng)
    total = np.zeros(rows.alignment.stop)
    strata = []
    for box, aligned in zip(classes, alignments, strict=True):
        representative = np.array([box.low], dtype=np.int64)
        total[rows.behaviour] += box.size * executed.at(representative)[0, rows.behaviour]
        total[rows.alignment] += aligned.sums
        strata.append(_Stratum(_linear(representative, shape), box.size))
    variance = np.zeros(len(rows.headline(total[None])[0]))
    for box in disagreed:
        drawn = box.draw(_SAMPLED_BLOCKS, rng)
        drawn_rows = executed.at(drawn)
        total += box.size * drawn_rows.mean(axis=0)
        if len(drawn) < box.size:
            variance += box.size**2 * rows.headline(drawn_rows).var(axis=0, ddof=1) / len(drawn)
        strata.append(_Stratum(_linear(drawn, shape), box.size))
    misaligned = sum(not aligned.exact for aligned in alignments)
    return _weighed(rows, shape, total, variance, strata, bool(disagreed), misaligned, instructions)


def _classes(
    rows: BlockRows, executed: Executed, shape: tuple[int, ...], rng: np.random.Generator
) -> tuple[list[Box], list[AlignedTotals], list[Box]]:
    """Boxes of which every executed block behaves alike, their aligned totals, and boxes that follow no such rule.

    The blocks that are executed for the sake of alignment may show a difference that no draw had met; then boxes are cut again.
    """
    pending = edge_boxes(shape)
    disagreed: list[Box] = []
    for _ in range(_ROUNDS):
        agreed, others = agreeing_boxes(pending, executed, rows.behaviour, rng)
        disagreed += others
        pending = merged_boxes(agreed, executed, rows.behaviour)
        aligned = aligned_totals(pending, executed, rows.alignment, rng) if pending else []
        if all(executed.agree(box, rows.behaviour) for box in pending):
            return pending, aligned, disagreed
    kept = [executed.agree(box, rows.behaviour) for box in pending]
    return (
        [box for box, agrees in zip(pending, kept, strict=True) if agrees],
        [totals for totals, agrees in zip(aligned, kept, strict=True) if agrees],
        disagreed + [box for box, agrees in zip(pending, kept, strict=True) if not agrees],
    )


def _positions(linear: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Block indices of shape ``(n, axes)`` of linear indices."""
    return np.stack(np.unravel_index(linear, shape[::-1])[::-1], axis=1).astype(np.int64)


def _linear(positions: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Linear indices of block indices of shape ``(n, axes)``."""
    strides = np.cumprod([1, *shape[:-1]], dtype=np.int64)
    return np.asarray(positions @ strides)


def _likely_blocks(grid: tuple[int, int, int], seed: int) -> NDArray[np.int64]:
    """Blocks that are wanted in any case when the kernel's axes are the grid's; executed together they cost one call."""
    shape = tuple(extent for extent in grid if extent > 1)
    members = drawn_members(edge_boxes(shape), np.random.default_rng(seed))
    return _linear(np.concatenate([*members, *edge_lines(Box.of(shape))]), shape)


def _of_all(rows: BlockRows, blocks: int, instructions: bool) -> LaunchCounts:
    run = rows.run_all()
    requests: dict[tuple[Action, Space, int], float] = {}
    for count in run.instructions:
        key = (count.action, count.space, count.width_bytes)
        requests[key] = requests.get(key, 0.0) + count.requests
    return LaunchCounts(
        kernel=rows.kernel,
        counts=run.counts,
        visits=run.visits.astype(np.float64),
        requests=requests,
        instructions=run.instructions if instructions else (),
        shape=rows.grid,
        exact=True,
        relative_error=0.0,
        notes=(),
        blocks_executed=blocks,
        watched=rows.watched,
    )


def _weighed(
    rows: BlockRows,
    shape: tuple[int, ...],
    total: NDArray[np.float64],
    variance: NDArray[np.float64],
    strata: list[_Stratum],
    sampled: bool,
    misaligned: int,
    instructions: bool,
) -> LaunchCounts:
    totals = rows.totals(total)
    widths: dict[Key, list[int]] = {}
    for action, space, width in sorted(rows.widths, key=str):
        widths.setdefault((action, space), []).append(width)
    by_instruction: tuple[InstructionCount, ...] = ()
    if instructions or isinstance(rows.kernel, MachineCode) or any(len(of_key) > 1 for of_key in widths.values()):
        by_instruction = _instruction_totals(rows, strata)
    requests = {
        (*key, width): values["requests"] if len(widths[key]) == 1 else _requests(by_instruction, key, width)
        for key, values in totals.items()
        for width in widths[key]
    }
    groups = tuple(_group(key, widths[key][0], values) for key, values in totals.items())
    notes = []
    if sampled:
        notes.append(
            f"blocks differ from one another beyond position: estimated from {len(rows.known)} executed blocks"
        )
    if misaligned:
        notes.append("the alignment of blocks follows no period of the block index: sectors are estimated")
    headline = rows.headline(total[None])[0]
    known = headline > 0
    error = float(_NORMAL_95 * np.max(np.sqrt(variance[known]) / headline[known], initial=0.0))
    return LaunchCounts(
        kernel=rows.kernel,
        counts=launch_counts(rows.kernel, groups, np.rint(total[: rows.blocks]).astype(np.int64), by_instruction),
        visits=total[: rows.blocks],
        requests=requests,
        instructions=by_instruction if instructions else (),
        shape=shape,
        exact=not sampled and not misaligned,
        relative_error=error,
        notes=tuple(notes),
        blocks_executed=len(rows.known),
        watched=rows.watched,
    )


def _group(key: Key, width: int, values: dict[str, float]) -> InstructionCount:
    """Totals of one action and space as one record, as `launch_counts` takes them."""
    return InstructionCount(
        instruction=-1,
        opcode="",
        action=key[0],
        space=key[1],
        width_bytes=width,
        ptx_line=0,
        source=None,
        **{name: round(value) for name, value in values.items()},
    )


def _requests(counts: tuple[InstructionCount, ...], key: Key, width: int) -> float:
    return float(sum(c.requests for c in counts if (c.action, c.space) == key and c.width_bytes == width))


def _instruction_totals(rows: BlockRows, strata: list[_Stratum]) -> tuple[InstructionCount, ...]:
    """Totals by instruction: each executed block stands for its part of its stratum."""
    weights: dict[int, float] = {}
    for stratum in strata:
        for block in stratum.blocks.tolist():
            weights[block] = weights.get(block, 0.0) + stratum.population / len(stratum.blocks)
    return rows.by_instruction(weights)
