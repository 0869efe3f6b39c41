"""Every class of instructions: PTX and machine code give the same results on drawn inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from .differential import ARCHITECTURES, elementwise, outputs

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


INTEGERS = {
    "sums": "r = x + y - 3 * (x ^ y); r += (x & ~y) | (y & 0xff00ff) | (x << 3);",
    "products": "r = x * y + __umulhi(x, y) + __mulhi((int)x, (int)y) + (unsigned)((long long)(int)x * (int)y >> 13);",
    "shifts": "r = (x << (y & 31)) + (y >> (x & 31)) + ((int)x >> (y & 31)) + __funnelshift_l(x, y, x) "
    "+ __funnelshift_r(x, y, y) + __funnelshift_lc(x, y, y & 63);",
    "bytes": "r = __byte_perm(x, y, x) + __byte_perm(x, y, 0x5140) + __brev(x) + __popc(x) + __clz(y) * 7 + __ffs(x);",
    "quotients": "r = x / (y | 1) + x % (y | 1) + (unsigned)((int)x / ((int)y | 1)) + (unsigned)((int)x % ((int)y | 1));",
    "comparisons": "r = (x < y) + 2 * (x == y) + 4 * ((int)x > (int)y) + 8 * (x >= 17u && y != 5u) "
    "+ (x > y ? x : y) + min((int)x, (int)y) + max(min(x, y), 9u);",
    "wide": "unsigned long long w = ((unsigned long long)x << 32 | y) * 3 + 7 * (unsigned long long)x; w -= y; "
    "w ^= w >> 17; r = (unsigned)(w >> 32) + (unsigned)w + (w > 99999999999ull) + ((long long)w < 0) + __popcll(w);",
    "dots": "r = __dp4a((int)x, (int)y, 5) + __dp4a(x, y, 7u) + __sad((int)x, (int)y, 3u) + __usad(x, y, 1u);",
    "fields": 'asm("bfe.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y & 31), "r"(y >> 5 & 31)); unsigned s; '
    'asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(s) : "r"(x), "r"(y), "r"(x & 31), "r"(x >> 5 & 31)); r += s;',
    "predicates": "bool p = x & 1, q = y & 2, s = (x ^ y) & 4, t = x > y; "
    "r = (p && (q || s)) + 2 * (p ^ q ^ s) + 4 * ((p | t) & !(q & s)) + 8 * (t == (q || !p));",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", INTEGERS)
@given(a=words(32), b=words(32))
@_CHOSEN
def test_integers(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    expected, actual = outputs(elementwise(INTEGERS[name]), architecture, a, b)
    np.testing.assert_array_equal(actual, expected)


LONG_INTEGERS = {
    "quotients": "r = x / (y | 1) + x % (y | 1) + (unsigned long long)((long long)x / ((long long)y | 1));",
    "products": "r = x * y + __umul64hi(x, y) + (unsigned long long)__mul64hi((long long)x, (long long)y);",
    "shifts": "r = (x << (y & 63)) ^ (y >> (x & 63)) ^ (unsigned long long)((long long)x >> (y & 63)); r += __brevll(x);",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", LONG_INTEGERS)
@given(a=words(64), b=words(64))
@_CHOSEN
def test_integers_of_64_bits(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    source = elementwise(LONG_INTEGERS[name], element="unsigned long long")
    expected, actual = outputs(source, architecture, a, b)
    np.testing.assert_array_equal(actual, expected)


# A product of halves that is added is rounded by name (_rn): ptxas may fuse what PTX states without a rounding.
SINGLES = {
    "sums": "r = x + y - x * 3.0f + fmaf(x, y, -2.5f) + fabsf(y) * x;",
    "comparisons": "r = (x < y) + 2 * (x >= y) + 4 * (x == y) + 8 * (x != y) + 16 * !(x > y) + 32 * isnan(x) "
    "+ fminf(x, y) * (fabsf(x) < 1e30f) + (x > 0 ? 64 : 128);",
    "quotients": "r = x / y;",
    "reciprocals": "r = 1.0f / x + __frcp_rn(y);",
    "roots": "r = sqrtf(fabsf(x));",
    "directed": "r = __fadd_rz(x, y) + __fmul_ru(x, y) + __fmaf_rd(x, y, 1.0f);",
    "saturated": "r = __saturatef(x) + __saturatef(x * y + 0.25f);",
    "rounded": "r = rintf(x) + floorf(y) + ceilf(x * 0.5f) + truncf(y * 0.25f);",
    "converted": "r = (float)(int)x + (float)(unsigned)y + (float)__float2int_rd(x) + (float)(long long)y + (float)(double)x "
    "+ (float)(unsigned char)(int)fminf(fmaxf(x, 0.0f), 255.0f);",
    "halves": "__half2 h = __floats2half2_rn(x, y); h = __hfma2(h, __floats2half2_rn(2.0f, 0.5f), h); "
    "h = __hadd2(h, __hmul2_rn(h, h)); r = __low2float(h) + __high2float(h) + __half2float(__float2half_rz(x));",
    "half comparisons": "__half p = __float2half(x), q = __float2half(y); r = __hgt(p, q) + 2 * __hle(p, q) "
    "+ 4 * __heq(p, q) + __half2float(__float2half((float)__half2int_rn(p)));",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", SINGLES)
@given(a=floats(32), b=floats(32))
@_CHOSEN
def test_single_precision(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    expected, actual = outputs(elementwise(SINGLES[name], element="float"), architecture, a, b)
    np.testing.assert_array_equal(actual, expected)


DOUBLES = {
    "sums": "r = x + y - x * 3.0 + fma(x, y, -2.5);",
    "comparisons": "r = (x < y) + 2 * (x >= y) + 4 * (x != y) + fmin(x, y) + fmax(x, 1.0) + (x > 0 ? 64 : 128);",
    "quotients": "r = x / y + sqrt(fabs(x));",
    "converted": "r = (double)(int)x + (double)(float)y + rint(x) + (double)(long long)(y * 3.0) + floor(y);",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", DOUBLES)
@given(a=floats(64, special=False), b=floats(64, special=False))
@_CHOSEN
def test_double_precision(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    expected, actual = outputs(elementwise(DOUBLES[name], element="double"), architecture, a, b)
    np.testing.assert_array_equal(actual, expected)


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
    "shuffles": "r = __shfl_xor_sync(~0u, x, 5) + __shfl_up_sync(~0u, y, 3) * 3 + __shfl_down_sync(~0u, x, 7, 16) * 5 "
    "+ __shfl_sync(~0u, y, x & 31) * 7;",
    "votes": "r = __ballot_sync(~0u, x & 1) + __any_sync(~0u, x > y) * 3 + __all_sync(~0u, x != y) * 5 "
    "+ __popc(__activemask());",
    "shared": "__shared__ unsigned s[64]; s[threadIdx.x] = x; __syncthreads(); r = s[63 - threadIdx.x] + s[y & 63]; "
    "__syncthreads(); atomicAdd(&s[x & 7], y); atomicMax(&s[8 + (y & 7)], x); __syncthreads(); r += s[threadIdx.x & 15];",
    "barrier reductions": "r = __syncthreads_count(x & 1) + __syncthreads_or(x == 3) * 1000 + __syncthreads_and(y != 5);",
    "vectors": "__shared__ uint4 s[64]; s[threadIdx.x] = make_uint4(x, y, x + y, x ^ y); __syncthreads(); "
    "uint4 v = s[threadIdx.x ^ 9]; uint2 w = ((uint2 *)s)[threadIdx.x]; r = v.x + v.y * 3 + v.z * 5 + v.w * 7 + w.x - w.y; "
    "r += ((unsigned char *)s)[threadIdx.x * 5] + ((short *)s)[threadIdx.x * 3];",
    "local": "unsigned t[8]; for (int k = 0; k < 8; k++) t[k] = x * k + y; t[x & 7] += y; r = t[y & 7] + t[(x + y) & 7];",
    "loops": "r = 0; for (unsigned k = 0; k < (x & 15); k++) { if (k == (y & 7)) continue; r += k * y; if (r > 99999) break; }",
    "returns": "if (x & 4) { out[i] = x; return; } r = y; while (r & 1) r >>= 1;",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", WARP)
@given(a=words(32), b=words(32))
@_CHOSEN
def test_warps_memory_and_control_flow(name: str, architecture: str, a: NDArray[Any], b: NDArray[Any]) -> None:
    a, b = np.resize(a, 64), np.resize(b, 64)
    expected, actual = outputs(elementwise(WARP[name]), architecture, a, b)
    np.testing.assert_array_equal(actual, expected)
