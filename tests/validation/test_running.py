"""Campaigns that lose jobs, time, or their own process."""

import itertools
import os
import signal
import subprocess
import sys
from pathlib import Path

from perfmodel.records.own_records import read_records
from perfmodel.records.schema import FailureKind
from perfmodel.validation.running import RunSummary, kept_in, recorded_keys, run_missing

from .running_jobs import NumberedJob, work

ROOT = Path(__file__).parents[2]


def numbers(path: Path) -> list[object]:
    return [record.configuration["number"] for record in read_records(path)]


def test_lost_jobs_become_failure_records_and_the_campaign_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    jobs = [NumberedJob(0), NumberedJob(1, "die"), NumberedJob(2), NumberedJob(3, "hang"), NumberedJob(4)]
    summary = run_missing(jobs, work, kept_in(path), time_limit_s=60.0, job_limit_s=1.0)
    assert summary == RunSummary(done=5, failed=2, already_recorded=0, left=0)
    records = read_records(path)
    assert [record.failure.kind if record.failure else None for record in records] == [
        None,
        FailureKind.WORKER_DIED,
        None,
        FailureKind.TIME_OUT,
        None,
    ]


def test_what_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    run_missing([NumberedJob(1)], work, kept_in(path), time_limit_s=60.0)
    jobs = [NumberedJob(number) for number in range(3)]
    summary = run_missing(jobs, work, kept_in(path), done=recorded_keys(path), time_limit_s=60.0)
    assert summary == RunSummary(done=2, failed=0, already_recorded=1, left=0)
    assert numbers(path) == [1, 0, 2]


def test_time_limit_leaves_the_rest_for_the_next_step(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    seconds = itertools.count()  # a second passes with each look at the clock
    jobs = [NumberedJob(number) for number in range(5)]
    summary = run_missing(jobs, work, kept_in(path), time_limit_s=2.5, clock=lambda: float(next(seconds)))
    assert summary == RunSummary(done=2, failed=0, already_recorded=0, left=3)  # looked at seconds 1, 2 and 3


def test_kill_in_the_middle_of_a_campaign_and_resume(tmp_path: Path) -> None:
    path, count = tmp_path / "records.jsonl", 60
    command = [sys.executable, "-m", "tests.validation.running_jobs", str(path), str(count)]
    first = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert first.stdout is not None
    for _ in range(10):
        first.stdout.readline()
    os.kill(first.pid, signal.SIGKILL)
    acknowledged = 10 + len(first.stdout.read().split())
    first.stdout.close()
    first.wait()
    kept = numbers(path)
    assert acknowledged <= len(kept) < count
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert len(again.stdout.split()) == count - len(kept)
    assert numbers(path) == list(range(count))


def test_worker_of_a_killed_campaign_does_not_live_on(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    command = [sys.executable, "-m", "tests.validation.running_jobs", str(path), "100000"]
    campaign = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert campaign.stdout is not None
    campaign.stdout.readline()
    worker = int(read_records(path)[0].measured_at)  # the process that wrote the record's contents
    os.kill(campaign.pid, signal.SIGKILL)
    campaign.wait()
    campaign.stdout.read()  # ends when the worker, which shares the pipe, has ended too
    campaign.stdout.close()
    assert not Path(f"/proc/{worker}/cmdline").exists() or not Path(f"/proc/{worker}/cmdline").read_bytes()
