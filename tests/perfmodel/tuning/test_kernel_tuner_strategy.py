"""Kernel Tuner replays a cache file for the strategy of this package."""

import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

kernel_tuner = pytest.importorskip("kernel_tuner")

from perfmodel.tuning.kernel_tuner_strategy import kernel_tuner_strategy  # noqa: E402

SCALE = """
__global__ void scale(float *x, int n) {
    for (int i = blockIdx.x * BLOCK * PER_THREAD + threadIdx.x, k = 0; k < PER_THREAD; ++k, i += BLOCK)
        if (i < n) x[i * STRIDE % n] *= 2.0f;
}
"""
PARAMETERS: dict[str, list[int]] = {"BLOCK": [32, 64, 128, 256, 512], "PER_THREAD": [1, 2, 4, 8], "STRIDE": [1, 9]}
SIZE = 2**16


def time_ms(block: int, per_thread: int, stride: int) -> float:
    """A made-up time: strided access is slow, 256 threads that do two elements each are best."""
    return (1.0 + abs(np.log2(block / 256)) + 0.5 * abs(np.log2(per_thread / 2))) * (1 if stride == 1 else 3)


def tuned(folder: Path, strategy: Any, budget: int = 40) -> list[dict[str, Any]]:
    """The runs that Kernel Tuner made, in order."""
    space = list(product(*PARAMETERS.values()))
    runs = {
        ",".join(map(str, values)): dict(zip(PARAMETERS, values, strict=True)) | {"time": time_ms(*values), "times": []}
        for values in space
    }
    document = {
        "device_name": "made up",
        "kernel_name": "scale",
        "problem_size": SIZE,
        "tune_params_keys": list(PARAMETERS),
        "tune_params": PARAMETERS,
        "objective": "time",
        "cache": runs,
    }
    cache = folder / "cache.json"
    cache.write_text(json.dumps(document), encoding="utf-8")
    found, _ = kernel_tuner.tune_kernel(
        "scale",
        SCALE,
        SIZE,
        [np.ones(SIZE, np.float32), np.int32(SIZE)],
        PARAMETERS,
        grid_div_x=["BLOCK", "PER_THREAD"],
        block_size_names=["BLOCK"],
        strategy=strategy,
        strategy_options={"max_fevals": budget},
        simulation_mode=True,
        cache=str(cache),
        lang="CUDA",
    )
    return list(found)


def test_what_is_said_to_be_fastest_runs_first(tmp_path: Path) -> None:
    def predicted(values: Any) -> float:
        return time_ms(values["BLOCK"], values["PER_THREAD"], values["STRIDE"]) * 1e-3

    first = tuned(tmp_path, kernel_tuner_strategy(predicted=predicted), budget=5)[0]
    assert (first["BLOCK"], first["PER_THREAD"], first["STRIDE"]) == (256, 2, 1)


def test_configurations_are_executed_before_the_first_run(tmp_path: Path) -> None:
    runs = tuned(tmp_path, kernel_tuner_strategy(gpu="h200", executions=20), budget=6)
    assert runs[0]["STRIDE"] == 1  # a stride of 9 needs 9 times the sectors
    assert sum(run["STRIDE"] == 1 for run in runs) >= 4  # half of the space has it


def test_it_ends_by_itself(tmp_path: Path) -> None:
    runs = tuned(tmp_path, kernel_tuner_strategy(tolerance=0.01))
    assert len(runs) < 40
    assert min(run["time"] for run in runs) == 1.0


def test_where_nothing_can_be_executed_a_warning_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def executed(problem: Any, configurations: Any, *rest: Any) -> Any:
        return np.full(len(configurations), np.inf)

    monkeypatch.setattr("perfmodel.tuning.kernel_tuner_strategy.executed_seconds", executed)
    with pytest.warns(UserWarning, match="nothing is predicted: no configuration could be compiled and executed"):
        assert len(tuned(tmp_path, kernel_tuner_strategy(gpu="h200"), budget=6)) == 6
