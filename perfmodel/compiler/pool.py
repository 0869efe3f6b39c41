"""Many compiles side by side, each with a time limit; a failed one is a value, not an exception."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError

from ..errors import CompileError
from .compiled import CompiledKernel, compile_kernel
from .request import CompileRequest
from .toolchain import nvrtc, ptxas_path

DEFAULT_TIME_LIMIT_S = 120.0

Job = tuple[CompileRequest, str]
"""A request and the architecture to compile it for."""


def compile_many(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    advance: Callable[[], None] = lambda: None,
) -> list[CompiledKernel | CompileError]:
    """Compile every job, in order of the list; ``advance`` is called as each one ends.

    Jobs that share a front-end run should stand next to each other. What is in the disk cache costs no process.
    Interrupting (Ctrl-C) ends the workers; everything that was finished stays in the disk cache.
    """
    from pebble import ProcessPool

    if not jobs:
        return []
    nvrtc(), ptxas_path()
    workers = workers or min(os.cpu_count() or 1, len(jobs))
    context = multiprocessing.get_context("spawn")
    results: list[CompiledKernel | CompileError] = []
    with ProcessPool(max_workers=workers, context=context) as pool:
        futures = [pool.schedule(compile_kernel, args=job, timeout=time_limit_s) for job in jobs]
        try:
            for (request, architecture), future in zip(jobs, futures, strict=True):
                try:
                    results.append(future.result())
                except CompileError as error:
                    results.append(error)
                except FutureTimeoutError:
                    results.append(
                        CompileError(f"{request.file_name} for {architecture}: not compiled within {time_limit_s:g} s")
                    )
                advance()
        except BaseException:
            pool.stop()  # type: ignore[no-untyped-call]
            raise
    return results
