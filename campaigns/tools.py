"""NVIDIA's command-line tools around a program: Nsight Compute for counters, compute-sanitizer for faults."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from perfmodel.errors import InputError

from .metrics import ACTIVITY_METRICS, COLLECTED_METRICS
from .nsight_csv import ProfiledLaunch, parse_nsight_csv

SANITIZER_ERROR_STATUS = 97
OUTPUT_CHARACTERS = 300


class SanitizerTool(Enum):
    """What compute-sanitizer looks for."""

    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRun:
    """How a tool ended: its exit status (None when it was stopped at its time limit) and what it printed."""

    status: int | None
    output: str

    @property
    def last_line(self) -> str:
        """The last line that was printed, as an explanation."""
        lines = self.output.strip().splitlines()
        return lines[-1][:OUTPUT_CHARACTERS] if lines else ""


def find_tool(name: str) -> str | None:
    """Path of a tool on the search path or in the CUDA toolkit's usual folder, None where it is not installed."""
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(name) or shutil.which(name, path=str(Path(home) / "bin"))


def require_tool(name: str, called: str) -> str:
    """Path of a tool; InputError where it is not installed."""
    found = find_tool(name)
    if found is None:
        raise InputError(f"{called} was found neither on the search path nor in CUDA_HOME/bin")
    return found


def run_tool(command: Sequence[str], time_limit_s: float) -> ToolRun:
    """Run a tool in the C locale, so that numbers are printed the same everywhere.

    At the limit all that it has started is ended with it: a profiler's target that goes on keeps the next one waiting.
    """
    environment = {**os.environ, "LC_ALL": "C"}
    run = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    with run:
        try:
            output, errors = run.communicate(timeout=time_limit_s)
        except BaseException as error:
            os.killpg(run.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return ToolRun(status=None, output=f"stopped after {time_limit_s:g} s")
            raise
    return ToolRun(status=run.returncode, output=output + errors)


def target_command(folder: Path, indices: Sequence[int], seed: int) -> list[str]:
    """The program to be watched: it launches these kernels of the folder's plan, each once, in this order."""
    module = f"{__package__}.profile_target"
    return [sys.executable, "-m", module, str(folder), ",".join(map(str, indices)), str(seed)]


def nsight_command(ncu: str, target: Sequence[str], kernel_names: Iterable[str], more: Sequence[str] = ()) -> list[str]:
    """Nsight Compute around a program: the metrics that counts are made from and ``more``, for the named kernels, as CSV.

    Caches are flushed before each pass, which is the cold state; clocks are left as they are.
    """
    names = "|".join(sorted(set(kernel_names)))
    return [
        ncu,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--print-metric-instances",
        "details",
        "--cache-control",
        "all",
        "--clock-control",
        "none",
        "--kernel-name-base",
        "mangled",
        "--kernel-name",
        f"regex:^({names})$",
        "--metrics",
        ",".join((*COLLECTED_METRICS, *ACTIVITY_METRICS, *more)),
        *target,
    ]


def import_counters(path: Path, time_limit_s: float = 300.0) -> tuple[ProfiledLaunch, ...]:
    """The launches of a counter file made elsewhere: CSV as ``ncu --csv`` prints it, or a ``.ncu-rep`` report.

    Raises:
        InputError: The file is neither, or a report is given and ``ncu`` is not installed.
    """
    if path.suffix != ".ncu-rep":
        from perfmodel.core.files import read_text

        return parse_nsight_csv(path, read_text(path))
    if not path.exists():
        raise InputError(f"{path}: cannot be read: No such file or directory")
    ncu = find_tool("ncu")
    if ncu is None:
        raise InputError(f"{path}: reading a report needs Nsight Compute (ncu); export it with `ncu --import … --csv`")
    command = [ncu, "--import", str(path), "--csv", "--page", "raw", "--print-units", "base"]
    run = run_tool(command, time_limit_s)
    if run.status != 0:
        raise InputError(f"{path}: ncu cannot import it: {run.last_line}")
    return parse_nsight_csv(path, run.output)


def sanitizer_command(sanitizer: str, tool: SanitizerTool, target: Sequence[str]) -> list[str]:
    """compute-sanitizer around a program; its exit status is ``SANITIZER_ERROR_STATUS`` where it found anything."""
    options = ["--tool", tool.value, "--error-exitcode", str(SANITIZER_ERROR_STATUS)]
    return [sanitizer, *options, *target]
