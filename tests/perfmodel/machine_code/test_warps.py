"""Functions, warps, memory and control flow: PTX and machine code give the same results on drawn inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, Launch

from .differential import ARCHITECTURES, THREADS, elementwise, outputs, run_machine_code

pytestmark = pytest.mark.compiler

_WORDS = [0, 1, 2, 3, 31, 32, 33, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, 1e-3, 1e10, -1e10, 1e-30, 3.4e38, 1e-40, np.inf, -np.inf, np.nan]
_CHOSEN = settings(
    max_examples=2, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def words(bits: int) -> st.SearchStrategy[NDArray[Any]]:
    """Arrays of integers, the special ones among them."""
    integer = st.one_of(st.sampled_from(_WORDS), st.integers(0, 2**bits - 1))
    dtype = np.uint32 if bits == 32 else np.uint64
    return st.lists(integer, min_size=48, max_size=48).map(lambda values: np.array(values, dtype))


def floats(width: int, special: bool = True) -> st.SearchStrategy[NDArray[Any]]:
    """Arrays of floats."""
    dtype = np.float32 if width == 32 else np.float64
    drawn = st.floats(width=width, allow_nan=special, allow_infinity=special)  # type: ignore[arg-type]
    values = st.one_of(st.sampled_from(_FLOATS), drawn) if special else st.floats(-100, 100, width=width)  # type: ignore[arg-type]
    return st.lists(values, min_size=48, max_size=48).map(lambda drawn_values: np.array(drawn_values).astype(dtype))


APPROXIMATE = {
    "exponential": "r = expf(x * 0.1f) + exp2f(y * 0.05f) + __expf(x * 0.01f);",
    "logarithm": "r = logf(fabsf(x) + 1.0f) + log2f(fabsf(y) + 0.5f) + powf(fabsf(x) + 0.1f, 0.3f);",
    "circle": "r = sinf(x) + cosf(y) + __sinf(x * 0.01f) + tanhf(y * 0.1f);",
    "roots": "r = rsqrtf(fabsf(x) + 0.1f) + cbrtf(y) + erff(x * 0.1f);",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", APPROXIMATE)
@given(a=floats(32, special=False), b=floats(32, special=False))
@_CHOSEN
def test_special_functions_within_their_allowance(
    name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]
) -> None:
    expected, actual = outputs(elementwise(APPROXIMATE[name], element="float"), architecture, a, b)
    np.testing.assert_allclose(actual, expected, rtol=2e-6, atol=1e-6)


WARP = {
    "shared": "__shared__ unsigned s[64]; s[threadIdx.x] = x; __syncthreads(); r = s[63 - threadIdx.x] + s[y & 63]; "
    "__syncthreads(); atomicAdd(&s[x & 7], y); atomicMax(&s[8 + (y & 7)], x); __syncthreads(); r += s[threadIdx.x & 15];",
    "vectors": "__shared__ uint4 s[64]; s[threadIdx.x] = make_uint4(x, y, x + y, x ^ y); __syncthreads(); "
    "uint4 v = s[threadIdx.x ^ 9]; uint2 w = ((uint2 *)s)[threadIdx.x]; r = v.x + v.y * 3 + v.z * 5 + v.w * 7 + w.x - w.y; "
    "r += ((unsigned char *)s)[threadIdx.x * 5] + ((short *)s)[threadIdx.x * 3];",
    "local": "unsigned t[8]; for (int k = 0; k < 8; k++) t[k] = x * k + y; t[x & 7] += y; r = t[y & 7] + t[(x + y) & 7];",
    "loops": "r = 0; for (unsigned k = 0; k < (x & 15); k++) { if (k == (y & 7)) continue; r += k * y; if (r > 99999) break; }",
    "returns": "if (x & 4) { out[i] = x; return; } r = y; while (r & 1) r >>= 1;",
}


def assert_as_in_ptx(text: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    """Two warps of machine code give what their PTX gives."""
    expected, actual = outputs(elementwise(text), architecture, np.resize(a, 64), np.resize(b, 64))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", WARP)
@given(a=words(32), b=words(32))
@_CHOSEN
def test_warps_memory_and_control_flow(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    assert_as_in_ptx(WARP[name], architecture, a, b)


PARTS = {
    "choices": "bool p, q; r = __vibmax_s16x2(x, y, &p, &q); r = p ? r * 3 : r; r = q ? r * 5 + 1 : r; "
    "r += __viaddmax_s16x2_relu(x, y, 77) + __vimax3_s16x2(x, y, 0x00030005) + __viaddmin_u16x2(x, y, 3) "
    "+ __vimin3_u32(x, y, 3) + __vimax3_s32_relu(x, y, -3) + __vimin_s16x2_relu(x, y);",
    "bytes": "r = __vadd4(x, y) + 3 * __vsub4(x, y) + 5 * __vabsdiffs4(x, y) + 7 * __vmaxs4(x, y) + 9 * __vcmpeq4(x, y) "
    "+ 11 * __vavgu4(x, y) + 13 * __vsadu4(x, y) + 15 * __vabs4(x) + 17 * __vneg4(y) + 19 * __vminu4(x, y);",
    "halves": "r = __vaddss2(x, y) + 3 * __vaddus4(x, y) + 5 * __vsubus4(x, y) + 7 * __vsetltu4(x, y) + 9 * __vseteq2(x, y) "
    "+ 11 * __vabsss2(x) + 13 * __vsads2(x, y) + 15 * __vadd2(x, y) + 17 * __vsub2(x, y);",
}


@pytest.mark.parametrize("architecture", ["sm_90", "sm_100", "sm_120"])
@pytest.mark.parametrize("name", PARTS)
@given(a=words(32), b=words(32))
@_CHOSEN
def test_parts_of_words_are_what_turing_makes_of_plain_instructions(
    name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]
) -> None:
    a, b = np.resize(a, THREADS), np.resize(b, THREADS)
    parameters = [
        Buffer(name="out", array=np.zeros_like(a), output=True),
        Buffer(name="a", array=a),
        Buffer(name="b", array=b),
    ]
    source, launch = elementwise(PARTS[name]), Launch(grid_x=1, block_x=THREADS)
    plain, packed = (
        run_machine_code(source, one, launch, parameters).outputs["out"] for one in ("sm_75", architecture)
    )
    np.testing.assert_array_equal(packed, plain)
