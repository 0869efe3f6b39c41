"""What records say was counted, prepared to be counted again."""

from pathlib import Path

import pytest

from perfmodel.errors import InputError
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.own_records import read_records
from perfmodel.validation.campaign import app
from perfmodel.validation.counted_before import counted_benchmarks, counted_choices, only_named
from perfmodel.validation.prepared import PreparedFolder, Purpose

RECORDS = Path(__file__).parents[2] / "validation" / "data" / "h200.jsonl.gz"


def test_every_launch_that_was_counted_is_chosen_once() -> None:
    choices = counted_choices(read_records(RECORDS))
    launches = {(c.family, c.problem, configuration) for c in choices for configuration in c.configurations}
    assert len(launches) == sum(len(choice.configurations) for choice in choices) == 136
    assert len({(choice.family, choice.problem) for choice in choices}) == len(choices)
    assert all(choice.purposes == (Purpose.COUNT,) for choice in choices)


def test_benchmarks_that_are_no_more_are_passed_over() -> None:
    found = counted_benchmarks(read_records(RECORDS), load_gpu("h200"))
    assert {one.kernel for one in found} >= {"shared_patterns", "common_read", "shared_read"}
    assert len({(one.kernel, str(one.setting)) for one in found}) == len(found)


def test_a_name_that_was_not_counted_is_refused_with_those_that_were() -> None:
    records = read_records(RECORDS)
    with pytest.raises(
        InputError, match=r"--only sim: no launch of it was counted; accepted: common_read, conv1d, .*ssim"
    ):
        only_named(records, ["conv1d", "sim"])
    assert {record.name for record in only_named(records, ["conv1d"])} == {"conv1d"}
    assert only_named(records, None) == list(records)


@pytest.mark.compiler
def test_the_same_code_is_prepared_that_was_counted(tmp_path: Path) -> None:
    command = ["prepare-counted", "--gpu", "h200", "--counted", str(RECORDS), "--folder", str(tmp_path)]
    app([*command, "--only", "conv1d,shuffle"], standalone_mode=False)
    kernels = PreparedFolder(tmp_path).kernels()
    assert [kernel.name for kernel in kernels] == ["conv1d"] * 27 + ["shuffle"]
    counted = {record.key for record in read_records(RECORDS) if record.counters}
    assert {kernel.key for kernel in kernels} <= counted
    assert scenario_of("h200").gpu.id == kernels[0].gpu
