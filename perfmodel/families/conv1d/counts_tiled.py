"""Closed-form counts of the tiled kernel: every chunk of channels and step of taps is staged, read and added alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from ...core.constants import WARP_SIZE, ceil_div
from .accesses import SharedTraffic, Traffic, sectors_of
from .alignments import Starts, combined, no_starts, progression, row_traffic, traffic_from
from .counts_optimized import shuffle_steps
from .problem import Conv1d
from .tally import Tally
from .tiling import Step, Tiling, odd, tiling

STAGED_WORD_INSTRUCTIONS = 9
"""Integer instructions for each staged word of a thread: row, column and the tests of both, as compiled for sm_80."""
CHANNEL_INSTRUCTIONS = 12
"""The same for each channel that a thread adds, and for each step."""


def _chunks(problem: Conv1d, cut: Tiling) -> Iterator[tuple[int, int, int]]:
    """Runs of equal chunks: first channel, channels of each, number."""
    whole, rest = divmod(problem.in_channels, cut.chunk_channels)
    if whole:
        yield 0, cut.chunk_channels, whole
    if rest:
        yield whole * cut.chunk_channels, rest, 1


def _windows(problem: Conv1d, cut: Tiling, step: Step) -> dict[int | None, Starts]:
    """Starts of the tiles' staged rows by the column of the first word; None for all that lie inside the row.

    Rows wholly on padding, which load one word again and again, count as those that begin just there.
    """
    pitch = odd(cut.tile + step.taps - 1)
    origin = problem.used_taps.start + step.first - problem.padding
    inner_first = min(cut.tiles, max(0, ceil_div(-origin, cut.tile)))
    inner_last = min(cut.tiles, max(inner_first, (problem.length - pitch - origin) // cut.tile + 1))
    found: dict[int | None, Starts] = defaultdict(no_starts)
    if inner_last > inner_first:
        found[None] += progression(origin + inner_first * cut.tile, cut.tile, inner_last - inner_first)
    left = min(inner_first, max(0, -(pitch + origin) // cut.tile))
    right = max(inner_last, min(cut.tiles, ceil_div(problem.length - origin, cut.tile)))
    found[-pitch] += progression(0, 0, left)
    found[problem.length] += progression(0, 0, cut.tiles - right)
    for tile in (*range(left, inner_first), *range(inner_last, right)):
        found[min(problem.length, max(-pitch, origin + tile * cut.tile))] += progression(0, 0, 1)
    return found


def _input_loads(problem: Conv1d, cut: Tiling) -> Traffic:
    """Inputs that the tiles meet, and the nearest ones in the place of padding, between rows and behind the last."""
    windows: defaultdict[tuple[int, int | None], Starts] = defaultdict(no_starts)
    for step in cut.steps:
        for column, starts in _windows(problem, cut, step).items():
            windows[step.taps, column] += starts
    elements = progression(0, problem.input_words, problem.batch) * problem.out_channels
    total = Traffic()
    for first, channels, number in _chunks(problem, cut):
        stride = cut.chunk_channels * problem.length
        rows = combined(elements, progression(first * problem.length, stride, number))
        for (taps, column), starts in windows.items():
            places = np.arange(odd(cut.tile + taps - 1))
            columns = places if column is None else np.clip(column + places, 0, problem.length - 1)
            total += row_traffic(channels, columns, problem.length, combined(rows, starts), cut.threads)
    return total


def _weight_loads(problem: Conv1d, cut: Tiling) -> Traffic:
    """Used taps, by every tile of every batch element; between rows the last of the step once more."""
    steps: defaultdict[int, Starts] = defaultdict(no_starts)
    for step in cut.steps:
        steps[step.taps] += progression(problem.used_taps.start + step.first, 0, 1)
    filters = progression(0, problem.weight_words, problem.out_channels) * problem.batch * cut.tiles
    total = Traffic()
    for first, channels, number in _chunks(problem, cut):
        stride = cut.chunk_channels * problem.filter_width
        rows = combined(filters, progression(first * problem.filter_width, stride, number))
        for taps, starts in steps.items():
            places = np.minimum(np.arange(odd(taps)), taps - 1)
            total += row_traffic(channels, places, problem.filter_width, combined(rows, starts), cut.threads)
    return total


def _output_stores(problem: Conv1d, cut: Tiling) -> Traffic:
    """A request a block."""
    rows = progression(0, problem.output_length, problem.blocks)
    lanes = np.arange(WARP_SIZE).reshape(1, WARP_SIZE)
    last = (cut.tiles - 1) * cut.tile
    whole = combined(rows, progression(0, cut.tile, cut.tiles - 1)) if cut.tiles > 1 else 0 * rows
    return traffic_from(lanes, lanes < cut.tile, whole) + traffic_from(
        lanes, lanes < problem.output_length - last, combined(rows, progression(last, 0, 1))
    )


def _adding_warps(channels: int, cut: Tiling) -> int:
    """Warps that add a channel, over all rounds of the owners through a chunk."""
    whole, rest = divmod(channels, cut.owners)
    return int(whole * ceil_div(cut.owners, WARP_SIZE) + ceil_div(rest, WARP_SIZE))


def _shared(problem: Conv1d, cut: Tiling) -> tuple[SharedTraffic, SharedTraffic]:
    """Shared loads and stores of one block, without conflicts: rows lie at odd distances."""
    loads, stores = cut.warps, cut.warps * cut.tile
    for _, channels, number in _chunks(problem, cut):
        for step in cut.steps:
            window = cut.tile + step.taps - 1
            loads += number * _adding_warps(channels, cut) * (window + step.taps)
            for words in (odd(window), odd(step.taps)):
                stores += number * cut.warps * int(ceil_div(channels * words, cut.threads))
    return (
        SharedTraffic(requests=loads, wavefronts=loads, ideal=loads),
        SharedTraffic(requests=stores, wavefronts=stores, ideal=stores),
    )


def _instructions(problem: Conv1d, cut: Tiling, stores: int) -> dict[str, int]:
    """Executed warp instructions of one block; integer and control are fitted to compiled kernels of sm_80."""
    adding = sum(number * _adding_warps(channels, cut) for _, channels, number in _chunks(problem, cut))
    rounds, steps = cut.chunks * len(cut.steps), len(cut.steps)
    sums = cut.warps * cut.tile * shuffle_steps(cut.owners)
    return {
        "fp32_fma": adding * cut.tile * cut.used_taps,
        "fp32_other": sums + cut.warps,
        "shuffles": sums,
        "barriers": cut.warps * (2 * rounds + 1),
        "integer": STAGED_WORD_INSTRUCTIONS * stores
        + CHANNEL_INSTRUCTIONS * (adding * steps + cut.warps * (rounds + 1)),
        "control": stores // 2 + 2 * adding * steps + 4 * cut.warps * (rounds + 1),
    }


def tiled_tally(problem: Conv1d, channels_per_thread: int) -> Tally:
    """Everything that the tiled kernel executes with one choice of channels per thread."""
    cut = tiling(problem, channels_per_thread)
    blocks = problem.blocks * cut.tiles
    inputs, weights = _input_loads(problem, cut), _weight_loads(problem, cut)
    shared_loads, shared_stores = _shared(problem, cut)
    return Tally(
        blocks=blocks,
        input_sectors=inputs.sectors,
        weight_sectors=min(weights.sectors, blocks * sectors_of(problem.weight_words)),
        global_loads=inputs + weights + Traffic(requests=blocks, sectors=blocks, lines=blocks),
        global_stores=_output_stores(problem, cut),
        shared_loads_per_block=shared_loads,
        shared_stores_per_block=shared_stores,
        instructions_per_block=_instructions(problem, cut, shared_stores.requests),
        warps_per_block=cut.warps,
        round_trips=cut.chunks * len(cut.steps),
        chains=cut.tile,
        loop_instructions=cut.tile * cut.taps + 3 * (cut.tile + 2 * cut.taps) + 100,
    )
