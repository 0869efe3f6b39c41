"""How many launches of others' kernels ``perfmodel analyze`` answers: ``python -m benchmarks.launches FILE --sources DIR``.

Each line of FILE is one launch as a JSON object: ``id``, ``source`` (below DIR), ``kernel``, ``grid``, ``block``, ``shared``,
``args`` (as ``--arg``), and where it has them ``defines``, ``include`` and ``options``. A launch with ``workaround`` repeats
another one and is left out. Each is given to ``analyze`` as a user types it, in a process of its own, and ended after
``--seconds`` of processor time. A status of 1 means that the kernel was executed and something is wrong with its source. The exit
status is 1 if one is not answered.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from perfmodel.cli.output import print_table

ANSWERED = (0, 1)


def words_of(launch: Mapping[str, Any], sources: Path, gpu: str) -> list[str]:
    """The launch as options of ``analyze``.

    >>> launch = {"source": "k.cu", "kernel": "k", "grid": [8, 1, 1], "block": [32, 1, 1], "shared": 0, "args": ["f32[256]"]}
    >>> " ".join(words_of(launch, Path("src"), "h200"))
    'analyze src/k.cu --gpu h200 --kernel k --grid 8,1,1 --block 32,1,1 --shared 0 --arg f32[256]'
    """
    shape = (("--grid", launch["grid"]), ("--block", launch["block"]))
    words = ["analyze", str(sources / launch["source"]), "--gpu", gpu, "--kernel", launch["kernel"]]
    words += [word for name, extents in shape for word in (name, ",".join(map(str, extents)))]
    words += ["--shared", str(launch["shared"])]
    words += [word for value in launch["args"] for word in ("--arg", value)]
    words += [word for name, value in (launch.get("defines") or {}).items() for word in ("--define", f"{name}={value}")]
    words += [word for folder in launch.get("include") or () for word in ("--include", str(sources / folder))]
    return words + [word for option in launch.get("options") or () for word in ("--compiler-option", option)]


def main(words: Sequence[str] | None = None) -> int:
    """Analyse all launches, or those that are named, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.launches", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--sources", type=Path, required=True)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--seconds", type=int, default=120, help="of processor time for each launch")
    parser.add_argument("--only", nargs="+", default=(), metavar="ID", help="some of the launches")
    given = parser.parse_args(words)
    launches = [json.loads(line) for line in given.file.read_text().splitlines()]
    rows, answered = [], 0
    for launch in launches:
        if launch.get("workaround") or (given.only and launch["id"] not in given.only):
            continue
        before = _processor_s()
        run = subprocess.run(
            [sys.executable, "-m", "perfmodel", *words_of(launch, given.sources, given.gpu)],
            cwd=given.file.parent,
            capture_output=True,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (given.seconds, given.seconds + 5)),
        )
        answered += run.returncode in ANSWERED and "Traceback" not in run.stderr
        said = run.stderr.strip().splitlines()[-1:] or ["answered"]
        rows.append((launch["id"], str(run.returncode), f"{_processor_s() - before:.0f}", said[0][:110]))
        print(*rows[-1], file=sys.stderr, flush=True)
    print_table("launches", ("launch", "status", "processor time, s", "outcome"), rows)
    print(f"{answered} of {len(rows)} are answered")
    return 0 if answered == len(rows) else 1


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    sys.exit(main())
