"""Jobs that a worker really executes: one that answers, and every way to lose the process."""

import atexit
import ctypes
import os
import sys
import time
from pathlib import Path

from perfmodel.validation.worker import Reply


def obey(job: str) -> Reply[str]:
    if job == "hang":
        time.sleep(3600)
    if job == "segfault":
        ctypes.string_at(0)
    if job == "raise":
        raise RuntimeError("the ninth plate is missing")
    if job == "exit":
        sys.exit(3)
    if job.startswith("at the end touch "):
        atexit.register(Path(job.removeprefix("at the end touch ")).touch)
    return Reply(result=f"{job} done by {os.getpid()}", healthy=job != "poison")


def fail_to_start() -> None:
    raise RuntimeError("nothing to start with")


def hang_at_start() -> None:
    time.sleep(3600)
