"""A sweep's file depends on its plan alone: not on workers, not on how often it was ended; nothing finished is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from distributed import Client

from perfmodel.cli.app import run
from perfmodel.errors import InputError, PerfmodelError
from perfmodel.families.conv1d import Conv1d
from perfmodel.families.tiled_conv2d import TiledConv2d
from perfmodel.families.user.family import user_problem
from perfmodel.sweeps import rows as rows_module
from perfmodel.sweeps.plan import SweepPlan
from perfmodel.sweeps.results import ResultFile
from perfmodel.sweeps.running import SweepProgress, sweep
from perfmodel.sweeps.tasks import DECIDING_FOLDERS, tasks_of

PROBLEMS = (
    Conv1d(in_channels=4, out_channels=8, length=32),
    TiledConv2d(height=32, width=32, filter_height=3, filter_width=3),
)
PLAN = SweepPlan(problems=PROBLEMS, gpus=("h200", "t4"), fidelity="analytic")
FILE = """
gpus = ["h200", "t4"]
fidelity = "analytic"
[[kernel]]
family = "conv1d"
problem = { in_channels = 4, out_channels = 8, length = 32 }
[[kernel]]
family = "tiled_conv2d"
problem = { height = 32, width = 32, filter_height = 3, filter_width = 3 }
"""


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Two workers in this process."""
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as client:
        yield client


