"""Products of single warps: fragments by the PTX manual's tables give the product of NumPy, bit for bit where it is exact."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from perfmodel.launch.launch import Buffer, Launch

from .differential import EXECUTED_ARCHITECTURES, run_machine_code
from .tensor_cases import encoded, fragment, products_data, products_of, products_source

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("architecture", EXECUTED_ARCHITECTURES[1:])
@settings(max_examples=2, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32 - 1))
def test_products_of_all_shapes_and_types(architecture: str, seed: int) -> None:
    products = products_of(architecture)
    operands, expected = products_data(products, seed)
    parameters = [
        Buffer(name="in", array=operands),
        Buffer(name="out", array=np.zeros_like(expected), output=True),
    ]
    run = run_machine_code(products_source(products), architecture, Launch(grid_x=1, block_x=32), parameters)
    np.testing.assert_array_equal(run.outputs["out"], expected)
    assert run.counts.tensor >= len(products)  # some need two instructions


def test_a_fragment_of_the_manual() -> None:
    """Lane 5 of A (16 x 16, f16) holds row 1, columns 2 and 3, in its first register (PTX ISA, mma.m16n8k16)."""
    a = np.arange(256).reshape(16, 16) % 64
    halves = fragment(encoded(a, "f16"), "f16", "a").T.copy().view(np.float16)
    assert halves[5].tolist() == [a[1, 2], a[1, 3], a[9, 2], a[9, 3], a[1, 10], a[1, 11], a[9, 10], a[9, 11]]
