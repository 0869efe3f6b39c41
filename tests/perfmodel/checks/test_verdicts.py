"""Verdicts on results that are written down: what fails, what informs, and how reports show it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perfmodel.checks.baseline import BaselineFile, LaunchResult, ResultTime, Tools, read_baseline, write_baseline
from perfmodel.checks.check_file import CheckFile, read_check_file
from perfmodel.checks.checking import CheckReport, Measured, Verdict, judged_all, kernel_line
from perfmodel.checks.formats import COLUMNS, github, junit, markdown, table
from perfmodel.errors import CompileError, InputError, PerfmodelError

SOURCE = (
    "// a comment that names k\ntemplate <int N>\n__global__ void __launch_bounds__(64)\nk(float *x) { x[0] = N; }\n"
)
BEFORE = LaunchResult(
    source="a" * 64,
    code="b" * 64,
    launch="c" * 64,
    time=ResultTime(predicted_us=10.0, interval_us=(8.0, 12.0), limiter="dram"),
    resources={"registers_per_thread": 32, "spill_load_bytes": 0, "spill_store_bytes": 0},
    counts={"warp_instructions": 1000, "shared_bank_conflicts": 0},
)


def result(us: float = 10.0, *, spill: int = 0, instructions: int = 1000, **digests: str) -> LaunchResult:
    return msgspec.structs.replace(
        BEFORE,
        time=msgspec.structs.replace(BEFORE.time, predicted_us=us),
        resources=BEFORE.resources | {"spill_store_bytes": spill},
        counts=BEFORE.counts | {"warp_instructions": instructions},
        **digests,
    )


@pytest.fixture
def file(tmp_path: Path) -> CheckFile:
    (tmp_path / "k.cu").write_text(SOURCE)
    path = tmp_path / "perf.toml"
    path.write_text(
        'gpus = ["h200"]\n[[launch]]\nfile = "k.cu"\nkernel = "k<2>"\ngrid = 1\nblock = 1\narguments = ["f32[1]"]\n'
    )
    return read_check_file(path)


def report(file: CheckFile, found: Measured | PerfmodelError, launch: str = "k<2>") -> CheckReport:
    earlier = BaselineFile(format=1, perfmodel="0.0.1", compiler="none", launches={launch: {"h200": BEFORE}})
    return judged_all(file, [found], earlier)


@pytest.mark.parametrize(
    ("now", "verdict", "status"),
    [
        (result(), Verdict.UNCHANGED, 0),
        (result(10.6, source="d" * 64, code="e" * 64), Verdict.REGRESSED, 1),
        (result(10.4, source="d" * 64, code="e" * 64), Verdict.UNCHANGED, 0),  # within 5 %
        (result(9.6, instructions=1030, source="d" * 64, code="e" * 64), Verdict.UNCHANGED, 0),  # 4 % faster
        (result(9.0, instructions=1030, source="d" * 64, code="e" * 64), Verdict.IMPROVED, 0),
        (result(9.0, spill=4, source="d" * 64, code="e" * 64), Verdict.REGRESSED, 1),
        (result(10.6, launch="d" * 64), Verdict.REGRESSED, 1),
        (result(10.6), Verdict.TOOLS_CHANGED, 0),  # of the same code
        (result(10.6, source="d" * 64), Verdict.TOOLS_CHANGED, 0),  # a comment was changed
    ],
)
def test_time_and_spills_of_changed_code_fail(
    file: CheckFile, now: LaunchResult, verdict: Verdict, status: int
) -> None:
    found = report(file, Measured(result=now, faults=()))
    assert (found.outcomes[0].verdict, found.status) == (verdict, status)
    meant = "regressed: if that is meant, --update-baseline takes the new figures"
    assert (meant in found.notes) == (verdict is Verdict.REGRESSED)


def test_a_fault_fails_and_an_error_is_wrong_input(file: CheckFile) -> None:
    assert report(file, Measured(result=BEFORE, faults=("a race",))).status == 1
    failed = report(file, CompileError("k.cu:3: no"))
    assert (failed.status, failed.outcomes[0].problems) == (2, ("k.cu:3: no",))
    assert repr(failed[0]) == f"<Outcome k<2> on h200: {failed[0].verdict.value}: k.cu:3: no>"


def test_a_launch_without_a_baseline_is_new_and_one_that_went_is_named(file: CheckFile) -> None:
    found = report(file, Measured(result=BEFORE, faults=()), launch="old")
    assert (found.outcomes[0].verdict, found.status) == (Verdict.NEW, 0)
    assert found.notes[0] == "not in the baseline: k<2> on h200; --update-baseline adds them"
    assert found.notes[1] == "only in the baseline: old on h200; --update-baseline drops them"
    assert found.notes[2].startswith("the baseline is of perfmodel 0.0.1, none; this is perfmodel ")


def test_every_format_names_kernel_change_and_reason(file: CheckFile) -> None:
    found = report(file, Measured(result=result(20.0, spill=16, code="e" * 64, instructions=1030), faults=()))
    assert dict(zip(COLUMNS, table(found)[0], strict=True)) == {
        "launch": "k<2>",
        "GPU": "h200",
        "before": "10 µs",
        "now": "20 µs",
        "change": "+100.0%",
        "registers/thread": "32",
        "spilled bytes": "0 → 16",
        "limiter": "dram",
        "changed": "machine code",
        "verdict": "regressed",
    }
    assert "| k\\<2\\> | h200 | 10 µs | 20 µs | +100.0% |" in markdown(found)
    assert "for information: warp\\_instructions 1,000 → 1,030 (+3.0%)" in markdown(found)
    case = ElementTree.fromstring(junit(found)).find("testsuite/testcase")
    assert case is not None
    assert (case.get("classname"), case.get("name"), case.get("line")) == ("k<2>", "h200", "4")
    assert case.find("failure[@type='regressed']") is not None
    error = github(found).splitlines()[0]
    assert error.startswith("::error file=")
    assert ",line=4,title=perfmodel%3A k<2> on h200::" in error
    assert "time 10 µs → 20 µs (+100.0%25); the limit is time=5%25" in error


def test_a_baseline_reads_as_it_was_written(file: CheckFile) -> None:
    write_baseline(file.baseline, [("k<2>", "h200", BEFORE)], Tools(perfmodel="1", compiler="nvcc"))
    assert read_baseline(file.baseline).launches == {"k<2>": {"h200": BEFORE}}
    assert len(file.baseline.read_text().splitlines()) == 17  # a line for each key, not for each count


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[]", "perf.baseline.json"),
        ("{", "perf.baseline.json: line 1"),
        ('{"format": 9}', "format = 9 is not 1"),
        ('{"format": 1, "perfmodel": "1", "compiler": "", "launches": {"k": {"h200": {}}}}', "launches.k.h200"),
    ],
)
def test_a_damaged_baseline_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "perf.baseline.json"
    path.write_text(text)
    with pytest.raises(InputError, match=named):
        read_baseline(path)


def test_a_limit_in_the_unit_of_its_quantity(file: CheckFile) -> None:
    launches = tuple(replace(launch, limits=()) for launch in file.launches)
    assert report(replace(file, launches=launches), Measured(result=result(99.0, code="e" * 64), faults=())).status == 0


@pytest.mark.parametrize(("kernel", "line"), [("k<2>", 4), ("other", 1), ("", 1)])
def test_the_line_of_a_kernel(file: CheckFile, kernel: str, line: int) -> None:
    assert kernel_line(file.path.parent / "k.cu", kernel) == line


def test_json_is_as_described(file: CheckFile) -> None:
    from perfmodel.cli.json_schema import OBJECTS
    from perfmodel.core.documents import converted

    found: dict[str, Any] = report(file, Measured(result=result(11.0, code="e" * 64), faults=())).to_json()
    assert converted(OBJECTS["check"], found, "check").outcomes[0].verdict is Verdict.REGRESSED
