"""Triton's autotuner keeps the configurations that are predicted fastest."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

triton = pytest.importorskip("triton")

import importlib.util  # noqa: E402
from pathlib import Path  # noqa: E402

from perfmodel.errors import InputError  # noqa: E402
from perfmodel.tuning.triton_pruning import triton_pruning  # noqa: E402

EXAMPLE = Path(__file__).parents[3] / "examples" / "triton_add.py"


def add() -> Any:
    """The kernel of the example."""
    spec = importlib.util.spec_from_file_location("triton_add", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.add


def tensor(elements: int) -> Any:
    """What is read of a Torch tensor of 32-bit floats."""
    storage = SimpleNamespace(nbytes=lambda: 4 * elements)
    return SimpleNamespace(
        dtype="torch.float32",
        data_ptr=lambda: 0,
        element_size=lambda: 4,
        storage_offset=lambda: 0,
        untyped_storage=lambda: storage,
    )


def test_the_predicted_fastest_stay() -> None:
    kernel = add()
    configs = [triton.Config({"BLOCK": block}, num_warps=4) for block in (32, 1024)]
    arguments = {"x": tensor(2**18), "y": tensor(2**18), "out": tensor(2**18), "n": 2**18}
    prune = triton_pruning(lambda: kernel, keep=1, gpu="h200")["early_config_prune"]
    kept = prune(configs, arguments, grid=lambda values: triton.cdiv(values["n"], values["BLOCK"]), warmup=False)
    assert kept == [configs[1]]


def test_where_nothing_can_be_said_all_stay() -> None:
    kernel = add()
    configs = [triton.Config({"BLOCK": block}) for block in (32, 1024)]
    prune = triton_pruning(lambda: kernel, keep=1, gpu="no-such-gpu")["early_config_prune"]
    arguments = {"x": np.ones(64, np.float32), "y": np.ones(64, np.float32), "out": np.ones(64, np.float32), "n": 64}
    with pytest.warns(UserWarning, match="all 2 configurations are kept: unknown GPU"):
        assert prune(configs, arguments, grid=2) == configs


def test_keep_must_be_positive() -> None:
    with pytest.raises(InputError, match="keep=0 must be at least 1"):
        triton_pruning(lambda: None, keep=0)
