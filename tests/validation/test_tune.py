"""`perfmodel tune`: replayed from cache files, resumed, refused in one line; on a GPU where there is one."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from perfmodel.cli.app import run
from perfmodel.cli.json_schema import OBJECTS
from perfmodel.errors import InputError
from perfmodel.records.schema import FailureKind
from perfmodel.records.tuning_cache import TunedRun, TuningCache, read_tuning_cache, write_tuning_cache
from perfmodel.tuning.tuning_run import TuningEnd
from perfmodel.validation.device import GpuMissingError, require_device
from perfmodel.validation.tuned_kernel import differs
from perfmodel.validation.tuning_session import TuningLimits, candidates_of_cache, tune_candidates

EXAMPLES = Path(__file__).parents[2] / "examples"
PARAMETERS = {"BLOCK": (32, 64, 128, 256, 512), "PER_THREAD": (1, 2, 4, 8), "STRIDE": (1, 9)}
LIMITS = TuningLimits(runs=100, time_limit_s=60.0, gain=0.01, seed=0)


def seconds(block: int, per_thread: int, stride: int) -> float | None:
    """A made-up time: strided access is slow, 256 threads that do two elements each are best; 512 that do eight do not run."""
    if block * per_thread > 2048:
        return None
    return (1.0 + abs(np.log2(block / 256)) + 0.5 * abs(np.log2(per_thread / 2))) * (1 if stride == 1 else 3) * 1e-3


def measured(values: Any) -> TunedRun:
    """The made-up run of a configuration."""
    found = seconds(*values)
    if found is None:
        return TunedRun(seconds=None, failure="RuntimeFailedConfig", message="too many")
    return TunedRun(seconds=found, samples_s=(found, found))


WHOLE = TuningCache(
    device_name="NVIDIA H200",
    kernel_name="scale",
    problem_size=(65536,),
    parameters=PARAMETERS,
    runs={values: measured(values) for values in product(*PARAMETERS.values())},
)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "whole.json"
    write_tuning_cache(path, WHOLE)
    return path


def test_a_cache_file_holds_what_was_written(whole: Path) -> None:
    assert read_tuning_cache(whole) == WHOLE


def test_a_replay_needs_no_gpu(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "--replay", str(whole), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["best"] == {"BLOCK": 256, "PER_THREAD": 2, "STRIDE": 1}
    assert found["candidates"] == 5 * 4 * 2
    assert found["measured"] == len(found["runs"]) < 40
    assert (found["end"], found["measured_before"]) == ("settled", 0)
    assert {one["failure"] for one in found["runs"] if one["measured_us"] is None} <= {"too many"}
    assert len(msgspec.convert(found, OBJECTS["tune"]).runs) == found["measured"]


def test_a_replay_says_what_was_found(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tune", "--replay", str(whole), "--runs", "20"]) == 0
    printed = capsys.readouterr().out
    assert "scale on NVIDIA H200: 40 candidates, 20 measured; --runs 20 are done" in printed
    assert printed.count("\n") == 1 + 2 + 5  # what was done, a title with its columns, the five fastest


@pytest.mark.compiler
def test_what_is_predicted_fastest_is_replayed_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    space = {"BLOCK_X": (16, 32, 64), "BLOCK_Y": (2, 4, 8), "OUTPUTS": (1, 2, 4)}
    runs = {values: TunedRun(seconds=1e-5) for values in product(*space.values())}
    cache = tmp_path / "blur.json"
    write_tuning_cache(cache, replace(WHOLE, kernel_name="blur", parameters=space, runs=runs))
    given = ["tune", str(EXAMPLES / "blur.cu"), "--space", str(EXAMPLES / "blur.toml"), "--replay", str(cache)]
    assert run([*given, "--gpu", "h200", "--executions", "3", "--runs", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["candidates"] == 27 - 3  # three have more threads than the constraint allows
    assert found["runs"][0]["predicted_us"] > 0
    assert run(given) == 2
    assert "--gpu NAME is missing" in capsys.readouterr().err


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    path, asked = tmp_path / "cache.json", []
    candidates = candidates_of_cache(WHOLE)

    def run_one(index: int) -> TunedRun:
        asked.append(index)
        return measured(candidates.values[index])

    begun = replace(WHOLE, runs={})
    first = tune_candidates(candidates, begun, run_one, replace(LIMITS, runs=10), lambda c: write_tuning_cache(path, c))
    assert (first.end, first.measured, first.known) == (TuningEnd.RUNS, 10, 0)
    there = read_tuning_cache(path)
    assert there == first.cache
    second = tune_candidates(candidates, there, run_one, LIMITS, lambda c: write_tuning_cache(path, c))
    assert (second.end, second.known) == (TuningEnd.SETTLED, 10)
    assert len(asked) == len(set(asked)) == first.measured + second.measured
    assert second.fastest[0] == (256, 2, 1)
    again = tune_candidates(candidates, second.cache, run_one, LIMITS, lambda _: None)
    assert (again.end, again.measured) == (TuningEnd.SETTLED, 0)
    whole = tune_candidates(candidates, begun, lambda i: measured(candidates.values[i]), LIMITS, lambda _: None)
    assert [candidates.values[i] for i in asked] == list(whole.cache.runs)  # as if nothing had interrupted it


def test_what_others_measured_is_known_before_anything_is() -> None:
    candidates = candidates_of_cache(WHOLE)
    strided = {values: one for values, one in WHOLE.runs.items() if values[2] != 1}
    found = tune_candidates(
        candidates, replace(WHOLE, runs=strided), lambda i: measured(candidates.values[i]), LIMITS, lambda _: None
    )
    assert found.known == 20
    assert not set(list(found.cache.runs)[20:]) & set(strided)
    assert found.fastest[0] == (256, 2, 1)


def test_where_nothing_runs_the_status_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.json"
    failed = TunedRun(seconds=None, failure="RuntimeFailedConfig", message="too many")
    write_tuning_cache(path, replace(WHOLE, runs=dict.fromkeys(WHOLE.runs, failed)))
    assert run(["tune", "--replay", str(path), "--runs", "3"]) == 1
    printed = capsys.readouterr()
    assert printed.out == "scale on NVIDIA H200: 40 candidates, 3 measured; --runs 3 are done\n"
    assert printed.err == "perfmodel: 3 of 3 have no time: too many\n"


def test_everything_is_measured_where_no_gain_is_too_small() -> None:
    candidates = candidates_of_cache(WHOLE)
    begun = replace(WHOLE, runs={})
    every = replace(LIMITS, gain=0.0)
    found = tune_candidates(candidates, begun, lambda i: measured(candidates.values[i]), every, lambda _: None)
    assert (found.end, found.measured) == (TuningEnd.ALL_MEASURED, 40)
    assert found.failures == {"too many": 2 * 1}  # 512 threads of 8 elements, with both strides
    assert len(found.fastest) == 38


def test_kernel_tuner_goes_on_from_the_file(whole: Path) -> None:
    kernel_tuner = pytest.importorskip("kernel_tuner")
    results, _ = kernel_tuner.tune_kernel(
        "scale",
        "__global__ void scale(float *x) {}",
        (65536,),
        [np.ones(4, np.float32)],
        {name: list(values) for name, values in PARAMETERS.items()},
        block_size_names=["BLOCK"],
        simulation_mode=True,
        cache=str(whole),
        lang="CUDA",
        quiet=True,
    )
    assert min(results, key=lambda one: one["time"] if isinstance(one["time"], float) else 1e9)["time"] == 1.0  # ms


def test_outputs_are_compared_with_those_of_the_first(tmp_path: Path) -> None:
    expected = tmp_path / "expected"
    first = {"out": np.float32([1.0, -4.0])}
    assert differs(first, expected, 1e-3) is None
    assert differs({"out": np.float32([1.002, -4.0])}, expected, 1e-3) is None  # 0.002 of 4
    wrong = differs({"out": np.float32([1.0, -4.4])}, expected, 1e-3)
    assert wrong is not None
    assert (wrong.kind, wrong.message) == (
        FailureKind.WRONG_RESULT,
        "out differs from what is expected by 0.1 of its largest value",
    )
    assert differs({"out": np.float32([1.0, np.nan])}, expected, 1e-3) is not None
    assert differs({"other": first["out"]}, expected, 1e-3) is not None


def test_a_file_of_another_tuning_is_refused() -> None:
    other = replace(WHOLE, device_name="NVIDIA A100")
    with pytest.raises(InputError, match=r"c.json: device name is NVIDIA A100 there and NVIDIA H200 here"):
        other.require_same_tuning(WHOLE, Path("c.json"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "what to tune is missing"),
        (["tiled_conv2d"], "--cache FILE.json is missing"),
        (["tiled_conv2d", "--cache", "c.json", "--replay", "c.json"], "--cache and --replay exclude each other"),
        (["tiled_conv2d", "--cache", "c.json", "--reference", "out.npy"], "give PARAMETER=FILE.npy"),
        (["tiled_conv2d", "--cache", "c.json", "--reference", "out=none.npy"], "none.npy"),
        (["--replay", "none.json"], "none.json"),
        (["tiled_conv2d", "--replay", "{whole}", "--gpu", "h200"], "the cache file tunes BLOCK, PER_THREAD, STRIDE"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], message: str, whole: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["tune", *(one.format(whole=whole) for one in arguments)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_without_a_gpu_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        require_device()
    except GpuMissingError:
        pass
    else:
        pytest.skip("this machine has a GPU")
    cache = tmp_path / "c.json"
    given = [str(EXAMPLES / "blur.cu"), "--space", str(EXAMPLES / "blur.toml"), "--cache", str(cache)]
    assert run(["tune", *given]) == 2
    error = capsys.readouterr().err
    assert error.startswith("perfmodel: error: no GPU was found: ")
    assert error.count("\n") == 1
    assert not cache.exists()


@pytest.mark.gpu
@pytest.mark.compiler
def test_a_kernel_is_tuned_on_the_gpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cache = tmp_path / "c.json"
    given = [str(EXAMPLES / "blur.cu"), "--space", str(EXAMPLES / "blur.toml"), "--cache", str(cache), "--json"]
    assert run(["tune", *given, "--executions", "0", "--runs", "5"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert all(one["failure"] is None for one in first["runs"])
    assert run(["tune", *given, "--executions", "0", "--runs", "3"]) == 0
    second = json.loads(capsys.readouterr().out)
    assert (second["measured_before"], second["measured"]) == (5, 3)
    assert len(read_tuning_cache(cache).runs) == 8
