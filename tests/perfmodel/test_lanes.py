"""Kinds of warps of a block: what they count equals walking over every warp and lane."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.families.lanes import WarpKinds, over_unique, requests, segments_touched, warp_kinds, wavefronts

Warp = list[tuple[int, int]]

blocks = st.tuples(st.integers(1, 100), st.integers(0, 24))


def walked(block_x: int, rows: int) -> list[Warp]:
    """Column and row, from the warp's first row, of the threads of every warp, in order."""
    threads = [(t % block_x, t // block_x) for t in range(block_x * rows)]
    warps = [threads[i : i + 32] for i in range(0, len(threads), 32)]
    return [[(x, y - warp[0][1]) for x, y in warp] for warp in warps]


def kinds_of(block: tuple[int, int]) -> WarpKinds:
    return warp_kinds(np.array([block[0]]), np.array([block[1]]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(blocks)
def test_every_warp_of_the_block_stands_in_one_kind(block: tuple[int, int]) -> None:
    kinds = kinds_of(block)
    found: Counter[tuple[tuple[int, int], ...]] = Counter()
    for k in range(kinds.weight.shape[1]):
        on = kinds.present[0, k]
        lanes = zip(kinds.x[0, k][on].tolist(), kinds.y[0, k][on].tolist(), strict=True)
        if kinds.weight[0, k]:
            found[tuple(lanes)] += int(kinds.weight[0, k])
    assert found == Counter(tuple(warp) for warp in walked(*block))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(blocks, st.integers(0, 100), st.integers(0, 50), st.integers(1, 4))
def test_requests_and_wavefronts_equal_the_walk(block: tuple[int, int], limit: int, gap: int, stride: int) -> None:
    """Lanes left of ``limit`` read word row · pitch + column · stride; the fullest bank says how often."""
    kinds = kinds_of(block)
    pitch = block[0] * stride + gap
    active = kinds.present & (kinds.x < limit)
    on = [[(x, y) for x, y in warp if x < limit] for warp in walked(*block)]
    assert requests(kinds, active)[0] == sum(bool(warp) for warp in on)
    banks = [Counter((y * pitch + x * stride) % 32 for x, y in warp) for warp in on]
    word = kinds.y * pitch + kinds.x * stride
    assert wavefronts(kinds, word, active)[0] == sum(max(bank.values(), default=0) for bank in banks)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(blocks, st.integers(1, 100), st.sampled_from((8, 32)), st.integers(1, 40), st.integers(32, 60))
def test_segments_equal_the_average_over_bases(
    block: tuple[int, int], limit: int, segment: int, alignment: int, gap: int
) -> None:
    """Rows lie at least a segment apart; the base takes every multiple of the alignment, modulo a segment, alike often."""
    kinds = kinds_of(block)
    pitch = block[0] + gap
    active = kinds.present & (kinds.x < limit)
    bases = {alignment * i % segment for i in range(segment)}
    touched = [
        len({(base + y * pitch + x) // segment for x, y in warp if x < limit})
        for warp in walked(*block)
        for base in bases
    ]
    found = segments_touched(kinds, kinds.y * pitch + kinds.x, active, segment, np.array([alignment]))
    assert found[0] == pytest.approx(sum(touched) / len(bases))


def test_blocks_are_treated_one_by_one() -> None:
    """48 × 2 threads: 3 warps; 32 × 5: 5 of one kind; 10 × 1: one warp of ten lanes."""
    kinds = warp_kinds(np.array([48, 32, 10]), np.array([2, 5, 1]))
    assert requests(kinds, kinds.present).tolist() == [3, 5, 1]
    assert (kinds.present.sum(axis=2) * kinds.weight).sum(axis=1).tolist() == [96, 160, 10]


def test_a_column_of_32_words_pitch_is_one_bank() -> None:
    """A block of one column: 32 lanes, 32 rows, all on bank 0 unless the row is padded by a word."""
    kinds = warp_kinds(np.array([1]), np.array([32]))
    assert wavefronts(kinds, kinds.y * 32, kinds.present)[0] == 32
    assert wavefronts(kinds, kinds.y * 33, kinds.present)[0] == 1


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_over_unique_is_the_function_itself(rows: list[tuple[int, int]]) -> None:
    a, b = (np.array(column) for column in zip(*rows, strict=True))
    evaluated: list[int] = []

    def function(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, ...]:
        evaluated.append(len(first))
        return (first * 10 + second,)

    assert over_unique(function, a, b)[0].tolist() == (a * 10 + b).tolist()
    assert evaluated == [len(set(rows))]
