"""Closed-form counts: SPEC's values with visible arithmetic, and equality with walking through every lane of every warp."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from perfmodel.core.constants import LOCAL_REQUEST_SECTORS
from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse
from perfmodel.families.direct_conv2d.configuration import STRAIGHT
from perfmodel.families.direct_conv2d.exchange_plans import executed_plan
from perfmodel.gpus.catalogue import load_gpu

GPU = load_gpu("h200")
LANES = range(32)


def configuration(
    reuse: Reuse, rows_per_thread: int = 1, exchange: Exchange = Exchange.SELECT, **changes: Any
) -> DirectConv2dConfiguration:
    values: dict[str, Any] = {
        "reuse": reuse,
        "exchange": exchange if reuse.columns else None,
        "accumulators": Accumulators.UNROLLED if reuse.rows else None,
        "rows_per_thread": rows_per_thread,
        "block_x": 32,
        "block_y": 1,
    }
    return DirectConv2dConfiguration(**(values | changes))


def counted(problem: Conv2d, chosen: DirectConv2dConfiguration) -> dict[str, float]:
    counts = FAMILY.profile(problem, Batch.of([chosen]), GPU).counts.at(0)
    return {name: float(value) for name, value in counts.items()}


ROW_OF_FIVE = Conv2d(height=1, width=36, filter_height=1, filter_width=5)  # 32 outputs: one aligned full warp
FIVE_BY_FIVE = Conv2d(height=5, width=36, filter_height=5, filter_width=5)
SPEC_IMAGE = Conv2d(height=6, width=11, filter_height=5, filter_width=5)  # 2 x 7 outputs


@pytest.mark.parametrize(
    ("reuse", "requests", "lines", "sectors"),
    [
        # offset 0 touches 1 line and 4 sectors, each of offsets 1 to 4 one more of both
        (Reuse.NONE, 5, 1 + 4 * 2, 4 + 4 * 5),
        (Reuse.COLUMN, 2, 1 + 2, 4 + 5),
    ],
)
def test_aligned_full_warp_and_row_of_five_taps(reuse: Reuse, requests: int, lines: int, sectors: int) -> None:
    counts = counted(ROW_OF_FIVE, configuration(reuse))
    assert counts["global_load_requests"] == requests
    assert counts["global_load_lines"] == lines
    assert counts["global_load_sectors"] == sectors
    assert counts["l2_read_sectors"] == 5  # elements 0 to 35 lie in sectors 0 to 4: reuse saves none of these


@pytest.mark.parametrize(("reuse", "requests"), [(Reuse.NONE, 5 * 5), (Reuse.COLUMN, 5 * 2)])
def test_window_of_five_by_five(reuse: Reuse, requests: int) -> None:
    assert counted(FIVE_BY_FIVE, configuration(reuse))["global_load_requests"] == requests


@pytest.mark.parametrize(
    ("reuse", "requests"),
    [
        (Reuse.NONE, 2 * 5 * 5),  # 2 outputs, 25 taps each
        (Reuse.COLUMN, 2 * 5 * 2),  # 2 outputs, 5 rows, 2 loads a row
        (Reuse.ROW, 6 * 5),  # 6 rows, 5 taps
        (Reuse.COLUMN_ROW, 6 * 2),  # 6 rows, 2 loads
    ],
)
def test_image_of_six_by_eleven(reuse: Reuse, requests: int) -> None:
    assert counted(SPEC_IMAGE, configuration(reuse, rows_per_thread=2))["global_load_requests"] == requests


def test_rows_shared_by_three_outputs_fall_from_nine_to_five() -> None:
    problem = Conv2d(height=5, width=1, filter_height=3, filter_width=1)  # 3 outputs, 3 rows each
    assert counted(problem, configuration(Reuse.NONE, 3))["global_load_requests"] == 3 * 3
    assert counted(problem, configuration(Reuse.ROW, 3))["global_load_requests"] == 3 + 3 - 1


def test_reuse_does_not_change_dram_traffic() -> None:
    read = {counted(FIVE_BY_FIVE, configuration(reuse))["dram_read_bytes"] for reuse in STRAIGHT}
    assert read == {4.0 * (5 * 36 + 5 * 5)}  # each element of the image and of the filter once


def rows_read(problem: Conv2d, chosen: DirectConv2dConfiguration, first_output: int) -> Iterator[list[int]]:
    """Input rows that a strip loads, output by output or all together; rows in the padding are skipped."""
    outputs = range(first_output, min(first_output + chosen.rows_per_thread, problem.output_height))
    windows = [
        [
            r
            for k in range(problem.filter_height)
            if 0 <= (r := o * problem.stride + k - problem.padding) < problem.height
        ]
        for o in outputs
    ]
    yield from [sorted(set().union(*windows))] if chosen.reuse.rows else windows


def columns_read(problem: Conv2d, chosen: DirectConv2dConfiguration, first_column: int) -> Iterator[list[int]]:
    """Input columns that each load of a row reads in one warp."""
    with_output = [t for t in LANES if first_column + t < problem.output_width]
    if not chosen.reuse.columns:
        loads = [(tap, with_output) for tap in range(problem.filter_width)]
    elif chosen.exchange is Exchange.ROTATE:
        loads = [(0, list(LANES)), (32, list(LANES)[: problem.filter_width - 1])]
    else:
        loads = [(offset, list(LANES)) for offset in executed_plan(problem.filter_width).load_offsets]
    for offset, lanes in loads:
        columns = [(first_column + t) * problem.stride - problem.padding + offset for t in lanes]
        yield [x for x in columns if 0 <= x < problem.width]


def walked(problem: Conv2d, chosen: DirectConv2dConfiguration) -> dict[str, float]:
    """Loads of the image and stores, by walking through every warp and lane."""
    total: Counter[str] = Counter()

    def access(kind: str, elements: list[int]) -> None:
        total[f"global_{kind}_requests"] += bool(elements)
        total[f"global_{kind}_sectors"] += len({element // 8 for element in elements})
        total[f"global_{kind}_lines"] += len({element // 32 for element in elements})

    for plane in range(problem.output_planes):
        image, out_channel = divmod(plane, problem.out_channels)
        channels = [out_channel] if problem.depthwise else range(problem.in_channels)
        for first_column in range(0, problem.output_width, 32):
            reads = list(columns_read(problem, chosen, first_column))
            width = min(32, problem.output_width - first_column)
            for first_output in range(0, problem.output_height, chosen.rows_per_thread):
                for rows in rows_read(problem, chosen, first_output):
                    for channel in channels:
                        for row in rows:
                            start = ((image * problem.in_channels + channel) * problem.height + row) * problem.width
                            for columns in reads:
                                access("load", [start + column for column in columns])
            for row in range(problem.output_height):
                start = (plane * problem.output_height + row) * problem.output_width + first_column
                access("store", list(range(start, start + width)))
    del total["global_store_lines"]
    return {name: float(value) for name, value in total.items()}


@st.composite
def problems(draw: st.DrawFn) -> Conv2d:
    depthwise = draw(st.booleans())
    in_channels = draw(st.integers(1, 3))
    try:
        return Conv2d(
            batch=draw(st.integers(1, 2)),
            in_channels=in_channels,
            out_channels=in_channels if depthwise else draw(st.integers(1, 3)),
            height=draw(st.integers(1, 9)),
            width=draw(st.integers(1, 75)),
            filter_height=draw(st.integers(1, 5)),
            filter_width=draw(st.sampled_from([1, 2, 3, 4, 5, 7, 8, 11, 31, 33])),
            stride=draw(st.sampled_from([1, 1, 2])),
            padding=draw(st.sampled_from([0, 0, 1, 2, 6, 40])),
            depthwise=depthwise,
        )
    except InputError:
        assume(False)
        raise


@st.composite
def configurations(draw: st.DrawFn, reuses: tuple[Reuse, ...] = STRAIGHT) -> DirectConv2dConfiguration:
    return configuration(
        draw(st.sampled_from(reuses)),
        draw(st.integers(1, 5)),
        draw(st.sampled_from(Exchange)),
        block_x=draw(st.sampled_from([32, 64])),
        block_y=draw(st.integers(1, 3)),
    )


@given(problems(), st.data())
@settings(max_examples=300, deadline=None)
def test_closed_form_equals_walking_through_all_lanes(problem: Conv2d, data: st.DataObject) -> None:
    chosen = data.draw(configurations(tuple(r for r in STRAIGHT if problem.stride == 1 or not r.columns)))
    counts, expected = counted(problem, chosen), walked(problem, chosen)
    assert {name: counts[name] for name in expected} == expected


def patches_walked(problem: Conv2d, tile_rows: int, tile_columns: int) -> int:
    """Distinct sectors of every block, summed, by the words that its outputs' windows hold."""
    words = np.arange(problem.batch * problem.in_channels * problem.height * problem.width)
    image = words.reshape(-1, problem.height, problem.width)
    total = 0
    for y in range(0, problem.output_height, tile_rows):
        for x in range(0, problem.output_width, tile_columns):
            rows = range(y, min(y + tile_rows, problem.output_height))
            columns = range(x, min(x + tile_columns, problem.output_width))
            low = max(rows[0] * problem.stride - problem.padding, 0)
            high = rows[-1] * problem.stride - problem.padding + problem.filter_height
            left = max(columns[0] * problem.stride - problem.padding, 0)
            right = columns[-1] * problem.stride - problem.padding + problem.filter_width
            for plane in image:
                total += len(np.unique(plane[low : max(high, 0), left : max(right, 0)] // 8))
    return total


@given(problems(), configurations((Reuse.ROW,)))
@settings(max_examples=200, deadline=None)
def test_patch_sectors_are_those_of_the_windows(problem: Conv2d, chosen: DirectConv2dConfiguration) -> None:
    """Where no pixel between windows is left out, on a GPU whose SMs share no requests."""
    assume(problem.stride <= min(problem.filter_height, problem.filter_width))
    counts = FAMILY.profile(problem, Batch.of([chosen]), load_gpu("rtx-2080-ti")).counts.at(0)
    times = 1 if problem.depthwise else problem.out_channels
    tile_rows = chosen.block_y * chosen.rows_per_thread
    assert counts.l2_read_sectors == times * patches_walked(problem, tile_rows, chosen.block_x)


@given(problems(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_batch_counts_like_each_of_its_configurations(problem: Conv2d, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(configurations(), min_size=2, max_size=6))
    together = FAMILY.profile(problem, Batch.of(chosen), GPU)
    for index, one in enumerate(chosen):
        alone = FAMILY.profile(problem, Batch.of([one]), GPU)
        for name, value in together.counts.at(index).items():
            assert float(value) == float(getattr(alone.counts.at(0), name)), name
        assert together.global_round_trips[index] == alone.global_round_trips[0]


@given(problems(), configurations())
@settings(max_examples=60, deadline=None)
def test_classes_and_memory_requests_sum_to_the_instructions(
    problem: Conv2d, chosen: DirectConv2dConfiguration
) -> None:
    counts = counted(problem, chosen)
    classes = sum(counts[name] for name in INSTRUCTION_CLASSES)
    requests = counts["global_load_requests"] + counts["global_store_requests"] + counts["constant_load_requests"]
    local = np.ceil((counts["local_load_sectors"] + counts["local_store_sectors"]) / LOCAL_REQUEST_SECTORS)
    assert counts["warp_instructions"] == pytest.approx(classes + requests + local)


@pytest.mark.parametrize("accumulators", Accumulators)
def test_multiply_adds_and_shuffles_of_one_strip(accumulators: Accumulators) -> None:
    problem = Conv2d(height=8, width=36, filter_height=5, filter_width=5)  # 4 rows of 32 outputs
    counts = counted(problem, configuration(Reuse.COLUMN_ROW, 4, accumulators=accumulators))
    steps = 4 + 5 - 1  # input rows
    rolling = steps * 5 * 5  # each row is added to 5 partial sums, wanted or not
    assert counts["fp32_fma"] == (rolling if accumulators is Accumulators.ROLLING else 4 * 25)
    assert counts["shuffles"] == steps * 3 + 1  # 3 exchanges a row, and the warp's row


@pytest.mark.parametrize(
    ("out_channels", "filter_size", "fetches"),
    [
        (1820, 3, 1820 * 9),  # 65,520 bytes of filters: constant memory, 9 indexed loads in each of 1820 warps
        (1821, 3, 1821 * 9),  # 65,556 bytes: as many global loads of one sector
    ],
)
def test_filters_move_from_constant_to_global_memory(out_channels: int, filter_size: int, fetches: int) -> None:
    problem = Conv2d(out_channels=out_channels, height=3, width=34, filter_height=filter_size, filter_width=filter_size)
    counts = counted(problem, configuration(Reuse.NONE))
    image_loads = out_channels * 9
    in_constant = out_channels * 9 * 4 <= 65_536
    assert counts["constant_load_requests"] == (fetches if in_constant else 0)
    assert counts["global_load_requests"] == image_loads + (0 if in_constant else fetches)


def test_large_problems_stay_exact() -> None:
    problem = Conv2d(height=2**15, width=2**16 - 8, filter_height=1, filter_width=1)
    counts = counted(problem, configuration(Reuse.NONE))
    assert counts["global_load_sectors"] == 2**15 * (2**16 - 8) / 8
    tall = Conv2d(height=2**30, width=1, filter_height=2, filter_width=1)
    assert counted(tall, configuration(Reuse.NONE))["global_load_requests"] == 2 * (2**30 - 1)


def test_batches_are_counted_without_loss_of_order() -> None:
    problem = Conv2d(height=40, width=70, filter_height=3, filter_width=3, padding=1)
    space = FAMILY.space(problem, GPU)
    batch = next(space.chunks())
    requests = FAMILY.profile(problem, batch, GPU).counts.global_load_requests
    for index in np.random.default_rng(3).integers(0, len(batch), 5):
        assert requests[index] == counted(problem, batch.configuration(int(index)))["global_load_requests"]