@pytest.fixture(scope="module")
def whole(client: Client, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a sweep that nothing ended."""
    path = tmp_path_factory.mktemp("whole") / "found.parquet"
    sweep(PLAN, output=path, scheduler=client)
    return path


class EndedError(Exception):
    """What ends a sweep in these tests."""


def ends_after(count: int) -> Any:
    def progress(now: SweepProgress) -> None:
        if now.finished == count:
            raise EndedError

    return progress


def test_rows_stand_in_the_order_of_the_plan(whole: Path) -> None:
    table = pq.read_table(whole)
    pairs = list(dict.fromkeys(zip(table["kernel"].to_pylist(), table["gpu"].to_pylist(), strict=True)))
    assert pairs == [(kernel, gpu) for kernel in ("conv1d", "tiled_conv2d") for gpu in ("h200", "t4")]
    assert not ResultFile(path=whole).parts.exists()
    middle = [name for name in table.column_names if name.startswith(("problem_", "configuration_"))]
    assert table.column_names[6 : 6 + len(middle)] == middle
    conv1d = table.filter([kernel == "conv1d" for kernel in table["kernel"].to_pylist()])
    assert conv1d["configuration_block_size_x"].null_count == len(conv1d) > 0  # a field of the other family


def test_a_sweep_that_was_ended_goes_on_to_the_same_bytes(whole: Path, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "found.parquet"
    for kept in (2, 3):  # two tasks in the first run, three in the second
        with pytest.raises(EndedError):
            sweep(PLAN, output=path, scheduler=client, progress=ends_after(kept))
    assert len(ResultFile(path=path).part_keys()) == 5
    assert not path.exists()
    report = sweep(PLAN, output=path, scheduler=client)
    assert (report.kept_before, report.finished) == (5, report.tasks - 5)
    assert path.read_bytes() == whole.read_bytes()
    again = sweep(PLAN, output=path, scheduler="tcp://127.0.0.1:9")  # nobody is asked
    assert (again.kept_before, again.rows, again.finished) == (report.tasks, report.rows, 0)
    file = ResultFile(path=path)
    file.parts.mkdir()
    file.keep(tasks_of(PLAN)[0].key, pq.read_table(path))  # as if the run before had been killed while it removed parts
    sweep(PLAN, output=path, scheduler=client)
    assert not file.parts.exists()
    assert path.read_bytes() == whole.read_bytes()


def test_a_wider_plan_computes_only_what_is_new(whole: Path, client: Client, tmp_path: Path) -> None:
    path = tmp_path / "found.parquet"
    narrow = replace(PLAN, problems=PROBLEMS[1:], gpus=("t4",))
    first = sweep(narrow, output=path, scheduler=client)
    wider = sweep(PLAN, output=path, scheduler=client)
    assert wider.kept_before == first.tasks
    assert path.read_bytes() == whole.read_bytes()
    with pytest.raises(InputError, match=r"finished tasks in it are of another sweep.*--replace"):
        sweep(narrow, output=path, scheduler=client)
    assert sweep(narrow, output=path, scheduler=client, replace=True).rows == first.rows


@pytest.mark.compiler
def test_the_best_of_a_kernel_of_ones_own_are_chosen_among_all_its_tasks(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perfmodel.sweeps.tasks.EXECUTED_CANDIDATES", 1)
    (tmp_path / "k.cu").write_text("__global__ void k(float *x) { x[blockIdx.x * B + threadIdx.x] = 1.0f; }")
    (tmp_path / "k.toml").write_text(
        'kernel = "k"\ngrid = "32768 // B"\nblock = "B"\narguments = ["f32[32768]"]\n[tune]\nB = [32, 256, 2048]\n'
    )
    plan = SweepPlan(problems=(user_problem(tmp_path / "k.cu", tmp_path / "k.toml"),), gpus=("h200",), best=2)
    report = sweep(plan, output=tmp_path / "found.parquet", scheduler=client)
    every = sweep(replace(plan, best=None), output=tmp_path / "every.parquet", scheduler=client).to_rows()
    fitting = sorted((row for row in every if row["rejected"] is None), key=lambda row: row["predicted_s"])
    rows = report.to_rows()
    assert (report.tasks, len(every), len(fitting), len(rows)) == (3, 3, 2, 2)
    assert [row["place"] for row in rows] == [1, 2]
    assert [row["configuration_B"] for row in rows] == [row["configuration_B"] for row in fitting]
    assert dict(report.fastest()[0].configuration) == {"B": rows[0]["configuration_B"]}
    before = (tmp_path / "found.parquet").read_bytes()
    wider = replace(plan, gpus=("h200", "t4"))
    sweep(wider, output=tmp_path / "found.parquet", scheduler=client)
    assert len(sweep(wider, output=tmp_path / "found.parquet").to_rows()) == 4
    sweep(plan, output=tmp_path / "found.parquet", scheduler=client, replace=True)
    assert (tmp_path / "found.parquet").read_bytes() == before


def test_who_writes_is_alone(client: Client, tmp_path: Path) -> None:
    path = tmp_path / "found.parquet"
    with ResultFile(path=path).locked(), pytest.raises(InputError, match="another sweep is writing it"):
        sweep(PLAN, output=path, scheduler=client)
    assert not ResultFile(path=path).parts.exists()


def test_the_folders_whose_files_decide_are_there() -> None:
    assert [folder for folder in DECIDING_FOLDERS if not files("perfmodel").joinpath(folder).is_dir()] == []


def test_a_worker_with_other_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks_of(PLAN)[0]
    monkeypatch.setattr(rows_module, "code_version", lambda: "another")
    with pytest.raises(PerfmodelError, match="runs other code of perfmodel"):
        rows_module.run_task(task)


def test_keys_tell_what_a_result_depends_on() -> None:
    keys = {task.key for task in tasks_of(PLAN)}
    for other in (
        replace(PLAN, l2="warm"),
        replace(PLAN, sm_clock_mhz=1000.0),
        replace(PLAN, fidelity="compiled", best=1),
        replace(PLAN, problems=(replace(PROBLEMS[0], padding=1),)),
    ):
        assert not keys & {task.key for task in tasks_of(other)}


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--scheduler", "tcp://127.0.0.1:9", "--workers", "2"], "workers=2 goes without scheduler"),
        (["--output", "sweep.toml"], "--output sweep.toml: is another file of this command"),
        (["--output", "none.parquet/found.parquet"], "no folder"),
        (["--output", "found.csv"], "output found.csv: the results are a Parquet file; name it found.parquet"),
        (["--output", "other.parquet"], "other.parquet: no Parquet file that can be read"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str],
    named: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sweep.toml").write_text(FILE)
    Path("other.parquet").write_text("no table")
    Path("none.parquet").write_text("")
    output = [] if "--output" in arguments else ["--output", "found.parquet"]
    assert run(["sweep", "sweep.toml", *output, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert named in line


def test_killed_processes_lose_nothing(whole: Path, client: Client, tmp_path: Path) -> None:
    """The command with two processes is killed with all of them, then interrupted; what others finish has the same bytes."""
    (tmp_path / "sweep.toml").write_text(FILE)
    file = ResultFile(path=tmp_path / "found.parquet")
    command = [sys.executable, "-m", "perfmodel", "sweep", "sweep.toml", "--output", "found.parquet", "--workers", "2"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True)

    killed = start()
    while not file.part_keys():
        assert killed.poll() is None
        time.sleep(0.01)
    kept = {key: (file.parts / f"{key}.parquet").read_bytes() for key in file.part_keys()}
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert all((file.parts / f"{key}.parquet").read_bytes() == content for key, content in kept.items())

    struck = start()
    assert struck.stderr is not None
    assert f"{len(file.part_keys())} of {len(tasks_of(PLAN))} tasks done" in struck.stderr.readline()
    os.killpg(struck.pid, signal.SIGINT)
    _, rest = struck.communicate(timeout=60)
    *progress, last = rest.splitlines()  # the interruption may come before or after the workers are started
    assert (struck.returncode, last) == (130, "perfmodel: interrupted; what was finished is kept")
    assert all("tasks done" in line for line in progress)
    assert kept.keys() <= file.part_keys()

    report = sweep(tmp_path / "sweep.toml", output=file.path, scheduler=client)
    assert report.kept_before >= len(kept)
    assert file.path.read_bytes() == whole.read_bytes()


DEADLY = """
import multiprocessing, os
from dataclasses import dataclass
from perfmodel.families.conv1d import FAMILY, Conv1d

class Deadly(type(FAMILY)):
    name = "deadly"

    def profile(self, problem, batch, gpu):
        os._exit(9) if multiprocessing.parent_process() else None

@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlyProblem(Conv1d):
    @property
    def family(self):
        return Deadly()
"""
SCRIPT = """
import perfmodel as pm
from deadly import DeadlyProblem
print("begun")
problems = [DeadlyProblem(length=32), pm.Conv1d(length=32)]
plan = pm.SweepPlan(problems=problems, gpus=["h200"], fidelity="analytic", best=1)
report = pm.sweep(plan, output="found.parquet", workers=1)
print(report.rows, *report.failed)
"""


def test_a_task_that_ends_its_worker_fails_alone_and_the_script_does_not_run_again(tmp_path: Path) -> None:
    (tmp_path / "deadly.py").write_text(DEADLY)
    (tmp_path / "script.py").write_text(SCRIPT)
    once = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"}
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=once, capture_output=True, text=True, timeout=120, check=False
    )
    begun, last = done.stdout.splitlines()
    assert begun == "begun"
    assert last.startswith("1 DeadlyProblem(")
    assert last.endswith("on h200: its worker process ended 1 times")
