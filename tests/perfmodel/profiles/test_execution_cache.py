"""What is executed a second time, and what is taken from the first execution."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfmodel.launch.contents import Computed, Repeated
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.prediction.analyze import Analysis, analyze
from perfmodel.profiles import executed_profile
from perfmodel.profiles.profile_cache import launch_key

SOURCE = """
__global__ void scale(float *x, const float *by, int n)
{
    __shared__ float s[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    s[threadIdx.x] = x[i];
    x[i] = s[63 - threadIdx.x] * by[0] * n;
}
"""


def analysed(gpu: str = "h200", **given: Any) -> Analysis:
    size = given.pop("size", 1 << 16)
    arguments = {"kernel": "scale", "grid": size // 64, "block": 64, "args": [f"f32[{size}]", "f32[1]", 3]}
    return analyze(SOURCE, gpu=gpu, **(arguments | given))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the executions that were made, with an empty cache."""
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path))
    made: list[str] = []
    for name in ("count_launch", "executed_record"):
        execute = getattr(executed_profile, name)

        def counted(*args: Any, name: str = name, execute: Any = execute, **options: Any) -> Any:
            made.append(name)
            return execute(*args, **options)

        monkeypatch.setattr(executed_profile, name, counted)
    return made


@pytest.mark.compiler
def test_another_l2_state_or_clock_executes_nothing(runs: list[str]) -> None:
    first = analysed()
    assert runs == ["count_launch"]  # one run for counts, caches, critical path and checks
    again = analysed(l2="warm", sm_clock_mhz=1000)
    assert runs == ["count_launch"]
    assert again.prediction.counts.warp_instructions == first.prediction.counts.warp_instructions
    assert again.prediction.counts.l2_read_sectors == first.prediction.counts.l2_read_sectors
    assert [fault.text for fault in again.faults] == [fault.text for fault in first.faults]
    assert "race in shared memory" in first.faults[0].text  # the barrier is missing
    assert again.prediction.time.predicted_s != first.prediction.time.predicted_s


@pytest.mark.compiler
def test_another_gpu_with_the_same_code_executes_nothing(
    runs: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed()
    found = analysed("h100-pcie-80gb").prediction.counts  # 114 SMs, not 132
    assert runs == ["count_launch"]
    monkeypatch.setenv("PERFMODEL_CACHE", str(tmp_path / "other"))
    assert found == analysed("h100-pcie-80gb").prediction.counts  # as if its own blocks had been executed
    assert runs == ["count_launch"] * 2
    analysed("a100-sxm-40gb")  # other machine code
    assert runs == ["count_launch"] * 3


@pytest.mark.compiler
def test_other_arguments_are_executed(runs: list[str]) -> None:
    analysed()
    analysed(size=1 << 15)
    analysed(args=["f32[65536]", "f32[1]", 4])
    assert runs == ["count_launch"] * 3


def test_keys_are_those_of_the_contents() -> None:
    def key(array: Any, blocks: int = 1) -> str:
        launch = Launch(grid_x=blocks, block_x=32)
        return launch_key(launch, KernelCall(parameters=(Buffer(name="x", array=array), np.int32(3))))

    ones = np.ones(4, np.float32)
    same = [ones, ones.copy()]
    others = [
        ones.astype(np.float64),
        np.append(ones[:3], np.float32(2)),
        Repeated(ones, 4),
        Repeated(ones, 8),
        Computed("f32 arange", np.float32, np.dtype(np.float32), 4),  # type: ignore[arg-type]
    ]
    assert len({key(array) for array in same}) == 1
    assert len({key(array) for array in (*same, *others)}) == 1 + len(others)
    assert key(ones) != key(ones, blocks=2)
