"""Kill ``rank --space`` again and again while four of them share one cache: ``python -m benchmarks.cache_kills [--kills 100]``.

After each kill every entry that the cache held before must be there, byte by byte; in the end a ranking that is left alone must
print what it prints with a cache of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SOURCE = """
__global__ void scale(float *x) {
    for (int i = 0; i < UNROLL; ++i) x[(blockIdx.x * THREADS + threadIdx.x) * UNROLL + i] *= FACTOR;
}
"""
SPACE = """
kernel = "scale"
grid = "65536 // (THREADS * UNROLL)"
block = "THREADS"
arguments = ["f32[65536]"]
[tune]
THREADS = [{threads}]
UNROLL = [1]
FACTOR = ["{number}.5f"]
"""
_MOST_NEW_ENTRIES = 8
_LONGEST_WAIT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kills:
    """What became of the cache: processes killed, entries before the last kill, entries that were lost, same final output."""

    killed: int
    entries: int
    lost: int
    same: bool


def kill_rankings(
    folder: Path, *, kills: int, at_once: int = 4, threads: Sequence[int] = (32, 64, 96, 128, 192, 256), seed: int = 0
) -> Kills:
    """Let rankings share a cache in ``folder``, two and two the same one; kill one whenever they have kept a few entries more.

    How many more is drawn anew each time, and so is the one that is killed; another takes its place.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "scale.cu").write_text(SOURCE)
    shared, rng, killed, started, lost = folder / "shared", random.Random(seed), 0, 0, 0
    known: dict[str, str] = {}
    running: list[subprocess.Popen[str]] = []
    while killed < kills:
        while len(running) < at_once:
            running.append(start(folder, shared, _space(folder, started // 2, threads)))
            started += 1
        _wait_for(shared, len(known) + rng.randint(1, _MOST_NEW_ENTRIES), running)
        killed += ended(running.pop(rng.randrange(len(running))))
        now = entries(shared)
        lost += sum(now.get(key) != digest for key, digest in known.items())
        known = now
    for process in running:
        ended(process)
    space = _space(folder, 0, threads)
    outputs = {output(folder, cache, space) for cache in (shared, folder / "own")}
    return Kills(killed=killed, entries=len(known), lost=lost, same=len(outputs) == 1)


def _space(folder: Path, number: int, threads: Sequence[int]) -> Path:
    path = folder / f"space-{number}.toml"
    path.write_text(SPACE.format(threads=", ".join(map(str, threads)), number=number))
    return path


def _wait_for(cache: Path, count: int, running: Sequence[subprocess.Popen[str]]) -> None:
    """Until the cache holds so many entries, or one of the processes has ended by itself."""
    end = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < end and all(process.poll() is None for process in running):
        if (cache / "cache.db").exists() and _count(cache) >= count:
            return
        time.sleep(0.01)


def _count(cache: Path) -> int:
    """How many entries there are; none where the database is just being made."""
    try:
        with sqlite3.connect(f"file:{cache / 'cache.db'}?mode=ro", uri=True, timeout=10) as database:
            found: int = database.execute("SELECT COUNT(*) FROM Cache").fetchone()[0]
            return found
    except sqlite3.OperationalError:
        return 0


def start(folder: Path, cache: Path, space: Path) -> subprocess.Popen[str]:
    """A ranking in a process group of its own."""
    return subprocess.Popen(
        command(folder, space),
        env=os.environ | {"PERFMODEL_CACHE": str(cache)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def command(folder: Path, space: Path) -> list[str]:
    """The command line of the ranking."""
    rank = ["rank", str(folder / "scale.cu"), "--space", str(space), "--gpu", "h200", "--csv"]
    return [sys.executable, "-c", "from perfmodel.__main__ import main; main()", *rank]


def ended(process: subprocess.Popen[str]) -> int:
    """Kill a process with its workers; 1 where it had not ended by itself."""
    still_runs = process.poll() is None
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return int(still_runs)


def entries(cache: Path) -> dict[str, str]:
    """Hashes of everything that the cache holds, by key."""
    if not (cache / "cache.db").exists():
        return {}
    import diskcache

    with diskcache.Cache(str(cache)) as store:
        return {key: hashlib.sha256(store[key]).hexdigest() for key in list(store)}


def output(folder: Path, cache: Path, space: Path) -> str:
    """What the ranking prints when it is left alone."""
    environment = os.environ | {"PERFMODEL_CACHE": str(cache)}
    return subprocess.run(command(folder, space), env=environment, capture_output=True, text=True, check=True).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was found; exit status 1 where something was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = kill_rankings(Path(folder), kills=given.kills)
    print(
        f"{found.killed} processes killed, {found.entries} entries, {found.lost} lost; "
        f"the last ranking is {'the same' if found.same else 'another one'}"
    )
    return int(found.lost > 0 or not found.same)


if __name__ == "__main__":
    sys.exit(main())
