"""Records as JSON lines: what is written is read; what a kill or a user damaged is told apart."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from perfmodel.core.files import write_text
from perfmodel.errors import InputError
from perfmodel.families.tiled_conv2d import FAMILY
from perfmodel.launch.launch import L2State
from perfmodel.records.measurements import read_measurements
from perfmodel.records.own_records import append_record, read_records, record_line
from perfmodel.records.schema import Failure, FailureKind, Record

from .record_examples import tiled_record

FAILED = replace(
    tiled_record(64), timings=(), counters={}, failure=Failure(kind=FailureKind.TIME_OUT, message="no answer in 20 s")
)


def write_records(path: Path, records: Sequence[Record]) -> None:
    write_text(path, "".join(record_line(record) + "\n" for record in records))


def test_round_trip_of_a_packed_file(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl.gz"
    write_records(path, [tiled_record(), FAILED])
    assert read_records(path) == (tiled_record(), FAILED)


def test_append_creates_and_extends(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    append_record(path, tiled_record())
    append_record(path, FAILED)
    assert read_records(path) == (tiled_record(), FAILED)


def test_every_cut_of_the_last_line_leaves_the_records_before_it_and_room_for_the_next(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    first, last = record_line(tiled_record()), record_line(FAILED)
    for length in range(0, len(last), 11):
        path.write_text(first + "\n" + last[:length])
        assert read_records(path) == (tiled_record(),)
        append_record(path, FAILED)
        assert read_records(path) == (tiled_record(), FAILED)


def test_kill_in_the_middle_of_appending_loses_at_most_the_record_in_flight(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    program = (
        "import sys\nfrom msgspec.structs import replace\nfrom pathlib import Path\n"
        "from perfmodel.records.own_records import append_record, read_records\n"
        "from perfmodel.records.own_records import read_records\n"
        "path = Path(sys.argv[1])\nrecord = read_records(path)[0]\n"
        "for n in range(1, 100_000):\n"
        "    append_record(path, replace(record, measured_at=str(n)))\n"
        "    print(n, flush=True)\n"
    )
    append_record(path, replace(tiled_record(), measured_at="0"))
    writer = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    for _ in range(20):
        writer.stdout.readline()
    os.kill(writer.pid, signal.SIGKILL)
    acknowledged = 20 + len(writer.stdout.read().split())
    writer.wait()
    writer.stdout.close()
    numbers = [int(record.measured_at) for record in read_records(path)]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) - 1 >= acknowledged


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "schema 99 is not known"),
        ({"kind": "guess"}, "kind = 'guess' must be one of kernel, baseline"),
        ({"surprise": 1}, "unknown key 'surprise'"),
        ({"name": 5}, "name = 5 must be a text"),
        ({"timings": 5}, "timings = 5 must be a list"),
        ({"timings": [{"l2": "cold", "method": "events"}]}, r"timings\[0\]: samples_s is missing"),
        (
            {"timings": [{"l2": "cold", "method": "events", "samples_s": ["1"]}]},
            r"timings\[0\].samples_s\[0\] = '1' must be a number",
        ),
        ({"problem": []}, r"problem = \[\] must be a table"),
        ({"environment": None}, "environment = None must be a table"),
    ],
)
def test_line_that_is_no_record_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "records.jsonl"
    damaged = json.dumps(json.loads(record_line(FAILED)) | change)
    path.write_text(record_line(tiled_record()) + "\n" + damaged + "\n")
    with pytest.raises(InputError, match=f"records.jsonl: line 2: .*{message}"):
        read_records(path)


def test_damaged_line_in_the_middle_is_an_error_not_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(record_line(tiled_record())[:50] + "\n" + record_line(FAILED) + "\n")
    with pytest.raises(InputError, match=r"line 1, column \d+: damaged JSON"):
        read_records(path)


def test_measurements_of_own_records(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, [tiled_record(32, cold_s=3e-4), replace(tiled_record(), name="other_family"), FAILED])
    cold, warm = read_measurements(path, FAMILY), read_measurements(path, FAMILY, L2State.WARM)
    assert cold.gpu == "h200"
    assert cold.batch["block_size_x"].tolist() == [32, 64]
    np.testing.assert_allclose(cold.time_s, [3e-4, np.nan])  # median of 3e-4, 6e-4, 3e-4
    np.testing.assert_allclose(warm.time_s, [1e-4, np.nan])
    assert cold.columns["smsp__inst_executed.sum"].tolist()[0] == 12345
    assert cold.columns["failure"].tolist()[1] == "time-out"
    assert cold.columns["cubin_sha256"].tolist() == ["ab" * 32] * 2  # one that failed had been compiled


def test_own_records_without_the_family_are_named(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, [replace(tiled_record(), name="other_family")])
    with pytest.raises(InputError, match="no record of a kernel of tiled_conv2d"):
        read_measurements(path, FAMILY)


def test_time_and_counters_of_one_configuration_may_stand_in_several_records(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    timed = replace(tiled_record(32, cold_s=3e-4), counters={})
    counted = replace(timed, timings=(), counters={"smsp__inst_executed.sum": 7.0})
    again = replace(tiled_record(32, cold_s=5e-4), counters={})
    write_records(path, [timed, counted, tiled_record(64), again])
    measured = read_measurements(path, FAMILY)
    assert measured.batch["block_size_x"].tolist() == [32, 64]
    np.testing.assert_allclose(measured.time_s, [5e-4, 3e-4])  # of two timings the last
    assert measured.columns["smsp__inst_executed.sum"].tolist() == [7, 12345]
