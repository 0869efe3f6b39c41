"""The exchange plans against SPEC's table, against lane-by-lane execution, and against an exhaustive search."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.families.direct_conv2d.exchange_plans import (
    ExchangePlan,
    ExchangeStep,
    executed_plan,
    smallest_plan,
)

WIDTHS = range(1, 34)
MASKS = (1, 2, 4, 8, 16)
LANES = np.arange(32)


@pytest.mark.parametrize(
    ("filter_width", "load_offsets", "shuffles"),
    [(3, (0, 2), 1), (5, (0, 4), 3), (7, (0, 4, 6), 4), (9, (0, 8), 7), (11, (0, 8, 10), 8)],
)
def test_table_of_plans_without_over_reading(filter_width: int, load_offsets: tuple[int, ...], shuffles: int) -> None:
    plan = smallest_plan(filter_width, filter_width - 1)
    assert (plan.load_offsets, plan.shuffles) == (load_offsets, shuffles)


@pytest.mark.parametrize(("filter_width", "last_load", "shuffles"), [(7, 8, 6), (11, 16, 11)])
def test_table_of_plans_with_over_reading(filter_width: int, last_load: int, shuffles: int) -> None:
    plan = smallest_plan(filter_width, 32)
    assert (plan.load_offsets, plan.shuffles) == ((0, last_load), shuffles)


def test_five_taps_are_exchanged_in_the_order_of_the_paper() -> None:
    assert smallest_plan(5, 4).steps == (ExchangeStep(2, 2), ExchangeStep(1, 1), ExchangeStep(3, 1))


@pytest.mark.parametrize("filter_width", [1, 2])
def test_one_and_two_taps_need_no_exchange(filter_width: int) -> None:
    assert executed_plan(filter_width) == ExchangePlan(
        filter_width=filter_width, load_offsets=tuple(range(filter_width)), steps=()
    )


def element_held(plan: ExchangePlan) -> NDArray[np.int64]:
    """Which element of the row each lane of a warp holds after the plan, shape ``(filter_width, 32)``."""
    taps = {offset: LANES + offset for offset in plan.load_offsets}
    for step in plan.steps:
        published = np.where(LANES & step.mask, taps[step.tap - step.mask], taps[step.tap + step.mask])
        taps[step.tap] = published[LANES ^ step.mask]
    return np.array([taps[tap] for tap in range(plan.filter_width)])


@pytest.mark.parametrize("filter_width", WIDTHS)
def test_every_lane_ends_with_its_own_elements(filter_width: int) -> None:
    wanted = np.arange(filter_width)[:, None] + np.arange(32)
    for plan in (smallest_plan(filter_width, filter_width - 1), smallest_plan(filter_width, 32)):
        np.testing.assert_array_equal(element_held(plan), wanted)
    here, beyond = (
        LANES,
        np.where(filter_width - 1 > LANES, LANES + 32, -1),
    )  # by ``rotate``: two loads, indexed shuffles
    rotated = [np.where(tap > LANES, beyond, here)[(LANES + tap) % 32] for tap in range(filter_width)]
    np.testing.assert_array_equal(rotated, wanted)


@pytest.mark.parametrize("filter_width", WIDTHS)
def test_loads_and_shuffles_of_a_plan_in_range_sum_to_the_width(filter_width: int) -> None:
    plan = smallest_plan(filter_width, filter_width - 1)
    assert plan.loads + plan.shuffles == filter_width


@pytest.mark.parametrize("filter_width", WIDTHS)
def test_over_reading_is_executed_only_where_it_saves_slots(filter_width: int) -> None:
    plan = executed_plan(filter_width)
    in_range = smallest_plan(filter_width, filter_width - 1)
    assert plan == in_range or (plan.pipe_slots < in_range.pipe_slots and plan.load_offsets[-1] >= filter_width)


def taps_within_reach(loads: int, filter_width: int) -> int:
    """Bit set of taps that any sequence of exchanges gives from a bit set of loads, none beyond the last tap."""
    while True:
        grown = loads
        for mask in MASKS:
            grown |= (loads << mask) & (loads >> mask)
        grown &= (1 << filter_width) - 1
        if grown == loads:
            return loads
        loads = grown


@pytest.mark.parametrize("filter_width", range(2, 20))
def test_no_other_choice_of_loads_in_range_is_smaller(filter_width: int) -> None:
    everything = (1 << filter_width) - 1
    for count in range(1, smallest_plan(filter_width, filter_width - 1).loads):
        for chosen in combinations(range(filter_width), count):
            assert taps_within_reach(sum(1 << tap for tap in chosen), filter_width) != everything
