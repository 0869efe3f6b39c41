"""Many jobs side by side in processes of their own, each with a time limit; a failed one is a value, not an exception."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ..core.kept import note_kept
from ..errors import CompileError, PerfmodelError
from . import disk_cache
from .compiled import CompiledKernel, compile_kernel
from .request import CompileRequest
from .toolchain import nvrtc, ptxas_path
from .workers import ending, in_worker, interrupt_deferred, kept_pool, stop_pools

DEFAULT_TIME_LIMIT_S = 120.0
"""Processor time of a job, in seconds."""
_LEAST_SHARE = 0.02
"""A job gets at least this part of a processor; one that does not waits for something that will not come."""

Job = tuple[CompileRequest, str]
"""A request and the architecture to compile it for."""

ResultT = TypeVar("ResultT")


def warm_up(module: str, workers: int | None = None) -> None:
    """Let the worker processes start and import what later jobs need, while the caller does something else."""
    number = workers or os.cpu_count() or 1
    if not in_worker():
        with interrupt_deferred():
            for _ in range(number):
                kept_pool(number).schedule(import_module, args=(module,))


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

    A job that raises a ``PerfmodelError``, takes more processor time than ``time_limit_s`` or fifty times as long by the clock,
    or kills its process gives an error as its result: what succeeds does not depend on what else the machine does. A single
    job runs here, without a process or time limit, and so do all jobs where this is a worker process itself. The processes are
    kept for later calls. Interrupting (Ctrl-C) ends them; what the disk cache got stays.
    """
    results: list[ResultT | PerfmodelError] = []
    if len(jobs) < 2 or in_worker():
        for job in jobs:
            results.append(_result(function, *job))
            advance()
        return results
    from pebble import ProcessExpired

    pool, place = kept_pool(workers or os.cpu_count() or 1), (Path.cwd(), disk_cache.cache_directory())
    try:
        with interrupt_deferred():
            futures = [
                pool.schedule(
                    _in_worker, args=(place, time_limit_s, function, *job), timeout=time_limit_s / _LEAST_SHARE
                )
                for job in jobs
            ]
        for job, future in zip(jobs, futures, strict=True):
            try:
                result, trouble = future.result()
                disk_cache.report_trouble(trouble)
                if not trouble:
                    note_kept()
                results.append(result)
            except FutureTimeoutError:
                results.append(CompileError(f"{describe(*job)}: not finished within {time_limit_s / _LEAST_SHARE:g} s"))
            except ProcessExpired as error:
                status = int(error.exitcode)
                late = f"not finished within {time_limit_s:g} s of processor time"
                how = late if status == -signal.SIGPROF else f"its process ended with {ending(status)}"
                results.append(CompileError(f"{describe(*job)}: {how}"))
            advance()
    except BaseException:
        stop_pools()
        raise
    return results


def _result(function: Callable[..., ResultT], *job: Any) -> ResultT | PerfmodelError:
    try:
        return function(*job)
    except PerfmodelError as error:
        return error


def _in_worker(
    place: tuple[Path, Path], time_limit_s: float, function: Callable[..., ResultT], *job: Any
) -> tuple[ResultT | PerfmodelError, str]:
    """The result or the error of a job, and why the worker could not keep something in the disk cache.

    ``place``: the working directory and the cache folder of the caller, who may have changed them since the worker started.
    """
    folder, cached = place
    os.chdir(folder)
    os.environ["PERFMODEL_CACHE"] = str(cached)
    signal.setitimer(signal.ITIMER_PROF, time_limit_s)  # its signal ends the process
    try:
        return _result(function, *job), disk_cache.trouble()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


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
