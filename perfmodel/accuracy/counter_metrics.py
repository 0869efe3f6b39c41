"""Which hardware counter of Nsight Compute says the same as which count, the one home of these names; how well they agree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import SECTOR_BYTES
from ..core.counts import INSTRUCTION_CLASSES, Counts
from ..machine_code.opcodes import classes_of_name

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


OPCODES_METRIC = "sass__inst_executed_per_opcode"
"""Executed warp instructions, counted by instructions of the profiler's own; ``NAME.OPCODE`` are those of one opcode."""
_MATRIX_LOADS = f"{OPCODES_METRIC}.LDSM"
_SHARED_LOADS = "smsp__inst_executed_op_shared_ld.sum"
_INSTRUMENTED_SHARED_LOADS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


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
        _SHARED_LOADS,
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
    _instrumented("shared_load_wavefronts", _INSTRUMENTED_SHARED_LOADS),
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
_LOADED_CONSTANTS = "constant_load"
"""Names of opcodes do not tell loads of constants at fixed places, which are moves, from indexed ones: both are ``integer``."""
_CLASSES_BY_OPCODE = tuple(name for name in INSTRUCTION_CLASSES if name not in ("control", "atomics"))
"""Those that opcodes alone decide: a memory instruction whose lanes are all predicated off is ``control``."""
METRICS = frozenset(metric for entry in METRIC_SUMS for metric in entry.metrics)
"""Every metric that a count is made of."""

COLLECTED_METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(
        metric
        for entry in METRIC_SUMS
        if not entry.metrics[0].startswith(("lts__t_sectors_op", "dram__sectors"))
        for metric in entry.metrics
    )
)
"""What a run under Nsight Compute is asked for: each count once, by the metric that is preferred."""

STALLS: tuple[str, ...] = (
    "barrier",
    "dispatch_stall",
    "drain",
    "imc_miss",
    "lg_throttle",
    "long_scoreboard",
    "math_pipe_throttle",
    "membar",
    "mio_throttle",
    "no_instruction",
    "not_selected",
    "selected",
    "short_scoreboard",
    "sleeping",
    "tex_throttle",
    "wait",
)
"""Why warps could not issue, as Nsight Compute names it; ``selected`` are those that did."""

ACTIVITY_METRICS: tuple[str, ...] = (
    "gpu__time_duration.sum",
    "sm__cycles_active.avg",
    "sm__cycles_elapsed.max",
    "smsp__issue_active.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum",
    "smsp__inst_executed.min",
    "smsp__inst_executed.max",
    "smsp__warps_active.avg",
    "sm__ctas_active.avg",
    "idc__requests.sum",
    "idc__requests_lookup_miss.sum",
    "sm__icc_requests.sum",
    "sm__icc_requests_lookup_miss.sum",
    "l1tex__m_xbar2l1tex_read_sectors.sum",
    "l1tex__data_pipe_lsu_wavefronts.sum",
    "lts__t_sectors_srcunit_tex_lookup_hit.sum",
    "lts__t_sectors_srcunit_tex_lookup_miss.sum",
    "l1tex__lsuin_requests.sum",
    "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ldgsts.sum",
    *(f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio" for reason in STALLS),
)
"""Collected beside the counts: how long the launch took, how busy it kept the SMs, and what its warps waited for."""


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
    return _sums({str(name): columns[name].to_numpy() for name in columns if name in METRICS})


def counts_of_metrics(metrics: Mapping[str, float]) -> tuple[MeasuredCount, ...]:
    """The same for the metrics of one launch; each ``launches`` has one element.

    The counter of shared loads leaves out ``ldmatrix`` (``LDSM``), so its executions are added where opcodes were counted;
    instrumented wavefronts leave it out, too, and are then no count of all shared loads (H200, four kernels).

    >>> counts_of_metrics({"smsp__inst_executed.sum": 7.0})[0].count
    'warp_instructions'
    """
    columns = {name: np.array([value]) for name, value in metrics.items() if name in METRICS}
    if metrics.get(_MATRIX_LOADS):
        columns.pop(_INSTRUMENTED_SHARED_LOADS, None)
        if _SHARED_LOADS in columns:
            columns[_SHARED_LOADS] = columns[_SHARED_LOADS] + metrics[_MATRIX_LOADS]
    by_opcode = {name: np.array([value]) for name, value in metrics.items() if name.startswith(f"{OPCODES_METRIC}.")}
    return (*_sums(columns), *_sums_of_opcodes(by_opcode))


def _sums_of_opcodes(columns: Mapping[str, NDArray[Any]]) -> tuple[MeasuredCount, ...]:
    """Executed warp instructions, in all and of each class, where they were counted by opcode."""
    if not columns:
        return ()
    wanted: dict[str, list[str]] = {"warp_instructions": list(columns), **{name: [] for name in _CLASSES_BY_OPCODE}}
    for metric in columns:
        for name in classes_of_name(metric.rpartition(".")[2]):
            wanted.setdefault("integer" if name == _LOADED_CONSTANTS else name, []).append(metric)
    return tuple(
        MeasuredCount(
            name=f"instrumented_{count}",
            count=count,
            metrics=tuple(dict.fromkeys(metrics)),
            launches=np.sum(
                [np.zeros(1), *(np.asarray(columns[m], np.float64) for m in dict.fromkeys(metrics))], axis=0
            ),
            also=("constant_load_requests",) if count == "integer" else (),
        )
        for count, metrics in wanted.items()
        if count == "warp_instructions" or count in _CLASSES_BY_OPCODE
    )


def _sums(columns: Mapping[str, NDArray[Any]]) -> tuple[MeasuredCount, ...]:
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
