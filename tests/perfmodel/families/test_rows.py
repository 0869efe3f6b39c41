"""The sums behind the closed forms against loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perfmodel.families.direct_conv2d.launch import reciprocal
from perfmodel.families.rows import clipped_floor_sum, row_loads, row_starts, runs_touched

small = st.integers(-40, 90)


@given(small, st.integers(1, 70), st.integers(0, 40), st.integers(0, 30), st.integers(0, 60), st.integers(0, 31))
def test_clipped_floor_sum(first: int, step: int, count: int, low: int, extent: int, offset: int) -> None:
    high = low + extent
    for divisor in (8, 32):
        walked = sum((min(max(first + s * step, low), high) + offset) // divisor for s in range(count))
        assert clipped_floor_sum(first, step, count, (low, high), offset, divisor) == walked


@given(st.integers(-20, 5), st.integers(1, 12), st.integers(1, 40), st.integers(0, 12), st.integers(1, 70))
def test_row_loads(first: int, step: int, rows: int, count: int, height: int) -> None:
    walked = np.zeros(32, int)
    for strip in range(count):
        for row in range(first + strip * step, first + strip * step + rows):
            if 0 <= row < height:
                walked[row % 32] += 1
    np.testing.assert_array_equal(row_loads(first, step, rows, count, height), walked)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 80))
def test_row_starts(width: int, height: int, planes: int) -> None:
    once = row_loads(0, 1, 1, height, height)
    walked = np.bincount(np.arange(planes * height) * width % 32, minlength=32)
    np.testing.assert_array_equal(row_starts(once, width, height, planes), walked)


@given(
    st.lists(st.integers(-40, 60), min_size=1, max_size=3),
    st.sampled_from([1, 2]),
    st.integers(1, 32),
    st.integers(0, 4),
    st.integers(1, 200),
)
def test_runs_touched(firsts: list[int], spacing: int, lanes: int, warps: int, width: int) -> None:
    for segment in (8, 32):
        requests, touched = runs_touched(np.array(firsts), spacing, lanes, warps, width, segment)
        for load, first in enumerate(firsts):
            loaded = [
                [x for t in range(lanes) if 0 <= (x := first + (32 * warp + t) * spacing) < width]
                for warp in range(warps)
            ]
            assert requests[load] == sum(1 for elements in loaded if elements)
            for start in range(32):
                segments = sum(len({(start + x) // segment for x in elements}) for elements in loaded)
                assert touched[start, load] == segments


@given(st.integers(1, 2**26), st.integers(0, 2**31 - 1))
def test_reciprocal_divides(divisor: int, number: int) -> None:
    multiplier, shift = reciprocal(divisor)
    assert multiplier < 2**32
    for dividend in (number, number // divisor * divisor, max(number // divisor * divisor - 1, 0), 2**31 - 1):
        assert dividend * multiplier >> shift == dividend // divisor
