"""The disk cache: several processes may write it, it stays bounded, and it is never a reason to fail."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.cache_kills import kill_rankings
from perfmodel.compiler import disk_cache

WRITER = """
import sys, zlib
from perfmodel.compiler.disk_cache import fetch, keep
own = sys.argv[1].encode()
for i in range(40):
    keep(f"own-{sys.argv[1]}-{i}", own * (i + 1))
    keep(f"shared-{i}", b"the same for all" * 5000)
    found = fetch(f"shared-{i}")
    assert found == b"the same for all" * 5000, found
"""


KEEPER = """
import os, random, sys
from perfmodel.compiler.disk_cache import keep
rng = random.Random(int(sys.argv[1]))
for i in range(100_000):
    size = rng.choice((10, 1000, 100_000))  # small values lie in the database, large ones in files of their own
    keep(f"{sys.argv[1]}-{i}", bytes([i % 251]) * size)
    print(i, size, flush=True)  # acknowledged
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(disk_cache, "_troubles", [])
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_is_kept_is_fetched(folder: Path) -> None:
    assert disk_cache.fetch("key") is None
    disk_cache.keep("key", b"value" * 100_000)
    disk_cache.keep("empty", b"")
    assert disk_cache.fetch("key") == b"value" * 100_000
    assert disk_cache.fetch("empty") == b""
    disk_cache.keep("key", b"other")
    assert disk_cache.fetch("key") == b"other"
    assert disk_cache.cache_directory() == folder


def test_processes_write_the_same_and_different_keys_at_once(folder: Path) -> None:
    environment = os.environ | {"PERFMODEL_CACHE": str(folder)}
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(i)], env=environment, stderr=subprocess.PIPE, text=True)
        for i in range(4)
    ]
    for writer in writers:
        assert (writer.communicate(timeout=120)[1], writer.returncode) == ("", 0)
    for i in range(40):
        assert disk_cache.fetch(f"shared-{i}") == b"the same for all" * 5000
        for own in range(4):
            assert disk_cache.fetch(f"own-{own}-{i}") == str(own).encode() * (i + 1)


def test_what_was_acknowledged_outlives_a_kill(folder: Path) -> None:
    """Four processes keep at once, each is killed after another number of entries; whatever a process said it kept is there."""
    environment = os.environ | {"PERFMODEL_CACHE": str(folder)}
    for round_number in range(2):
        names = [str(4 * round_number + i) for i in range(4)]
        keepers = {
            name: subprocess.Popen(
                [sys.executable, "-c", KEEPER, name], env=environment, stdout=subprocess.PIPE, text=True
            )
            for name in names
        }
        for name, keeper in keepers.items():
            assert keeper.stdout is not None
            for _ in range(3 + 5 * int(name)):
                keeper.stdout.readline()
            keeper.kill()
        for name, keeper in keepers.items():
            assert keeper.wait(timeout=60) == -signal.SIGKILL
            _check_kept(name, keeper)


def _check_kept(name: str, keeper: subprocess.Popen[str]) -> None:
    """Entries from the last line back to the first of another process, read after it was killed."""
    assert keeper.stdout is not None
    last = -1
    for line in keeper.stdout.read().splitlines(keepends=True):
        if line.endswith("\n"):
            last, size = map(int, line.split())
            assert disk_cache.fetch(f"{name}-{last}") == bytes([last % 251]) * size
    for i in range(3 + 5 * int(name)):
        assert disk_cache.fetch(f"{name}-{i}") is not None
    keeper.stdout.close()


def test_workers_on_a_full_disk_are_one_line(folder: Path) -> None:
    """The limit on the size of files stands for a full disk: SQLite and the system report both alike."""
    code = """
import resource, sys
from perfmodel.compiler.pool import run_many
from tests.perfmodel.compiler.full_disk import kept
assert run_many(kept, [(i,) for i in range(6)], describe=str, workers=3) == list(range(6))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PERFMODEL_CACHE": str(folder), "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("\n") == 1
    assert "nothing is kept in the cache folder" in done.stderr


def test_the_size_is_bounded_and_the_oldest_go_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = 4 * 2**20
    monkeypatch.setattr(disk_cache, "SIZE_LIMIT_BYTES", limit)
    for i in range(60):
        disk_cache.keep(f"key-{i}", os.urandom(200_000))  # does not compress; 12 MB in all
    occupied = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert occupied < 1.5 * limit
    assert disk_cache.fetch("key-59") is not None
    assert disk_cache.fetch("key-0") is None


def test_a_damaged_entry_counts_as_none(folder: Path) -> None:
    disk_cache.keep("key", os.urandom(200_000))  # large values lie in files of their own
    values = list(folder.rglob("*.val"))
    assert len(values) == 1
    data = values[0].read_bytes()
    for damaged in (data[:1000], b"", bytes(len(data)), data[:-1] + bytes([data[-1] ^ 1])):
        values[0].write_bytes(damaged)
        assert disk_cache.fetch("key") is None
    values[0].unlink()
    assert disk_cache.fetch("key") is None
    disk_cache.keep("key", b"new")
    assert disk_cache.fetch("key") == b"new"


def test_a_damaged_database_is_said_once_and_does_without(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder.mkdir()
    (folder / "cache.db").write_bytes(b"this is not a database" * 1000)
    disk_cache.keep("key", b"value")
    disk_cache.keep("key", b"value")
    assert disk_cache.fetch("key") is None
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert str(folder) in error


def test_a_locked_database_is_no_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_WAIT_S", 0.1)
    disk_cache.keep("key", b"value")
    holder = sqlite3.connect(folder / "cache.db", isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        disk_cache.keep("other", b"value")
        assert disk_cache.fetch("key") == b"value"
        assert disk_cache.fetch("other") is None
    finally:
        holder.close()
    assert "nothing is kept" in capsys.readouterr().err
    disk_cache.keep("other", b"value")
    assert disk_cache.fetch("other") == b"value"


def test_a_folder_that_cannot_be_used_is_said_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file stands where the folder should be; whoever runs the tests, even root, cannot make a folder there."""
    folder.write_text("in the way")
    disk_cache.keep("key", b"value")
    assert disk_cache.fetch("key") is None
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "nothing is kept in the cache folder" in error
    assert "PERFMODEL_CACHE names another" in error


@pytest.mark.compiler
def test_compiling_works_without_a_cache(folder: Path) -> None:
    from perfmodel.compiler.compiled import compile_kernel
    from perfmodel.compiler.request import CompileRequest

    folder.write_text("in the way")
    source = 'extern "C" __global__ void k(float *x) { *x = 1.0f; }'
    kernel = compile_kernel(CompileRequest(source=source, kernel="k", file_name="k.cu"), "sm_80")
    assert kernel.resources.registers_per_thread > 0


def test_without_a_name_the_platforms_folder_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERFMODEL_CACHE", raising=False)
    assert disk_cache.cache_directory().name == "perfmodel"


@pytest.mark.compiler
def test_rankings_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    """A few of the hundred kills of `python -m benchmarks.cache_kills`."""
    found = kill_rankings(tmp_path, kills=2, at_once=2, threads=(64,))
    assert (found.lost, found.same) == (0, True)
