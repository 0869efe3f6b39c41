"""NVRTC in a process of its own: it crashes on some sources, which must not end the user's program."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import TypeVar

from ..errors import CompileError
from .front_end import Ptx, compile_to_ptx, errors_of_source
from .request import CompileRequest
from .workers import ending, in_worker, interrupt_deferred, kept_pool, stop_pools

TIME_LIMIT_S = 600.0

ResultT = TypeVar("ResultT")


def compile_apart(request: CompileRequest, virtual_architecture: str, time_limit_s: float = TIME_LIMIT_S) -> Ptx:
    """`compile_to_ptx` in another process, which is kept for later requests; its result and errors.

    In a worker process it runs at once: such a process has no children, and whoever started it learns how it ended.

    Raises:
        CompileError: also where the compiler crashes or takes longer than the limit.

    >>> source = 'extern "C" __global__ void k(float *x) { x[threadIdx.x] = 1.0f; }'
    >>> compile_apart(CompileRequest(source=source, kernel="k", file_name="k.cu"), "compute_60").kernel_name
    'k'
    """
    if in_worker():
        return compile_to_ptx(request, virtual_architecture)
    try:
        return _in_worker(compile_to_ptx, request, virtual_architecture, time_limit_s)
    except _CrashError as crash:
        text = f"{request.file_name}: the compiler NVRTC crashed ({crash}) at kernel {request.kernel!r}"
    try:
        found = _in_worker(errors_of_source, request, virtual_architecture, time_limit_s)
    except _CrashError:
        found = ""
    remedy = (
        f"correct this first: {found}"
        if found
        else "install g++, so that nvcc compiles the file and says what is wrong"
    )
    raise CompileError(f"{text}; {remedy}")


class _CrashError(Exception):
    """The compiler's process ended by itself; the text says how."""


def _in_worker(
    function: Callable[[CompileRequest, str], ResultT],
    request: CompileRequest,
    virtual_architecture: str,
    time_limit_s: float,
) -> ResultT:
    from pebble import ProcessExpired

    try:
        with interrupt_deferred():
            future = kept_pool(1).schedule(function, args=(request, virtual_architecture), timeout=time_limit_s)
        found: ResultT = future.result()
        return found
    except FutureTimeoutError:
        raise CompileError(f"{request.file_name}: not compiled within {time_limit_s:g} s") from None
    except ProcessExpired as error:
        raise _CrashError(ending(int(error.exitcode))) from None
    except KeyboardInterrupt:
        stop_pools()
        raise
