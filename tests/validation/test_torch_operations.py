"""What PyTorch computes for a baseline is what the family computes; on the CPU, where PyTorch is installed."""

from collections.abc import Mapping

import numpy as np
import pytest

from perfmodel.families.registry import family
from perfmodel.validation.baselines.torch_operations import (
    Describe,
    conv1d_operation,
    direct_operation,
    pointwise_operation,
    ssim_operation,
    tiled_operation,
)
from perfmodel.validation.campaign_plan import problem_of_sizes
from perfmodel.validation.correctness import compare_outputs

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

CASES: list[tuple[str, Describe, Mapping[str, int | bool]]] = [
    ("tiled_conv2d", tiled_operation, {"height": 20, "width": 31, "filter_height": 3, "filter_width": 5}),
    (
        "direct_conv2d",
        direct_operation,
        {
            "batch": 2,
            "in_channels": 3,
            "out_channels": 4,
            "height": 11,
            "width": 13,
            "filter_height": 3,
            "filter_width": 5,
            "stride": 2,
            "padding": 1,
        },
    ),
    (
        "direct_conv2d",
        direct_operation,
        {"in_channels": 4, "out_channels": 4, "height": 11, "filter_height": 3, "padding": 1, "depthwise": True},
    ),
    ("pointwise_conv2d", pointwise_operation, {"batch": 2, "in_channels": 7, "out_channels": 5, "height": 9}),
    ("conv1d", conv1d_operation, {"batch": 2, "in_channels": 7, "out_channels": 5, "length": 9}),
    ("ssim", ssim_operation, {"batch": 2, "channels": 3, "height": 40, "width": 33}),
]


@pytest.mark.parametrize(("name", "describe", "sizes"), CASES)
def test_operation_meets_the_reference_of_the_family(
    name: str, describe: Describe, sizes: Mapping[str, int | bool]
) -> None:
    chosen, problem = family(name), problem_of_sizes(name, sizes)
    inputs = chosen.inputs(problem, np.random.default_rng(0))
    operation = describe(torch, problem, inputs)
    tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in operation.tensors.values()]
    with torch.inference_mode():
        result = operation.function(*tensors).numpy()
    exact = chosen.reference(problem, inputs)[operation.output]
    outputs = {operation.output: result.reshape(exact.shape)}
    assert compare_outputs(outputs, {operation.output: exact}, chosen.tolerance(problem)).passed
