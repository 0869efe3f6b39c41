"""What a problem accepts, and that what it refuses is named."""

import re
from typing import Any

import pytest

from perfmodel.errors import InputError
from perfmodel.families.direct_conv2d import Accumulators, Conv2d, DirectConv2dConfiguration, Exchange, Reuse

GOOD: dict[str, Any] = {"height": 8, "width": 9, "filter_height": 3, "filter_width": 5}
CONFIGURATION: dict[str, Any] = {
    "reuse": Reuse.COLUMN_ROW,
    "exchange": Exchange.SELECT,
    "accumulators": Accumulators.ROLLING,
    "rows_per_thread": 4,
    "block_x": 64,
    "block_y": 2,
}


@pytest.mark.parametrize(
    ("stride", "padding", "outputs"),
    [(1, 0, (6, 5)), (2, 0, (3, 3)), (1, 1, (8, 7)), (2, 1, (4, 4))],  # (8 + 2·1 − 3) // 2 + 1 = 4
)
def test_output_sizes(stride: int, padding: int, outputs: tuple[int, int]) -> None:
    problem = Conv2d(**GOOD, stride=stride, padding=padding)
    assert (problem.output_height, problem.output_width) == outputs


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 0}, "height=0 must be an integer of at least 1"),
        ({"batch": -3}, "batch=-3 must be an integer of at least 1"),
        ({"width": 9.0}, "width=9.0 must be an integer of at least 1"),
        ({"in_channels": True}, "in_channels=True must be an integer of at least 1"),
        ({"padding": -1}, "padding=-1 must be an integer of at least 0"),
        ({"stride": 3}, "stride=3 must be 1 or 2"),
        ({"depthwise": 1}, "depthwise=1 must be true or false"),
        ({"height": 2}, "filter_height=3 must be at most the padded image's height of 2"),
        ({"width": 2, "padding": 1}, "filter_width=5 must be at most the padded image's width of 4"),
        ({"height": 40, "filter_height": 34}, "filter_height=34 must be at most 33"),
        ({"width": 2**31}, "width=2147483648 must be at most 2,147,483,647"),
        ({"width": 2**30 - 1, "padding": 1}, "width=1073741823 with its padding must be at most 1,073,741,824"),
        (
            {"height": 65536, "width": 65536},
            "padded input of 1 x 1 x 65536 x 65536 has more than 2,147,483,647 elements",
        ),
        ({"padding": 2**20}, "padded input of 1 x 1 x 2097160 x 2097161 has more than 2,147,483,647 elements"),
        ({"depthwise": True, "in_channels": 4}, "out_channels=1 must equal in_channels=4 when depthwise"),
        (
            {"in_channels": 2**16, "out_channels": 2**15},
            "filter of 32768 x 65536 x 3 x 5 has more than 2,147,483,647 elements",
        ),
    ],
)
def test_wrong_sizes_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        Conv2d(**(GOOD | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"block_x": 33}, "block_x=33 must be a multiple of 32"),
        ({"block_y": 0}, "block_y=0 must be an integer of at least 1"),
        ({"rows_per_thread": 1.5}, "rows_per_thread=1.5 must be an integer of at least 1"),
        ({"rows_per_thread": 1025}, "rows_per_thread=1025 must be at most 1024"),
        ({"exchange": None}, "exchange=none must name a method when reuse=column_row"),
        ({"reuse": Reuse.ROW}, "exchange=select must be none when reuse=row"),
        ({"accumulators": None}, "accumulators=none must name a method when reuse=column_row"),
        ({"reuse": Reuse.COLUMN}, "accumulators=rolling must be none when reuse=column"),
    ],
)
def test_wrong_configurations_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        DirectConv2dConfiguration(**(CONFIGURATION | change))
