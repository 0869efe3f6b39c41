"""Rows of an RTX 2080 Ti's published counters whose own kernel was executed (``benchmarks.published_counters``)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from benchmarks.published_counters import COUNTERS, KEPT, kept_rows

WAVEFRONTS = {"shared_load_wavefronts", "shared_store_wavefronts"}


@pytest.mark.data
def test_every_row_that_was_executed_equals_its_counters(published_data: Path) -> None:
    rows = pd.read_csv(published_data / "tiled_conv2d" / "rtx-2080-ti.counters.csv")
    executed = pd.DataFrame(kept_rows(KEPT)).set_index("row")
    assert executed.index.is_unique
    assert len(executed) == len(rows)
    for name, column in COUNTERS.items():
        counted = rows.loc[executed.index, column]
        if name in WAVEFRONTS:  # the counter holds those that are repeated because of other traffic of L1, too
            assert (executed[name] <= counted).all(), name
        else:
            assert (executed[name] == counted).all(), name
