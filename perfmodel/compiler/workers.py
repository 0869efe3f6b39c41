"""Worker processes, started once and kept; they do not run the user's script again.

So a script needs no ``if __name__ == "__main__"``.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..core.garbage import collect_rarely

if TYPE_CHECKING:
    from pebble import ProcessPool


def in_worker() -> bool:
    """Whether this process was started by another one to work for it; such a process starts none itself."""
    return multiprocessing.parent_process() is not None


def kept_pool(workers: int) -> ProcessPool:
    """The pool of that many processes. They start with its first job and end with this process."""
    return _pool(workers, os.getpid())


def stop_pools() -> None:
    """End all workers at once, whatever they do; the next job starts new ones."""
    for pool in _running:
        pool.stop()  # type: ignore[no-untyped-call]
        pool.join()
    _running.clear()
    _pool.cache_clear()


def ending(status: int) -> str:
    """How a process ended, from its exit status: the signal that ended it, or the status.

    >>> ending(-11), ending(3)
    ('SIGSEGV', 'status 3')
    """
    return signal.Signals(-status).name if status < 0 else f"status {status}"


_running: list[ProcessPool] = []


@cache
def _pool(workers: int, owner: int) -> ProcessPool:
    """A pool of the process ``owner``: a forked child of it has another number, and starts its own."""
    from pebble import ProcessPool

    pool = ProcessPool(max_workers=workers, context=WorkerContext(), initializer=_begin)
    if not _running:
        atexit.register(stop_pools)
    _running.append(pool)
    return pool


def _begin() -> None:
    collect_rarely()
    _end_with_parent()


def _end_with_parent() -> None:
    """End this worker, whatever it does, once the process that started it is gone: a killed one stops no pool."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


@contextmanager
def interrupt_deferred() -> Iterator[None]:
    """Ctrl-C is raised afterwards, not while half of a process or of a pool has been started.

    Blocking the signal is not enough: the system then hands it to another thread, and Python raises it in the main one.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pending: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: pending.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if pending:
            signal.raise_signal(signal.SIGINT)


@contextmanager
def main_module_hidden() -> Iterator[None]:
    """An empty ``__main__``: processes that are started meanwhile do not run the user's script again."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


@contextmanager
def apart_from_caller() -> Iterator[None]:
    """An empty ``__main__`` and a blocked Ctrl-C for as long as a process is started.

    A spawned process imports what it finds in ``__main__``, and inherits the signal mask: an interrupt is the caller's
    alone, who then ends the workers. The resource tracker, which unblocks the signal as it starts, is started before.
    """
    resource_tracker.ensure_running()
    with main_module_hidden():
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            with interrupt_deferred():
                yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        with apart_from_caller():
            return SpawnProcess._Popen(process_obj)


class WorkerContext(SpawnContext):
    """Fresh interpreters, as ``spawn`` gives them, without the caller's main module.

    What is sent to them must be importable: classes defined in a script's main module are not.
    """

    Process = _Process
