"""The compiled kernel, executed lane by lane: right results into poisoned outputs, no faults, and the closed form's counts."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from perfmodel.errors import InputError
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.direct_conv2d.configuration import STRAIGHT

from ..right_results import hold_to_closed_form

pytestmark = pytest.mark.compiler

MODES = [
    (reuse, exchange, accumulators)
    for reuse in STRAIGHT
    for exchange in (tuple(Exchange) if reuse.columns else (None,))
    for accumulators in (tuple(Accumulators) if reuse.rows else (None,))
]

PROBLEMS = {
    "one_by_one": Conv2d(height=1, width=1, filter_height=1, filter_width=1),
    "odd_sizes": Conv2d(height=13, width=71, filter_height=5, filter_width=5),
    "wider_than_high": Conv2d(height=4, width=50, filter_height=3, filter_width=11),
    "dense_batch": Conv2d(batch=2, in_channels=3, out_channels=2, height=7, width=35, filter_height=2, filter_width=7),
    "padded_depthwise": Conv2d(
        batch=2, in_channels=3, out_channels=3, height=9, width=31, filter_height=3, filter_width=3, padding=1, depthwise=True
    ),
    "padding_beyond_filter": Conv2d(height=3, width=5, filter_height=2, filter_width=4, padding=35),
    "widest_filter": Conv2d(height=3, width=40, filter_height=2, filter_width=33),
    "filter_in_global_memory": Conv2d(
        in_channels=12, out_channels=200, height=4, width=9, filter_height=3, filter_width=3
    ),
    "large_filter_fetched_at_each_use": Conv2d(
        in_channels=8, out_channels=33, height=8, width=33, filter_height=8, filter_width=9
    ),
    "strided": Conv2d(height=12, width=70, filter_height=3, filter_width=5, stride=2, padding=2),
    "strided_over_rows": Conv2d(in_channels=2, height=9, width=33, filter_height=1, filter_width=1, stride=2),
    "strided_depthwise": Conv2d(
        in_channels=2, out_channels=2, height=8, width=66, filter_height=3, filter_width=3, stride=2, padding=1, depthwise=True
    ),
}  # fmt: skip


def assert_right_and_counted(problem: Conv2d, chosen: DirectConv2dConfiguration, seed: int = 0) -> None:
    left_out = problem.filter_width == 1 and chosen.accumulators is Accumulators.ROLLING  # see multiply_adds
    hold_to_closed_form(FAMILY, problem, chosen, on="h200", seed=seed, without=["fp32_fma"] if left_out else ())


CASES = [
    pytest.param(problem, *mode, id="-".join([name, *(part.value for part in mode if part is not None)]))
    for name, problem in PROBLEMS.items()
    for mode in MODES
    if problem.stride == 1 or not mode[0].columns
]


@pytest.mark.parametrize(("problem", "reuse", "exchange", "accumulators"), CASES)
def test_every_mode(
    problem: Conv2d, reuse: Reuse, exchange: Exchange | None, accumulators: Accumulators | None
) -> None:
    chosen = DirectConv2dConfiguration(
        reuse=reuse, exchange=exchange, accumulators=accumulators, rows_per_thread=3, block_x=32, block_y=2
    )
    assert_right_and_counted(problem, chosen)


@st.composite
def problems(draw: st.DrawFn) -> Conv2d:
    depthwise = draw(st.booleans())
    channels = draw(st.integers(1, 3))
    try:
        return Conv2d(
            batch=draw(st.integers(1, 2)),
            in_channels=channels,
            out_channels=channels if depthwise else draw(st.integers(1, 3)),
            height=draw(st.integers(1, 16)),
            width=draw(st.integers(1, 80)),
            filter_height=draw(st.integers(1, 5)),
            filter_width=draw(st.integers(1, 12)),
            stride=draw(st.sampled_from([1, 1, 2])),
            padding=draw(st.sampled_from([0, 0, 1, 2, 7])),
            depthwise=depthwise,
        )
    except InputError:
        assume(False)
        raise


@given(problems(), st.data())
@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
def test_random_problems_and_configurations(problem: Conv2d, data: st.DataObject) -> None:
    reuse, exchange, accumulators = data.draw(
        st.sampled_from([mode for mode in MODES if problem.stride == 1 or not mode[0].columns])
    )
    chosen = DirectConv2dConfiguration(
        reuse=reuse,
        exchange=exchange,
        accumulators=accumulators,
        rows_per_thread=data.draw(st.integers(1, 6)),
        block_x=data.draw(st.sampled_from([32, 64])),
        block_y=data.draw(st.integers(1, 4)),
    )
    assert_right_and_counted(problem, chosen, seed=data.draw(st.integers(0, 2**32 - 1)))
