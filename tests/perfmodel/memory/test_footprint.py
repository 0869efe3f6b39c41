"""Sectors that a whole grid touches, from those of a few of its blocks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfmodel.memory.footprint import affine_shifts, random_union, union_sectors


@given(
    st.lists(st.integers(0, 60), min_size=1, max_size=12, unique=True),
    st.tuples(st.integers(-40, 40), st.integers(-40, 40)),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_union_of_shifted_footprints_is_that_of_all_blocks(
    words: list[int], shifts: tuple[int, int], shape: tuple[int, int]
) -> None:
    origin, low, high = np.array(sorted(words)) + 1000, 1000 - 50, 1000 + 200

    def sectors(columns: int, rows: int) -> int:
        touched = {
            word // 8
            for x in range(columns)
            for y in range(rows)
            for word in (origin + x * shifts[0] + y * shifts[1]).tolist()
            if low <= word < high
        }
        return len(touched)

    found = union_sectors(origin, shifts, shape, low, high)
    assert found is not None
    assert found.sectors == (sectors(shape[0], 1), sectors(*shape))


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True), st.lists(st.integers(-99, 99), max_size=3))
def test_shifts_are_found_and_other_changes_are_not(words: list[int], shifts: list[int]) -> None:
    first: NDArray[np.int64] = np.array(sorted(words))
    assert affine_shifts(first, [first + shift for shift in shifts]) == tuple(shifts)
    assert affine_shifts(first, [first[:0]]) is None
    if len(first) > 1:
        assert affine_shifts(first, [first * 2 + 1]) is None


@given(st.integers(2, 40), st.integers(1, 60), st.integers(1, 5), st.integers(40, 200), st.integers(1, 40))
def test_a_block_at_an_edge_moves_though_it_lacks_words(
    width: int, kept: int, height: int, pitch: int, shift: int
) -> None:
    rows: NDArray[np.int64] = pitch * np.arange(height)[:, None]
    whole = (rows + np.arange(width)).reshape(-1)
    right = (rows + shift + np.arange(min(kept, width))).reshape(-1)  # the last columns are missing
    assert affine_shifts(whole, [right]) == (shift,)
    assert affine_shifts(right, [whole]) == (-shift,)


def test_random_draws_fill_a_buffer_slowly() -> None:
    few, many = (random_union(10.0, (blocks,), 1000.0).sectors[-1] for blocks in (1, 1000))
    assert few == pytest.approx(10.0, rel=0.01)
    assert many == pytest.approx(1000.0, rel=0.01)
