"""What a library computes for a baseline is what the family computes; on the CPU, where PyTorch is installed."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.families.direct_conv2d import Conv2d
from perfmodel.families.problem_list import problem_of_fields
from perfmodel.families.registry import family
from perfmodel.validation.baselines.catalogue import BASELINES, baselines_of, find_baseline
from perfmodel.validation.baselines.interface import BaselineUnavailableError, Operation, Precision, library
from perfmodel.validation.kernel_job import compare_outputs

PROBLEMS: Mapping[str, tuple[Mapping[str, int | bool], ...]] = {
    "tiled_conv2d": ({"height": 20, "width": 31, "filter_height": 3, "filter_width": 5},),
    "direct_conv2d": (
        {"batch": 2, "in_channels": 3, "out_channels": 4, "height": 11, "width": 13, "filter_height": 3}
        | {"filter_width": 5, "stride": 2, "padding": 1},
        {"in_channels": 4, "out_channels": 5, "height": 11, "width": 11, "filter_height": 3, "filter_width": 3},
        {"in_channels": 4, "out_channels": 4, "height": 11, "width": 11, "filter_height": 3, "filter_width": 3}
        | {"padding": 1, "depthwise": True},
    ),
    "pointwise_conv2d": tuple(
        {"batch": batch, "in_channels": 7, "out_channels": 5, "height": 9, "width": 4} for batch in (1, 2)
    ),
    "conv1d": tuple(
        {"batch": batch, "in_channels": 7, "out_channels": 5, "length": 9, "filter_width": 4, "padding": 1}
        for batch in (1, 2)
    ),
    "ssim": tuple(
        {"batch": 2, "channels": 3, "height": 40, "width": 33, "gradients": gradients} for gradients in (False, True)
    ),
}
ONLY_ON_A_GPU = ("CuPy correlate", "cuBLASLt fastest", "fused-ssim")


@pytest.mark.parametrize("name", sorted(PROBLEMS))
def test_operations_meet_the_reference_of_the_family(name: str) -> None:
    torch: Any = pytest.importorskip("torch", reason="PyTorch is not installed")
    chosen = family(name)
    for sizes in PROBLEMS[name]:
        problem = problem_of_fields(chosen, sizes)
        inputs = chosen.inputs(problem, np.random.default_rng(0))
        exact = chosen.reference(problem, inputs)
        for baseline in baselines_of(name, problem):
            if not baseline.name.startswith(ONLY_ON_A_GPU):
                outputs = results(torch, baseline.describe(torch, problem, inputs))
                shaped = {output: array.reshape(exact[output].shape) for output, array in outputs.items()}
                assert compare_outputs(shaped, exact, chosen.tolerance(problem)).passed, baseline.name


def results(torch: Any, operation: Operation) -> dict[str, NDArray[np.float32]]:
    with torch.inference_mode():
        found = operation.function(*operation.tensors)
    return {output: result.numpy() for output, result in zip(operation.outputs, found, strict=True)}


def test_every_family_has_baselines_with_names_of_their_own_and_tensor_cores_are_labelled() -> None:
    for name, baselines in BASELINES.items():
        names = [baseline.name for baseline in baselines]
        assert len(set(names)) == len(names)
        assert all(find_baseline(name, one).name == one for one in names)
        for baseline in baselines:
            assert (baseline.settings.precision is Precision.TF32) == ("TF32" in baseline.name)


def test_depthwise_layers_are_no_matrix_product() -> None:
    dense = Conv2d(in_channels=4, out_channels=4, height=9, width=9, filter_height=3, filter_width=3)
    depthwise = Conv2d(
        in_channels=4, out_channels=4, height=9, width=9, filter_height=3, filter_width=3, depthwise=True
    )
    names = {baseline.name for baseline in baselines_of("direct_conv2d", dense)}
    assert names - {baseline.name for baseline in baselines_of("direct_conv2d", depthwise)} == {
        "im2col + cuBLAS",
        "im2col + cuBLASLt",
    }


def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(BaselineUnavailableError, match="no_such_library is not installed"):
        library("no_such_library")
