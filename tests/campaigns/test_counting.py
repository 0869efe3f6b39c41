"""Profiler and checker around a program: what is made of their ends, without either being there."""

import shutil
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from campaigns.counting import count_missing, kept_metrics, profiled_launches
from campaigns.metrics import ACTIVITY_METRICS, COLLECTED_METRICS
from campaigns.nsight_csv import ProfiledLaunch
from campaigns.public_kernels.measuring import count_step
from campaigns.public_kernels.record import read_public_records, write_public_records
from campaigns.sanitizing import sanitizer_failure
from campaigns.tools import (
    SANITIZER_ERROR_STATUS,
    ToolRun,
    import_counters,
    nsight_command,
    run_tool,
    target_command,
)
from perfmodel.errors import InputError
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import Environment, Failure, FailureKind, RecordKind
from perfmodel.validation.prepared import PreparedKernel, Purpose
from perfmodel.validation.running import kept_in, recorded_keys
from perfmodel.validation.session import Session

CSV = (
    '==PROF== Connected to process 1\n"ID","Kernel Name","smsp__inst_executed.sum"\n"","","inst"\n'
    '"0","a","7"\n"1","a","9"\n'
)
ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)
DATA = Path(__file__).parents[2] / "validation" / "data" / "launches"
PUBLIC = read_public_records(DATA / "h200-public.jsonl.gz")[:3]
PLAN = Session(
    folder=Path("nowhere"),
    kernels=tuple(
        PreparedKernel(
            kind=RecordKind.KERNEL,
            name="tiled_conv2d",
            problem={},
            configuration={"number": number},
            purposes=(Purpose.COUNT,),
            gpu="h200",
            architecture="sm_90",
            compiler_version="",
            kernel_name="tiled_conv2d",
        )
        for number in range(3)
    ),
    environment=ENVIRONMENT,
    gpu="h200",
    seed=0,
)


def test_launches_of_a_good_run() -> None:
    launches = profiled_launches(ToolRun(status=0, output=CSV), 2)
    assert not isinstance(launches, Failure)
    assert [launch.metrics["smsp__inst_executed.sum"] for launch in launches] == [7.0, 9.0]


@pytest.mark.parametrize(
    ("run", "kind", "message"),
    [
        (ToolRun(status=0, output=CSV), FailureKind.UNAVAILABLE, "2 launches were counted where 3 were made"),
        (ToolRun(status=1, output="==ERROR== no permission"), FailureKind.UNAVAILABLE, "exit status 1: ==ERROR=="),
        (ToolRun(status=0, output="==PROF== nothing"), FailureKind.UNAVAILABLE, "no line starts with the column 'ID'"),
        (ToolRun(status=None, output="stopped after 5 s"), FailureKind.TIME_OUT, "stopped after 5 s"),
    ],
)
def test_runs_that_cannot_be_used(run: ToolRun, kind: FailureKind, message: str) -> None:
    failure = profiled_launches(run, 3)
    assert isinstance(failure, Failure)
    assert failure.kind is kind
    assert message in failure.message


def test_where_the_profiler_fails_every_kernel_gets_a_failure_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    refuses = shutil.which("false")
    assert refuses is not None
    summary = count_missing(PLAN, [0, 2], refuses, kept_in(path), done=frozenset(), time_limit_s=60.0)
    assert (summary.done, summary.failed, summary.left) == (2, 2, 0)
    records = read_records(path)
    assert [record.configuration["number"] for record in records] == [0, 2]
    assert all(record.failure and record.failure.kind is FailureKind.UNAVAILABLE for record in records)
    again = count_missing(PLAN, [0, 2], refuses, kept_in(path), done=recorded_keys(path), time_limit_s=60.0)
    assert (again.done, again.already_recorded) == (0, 2)


