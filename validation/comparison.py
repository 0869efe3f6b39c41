"""How kernels compare with the best library, problem by problem, and the predicted fastest with the fastest; pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.core.json_values import fields_text
from perfmodel.core.units import time_text
from perfmodel.launch.launch import L2State
from perfmodel.records.schema import Record, RecordKind, Scalar, TimingMethod

from .baselines.interface import Precision

Fields = tuple[tuple[str, Scalar], ...]
Table = tuple[tuple[str, ...], Sequence[tuple[str, ...]]]
"""Names of columns, and rows of texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedKernel:
    """A configuration that ran, with its time and its place among the predicted fastest."""

    configuration: Fields
    seconds: float
    place: int | None
    measured_at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedLibrary:
    """A library's implementation with its time."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One problem with one state of the L2, every time the mean over a CUDA graph of runs.

    Attributes:
        kernels: The configurations that ran, fastest first.
        library: The fastest library that computes in the problem's precision.
        tensor_library: The fastest one with TF32, if any: another precision, not compared.
        libraries: How many libraries computed the problem in its precision.
    """

    gpu: str
    family: str
    problem_name: str
    problem: Fields
    l2: L2State
    kernels: tuple[TimedKernel, ...]
    library: TimedLibrary
    tensor_library: TimedLibrary | None
    libraries: int

    @property
    def best(self) -> TimedKernel:
        """The fastest configuration that was measured."""
        return self.kernels[0]

    @property
    def first(self) -> TimedKernel | None:
        """The predicted fastest of those that ran, by the newest ranking; None where none was ranked."""
        lowest = min((kernel.place for kernel in self.kernels if kernel.place is not None), default=0)
        firsts = [kernel for kernel in self.kernels if kernel.place == lowest]
        return max(firsts, key=lambda kernel: kernel.measured_at, default=None)

    @property
    def kind(self) -> str:
        """The family, with the precision where it is not FP32."""
        precision = _precision(self.problem)
        return self.family if precision is Precision.FP32 else f"{self.family}, {precision.value.upper()}"

    @property
    def ratio(self) -> float:
        """The library's time over the best kernel's: above 1 the kernel is faster."""
        return self.library.seconds / self.best.seconds

    @property
    def first_ratio(self) -> float:
        """The library's time over the predicted first's; NaN where none was ranked."""
        return self.library.seconds / self.first.seconds if self.first is not None else np.nan

    @property
    def regret(self) -> float:
        """The predicted first's time over the best's; NaN where none was ranked."""
        return self.first.seconds / self.best.seconds if self.first is not None else np.nan

    @property
    def title(self) -> str:
        """The problem's name in its list, its fields where it has none."""
        return self.problem_name or fields_text(self.problem)

    def to_json(self) -> dict[str, Any]:
        """The object of ``perfmodel measure --json``."""
        tensor = self.tensor_library
        return {
            "gpu": self.gpu,
            "family": self.family,
            "problem_name": self.problem_name,
            "problem": dict(self.problem),
            "l2": self.l2.value,
            "best": _kernel_json(self.best),
            "predicted_first": None if self.first is None else _kernel_json(self.first),
            "library": {"name": self.library.name, "time_us": self.library.seconds * 1e6},
            "tf32_library": None if tensor is None else {"name": tensor.name, "time_us": tensor.seconds * 1e6},
            "libraries": self.libraries,
            "library_over_best": self.ratio,
            "library_over_predicted_first": None if self.first is None else self.first_ratio,
            "predicted_first_over_best": None if self.first is None else self.regret,
        }


def _kernel_json(kernel: TimedKernel) -> dict[str, Any]:
    return {"config": dict(kernel.configuration), "time_us": kernel.seconds * 1e6, "place": kernel.place}


def comparisons(records: Iterable[Record]) -> tuple[Comparison, ...]:
    """A comparison for each problem and state of the L2 with a timed kernel and a library timed in fp32; cold before warm.

    Only times of CUDA graphs count, on both sides.
    """
    by_problem: dict[tuple[str, Fields], list[Record]] = {}
    for record in records:
        if record.failure is None and record.timings and record.kind in (RecordKind.KERNEL, RecordKind.BASELINE):
            family = str(record.configuration.get("family", record.name))
            by_problem.setdefault((family, tuple(sorted(record.problem.items()))), []).append(record)
    found = [
        comparison
        for (family, problem), runs in by_problem.items()
        for l2 in L2State
        if (comparison := _comparison(family, problem, runs, l2)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.family, one.l2.value)))


