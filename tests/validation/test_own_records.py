"""What the project says of its own measurements, replayed from the records."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from perfmodel.records.own_records import read_records
from perfmodel.records.schema import FailureKind, Record, RecordKind

DATA = Path(__file__).parents[2] / "validation" / "data"
COUNTED_SIGN = "__"


@pytest.fixture(scope="module")
def records() -> tuple[Record, ...]:
    return read_records(DATA / "h200.jsonl.gz")


@pytest.fixture(scope="module")
def kernels(records: tuple[Record, ...]) -> list[Record]:
    return [record for record in records if record.kind is RecordKind.KERNEL]


@pytest.mark.parametrize("path", sorted(DATA.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_every_file_can_be_read_and_is_of_one_gpu(path: Path) -> None:
    gpu = "h100-sxm-80gb" if path.name.startswith("h100") else "h200"
    assert {record.gpu for record in read_records(path)} == {gpu}


@pytest.mark.parametrize(("name", "least"), [("h200.jsonl.gz", 3000), ("h100.jsonl.gz", 750)])
def test_no_result_was_wrong(name: str, least: int) -> None:
    kernels = [record for record in read_records(DATA / name) if record.kind is RecordKind.KERNEL]
    compared = [record for record in kernels if record.correctness is not None]
    assert len(compared) > least
    assert all(record.correctness is not None and record.correctness.passed for record in compared)
    failures = Counter(record.failure.kind for record in kernels if record.failure is not None)
    assert set(failures) <= {FailureKind.COMPILE, FailureKind.LAUNCH, FailureKind.REJECTED}


def test_the_campaign_was_as_large_as_it_was_meant_to_be(kernels: list[Record]) -> None:
    timed = [record for record in kernels if record.timings]
    problems = {(record.name, tuple(sorted(record.problem.items()))) for record in timed}
    counted = [record for record in kernels if any(COUNTED_SIGN in name for name in record.counters)]
    assert len(timed) >= 2000
    assert len(problems) >= 40
    assert len(counted) >= 100
    assert len({record.name for record in timed}) == len({record.name for record in counted}) == 5


def test_the_sanitizer_found_nothing_in_any_family(records: tuple[Record, ...]) -> None:
    last = {record.key: record for record in records if record.kind is RecordKind.SANITIZER}
    assert len(last) == 5 * 4  # families and tools
    assert all(record.failure is None for record in last.values())


def test_times_are_those_of_the_code_that_was_predicted(kernels: list[Record]) -> None:
    assert all(record.resources is not None and record.resources.cubin_sha256 for record in kernels if record.timings)
