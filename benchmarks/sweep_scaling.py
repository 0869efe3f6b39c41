"""How a sweep scales: one worker beside two measured, more simulated: ``python -m benchmarks.sweep_scaling [--problems 40]``.

Two sweeps of the same tasks run at the same time, one with one worker, one with two, each from an empty cache. The measured
speed-up is the ratio of what they finish in the time in which both work: on a machine that others use, too, runs one after the
other would compare different loads.

The simulation draws 2,000 tasks from the durations of the single worker, and hands them in their order to whichever worker is
free first, as Dask's scheduler does with tasks that depend on nothing. What the process that keeps results does for each
(measured), and a millisecond for the scheduler, happens one after the other. It takes a task to last as long on one worker of
many as on one alone, and all workers to be there from the start.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq

from perfmodel.cli.output import print_table
from perfmodel.core.units import time_text
from perfmodel.sweeps.results import ResultFile

from .__main__ import machine

WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DRAWN_TASKS = 2000
SCHEDULER_S = 1e-3
"""The scheduler's own work for a task, as Dask's manual has it."""


def simulated_seconds(task_seconds: Sequence[float], client_s: float, workers: int) -> float:
    """How long workers need for tasks in this order, with so much work for each that is done one after the other.

    >>> simulated_seconds([3.0, 1.0, 1.0, 1.0], 0.0, 2)
    3.0
    >>> simulated_seconds([1.0, 1.0], 0.25, 2)  # both end at 1; then each is kept
    1.5
    """
    free = [0.0] * workers
    ends = []
    for seconds in task_seconds:
        ends.append(heapq.heappop(free) + seconds)
        heapq.heappush(free, ends[-1])
    done = 0.0
    for end in sorted(ends):
        done = max(done, end) + client_s
    return done


def started(folder: Path, workers: int) -> tuple[subprocess.Popen[bytes], ResultFile]:
    """A sweep of ``folder/sweep.toml`` from an empty cache."""
    output = folder / f"found-{workers}.parquet"
    command = [
        sys.executable,
        "-m",
        "perfmodel",
        "sweep",
        "sweep.toml",
        "--output",
        output.name,
        "--workers",
        str(workers),
    ]
    environment = os.environ | {"PERFMODEL_CACHE": str(folder / f"cache-{workers}")}
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=quiet, stderr=quiet), ResultFile(path=output)


def side_by_side(folder: Path, tasks: int) -> tuple[float, list[float], float]:
    """Speed-up of two workers; durations of tasks on a single one; how long it takes to keep a result."""
    (first, alone), (second, both) = started(folder, 1), started(folder, 2)
    counts: list[tuple[int, int]] = []
    while second.poll() is None and (not counts or counts[-1][1] < tasks - 1):
        now = len(alone.part_keys()), len(both.part_keys())
        counts += [now] if min(now) > 0 else []
        time.sleep(0.05)
    (alone_before, both_before), (alone_after, both_after) = counts[0], counts[-1]
    parts = sorted(alone.parts.glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    ends = [path.stat().st_mtime_ns * 1e-9 for path in parts]
    tables = [pq.read_table(path) for path in parts]
    for process in (first, second):
        process.terminate()
        process.wait()
    again = ResultFile(path=folder / "again.parquet")
    again.parts.mkdir()
    begin = time.perf_counter()
    for number, table in enumerate(tables):
        again.keep(str(number), table)
    keeping_s = (time.perf_counter() - begin) / len(tables)
    speed_up = (both_after - both_before) / (alone_after - alone_before)
    return speed_up, [later - earlier for earlier, later in pairwise(ends)], keeping_s


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", type=int, default=40, help="each is compiled and executed in two configurations")
    count = parser.parse_args().problems
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lengths = json.dumps([33 + 2 * place for place in range(count)])
        (folder / "sweep.toml").write_text(
            f'gpus = ["a100-sxm-80gb"]\nbest = 2\n[[kernel]]\nfamily = "conv1d"\nproblem = {{ length = {lengths} }}\n'
        )
        speed_up, task_seconds, keeping_s = side_by_side(folder, count)
    drawn = random.Random(0).choices(task_seconds, k=DRAWN_TASKS)
    one = simulated_seconds(drawn, keeping_s + SCHEDULER_S, 1)
    rows = [
        (workers, f"{speed_up:.2f}" if workers == 2 else "–", time_text(taken), f"{one / taken:.1f}")
        for workers in WORKERS
        for taken in [simulated_seconds(drawn, keeping_s + SCHEDULER_S, workers)]
    ]
    print(f"{machine()}, load {os.getloadavg()[0]:.1f}")
    print(
        f"{len(task_seconds)} tasks of {time_text(min(task_seconds))} … {time_text(max(task_seconds))} on one worker; "
        f"{time_text(keeping_s)} to keep a result"
    )
    print_table("", ("workers", "measured speed-up", f"{DRAWN_TASKS:,} tasks, simulated", "speed-up"), rows, 0)


if __name__ == "__main__":
    main()
