"""Which hardware counter of Nsight Compute says the same as which count; the one home of these names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..definitions import SECTOR_BYTES

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSum:
    """A count as hardware gives it: the sum of some metrics, times a factor."""

    count: str
    metrics: tuple[str, ...]
    factor: float = 1.0


def _metric(count: str, *metrics: str, factor: float = 1.0) -> MetricSum:
    return MetricSum(count=count, metrics=metrics, factor=factor)


METRIC_SUMS: tuple[MetricSum, ...] = (
    _metric("global_load_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"),
    _metric("global_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"),
    _metric("global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"),
    _metric("global_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
    _metric(
        "global_reduction_requests",
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    ),
    _metric("shared_load_requests", "smsp__inst_executed_op_shared_ld.sum"),
    _metric("shared_store_requests", "smsp__inst_executed_op_shared_st.sum"),
    _metric("shared_load_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    _metric("shared_store_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    _metric("async_copy_requests", "smsp__inst_executed_op_ldgsts.sum"),
    _metric("async_copy_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"),
    _metric("local_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"),
    _metric("local_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"),
    _metric("warp_instructions", "smsp__inst_executed.sum"),
    _metric("l2_read_sectors", "lts__t_sectors_srcunit_tex_op_read.sum"),
    _metric("l2_write_sectors", "lts__t_sectors_srcunit_tex_op_write.sum"),
    _metric("l2_read_sectors", "lts__t_sectors_op_read.sum"),
    _metric("l2_write_sectors", "lts__t_sectors_op_write.sum"),
    _metric("dram_read_bytes", "dram__bytes_read.sum"),
    _metric("dram_write_bytes", "dram__bytes_write.sum"),
    _metric("dram_read_bytes", "dram__sectors_read.sum", factor=SECTOR_BYTES),
    _metric("dram_write_bytes", "dram__sectors_write.sum", factor=SECTOR_BYTES),
)
"""In order of preference: the first whose metrics a file has gives the count."""

COLLECTED_METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(
        metric
        for entry in METRIC_SUMS
        if not entry.metrics[0].startswith(("lts__t_sectors_op", "dram__sectors"))
        for metric in entry.metrics
    )
)
"""What a run under Nsight Compute is asked for: each count once, by the metric that is preferred."""

ACTIVITY_METRICS: tuple[str, ...] = (
    "gpu__time_duration.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "smsp__issue_active.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
)
"""Collected beside the counts: how long the launch took and how busy it kept the SMs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCount:
    """One count as the hardware counted it, for n launches; NaN where a launch was not counted."""

    count: str
    metrics: tuple[str, ...]
    launches: NDArray[np.float64]


def measured_counts(columns: pd.DataFrame) -> tuple[MeasuredCount, ...]:
    """The counts for which a table of measurements has columns named after Nsight Compute's metrics.

    >>> import pandas as pd
    >>> measured_counts(pd.DataFrame({"dram__sectors_read.sum": [2, 3]}))[0].launches
    array([64., 96.])
    """
    found: dict[str, MeasuredCount] = {}
    for entry in METRIC_SUMS:
        if entry.count not in found and all(metric in columns for metric in entry.metrics):
            launches = columns[list(entry.metrics)].to_numpy(dtype=np.float64).sum(axis=1) * entry.factor
            found[entry.count] = MeasuredCount(count=entry.count, metrics=entry.metrics, launches=launches)
    return tuple(found.values())


def counts_of_metrics(metrics: Mapping[str, float]) -> tuple[MeasuredCount, ...]:
    """The same for the metrics of one launch; each ``launches`` has one element.

    >>> counts_of_metrics({"smsp__inst_executed.sum": 7.0})[0].count
    'warp_instructions'
    """
    import pandas as pd

    return measured_counts(pd.DataFrame({name: [value] for name, value in metrics.items()}))
