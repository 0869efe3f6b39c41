"""Results against references."""

import numpy as np
import pytest

from perfmodel.validation.kernel_job import compare_outputs

EXACT = np.array([[1.0, -4.0], [2.0, 0.5]])


def test_error_is_relative_to_the_largest_magnitude() -> None:
    output = (EXACT + np.array([[0.0, 0.0], [0.004, 0.0]])).astype(np.float32)
    check = compare_outputs({"y": output}, {"y": EXACT}, tolerance=2e-3)
    assert check.max_relative_error == pytest.approx(0.004 / 4.0, rel=1e-3)
    assert check.passed


@pytest.mark.parametrize(
    "output",
    [
        np.array([[1.0, -4.0], [2.0, np.nan]], np.float32),  # one element was never written
        np.array([[1.0, -4.0], [2.0, np.inf]], np.float32),
        np.array([1.0, -4.0, 2.0, 0.5], np.float32),  # another shape
        None,
    ],
)
def test_what_was_not_computed_never_passes(output: np.ndarray | None) -> None:
    outputs = {} if output is None else {"y": output}
    assert not compare_outputs(outputs, {"y": EXACT}, tolerance=1.0).passed


def test_the_worst_output_decides() -> None:
    good, bad = EXACT.astype(np.float32), (1.5 * EXACT).astype(np.float32)
    check = compare_outputs({"a": good, "b": bad}, {"a": EXACT, "b": EXACT}, tolerance=1e-5)
    assert check.max_relative_error == pytest.approx(0.5)
    assert not check.passed


def test_nothing_to_compare_is_no_success() -> None:
    assert not compare_outputs({}, {}, tolerance=1.0).passed
