"""Kernels beside libraries, and the predicted fastest beside the fastest."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from campaigns.losses import loss_rows, losses
from campaigns.reports import markdown
from perfmodel.core.json_values import plain
from perfmodel.families.tiled_conv2d import TiledConv2d, TiledConv2dConfiguration
from perfmodel.launch.launch import L2State
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import (
    Environment,
    Failure,
    FailureKind,
    Predicted,
    Record,
    RecordKind,
    Scalar,
    Timing,
    TimingMethod,
)
from perfmodel.validation.comparison import Comparison, comparison_rows, comparisons, summary_rows

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "validation" / "data" / "h200-libraries.jsonl.gz"
PAGE = ROOT / "docs" / "notes" / "2026-11-libraries.md"

ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)
TILED = {"height": 64, "width": 64, "filter_height": 3, "filter_width": 3}


def record(kind: RecordKind, name: str, configuration: Mapping[str, Scalar], seconds: float) -> Record:
    """Cold in a graph; warm in half the time."""
    return Record(
        kind=kind,
        name=name,
        problem={"length": 8},
        problem_name="a row",
        configuration=configuration,
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="",
        timings=(
            Timing(l2=L2State.WARM, method=TimingMethod.GRAPH, samples_s=(seconds / 2,)),
            Timing(l2=L2State.COLD, method=TimingMethod.GRAPH, samples_s=(seconds,)),
        ),
    )


def kernel(lanes: int, seconds: float, place: int | None = None) -> Record:
    found = record(RecordKind.KERNEL, "conv1d", {"lanes": lanes}, seconds)
    return replace(found, predicted=Predicted(fidelity=Fidelity.COMPILED, time_s=1e-6, place=place))


def library(name: str, seconds: float, precision: str = "fp32", family: str = "conv1d") -> Record:
    return record(RecordKind.BASELINE, name, {"family": family, "precision": precision}, seconds)


def cold(records: list[Record]) -> list[Comparison]:
    return [one for one in comparisons(records) if one.l2 is L2State.COLD]


def test_fastest_and_predicted_first_kernel_beside_the_fastest_library_of_the_same_precision() -> None:
    failure = Failure(kind=FailureKind.WRONG_RESULT, message="")
    (found,) = cold(
        [
            kernel(1, 40e-6, place=2),
            kernel(2, 20e-6),
            kernel(4, 25e-6, place=1),
            library("slow", 90e-6),
            library("fast", 30e-6),
            library("tensor cores", 5e-6, "tf32"),
            replace(library("wrong", 1e-6), failure=failure),
        ]
    )
    assert found.first is not None
    assert found.tensor_library is not None
    assert (found.best.seconds, found.first.seconds, found.library.name) == (20e-6, 25e-6, "fast")
    assert found.ratio == pytest.approx(1.5)  # 30 / 20
    assert found.first_ratio == pytest.approx(1.2)  # 30 / 25
    assert found.regret == pytest.approx(1.25)  # 25 / 20
    assert (found.tensor_library.name, found.libraries) == ("tensor cores", 2)
    assert found.title == "a row"


def test_the_newest_ranking_says_which_is_first() -> None:
    older, newer = (
        kernel(1, 20e-6, place=1),
        replace(kernel(2, 30e-6, place=1), measured_at="2026-11-26T00:00:00+00:00"),
    )
    for runs in ([older, newer], [newer, older]):
        (found,) = cold([*runs, library("a", 60e-6)])
        assert found.first is not None
        assert (found.first.seconds, found.best.seconds) == (30e-6, 20e-6)


def test_products_of_tf32_numbers_are_compared_with_such() -> None:
    problem = {"length": 8, "precision": "tf32"}
    runs = [
        replace(one, problem=problem) for one in (kernel(1, 20e-6), library("a", 9e-6), library("b", 10e-6, "tf32"))
    ]
    (found,) = cold(runs)
    assert (found.library.name, found.tensor_library, found.libraries) == ("b", None, 1)
    assert [row[0] for row in summary_rows([found, *cold([kernel(1, 20e-6), library("a", 9e-6)])])[1]] == [
        "conv1d, TF32",
        "conv1d",
    ]


def test_of_the_predicted_the_next_one_counts_where_the_first_failed() -> None:
    failed = replace(kernel(8, 1e-6, place=1), failure=Failure(kind=FailureKind.COMPILE, message=""))
    (found,) = cold([failed, kernel(1, 40e-6, place=2), kernel(2, 20e-6), library("a", 1e-5)])
    assert found.first is not None
    assert found.first.place == 2


def test_only_times_of_graphs_are_compared() -> None:
    events = [
        replace(one, timings=tuple(replace(timing, method=TimingMethod.EVENTS) for timing in one.timings))
        for one in (kernel(1, 3e-6), library("a", 9e-6))
    ]
    assert comparisons(events) == ()
    assert comparisons([events[0], library("a", 9e-6)]) == ()
    assert [one.l2 for one in comparisons([kernel(1, 3e-6), library("a", 9e-6)])] == [L2State.COLD, L2State.WARM]


def test_nothing_is_said_of_a_first_where_none_was_ranked() -> None:
    found = cold([kernel(1, 20e-6), library("a", 30e-6)])
    assert found[0].to_json()["predicted_first"] is None
    assert comparison_rows(found)[1][0][7:] == ("1.50", "–", "–", "–")


def test_summary_counts_wins_and_takes_means() -> None:
    def problem(length: int, *records: Record) -> list[Record]:
        return [replace(one, problem={"length": length}) for one in records]

    records = [
        *problem(1, kernel(1, 1e-6, 1), library("a", 4e-6)),
        *problem(2, kernel(1, 2e-6), kernel(2, 3e-6, 1), library("a", 1e-6), library("b", 1e-7, "tf32")),
    ]
    columns, rows = summary_rows(cold(records))
    # ratios 4 and 1/2, mean sqrt(2); of the predicted first 4 and 1/3, sqrt(4/3); first over best 1 and 3/2
    assert dict(zip(columns, rows[0], strict=True)) == {
        "family": "conv1d",
        "L2": "cold",
        "problems": "2",
        "kernel faster": "1",
        "library faster": "1",
        "library / best": "1.41",
        "least": "0.50",
        "most": "4.00",
        "library / first": "1.15",
        "first / best: mean": "1.250",
        "worst": "1.50",
        "TF32 library / best": "0.05",
    }
    assert [row[7] for row in comparison_rows(cold(records))[1]] == ["0.50", "4.00"]  # the worst first
    assert markdown((columns, rows)).count("\n") == 3


def test_losses_are_explained_by_the_prediction_in_the_state_of_l2_that_was_measured() -> None:
    configuration = TiledConv2dConfiguration(block_size_x=32, block_size_y=4)
    runs = [
        replace(record(RecordKind.KERNEL, "tiled_conv2d", plain(configuration), 2e-6), problem=TILED),
        replace(library("a", 1e-6, family="tiled_conv2d"), problem=TILED),
    ]
    found = losses(comparisons(runs), Fidelity.ANALYTIC)
    problem = TiledConv2d(**TILED)
    for one, l2 in zip(found, (L2State.COLD, L2State.WARM), strict=True):
        (expected,) = predict_all(problem, [configuration], scenario_of("h200", l2=l2), Fidelity.ANALYTIC)
        assert one.prediction.time == expected.time
        assert one.largest_terms(1) == [(expected.time.limiter, getattr(expected.time.terms, expected.time.limiter))]
    assert found[0].prediction.time != found[1].prediction.time
    assert loss_rows(found)[1][0][:5] == ("tiled_conv2d", "cold", "a row", "0.50", "a")
    assert losses(comparisons([*runs[:1], replace(runs[1], timings=runs[0].timings)]), Fidelity.ANALYTIC) == ()


def test_the_page_says_what_the_records_say() -> None:
    found, page = comparisons(read_records(RECORDS)), PAGE.read_text()
    for l2 in L2State:
        of_state = [one for one in found if one.l2 is l2]
        assert len(of_state) == 50
        assert markdown(summary_rows(of_state)) in page
        assert markdown(comparison_rows(of_state)) in page


FAMILIES = RECORDS.with_name("h200-families.jsonl.gz")
"""The campaign that measured all families' designs of today."""


def test_the_page_of_all_families_says_what_its_records_say() -> None:
    page = (ROOT / "docs" / "notes" / "2026-11-families.md").read_text()
    of_precisions = [(RECORDS.with_name(f"h200-{name}.jsonl.gz"), 12, (L2State.COLD,)) for name in ("half", "tf32")]
    for path, problems, states in ((FAMILIES, 97, tuple(L2State)), *of_precisions):
        found = comparisons(read_records(path))
        for l2 in states:
            of_state = [one for one in found if one.l2 is l2]
            assert len(of_state) == problems
            assert markdown(summary_rows(of_state)) in page
        assert markdown(comparison_rows([one for one in found if one.l2 is L2State.COLD])) in page


def test_the_readme_says_what_the_newest_records_say() -> None:
    found = comparisons(read_records(FAMILIES))
    columns, rows = summary_rows([one for one in found if one.l2 is L2State.COLD])
    firsts = {row[0]: row[columns.index("library / first")] for row in rows}
    (line,) = re.findall(r"\[Kernels beside libraries\].*", (ROOT / "README.md").read_text())
    said = re.findall(r"(\d+\.\d+)(?: times as long)? for `(\w+)`", line)
    assert {name: value for value, name in said} == firsts
