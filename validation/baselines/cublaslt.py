"""cuBLASLt by its C interface: of the algorithms that its heuristic lists for a matrix product, the one that takes least time.

PyTorch takes the heuristic's first. Names, numbers and the layout of structures are those of ``cublasLt.h`` (cuBLAS 12 and 13).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .interface import BaselineUnavailableError, Precision

LISTED_ALGORITHMS = 64
WORKSPACE_BYTES = 32 * 2**20
TRIALS = 5
COMPUTE_TYPES = {Precision.FP32: 68, Precision.TF32: 77}
"""CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F_FAST_TF32."""
CUDA_R_32F, CUDA_R_16F = 0, 2
TRANSPOSE_FIRST, TRANSPOSED = 3, 1
"""CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T."""
BATCH_COUNT, BATCH_STRIDE = 5, 6
"""CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET."""
MOST_WORKSPACE_BYTES = 1
"""CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES."""


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _Listed(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True, slots=True)
class _Lt:
    """The library with a handle."""

    functions: Any
    handle: ctypes.c_void_p

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; a status other than success is refused."""
        status = getattr(self.functions, name)(*arguments)
        if status != 0:
            raise BaselineUnavailableError(f"{name} returned status {status}")

    def made(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """What a function that creates a descriptor makes."""
        target = ctypes.c_void_p()
        self.call(name, ctypes.byref(target), *arguments)
        return target


@lru_cache(maxsize=1)
def _lt(cuda_major: str) -> _Lt:
    """The library that PyTorch has loaded, with a handle of its own."""
    try:
        functions = ctypes.CDLL(f"libcublasLt.so.{cuda_major}")
    except OSError as error:
        raise BaselineUnavailableError(f"cuBLASLt is not installed: {error}") from error
    handle = ctypes.c_void_p()
    lt = _Lt(functions, handle)
    lt.call("cublasLtCreate", ctypes.byref(handle))
    return lt


@dataclass(frozen=True, slots=True)
class _Product:
    """Descriptors of one matrix product, column by column: what row-major matrices are when read transposed."""

    lt: _Lt
    operation: ctypes.c_void_p
    first: ctypes.c_void_p
    second: ctypes.c_void_p
    result: ctypes.c_void_p

    def listed(self) -> list[_Listed]:
        """The algorithms that the heuristic lists, the most promising first."""
        lt = self.lt
        preference = lt.made("cublasLtMatmulPreferenceCreate")
        workspace = ctypes.c_uint64(WORKSPACE_BYTES)
        lt.call(
            "cublasLtMatmulPreferenceSetAttribute", preference, MOST_WORKSPACE_BYTES, ctypes.byref(workspace),
            ctypes.c_size_t(8),
        )  # fmt: skip
        results, count = (_Listed * LISTED_ALGORITHMS)(), ctypes.c_int()
        lt.call(
            "cublasLtMatmulAlgoGetHeuristic", lt.handle, self.operation, self.first, self.second, self.result,
            self.result, preference, LISTED_ALGORITHMS, results, ctypes.byref(count),
        )  # fmt: skip
        return [one for one in results[: count.value] if one.state == 0]

    def run(self, torch: Any, algorithm: _Algorithm, first: Any, second: Any, result: Any, workspace: Any) -> None:
        """Enqueue the product in PyTorch's current stream."""
        one, zero = ctypes.c_float(1.0), ctypes.c_float(0.0)
        pointers = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (first, second, result, workspace)]
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.lt.call(
            "cublasLtMatmul", self.lt.handle, self.operation, ctypes.byref(one), pointers[0], self.first, pointers[1],
            self.second, ctypes.byref(zero), pointers[2], self.result, pointers[2], self.result,
            ctypes.byref(algorithm), pointers[3], ctypes.c_size_t(WORKSPACE_BYTES), stream,
        )  # fmt: skip


def _layout(lt: _Lt, of_type: int, rows: int, columns: int, batch: int, stride: int) -> ctypes.c_void_p:
    layout = lt.made(
        "cublasLtMatrixLayoutCreate", of_type, ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows)
    )
    count, words = ctypes.c_int32(batch), ctypes.c_int64(stride)
    lt.call("cublasLtMatrixLayoutSetAttribute", layout, BATCH_COUNT, ctypes.byref(count), ctypes.c_size_t(4))
    lt.call("cublasLtMatrixLayoutSetAttribute", layout, BATCH_STRIDE, ctypes.byref(words), ctypes.c_size_t(8))
    return layout


def fastest_matmul(
    torch: Any,
    rows: int,
    columns: int,
    inner: int,
    precision: Precision,
    *,
    batch: int = 1,
    right_transposed: bool = False,
) -> Callable[[Any, Any], Any]:
    """A function that multiplies row-major matrices, left (rows × inner) and right (inner × columns), by the fastest algorithm.

    ``batch`` right matrices are each multiplied by the same left one; ``right_transposed``: the right one lies in memory as
    columns × inner. Which algorithm is fastest is found when the function is called first. All are of the left one's type; sums
    are FP32.

    Raises:
        BaselineUnavailableError: The library is not there or has no algorithm.
    """
    chosen: list[tuple[_Product, _Algorithm, Any]] = []

    def multiply(left: Any, right: Any) -> Any:
        result = torch.empty((batch, rows, columns), dtype=left.dtype, device=left.device)
        if not chosen:
            of_type = CUDA_R_16F if left.dtype == torch.float16 else CUDA_R_32F
            product = _described(torch, of_type, rows, columns, inner, precision, batch, right_transposed)
            workspace = torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device=left.device)
            chosen.append((product, _fastest(torch, product, right, left, result, workspace), workspace))
        product, algorithm, workspace = chosen[0]
        product.run(torch, algorithm, right, left, result, workspace)
        return result

    return multiply


def _described(
    torch: Any,
    of_type: int,
    rows: int,
    columns: int,
    inner: int,
    precision: Precision,
    batch: int,
    right_transposed: bool,
) -> _Product:
    """Column by column, the result (columns × rows) is the right matrix times the left one."""
    lt = _lt(str(torch.version.cuda).split(".")[0])
    operation = lt.made("cublasLtMatmulDescCreate", COMPUTE_TYPES[precision], CUDA_R_32F)
    if right_transposed:
        flag = ctypes.c_int32(TRANSPOSED)
        lt.call("cublasLtMatmulDescSetAttribute", operation, TRANSPOSE_FIRST, ctypes.byref(flag), ctypes.c_size_t(4))
    shape = (inner, columns) if right_transposed else (columns, inner)
    return _Product(
        lt,
        operation,
        _layout(lt, of_type, *shape, batch, inner * columns),
        _layout(lt, of_type, inner, rows, batch, 0),
        _layout(lt, of_type, columns, rows, batch, rows * columns),
    )


def _fastest(torch: Any, product: _Product, first: Any, second: Any, result: Any, workspace: Any) -> _Algorithm:
    """The listed algorithm with the least time of several runs in a row."""
    times: list[tuple[float, int]] = []
    listed = product.listed()
    for place, one in enumerate(listed):
        start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        try:
            product.run(torch, one.algorithm, first, second, result, workspace)
            start.record()
            for _ in range(TRIALS):
                product.run(torch, one.algorithm, first, second, result, workspace)
            stop.record()
        except BaselineUnavailableError:
            continue  # listed, and refused for these pointers
        stop.synchronize()
        times.append((start.elapsed_time(stop), place))
    if not times:
        raise BaselineUnavailableError("cuBLASLt's heuristic lists no algorithm that runs")
    fastest: _Algorithm = listed[min(times)[1]].algorithm
    return fastest
