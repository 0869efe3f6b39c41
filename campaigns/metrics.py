"""What Nsight Compute is asked for in a campaign, and the counts of a launch that follow from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.counter_metrics import METRIC_SUMS, METRICS, MeasuredCount, counts_of_columns
from perfmodel.core.counts import INSTRUCTION_CLASSES
from perfmodel.machine_code.opcodes import classes_of_name

OPCODES_METRIC = "sass__inst_executed_per_opcode"
"""Executed warp instructions, counted by instructions of the profiler's own; ``NAME.OPCODE`` are those of one opcode."""
_MATRIX_LOADS = f"{OPCODES_METRIC}.LDSM"
_SHARED_LOADS = "smsp__inst_executed_op_shared_ld.sum"
_INSTRUMENTED_SHARED_LOADS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
_LOADED_CONSTANTS = "constant_load"
"""Names of opcodes do not tell loads of constants at fixed places, which are moves, from indexed ones: both are ``integer``."""
_CLASSES_BY_OPCODE = tuple(name for name in INSTRUCTION_CLASSES if name not in ("control", "atomics"))
"""Those that opcodes alone decide: a memory instruction whose lanes are all predicated off is ``control``."""

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


def counts_of_metrics(metrics: Mapping[str, float]) -> tuple[MeasuredCount, ...]:
    """The counts of one launch, from the metrics that Nsight Compute read; each ``launches`` has one element.

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
    return (*counts_of_columns(columns), *_sums_of_opcodes(by_opcode))


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
