"""Warps of blocks: what the sums over kinds of warps say equals walking over every warp and lane."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.lanes import (
    Warps,
    lanes_of,
    over_unique,
    over_warps,
    requests,
    segments_touched,
    slowest_warp,
    warp_kinds,
    wavefronts,
)

Lanes = list[tuple[int, int]]
Values = tuple[np.ndarray, ...]

blocks = st.tuples(st.integers(1, 100), st.integers(0, 24))
some_blocks = st.lists(blocks, min_size=1, max_size=4)


def walked(block_x: int, rows: int) -> list[Lanes]:
    """Column and row, from the warp's first row, of the threads of every warp, in order."""
    threads = [(t % block_x, t // block_x) for t in range(block_x * rows)]
    warps = [threads[i : i + 32] for i in range(0, len(threads), 32)]
    return [[(x, y - warp[0][1]) for x, y in warp] for warp in warps]


def columns_of(shapes: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([x for x, _ in shapes]), np.array([rows for _, rows in shapes])


def summed(shapes: list[tuple[int, int]], function: Callable[..., Values]) -> list[float]:
    return over_warps(function, *columns_of(shapes))[0].tolist()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(blocks)
def test_every_warp_of_the_block_is_of_one_kind(block: tuple[int, int]) -> None:
    kinds = warp_kinds(np.array([block[0]]), np.array([block[1]]))
    count = kinds.weight.shape[1]
    warps = lanes_of(np.full(count, block[0]), kinds.start[0], kinds.lanes[0])
    counted: Counter[tuple[tuple[int, int], ...]] = Counter()
    for k in range(count):
        on = warps.present[k]
        if kinds.weight[0, k]:
            counted[tuple(zip(warps.x[k][on].tolist(), warps.y[k][on].tolist(), strict=True))] += int(
                kinds.weight[0, k]
            )
    assert counted == Counter(tuple(warp) for warp in walked(*block))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(some_blocks, st.integers(0, 100), st.integers(0, 50), st.integers(1, 4))
def test_requests_and_wavefronts_equal_the_walk(
    shapes: list[tuple[int, int]], limit: int, gap: int, stride: int
) -> None:
    """Lanes left of ``limit`` read word row · pitch + column · stride; the fullest bank says how often."""

    def banked(warps: Warps, block_x: np.ndarray) -> Values:
        word = warps.y * (block_x[:, None] * stride + gap) + warps.x * stride
        return (wavefronts(word, warps.present & (warps.x < limit)),)

    def pitched(block_x: int, warp: Lanes) -> int:
        banks = Counter((y * (block_x * stride + gap) + x * stride) % 32 for x, y in warp if x < limit)
        return max(banks.values(), default=0)

    expected = [[pitched(shape[0], warp) for warp in walked(*shape)] for shape in shapes]
    assert summed(shapes, banked) == [sum(values) for values in expected]
    slowest = slowest_warp(banked, *columns_of(shapes))[0].tolist()
    assert slowest == [max(values, default=0) for values in expected]
    issued = summed(shapes, lambda warps, block_x: (requests(warps.present & (warps.x < limit)),))
    assert issued == [sum(any(x < limit for x, _ in warp) for warp in walked(*shape)) for shape in shapes]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(some_blocks, st.integers(1, 100), st.sampled_from((8, 32)), st.integers(1, 40), st.integers(32, 60))
def test_segments_equal_the_average_over_bases(
    shapes: list[tuple[int, int]], limit: int, segment: int, alignment: int, gap: int
) -> None:
    """Rows lie at least a segment apart; the base takes every multiple of the alignment, modulo a segment, alike often."""

    def touched(warps: Warps, block_x: np.ndarray) -> Values:
        word = warps.y * (block_x[:, None] + gap) + warps.x
        return (segments_touched(word, warps.present & (warps.x < limit), segment, np.full(len(word), alignment)),)

    bases = {alignment * i % segment for i in range(segment)}
    expected = [
        sum(
            len({(base + y * (block_x + gap) + x) // segment for x, y in warp if x < limit})
            for warp in walked(block_x, rows)
            for base in bases
        )
        / len(bases)
        for block_x, rows in shapes
    ]
    assert summed(shapes, touched) == pytest.approx(expected)


def test_blocks_are_treated_one_by_one() -> None:
    """48 × 2 threads: 3 warps; 32 × 5: 5 of one kind; 10 × 1: one warp of ten lanes; 7 × 0: none."""
    shapes = [(48, 2), (32, 5), (10, 1), (7, 0)]
    assert summed(shapes, lambda warps, block_x: (requests(warps.present),)) == [3, 5, 1, 0]
    assert summed(shapes, lambda warps, block_x: (warps.present.sum(axis=1) * 1.0,)) == [96, 160, 10, 0]


def test_a_column_of_32_words_pitch_is_one_bank() -> None:
    """A block of one column: 32 lanes, 32 rows, all on bank 0 unless the row is padded by a word."""
    assert summed([(1, 32)], lambda warps, block_x: (wavefronts(warps.y * 32, warps.present),)) == [32]
    assert summed([(1, 32)], lambda warps, block_x: (wavefronts(warps.y * 33, warps.present),)) == [1]


def test_a_column_of_its_own_goes_with_each_block() -> None:
    """Two equal blocks with another pitch each are not one: 32 rows of 32 words conflict, 32 of 33 do not."""

    def pitched(warps: Warps, block_x: np.ndarray, pitch: np.ndarray) -> Values:
        return (wavefronts(warps.y * pitch[:, None], warps.present),)

    worst = over_warps(pitched, np.array([1, 1]), np.array([32, 32]), np.array([32, 33]))
    assert worst[0].tolist() == [32, 1]


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_over_unique_is_the_function_itself(rows: list[tuple[int, int]]) -> None:
    a, b = (np.array(column) for column in zip(*rows, strict=True))
    evaluated: list[int] = []

    def function(first: np.ndarray, second: np.ndarray) -> Values:
        evaluated.append(len(first))
        return (first * 10 + second,)

    assert over_unique(function, a, b)[0].tolist() == (a * 10 + b).tolist()
    assert evaluated == [len(set(rows))]
