"""Global memory, counted in closed form: loads of the image, loads of the filter, stores; and what of it leaves L1 and L2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...core.constants import FLOAT_BYTES, SECTOR_BYTES, WARP_SIZE
from ..lanes import over_unique
from .exchange_plans import all_loaded, executed_plan
from .instructions import multiply_adds
from .problem import Conv2d
from .source import TAPS_IN_REGISTERS_LIMIT, filter_in_constant
from .strips import Strips
from .touched import LINE_ELEMENTS, Integers, row_loads, row_starts, runs_touched

Floats = NDArray[np.float64]

_SECTOR_ELEMENTS = SECTOR_BYTES // FLOAT_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Accesses:
    """Warp-level requests and the sectors and lines that they touch, in the whole launch."""

    requests: Floats
    sectors: Floats
    lines: Floats


@dataclass(frozen=True, slots=True)
class _Run:
    """Lanes that load (or store) one element each, ``spacing`` apart, in every one of ``warps`` neighbouring warps."""

    first: Integers
    lanes: int
    warps: int


def _warps_with_an_output(first: Integers, problem: Conv2d, spacing: int) -> tuple[_Run, ...]:
    """Runs where lanes without an output do nothing: full warps and the partial one at the right edge."""
    full, tail = divmod(problem.output_width, WARP_SIZE)
    runs = [_Run(first, WARP_SIZE, full)]
    if tail:
        runs.append(_Run(first + full * WARP_SIZE * spacing, tail, 1))
    return tuple(runs)


def _input_runs(problem: Conv2d, columns: bool, rotate: bool) -> tuple[_Run, ...]:
    """What the warps side by side load of one input row."""
    edge = -problem.padding
    across = -(-problem.output_width // WARP_SIZE)
    if rotate:
        here = _Run(np.array([edge]), WARP_SIZE, across)
        beyond = _Run(np.array([edge + WARP_SIZE]), problem.filter_width - 1, across)
        return (here, beyond) if problem.filter_width > 1 else (here,)
    if columns:
        return (_Run(np.array(executed_plan(problem.filter_width).load_offsets) + edge, WARP_SIZE, across),)
    return _warps_with_an_output(
        np.array(all_loaded(problem.filter_width).load_offsets) + edge, problem, problem.stride
    )


def _accesses(runs: tuple[_Run, ...], spacing: int, width: int, starts: Integers) -> tuple[int, int, int]:
    """Requests, sectors and lines of runs in all rows, which ``starts`` counts by remainder."""
    requests = sectors = lines = 0
    for run in runs:
        per_row, sectors_touched = runs_touched(run.first, spacing, run.lanes, run.warps, width, _SECTOR_ELEMENTS)
        _, lines_touched = runs_touched(run.first, spacing, run.lanes, run.warps, width, LINE_ELEMENTS)
        requests += int(per_row.sum() * starts.sum())
        sectors += int(starts @ sectors_touched.sum(axis=1))
        lines += int(starts @ lines_touched.sum(axis=1))
    return requests, sectors, lines


def _input_row_starts(problem: Conv2d, shared_rows: int) -> Integers:
    """Loads of input rows in the whole launch, for one warp column, by the remainder of the row's first element."""
    step, edge = shared_rows * problem.stride, -problem.padding
    strips = -(-problem.output_height // shared_rows)
    last_outputs = problem.output_height - (strips - 1) * shared_rows
    reach = (shared_rows - 1) * problem.stride + problem.filter_height
    last_reach = (last_outputs - 1) * problem.stride + problem.filter_height
    loads = row_loads(edge, step, reach, strips - 1, problem.height)
    loads = loads + row_loads(edge + (strips - 1) * step, step, last_reach, 1, problem.height)
    planes = problem.batch * problem.in_channels
    times = 1 if problem.depthwise else problem.out_channels
    return times * row_starts(loads, problem.width, problem.height, planes)


def input_loads(problem: Conv2d, sizes: Strips) -> Accesses:
    """Loads of the image."""

    def of_kinds(columns: Integers, rotate: Integers, shared_rows: Integers) -> tuple[Integers, Integers, Integers]:
        totals = [
            _accesses(
                _input_runs(problem, bool(c), bool(r)),
                problem.stride,
                problem.width,
                _input_row_starts(problem, int(n)),
            )
            for c, r, n in zip(columns, rotate, shared_rows, strict=True)
        ]
        requests, sectors, lines = np.array(totals, np.int64).T
        return requests, sectors, lines

    kinds = (sizes.columns.astype(np.int64), sizes.rotate.astype(np.int64), sizes.shared_rows)
    requests, sectors, lines = over_unique(of_kinds, *kinds)
    return Accesses(requests=requests.astype(float), sectors=sectors.astype(float), lines=lines.astype(float))


def filter_fetches(problem: Conv2d, sizes: Strips) -> Floats:
    """Warp-level fetches of filter taps, from constant memory or, of one sector each, from global memory.

    Taps of one channel that fit registers are fetched once by a warp; others in each step, or from global memory at each use.
    """
    many = problem.filter_taps > TAPS_IN_REGISTERS_LIMIT
    if many and not filter_in_constant(problem):
        return multiply_adds(problem, sizes)
    selections = sizes.passes if many or problem.filter_channels > 1 else sizes.active_warps
    return np.asarray(selections * problem.filter_taps, np.float64)


def stores(problem: Conv2d) -> tuple[int, int]:
    """Requests and sectors of the stores, the same for every configuration."""
    once = row_loads(0, 1, 1, problem.output_height, problem.output_height)
    starts = row_starts(once, problem.output_width, problem.output_height, problem.output_planes)
    runs = _warps_with_an_output(np.array([0]), problem, 1)
    requests, sectors, _ = _accesses(runs, 1, problem.output_width, starts)
    return requests, sectors


def compulsory_bytes(problem: Conv2d) -> tuple[float, float]:
    """Bytes that DRAM must deliver and take at least: image rows and columns that some output needs, filters; output."""
    rows = _needed(problem.height, problem.output_height, problem.filter_height, problem)
    columns = _needed(problem.width, problem.output_width, problem.filter_width, problem)
    read = problem.batch * problem.in_channels * rows * columns + problem.filter_elements
    written = problem.output_planes * problem.output_height * problem.output_width
    return float(read * FLOAT_BYTES), float(written * FLOAT_BYTES)


def _needed(extent: int, outputs: int, filter_extent: int, problem: Conv2d) -> int:
    """Rows (or columns) of an image that some output reaches; with stride 2 and a filter of 1 every other one."""
    reach = min(extent, (outputs - 1) * problem.stride + filter_extent - problem.padding)
    if filter_extent >= problem.stride:
        return max(reach, 0)
    return len(range(problem.padding % problem.stride, reach, problem.stride))
