"""A cache on a file system that is mounted read-only, and a disk that is full: real ones, made in a name space of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

PERFMODEL = f"{shlex.quote(sys.executable)} -m perfmodel"
SPACE = 'kernel = "k"\ngrid = "B"\nblock = 64\narguments = ["f32[4096]"]\n[tune]\nB = [1, 2]\n'
KEEP = """
import pyarrow as pa
from pathlib import Path
from perfmodel.errors import PerfmodelError
from perfmodel.sweeps.results import ResultFile
file = ResultFile(path=Path("full/found.parquet"))
try:
    file.keep("key", pa.table({"x": range(10_000)}))
except PerfmodelError as error:
    print(error)
print(*file.part_keys())
"""


def within_mounts(folder: Path, mounts: str, command: str) -> subprocess.CompletedProcess[str]:
    """A command in a folder, with file systems that nobody else sees; skips where the system forbids them."""
    enter = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    try:
        allowed = subprocess.run([*enter, mounts], cwd=folder, capture_output=True, timeout=60, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if allowed.returncode:
        pytest.skip(f"mounting is not allowed here: {allowed.stderr.decode().strip()}")
    return subprocess.run(
        [*enter, f"{mounts} && {command}"],
        cwd=folder,
        env=os.environ | {"PERFMODEL_CACHE": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.compiler
def test_a_cache_that_is_mounted_read_only_is_one_line(tmp_path: Path) -> None:
    """Also of worker processes, which compile the two configurations."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { x[blockIdx.x * 64 + threadIdx.x] = B; }")
    (tmp_path / "k.toml").write_text(SPACE)
    read_only = "mount --bind cache cache && mount -o remount,bind,ro cache && ! touch cache/x"
    done = within_mounts(tmp_path, read_only, f"{PERFMODEL} rank k.cu --space k.toml --gpu h200")
    assert done.returncode == 0
    assert "2 candidates, 0 rejected" in done.stdout
    (line,) = [line for line in done.stderr.splitlines() if not line.startswith("touch: ")]
    assert line.startswith(f"perfmodel: nothing is kept in the cache folder {tmp_path / 'cache'} (")
    assert list((tmp_path / "cache").iterdir()) == []


FULL = "mount -t tmpfs -o size=64k none full && (mkdir full/found.parquet.parts; cat /dev/zero > full/fill; true)"


def test_a_full_disk_is_one_line_and_leaves_no_part_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    command = f"{PERFMODEL} network ssim_4k_video --gpu h200 --trace full/trace.json; echo $? && ls -A full"
    done = within_mounts(tmp_path, FULL, command)
    error = [line for line in done.stderr.splitlines() if not line.startswith("cat: ")]
    assert error == ["perfmodel: error: --trace full/trace.json: No space left on device"]
    assert done.stdout.split() == ["2", "fill", "found.parquet.parts"]


def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"rmdir ../gone && exec {PERFMODEL} analyze k.cu --gpu h200"
    done = subprocess.run(["sh", "-c", command], cwd=gone, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "perfmodel: error: the folder in which the program was started is gone\n"


def test_a_reader_that_has_seen_enough_is_no_failure(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    options = ["rank", "tiled_conv2d", "--gpu", "h200", "--fidelity", "analytic", "--top", "100"]
    command = [sys.executable, "-m", "perfmodel", *options]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.compiler
def test_a_failure_that_nobody_reads_is_one_all_the_same(tmp_path: Path) -> None:
    body = "__shared__ float s[64]; s[threadIdx.x] = 1.0f; out[threadIdx.x] = s[63 - threadIdx.x];"
    (tmp_path / "race.cu").write_text(f"__global__ void race(float *out) {{ {body} }}")
    reader, writer = os.pipe()
    os.close(reader)
    options = ["analyze", "race.cu", "--gpu", "h200", "--grid", "1", "--block", "64", "--arg", "f32[64]=0"]
    command = [sys.executable, "-m", "perfmodel", *options]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    os.close(writer)
    assert done.returncode == 1
    assert "race in shared memory" in done.stderr


def test_a_result_that_a_full_disk_cannot_keep_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    done = within_mounts(tmp_path, FULL, f"{shlex.quote(sys.executable)} -c {shlex.quote(KEEP)}")
    said, parts = done.stdout.splitlines()
    assert said.endswith("found.parquet.parts/key.parquet: No space left on device; what was kept before stays")
    assert parts == ""
