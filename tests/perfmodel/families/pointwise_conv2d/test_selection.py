import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.pointwise_conv2d.selection import NEAR_TIE, Merits, Rule, by_intensity, regret, select


def merits(**changed):
    values = {
        "feasible": np.array([True, True, True, False]),
        "intensity": np.array([16.0, 15.5, 8.0, 40.0]),
        "blocks": np.array([264.0, 136.0, 64.0, 1.0]),
        "registers": np.array([90.0, 128.0, 40.0, 8.0]),
        "predicted_s": np.array([3e-6, 2e-6, 4e-6, 1e-6]),
    }
    return Merits(**(values | changed))


def test_each_rule_has_its_own_choice_and_none_takes_an_infeasible_tuple():
    assert select(Rule.INTENSITY, merits()) == 1  # 15.5 is within 5 % of 16 and has fewer blocks
    assert select(Rule.REGISTERS, merits()) == 2
    assert select(Rule.PREDICTED_TIME, merits()) == 1


def test_the_near_tie_is_what_is_stated():
    assert NEAR_TIE == 0.05
    just_outside = merits(intensity=np.array([16.0, 16 * 0.949, 8.0, 40.0]))
    assert select(Rule.INTENSITY, just_outside) == 0
    assert by_intensity(just_outside, near_tie=0.06) == 1


def test_equal_blocks_leave_the_larger_intensity():
    assert select(Rule.INTENSITY, merits(blocks=np.full(4, 100.0))) == 0


@pytest.mark.parametrize("rule", Rule)
def test_nothing_feasible_chooses_nothing(rule):
    assert select(rule, merits(feasible=np.zeros(4, dtype=bool))) is None


def test_predicted_time_needs_times():
    with pytest.raises(InputError, match="predicted_s=None"):
        select(Rule.PREDICTED_TIME, merits(predicted_s=None))


def test_regret_is_measured_among_what_was_measured():
    measured = np.array([6e-6, 4e-6, np.nan, 1e-6])
    assert regret(Rule.INTENSITY, merits(), measured) == 1.0
    assert regret(Rule.REGISTERS, merits(), measured) == pytest.approx(
        6 / 4
    )  # tuple 2 was not measured, 0 has 90 registers
