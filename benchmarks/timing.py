"""Seconds of calls and of the whole program."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

Row = tuple[str, str, str]
"""What was measured, the result, what is wanted."""


def seconds_of(function: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def program_seconds(*arguments: str, cache: Path | None = None) -> float:
    """Wall-clock seconds of the whole program, its output thrown away."""
    environment = dict(os.environ) | ({"PERFMODEL_CACHE": str(cache)} if cache else {})
    command = [sys.executable, "-m", "perfmodel", *arguments]
    return seconds_of(lambda: subprocess.run(command, check=True, capture_output=True, env=environment))


def processor_seconds_of_children() -> float:
    """Processor time of all programs that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
