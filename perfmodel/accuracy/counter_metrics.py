"""Which hardware counter of Nsight Compute says the same as which count, the one home of these names; how well they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..core.counts import Counts

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSum:
    """A count as hardware gives it: the sum of some metrics, times a factor.

    ``also`` names further counts that the metrics hold, and ``without`` parts of the count that they do not: what is predicted
    of all of them together is what is measured.
    ``name`` is the count's own name but where it is counted in a second way.
    """

    name: str
    count: str
    metrics: tuple[str, ...]
    also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    factor: float = 1.0


def _metric(
    count: str, *metrics: str, also: tuple[str, ...] = (), without: tuple[str, ...] = (), factor: float = 1.0
) -> MetricSum:
    return MetricSum(name=count, count=count, metrics=metrics, also=also, without=without, factor=factor)


def _instrumented(count: str, metric: str) -> MetricSum:
    """A count that the profiler takes with instructions of its own beside each access (Nsight Compute: *SASS* metrics).

    It is what the access needs by its addresses, whatever else the data pipe does meanwhile.
    """
    return MetricSum(name=f"instrumented_{count}", count=count, metrics=(metric,))


WRITTEN_BACK = "dram_write_bytes"
"""The count that a counter shows late: what is written stays in L2 until it is evicted, perhaps after the launch."""


METRIC_SUMS: tuple[MetricSum, ...] = (
    _metric(
        "global_load_requests",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        also=("async_copy_read_requests",),
    ),
    _metric(
        "global_load_sectors",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        also=("async_copy_read_sectors",),
    ),
    _metric("global_store_requests", "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum"),
    _metric("global_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"),
    _metric(
        "global_reduction_requests",
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    ),
    _metric(
        "shared_load_requests",
        "smsp__inst_executed_op_shared_ld.sum",
        also=("shared_load_predicated_off",),
        without=("generic_shared_loads",),
    ),
    _metric(
        "shared_store_requests",
        "smsp__inst_executed_op_shared_st.sum",
        also=("shared_store_predicated_off",),
        without=("generic_shared_stores",),
    ),
    _metric("shared_load_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    _metric("shared_store_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    _metric(
        "async_copy_requests",
        "smsp__inst_executed_op_ldgsts.sum",
        also=("async_copy_predicated_off",),
    ),
    _metric("async_copy_wavefronts", "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum"),
    _instrumented("shared_load_wavefronts", "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
    _instrumented("shared_store_wavefronts", "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum"),
    _metric("local_load_sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"),
    _metric("local_store_sectors", "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"),
    _metric("warp_instructions", "smsp__inst_executed.sum"),
    _metric("l2_read_sectors", "lts__t_sectors_srcunit_tex_op_read.sum"),
    _metric("l2_write_sectors", "lts__t_sectors_srcunit_tex_op_write.sum"),
    _metric("l2_read_sectors", "lts__t_sectors_op_read.sum", also=("l2_instruction_sectors",)),
    _metric("l2_write_sectors", "lts__t_sectors_op_write.sum"),
    _metric("l2_atomic_sectors", "lts__t_sectors_srcunit_tex_op_red.sum", "lts__t_sectors_srcunit_tex_op_atom.sum"),
    _metric("dram_read_bytes", "dram__bytes_read.sum"),
    _metric("dram_write_bytes", "dram__bytes_write.sum"),
    _metric("dram_read_bytes", "dram__sectors_read.sum", factor=SECTOR_BYTES),
    _metric("dram_write_bytes", "dram__sectors_write.sum", factor=SECTOR_BYTES),
)
"""In order of preference: the first whose metrics a file has gives the count."""
METRICS = frozenset(metric for entry in METRIC_SUMS for metric in entry.metrics)
"""Every metric that a count is made of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredCount:
    """One count as the hardware counted it, for n launches; NaN where a launch was not counted.

    ``also`` names counts that were counted with it, ``without`` parts of it that were not, ``name`` is as in `MetricSum`.
    """

    name: str
    count: str
    metrics: tuple[str, ...]
    launches: NDArray[np.float64]
    also: tuple[str, ...] = ()
    without: tuple[str, ...] = ()

    def predicted(self, counts: Counts) -> NDArray[np.float64]:
        """What the counts say of it, for each launch."""
        held = sum(np.asarray(getattr(counts, name), np.float64) for name in (self.count, *self.also))
        total = held - sum(np.asarray(getattr(counts, name), np.float64) for name in self.without)
        return np.broadcast_to(np.asarray(total, np.float64), self.launches.shape)


