"""Fields that are no integers: choices, truths, and fields that have no effect."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest

from perfmodel.errors import InputError
from perfmodel.families.base import NONE_CODE
from perfmodel.records.columns import MeasurementSchema, RawTable, batch_of, problems_of


class Method(Enum):
    SELECT = "select"
    ROTATE = "rotate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    width: int
    depthwise: bool

    def __post_init__(self) -> None:
        if self.width < 1:
            raise InputError(f"width={self.width} must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    exchange: Method | None
    rows: int


SCHEMA = MeasurementSchema(family_name="toy", problem_type=Image, configuration_type=Choice, defaults={"rows": 4})


def table(**columns: list[object]) -> RawTable:
    rows = len(next(iter(columns.values())))
    return RawTable(
        path=Path("toy.csv"),
        gpu="",
        columns=columns,
        places=[f"line {row + 2}" for row in range(rows)],
        time_s=np.ones(rows),
    )


def test_choices_truths_and_fields_without_effect() -> None:
    raw = table(width=["8", 8, 9.0], depthwise=["1", True, "False"], exchange=["rotate", "none", None])
    problems, index = problems_of(raw, SCHEMA)
    assert problems == (Image(width=8, depthwise=True), Image(width=9, depthwise=False))
    assert index.tolist() == [0, 0, 1]
    batch = batch_of(raw, SCHEMA)
    assert batch["exchange"].tolist() == [1, NONE_CODE, NONE_CODE]
    assert batch["rows"].tolist() == [4, 4, 4]  # the default
    assert batch.configuration(0) == Choice(exchange=Method.ROTATE, rows=4)


def test_rows_that_lack_a_field_which_others_have_take_its_default() -> None:
    raw = table(width=[8, 8], depthwise=[True, True], exchange=["rotate", "rotate"], rows=[2, None])
    assert batch_of(raw, SCHEMA)["rows"].tolist() == [2, 4]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"width": ["8"], "depthwise": ["maybe"], "exchange": ["none"]}, "'maybe' is neither true nor false"),
        ({"width": ["8"], "depthwise": ["1"], "exchange": ["swap"]}, "'swap' is none of select, rotate"),
        ({"width": ["0"], "depthwise": ["1"], "exchange": ["none"]}, "width=0 must be at least 1"),
        ({"width": [[8]], "depthwise": ["1"], "exchange": ["none"]}, "is not a number"),
    ],
)
def test_values_that_a_field_cannot_take(columns: dict[str, list[object]], message: str) -> None:
    raw = table(**columns)
    with pytest.raises(InputError, match=f"toy.csv: line 2: .*{message}"):
        problems_of(raw, SCHEMA), batch_of(raw, SCHEMA)
