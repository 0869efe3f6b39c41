"""How many of thirty programs `perfmodel run` brings to their end: ``python -m benchmarks.programs --sources HECBENCH``.

The programs and their arguments stand in ``programs.toml``; the sources are a checkout of HeCBench. Each runs in a process of
its own, one after the other, and is ended after ``--seconds`` of processor time. The exit status is 1 if fewer than 25 end.
"""

from __future__ import annotations

import argparse
import json
import resource
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from perfmodel.cli.output import print_table

LEAST = 25
"""Programs that are to end."""
_FAILED = ("FAIL", "mismatch", "Mismatch", "INCORRECT")
"""What programs print that check themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a program ended: launches, processor time, and why it counts as failed; empty where it ended with status 0."""

    name: str
    launches: int
    processor_s: float
    reason: str


def outcome(name: str, arguments: str, sources: str, folder: Path, gpu: str, seconds: int) -> Outcome:
    """Run one program; without ``sources`` of all .cu files of its folder."""
    files = sources.split() or sorted(path.name for path in folder.glob("*.cu"))
    command = [sys.executable, "-m", "perfmodel", "run", *files, "--gpu", gpu, "--json", "--"]
    before = _processor_s()

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))

    run = subprocess.run(
        [*command, *shlex.split(arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        preexec_fn=limited,
    )
    spent = _processor_s() - before
    try:
        launches = sum(row["calls"] for row in json.loads(run.stdout)["launches"])
    except (ValueError, KeyError):
        launches = 0
    lines = [line for line in run.stderr.splitlines() if line.strip()]
    failed = next((line for line in lines if any(word in line for word in _FAILED)), "")
    reason = failed if run.returncode == 0 else (lines[-1] if lines else f"status {run.returncode}")
    return Outcome(name=name, launches=launches, processor_s=spent, reason=reason[:90])


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(words: Sequence[str] | None = None) -> int:
    """Run all programs, or those that are named, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.programs", description=__doc__)
    parser.add_argument("--sources", type=Path, required=True, help="a checkout of HeCBench")
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seconds", type=int, default=400, help="of processor time for each program")
    parser.add_argument("programs", nargs="*", help="names; without any those chosen by name")
    given = parser.parse_args(words)
    table = tomllib.loads((Path(__file__).parent / "programs.toml").read_text())
    known, sources = table["arguments"] | table["drawn"], table["sources"]
    names = given.programs or list(table["arguments"])
    found = []
    for name in names:
        folder = given.sources / "src" / f"{name}-cuda"
        found.append(outcome(name, known.get(name, ""), sources.get(name, ""), folder, given.gpu, given.seconds))
        print(found[-1], file=sys.stderr, flush=True)
    rows = [(one.name, f"{one.launches:,}", f"{one.processor_s:.0f}", one.reason or "ends") for one in found]
    print_table("programs", ("program", "launches", "processor time, s", "outcome"), rows)
    ended = sum(not one.reason for one in found)
    print(f"{ended} of {len(found)} end with status 0 and without a failed check")
    return 0 if ended >= min(LEAST, len(found)) else 1


if __name__ == "__main__":
    sys.exit(main())
