"""What became of a campaign's runs."""

from collections import Counter

from perfmodel.launch.launch import L2State
from perfmodel.records.schema import (
    Correctness,
    Environment,
    Failure,
    FailureKind,
    Mark,
    Record,
    RecordKind,
    Timing,
    TimingMethod,
)
from perfmodel.validation.outcomes import family_outcomes, outcome_tables, sanitizer_outcomes

ENVIRONMENT = Environment(
    gpu_name="", compute_capability="", driver_version="", cuda_version="", compiler_version="", commit=""
)


def run(length: int, error: float | None = None, **more: object) -> Record:
    return Record(
        kind=RecordKind.KERNEL,
        name="conv1d",
        problem={"length": length},
        configuration={},
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="",
        correctness=None if error is None else Correctness(max_relative_error=error, tolerance=1e-4),
        **more,  # type: ignore[arg-type]
    )


def timing(*marks: Mark) -> Timing:
    return Timing(l2=L2State.COLD, method=TimingMethod.EVENTS, samples_s=(1e-6,), marks=marks)


def sanitizer(tool: str, family: str, failure: Failure | None = None) -> Record:
    return Record(
        kind=RecordKind.SANITIZER,
        name=tool,
        problem={},
        configuration={"family": family},
        gpu="h200",
        environment=ENVIRONMENT,
        measured_at="",
        counters={"kernels": 40.0},
        failure=failure,
    )


def test_each_configuration_counts_once_and_each_failure_by_its_kind() -> None:
    out_of_resources = Failure(kind=FailureKind.LAUNCH, message="too many resources")
    wrong = Failure(kind=FailureKind.WRONG_RESULT, message="")
    (found,) = family_outcomes(
        [
            run(1, 2e-5),
            run(1, 3e-5),  # again
            run(2, 4e-4, failure=wrong),
            run(3, 1e-5, timings=(timing(), timing(Mark.NOISY), timing(Mark.NOISY, Mark.THROTTLED))),
            run(3, counters={"smsp__inst_executed.sum": 1.0}),
            run(4, failure=out_of_resources),
        ]
    )
    assert (found.checked, found.timed, found.counted) == (2, 1, 1)  # lengths 1 and 2; 3; 3
    assert (found.wrong, found.largest_error) == (1, 4.0)  # 4e-4 / 1e-4
    assert found.failures == Counter({FailureKind.WRONG_RESULT: 1, FailureKind.LAUNCH: 1})
    assert (found.timings, found.noisy, found.throttled) == (3, 2, 1)


def test_of_a_tool_over_a_family_the_last_run_counts() -> None:
    stopped = Failure(kind=FailureKind.UNAVAILABLE, message="exit status 1")
    race = Failure(kind=FailureKind.WRONG_RESULT, message="Race reported")
    records = [
        sanitizer("memcheck", "ssim", stopped),
        sanitizer("racecheck", "conv1d", race),
        sanitizer("memcheck", "ssim"),
    ]
    assert [(one.family, one.tool, one.kernels, one.finding) for one in sanitizer_outcomes(records)] == [
        ("conv1d", "racecheck", 40, "Race reported"),
        ("ssim", "memcheck", 40, None),
    ]
    assert outcome_tables(records).splitlines()[-2:] == [
        "| conv1d | racecheck | 40 | Race reported |",
        "| ssim | memcheck | 40 | – |",
    ]
