"""Ctrl-C ends the program wherever it strikes: also amid an import, where Python loses it or changes what it was."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN_AFTER_SECONDS = 0.01


@contextmanager
def interrupts_noted() -> Iterator[list[int]]:
    """A list that holds something once Ctrl-C was pressed; meanwhile no interrupt is lost.

    An extension module interrupted as it starts reports an error of its own, so that only the list tells what ended it.
    An interrupt in a callback (of a weak reference, say: each import has one) is printed and forgotten by Python, and
    is therefore raised once more. Python also remembers an interrupt in source text that ``exec`` runs, as
    ``dataclass`` does, and then ends the process by the signal, whatever status it returns: running any other text
    makes it forget.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)
        signal.default_int_handler(number, frame)

    def raise_again(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            threading.Timer(_AGAIN_AFTER_SECONDS, _thread.interrupt_main).start()
        else:
            report(lost)

    handler, report = signal.signal(signal.SIGINT, note), sys.unraisablehook
    sys.unraisablehook = raise_again
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, handler)
        sys.unraisablehook = report
        exec("")