def _comparison(family: str, problem: Fields, runs: Sequence[Record], l2: L2State) -> Comparison | None:
    timed = [(seconds, record) for record in runs if (seconds := _graph_seconds(record, l2)) is not None]
    kernels = sorted((pair for pair in timed if pair[1].kind is RecordKind.KERNEL), key=lambda pair: pair[0])
    precision = _precision(problem)
    exact = _libraries(timed, precision)
    if not kernels or not exact:
        return None
    return Comparison(
        gpu=kernels[0][1].gpu,
        family=family,
        problem_name=kernels[0][1].problem_name,
        problem=problem,
        l2=l2,
        kernels=tuple(
            TimedKernel(
                configuration=tuple(record.configuration.items()),
                seconds=seconds,
                place=None if record.predicted is None else record.predicted.place,
                measured_at=record.measured_at,
            )
            for seconds, record in kernels
        ),
        library=exact[0],
        tensor_library=next(iter(_libraries(timed, Precision.TF32)), None) if precision is Precision.FP32 else None,
        libraries=len(exact),
    )


def _precision(problem: Fields) -> Precision:
    return Precision.of_problem(dict(problem))


def _graph_seconds(record: Record, l2: L2State) -> float | None:
    """The median in CUDA graphs with that state of the L2; None where there is none."""
    found = [one.median_s for one in record.timings if one.l2 is l2 and one.method is TimingMethod.GRAPH]
    return found[0] if found else None


def _libraries(timed: Iterable[tuple[float, Record]], precision: Precision) -> list[TimedLibrary]:
    """The libraries of a precision, fastest first."""
    found = [
        TimedLibrary(name=record.name, seconds=seconds)
        for seconds, record in timed
        if record.kind is RecordKind.BASELINE and record.configuration.get("precision") == precision.value
    ]
    return sorted(found, key=lambda one: one.seconds)


def comparison_rows(found: Sequence[Comparison]) -> Table:
    """A row for each problem, in each family those first in which the library is furthest ahead."""
    columns = (
        "family", "L2", "problem", "best kernel", "predicted first", "best library", "library",
        "library / best", "library / first", "first / best", "TF32 library",
    )  # fmt: skip
    rows = [
        (
            one.kind,
            one.l2.value,
            one.title,
            time_text(one.best.seconds),
            "–" if one.first is None else time_text(one.first.seconds),
            time_text(one.library.seconds),
            one.library.name,
            f"{one.ratio:.2f}",
            _text(one.first_ratio),
            _text(one.regret, 3),
            "–" if one.tensor_library is None else time_text(one.tensor_library.seconds),
        )
        for one in sorted(found, key=lambda one: (one.kind, one.l2.value, one.ratio))
    ]
    return columns, rows


def summary_rows(found: Sequence[Comparison]) -> Table:
    """Wins, losses and means of each family, cold and warm.

    Ratios to libraries have geometric means; the predicted first over the best is an arithmetic one, with the worst problem.
    """
    columns = (
        "family", "L2", "problems", "kernel faster", "library faster", "library / best", "least", "most",
        "library / first", "first / best: mean", "worst", "TF32 library / best",
    )  # fmt: skip
    groups: dict[tuple[str, L2State], list[Comparison]] = {}
    for one in found:
        groups.setdefault((one.kind, one.l2), []).append(one)
    rows = []
    for (family, l2), group in groups.items():
        ratios = np.array([one.ratio for one in group])
        firsts = np.array([one.first_ratio for one in group])
        regrets = np.array([one.regret for one in group])
        tensor = np.array([one.tensor_library.seconds / one.best.seconds for one in group if one.tensor_library])
        ranked = regrets[np.isfinite(regrets)]
        rows.append(
            (
                family,
                l2.value,
                str(len(group)),
                str(int((ratios > 1).sum())),
                str(int((ratios < 1).sum())),
                _text(_geometric_mean(ratios)),
                _text(ratios.min()),
                _text(ratios.max()),
                _text(_geometric_mean(firsts[np.isfinite(firsts)])),
                _text(float(ranked.mean()) if len(ranked) else np.nan, 3),
                _text(float(ranked.max()) if len(ranked) else np.nan, 2),
                _text(_geometric_mean(tensor)),
            )
        )
    return columns, rows


def _geometric_mean(values: NDArray[np.float64]) -> float:
    return float(np.exp(np.log(values).mean())) if len(values) else np.nan


def _text(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}f}" if np.isfinite(value) else "–"