def test_what_cannot_be_counted_together_is_counted_singly_and_the_rest_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ncu = tmp_path / "ncu"  # fails with several launches, and with one of the first kernel
    ncu.write_text(
        f"""#!{sys.executable}
import sys
assert "smsp__inst_executed_pipe_xu.sum" in sys.argv[sys.argv.index("--metrics") + 1]
ids = sys.argv[-1].split(",")
sys.exit("no") if len(ids) > 1 or ids == [{PUBLIC[0].launch.id!r}] else print(CSV)
""".replace("CSV", repr(CSV.rpartition('"0"')[0] + '"0","a","7"'))
    )
    ncu.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    write_public_records(tmp_path / "plan.jsonl", PUBLIC)
    path = tmp_path / "counted.jsonl"
    summary = count_step(tmp_path, path, 60.0)
    assert (summary.done, summary.failed, summary.left) == (3, 1, 0)
    found = read_public_records(path)
    assert [(one.launch.id, one.counters) for one in found] == [
        (one.launch.id, {"smsp__inst_executed.sum": 7.0}) for one in PUBLIC[1:]
    ]
    again = count_step(tmp_path, path, 60.0)
    assert (again.done, again.failed, again.already_recorded) == (1, 1, 2)


def test_commands_name_what_is_watched() -> None:
    target = target_command(Path("folder"), [3, 1], 7)
    command = nsight_command("ncu", target, ["b", "a", "b"])
    assert command[-len(target) :] == target
    assert "regex:^(a|b)$" in command
    assert set(command[command.index("--metrics") + 1].split(",")) == {*COLLECTED_METRICS, *ACTIVITY_METRICS}
    assert target[-3:] == ["folder", "3,1", "7"]


def test_tools_are_stopped_at_their_limit_and_speak_the_c_locale() -> None:
    assert run_tool([sys.executable, "-c", "import time; time.sleep(60)"], 0.2).status is None
    run = run_tool([sys.executable, "-c", "import os; print(os.environ['LC_ALL'])"], 30.0)
    assert (run.status, run.last_line) == (0, "C")


def test_a_stopped_tool_leaves_nothing_running(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    waiting = [sys.executable, "-c", "import time; time.sleep(60)"]
    script = f"import pathlib, subprocess; child = subprocess.Popen({waiting!r}); " + (
        f"pathlib.Path({str(started)!r}).write_text(str(child.pid)); child.wait()"
    )
    assert run_tool([sys.executable, "-c", script], 5.0).status is None
    process, end = int(started.read_text()), monotonic() + 30.0
    while _runs(process) and monotonic() < end:  # the system takes a moment to end what was killed
        sleep(0.05)
    assert not _runs(process)


def _runs(process: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{process}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_importing_counters_made_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "counters.csv"
    path.write_text(CSV)
    assert [launch.launch_id for launch in import_counters(path)] == [0, 1]
    report = tmp_path / "counters.ncu-rep"
    with pytest.raises(InputError, match="cannot be read"):
        import_counters(report)
    report.write_bytes(b"no report")
    with pytest.raises(InputError, match=r"Nsight Compute|ncu cannot import it"):
        import_counters(report)


def test_what_the_sanitizer_found() -> None:
    output = (
        "========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n"
        "=========     at k+0x90\n========= ERROR SUMMARY: 1 error\n"
    )
    found = sanitizer_failure(ToolRun(status=SANITIZER_ERROR_STATUS, output=output))
    assert found == Failure(kind=FailureKind.WRONG_RESULT, message="Invalid __global__ read of size 4 bytes")
    assert sanitizer_failure(ToolRun(status=0, output=output)) is None
    stopped = sanitizer_failure(ToolRun(status=None, output="stopped after 1 s"))
    refused = sanitizer_failure(ToolRun(status=1, output="Error: device not supported"))
    assert stopped is not None
    assert stopped.kind is FailureKind.TIME_OUT
    assert refused is not None
    assert refused.kind is FailureKind.UNAVAILABLE


def test_what_the_profiler_says_of_the_device_is_not_kept() -> None:
    launch = ProfiledLaunch(
        launch_id=0, kernel="k", metrics={"smsp__inst_executed.sum": 2.0, "device__attribute_chip": 1.0}
    )
    assert list(kept_metrics(launch)) == ["smsp__inst_executed.sum"]
