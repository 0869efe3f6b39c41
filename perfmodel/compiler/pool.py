"""Many jobs side by side in processes of their own, each with a time limit; a failed one is a value, not an exception."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from ..errors import CompileError, PerfmodelError
from . import disk_cache
from .compiled import CompiledKernel, compile_kernel
from .request import CompileRequest
from .toolchain import nvrtc, ptxas_path
from .workers import WorkerContext, interrupt_deferred

DEFAULT_TIME_LIMIT_S = 120.0

Job = tuple[CompileRequest, str]
"""A request and the architecture to compile it for."""

ResultT = TypeVar("ResultT")


class Runner(Protocol):
    """`run_many`, or the same with processes that are kept (`kept_processes`)."""

    def __call__(
        self,
        function: Callable[..., ResultT],
        jobs: Sequence[tuple[Any, ...]],
        *,
        describe: Callable[..., str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        advance: Callable[[], None] = lambda: None,
    ) -> list[ResultT | PerfmodelError]:
        """Results of all jobs, in order."""


def run_many(
    function: Callable[..., ResultT],
    jobs: Sequence[tuple[Any, ...]],
    *,
    describe: Callable[..., str],
    workers: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    advance: Callable[[], None] = lambda: None,
) -> list[ResultT | PerfmodelError]:
    """``function(*job)`` for every job in worker processes, in order; ``advance`` is called as each one ends.

    A job that raises a ``PerfmodelError``, takes too long or kills its process gives an error as its result. A single job
    runs here, without a process or time limit. Interrupting (Ctrl-C) ends the workers; what the disk cache got stays.
    """
    with kept_processes(workers or min(os.cpu_count() or 1, max(len(jobs), 1))) as run:
        return run(function, jobs, describe=describe, time_limit_s=time_limit_s, advance=advance)


@contextmanager
def kept_processes(workers: int | None = None) -> Iterator[Runner]:
    """Gives `run_many` with worker processes that start with the first call that needs any, and are kept for the next ones."""
    from pebble import ProcessExpired, ProcessPool

    pools: list[ProcessPool] = []

    def run(
        function: Callable[..., ResultT],
        jobs: Sequence[tuple[Any, ...]],
        *,
        describe: Callable[..., str],
        time_limit_s: float = DEFAULT_TIME_LIMIT_S,
        advance: Callable[[], None] = lambda: None,
    ) -> list[ResultT | PerfmodelError]:
        results: list[ResultT | PerfmodelError] = []
        if not jobs:
            return results
        if len(jobs) == 1 and not pools:
            try:
                results.append(function(*jobs[0]))
            except PerfmodelError as error:
                results.append(error)
            advance()
            return results
        if not pools:
            pools.append(ProcessPool(max_workers=workers or os.cpu_count() or 1, context=WorkerContext()))
        with interrupt_deferred():
            futures = [pools[0].schedule(_in_worker, args=(function, *job), timeout=time_limit_s) for job in jobs]
        for job, future in zip(jobs, futures, strict=True):
            try:
                result, trouble = future.result()
                disk_cache.report_trouble(trouble)
                results.append(result)
            except FutureTimeoutError:
                results.append(CompileError(f"{describe(*job)}: not finished within {time_limit_s:g} s"))
            except ProcessExpired as error:
                results.append(CompileError(f"{describe(*job)}: its process ended with status {error.exitcode}"))
            advance()
        return results

    try:
        yield run
    except BaseException:
        for pool in pools:
            pool.stop()  # type: ignore[no-untyped-call]
        raise
    finally:
        for pool in pools:
            pool.close()  # type: ignore[no-untyped-call]
            pool.join()


def _in_worker(function: Callable[..., ResultT], *job: Any) -> tuple[ResultT | PerfmodelError, str]:
    """The result or the error of a job, and why the worker could not keep something in the disk cache."""
    try:
        found: ResultT | PerfmodelError = function(*job)
    except PerfmodelError as error:
        found = error
    return found, disk_cache.trouble()


def compile_many(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    advance: Callable[[], None] = lambda: None,
) -> list[CompiledKernel | PerfmodelError]:
    """Compile every job, in order of the list; jobs that share a front-end run should stand next to each other.

    Raises ``CompilerMissingError`` at once where there is no compiler.
    """
    nvrtc(), ptxas_path()
    return run_many(
        compile_kernel,
        jobs,
        describe=lambda request, architecture: f"{request.file_name} for {architecture}",
        workers=workers,
        time_limit_s=time_limit_s,
        advance=advance,
    )
