"""Worker processes that do not run the user's script again, so that a script needs no ``if __name__ == "__main__"``."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any


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
def _apart_from_caller() -> Iterator[None]:
    """An empty ``__main__`` and a blocked Ctrl-C for as long as a process is started.

    A spawned process imports what it finds in ``__main__``, and inherits the signal mask: an interrupt is the caller's
    alone, who then ends the workers.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with interrupt_deferred():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        sys.modules["__main__"] = main


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        with _apart_from_caller():
            return SpawnProcess._Popen(process_obj)


class WorkerContext(SpawnContext):
    """Fresh interpreters, as ``spawn`` gives them, without the caller's main module.

    What is sent to them must be importable: classes defined in a script's main module are not.
    """

    Process = _Process
