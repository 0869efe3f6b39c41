"""Counts from hardware counters."""

import numpy as np
import pandas as pd

from campaigns.metrics import COLLECTED_METRICS
from perfmodel.accuracy.counter_metrics import METRIC_SUMS, measured_counts
from perfmodel.core.counts import COUNT_NAMES


def test_every_counter_belongs_to_a_count_of_the_project() -> None:
    assert {name for entry in METRIC_SUMS for name in (entry.count, *entry.also, *entry.without)} <= set(COUNT_NAMES)
    assert len(COLLECTED_METRICS) == len(set(COLLECTED_METRICS))


def test_preferred_metric_wins_and_sums_need_all_their_parts() -> None:
    frame = pd.DataFrame(
        {
            "dram__sectors_read.sum": [10.0, np.nan],
            "dram__bytes_read.sum": [330.0, 352.0],
            "lts__t_sectors_op_read.sum": [7.0, 8.0],
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": [1.0, 1.0],
        }
    )
    counts = {entry.count: entry.launches.tolist() for entry in measured_counts(frame)}
    assert counts == {"dram_read_bytes": [330.0, 352.0], "l2_read_sectors": [7.0, 8.0]}
    frame["l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum"] = [2.0, 3.0]
    counts = {entry.count: entry.launches.tolist() for entry in measured_counts(frame)}
    assert counts["global_reduction_requests"] == [3.0, 4.0]  # 1 + 2, 1 + 3
