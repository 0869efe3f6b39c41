"""Worker processes that do not run the user's script again, so that a script needs no ``if __name__ == "__main__"``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from types import ModuleType
from typing import Any


@contextmanager
def _main_hidden() -> Iterator[None]:
    """An empty ``__main__`` for as long as a process is started: a spawned one imports what it finds there."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


class _Process(SpawnProcess):
    @staticmethod
    def _Popen(process_obj: Any) -> Any:  # noqa: N802 - the name is multiprocessing's
        with _main_hidden():
            return SpawnProcess._Popen(process_obj)


class WorkerContext(SpawnContext):
    """Fresh interpreters, as ``spawn`` gives them, without the caller's main module.

    What is sent to them must be importable: classes defined in a script's main module are not.
    """

    Process = _Process