def measured_counts(columns: pd.DataFrame) -> tuple[MeasuredCount, ...]:
    """The counts for which a table of measurements has columns named after Nsight Compute's metrics.

    >>> import pandas as pd
    >>> measured_counts(pd.DataFrame({"dram__sectors_read.sum": [2, 3]}))[0].launches
    array([64., 96.])
    """
    return counts_of_columns({str(name): columns[name].to_numpy() for name in columns if name in METRICS})


def counts_of_columns(columns: Mapping[str, NDArray[Any]]) -> tuple[MeasuredCount, ...]:
    """The counts whose metrics are all there, each by the first sum that gives it."""
    counts: dict[str, MeasuredCount] = {}
    for entry in METRIC_SUMS:
        if entry.name not in counts and all(metric in columns for metric in entry.metrics):
            values = [np.asarray(columns[metric], np.float64) for metric in entry.metrics]
            counts[entry.name] = MeasuredCount(
                name=entry.name,
                count=entry.count,
                metrics=entry.metrics,
                launches=np.sum(values, axis=0) * entry.factor,
                also=entry.also,
                without=entry.without,
            )
    return tuple(counts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class CountAgreement:
    """One count over ``n`` launches, under the name of `perfmodel.accuracy.counter_metrics.MetricSum`.

    Relative errors are |predicted − measured| / measured, as fractions, over the launches of which the hardware counted
    something; ``max_where_none`` is the largest number predicted for a launch of which it counted nothing.
    """

    count: str
    n: int
    exact_fraction: float
    median_relative_error: float
    max_relative_error: float
    max_where_none: float = 0.0


def count_agreement(
    predicted: Counts, measured: Sequence[MeasuredCount], l2_bytes: float = 0.0
) -> tuple[CountAgreement, ...]:
    """Agreement of every measured count; launches that were not counted are left out, counts without any too.

    Bytes written to DRAM are compared only where they are more than ``l2_bytes``: what a launch writes stays in L2 until
    it is evicted, and of smaller launches that is most (`perfmodel.memory.l2.written_by_the_end`).

    >>> measured = MeasuredCount(name="barriers", count="barriers", metrics=(), launches=np.array([4.0, 8.0, np.nan]))
    >>> count_agreement(Counts(barriers=np.array([4.0, 6.0, 1.0])), [measured])[0].max_relative_error
    0.25
    """
    found = []
    for entry in measured:
        values = entry.predicted(predicted)
        counted = np.isfinite(entry.launches)
        if entry.count == WRITTEN_BACK:
            counted &= values > l2_bytes
        if counted.any():
            found.append(_agreement(entry.name, values[counted], entry.launches[counted]))
    return tuple(found)


def _agreement(name: str, predicted: NDArray[np.float64], measured: NDArray[np.float64]) -> CountAgreement:
    some = measured != 0.0
    errors = np.abs(predicted[some] - measured[some]) / measured[some]
    return CountAgreement(
        count=name,
        n=len(measured),
        exact_fraction=float(np.mean(predicted == measured)),
        median_relative_error=float(np.median(errors)) if len(errors) else 0.0,
        max_relative_error=float(np.max(errors, initial=0.0)),
        max_where_none=float(np.max(np.abs(predicted[~some]), initial=0.0)),
    )
