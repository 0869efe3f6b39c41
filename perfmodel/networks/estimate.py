"""What a network costs on a GPU: the best configuration of each layer, and totals along the critical path."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from ..core.constants import FLOAT_BYTES
from ..core.results import Bar, ResultList
from ..core.units import interval_us, microseconds, time_text
from ..errors import InfeasibleError
from ..families.conv1d.problem import Conv1d
from ..families.direct_conv2d.problem import Conv2d
from ..families.pointwise_conv2d.problem import PointwiseConv2d
from ..families.ssim.problem import MAPS, WINDOW, Ssim
from ..gpus.gpu import Gpu
from ..launch.launch import L2State
from .graph import Demand, Layer, Network

if TYPE_CHECKING:
    from ..prediction.prediction import Prediction
    from ..prediction.ranking import Ranking
    from ..profiles.kernel_profile import Fidelity

SSIM_PRODUCTS_PER_PIXEL = MAPS * 2 * WINDOW
"""Filtered maps, two passes of the window's taps each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Seconds that a layer takes at least on a GPU."""

    dram_s: float
    fp32_s: float


def _inner_taps(size: int, taps: int, stride: int, padding: int) -> int:
    """Pairs of an output and a tap along one axis that lie on an input element and not on padding.

    >>> _inner_taps(4, 5, 1, 2)  # 3 + 4 + 4 + 3
    14
    """
    outputs = (size + 2 * padding - taps) // stride + 1
    starts = (output * stride - padding for output in range(outputs))
    return sum(max(0, min(start + taps, size) - max(start, 0)) for start in starts)


def demand(problem: Any) -> Demand | None:
    """Bytes and operations of a layer's problem, none on padding; None where the problem is of a family that others brought.

    >>> demand(PointwiseConv2d(in_channels=2, out_channels=3, height=4, width=5))  # 4 * (40 + 6 + 60), 2 * 20 * 2 * 3
    Demand(dram_bytes=424, flops=240)
    """
    if isinstance(problem, Conv1d):
        words = problem.batch * problem.input_words + problem.out_channels * (problem.weight_words + 1)
        outputs = problem.blocks * problem.output_length
        products = problem.blocks * problem.in_channels * problem.products_per_channel
    elif isinstance(problem, PointwiseConv2d):
        words = problem.positions * problem.in_channels + problem.in_channels * problem.out_channels
        outputs = problem.outputs
        products = problem.outputs * problem.in_channels
    elif isinstance(problem, Conv2d):
        words = problem.batch * problem.in_channels * problem.height * problem.width + problem.filter_elements
        outputs = problem.batch * problem.out_channels * problem.output_height * problem.output_width
        rows = _inner_taps(problem.height, problem.filter_height, problem.stride, problem.padding)
        columns = _inner_taps(problem.width, problem.filter_width, problem.stride, problem.padding)
        products = problem.batch * problem.out_channels * problem.filter_channels * rows * columns
    elif isinstance(problem, Ssim):
        words = 2 * problem.pixels
        outputs = problem.output_maps * problem.pixels
        products = SSIM_PRODUCTS_PER_PIXEL * problem.pixels
    else:
        return None
    return Demand(dram_bytes=FLOAT_BYTES * (words + outputs), flops=2 * products)


def floors(needed: Demand, gpu: Gpu, l2: L2State = L2State.COLD) -> Floors:
    """The DRAM floor by the bandwidth of the data sheet, the arithmetic floor by all FP32 lanes at the GPU's boost clock.

    What a warm L2 holds needs no DRAM.

    >>> from perfmodel.gpus.catalogue import load_gpu
    >>> needed = demand(PointwiseConv2d(in_channels=1024, out_channels=1024, height=7, width=7))
    >>> least = floors(needed, load_gpu("h200"))
    >>> 0.9e-6 < least.dram_s < 1.0e-6  # 4 * (2 * 49 * 1024 + 1024 * 1024) bytes at 4.8 TB/s
    True
    """
    flops_per_s = 2 * gpu.sm_count * gpu.fp32_lanes_per_sm * gpu.boost_clock_hz
    in_l2 = l2 is L2State.WARM and needed.dram_bytes <= gpu.l2_bytes
    return Floors(dram_s=0.0 if in_l2 else needed.dram_bytes / gpu.dram_bytes_per_s, fp32_s=needed.flops / flops_per_s)


Progress = Callable[[str], None]
"""Called with the name of each layer once it is done."""
Rank = Callable[[Any], "Ranking"]
"""Ranks the configurations of one problem; raises ``InfeasibleError`` where none can run."""


KERNELS = "this package's FP32 kernels, not cuDNN's"
"""Whose kernels the times are of."""


class TimeBasis(Enum):
    """Where the time of a layer comes from."""

    PREDICTED = "predicted"
    """The best kernel of this package."""
    FLOOR = "bandwidth floor"
    """Each tensor moved once at the DRAM bandwidth of the data sheet, and the fixed cost of a launch: no kernel is faster."""
    NONE = "no time"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class LayerReport:
    """One layer with its best configuration; ``reason`` says why there is none.

    ``demand`` is what it moves and computes, None where that is not known; ``launch_s`` the fixed cost of a launch.
    """

    layer: Layer
    best: Prediction | None
    demand: Demand | None
    floors: Floors | None
    launch_s: float
    reason: str | None
    on_critical_path: bool

    def __repr__(self) -> str:
        how = f"limited by {self.limiter}" if self.best is not None else self.basis.value
        time = f"{time_text(self.seconds)}, " if self.basis is not TimeBasis.NONE else ""
        return f"<LayerReport {self.layer.name}: {time}{how}>"

    @property
    def basis(self) -> TimeBasis:
        """Where its time comes from."""
        if self.best is not None:
            return TimeBasis.PREDICTED
        return TimeBasis.FLOOR if self.layer.kind.is_streaming and self.floors is not None else TimeBasis.NONE

    @property
    def seconds(self) -> float:
        """Device time, predicted or the bandwidth floor; 0 where there is neither."""
        if self.best is not None:
            return self.best.time.predicted_s
        return self.floors.dram_s + self.launch_s if self.floors is not None and self.basis is TimeBasis.FLOOR else 0.0

    @property
    def limiter(self) -> str:
        """What limits its time, empty where it has none."""
        return {
            TimeBasis.PREDICTED: "" if self.best is None else self.best.time.limiter,
            TimeBasis.FLOOR: TimeBasis.FLOOR.value,
        }.get(self.basis, "")

    def to_json(self) -> dict[str, Any]:
        """One row of the report: times in microseconds."""
        return {
            "name": self.layer.name,
            "operation": self.layer.operation,
            "kind": self.layer.kind.value,
            "on_critical_path": self.on_critical_path,
            "basis": self.basis.value,
            "time_us": microseconds(self.seconds),
            "flops": None if self.demand is None else self.demand.flops,
            "uncovered": self.reason,
            "dram_floor_us": None if self.floors is None else microseconds(self.floors.dram_s),
            "fp32_floor_us": None if self.floors is None else microseconds(self.floors.fp32_s),
            "prediction": None if self.best is None else self.best.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Parts of a network's operations (a multiply-add is two) by where the time comes from.

    ``unknown_layers`` are those without a time whose sizes are not known; they are in no part.
    """

    predicted: float
    floor: float
    none: float
    unknown_layers: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NetworkReport(ResultList[LayerReport]):
    """All layers in order of dependence, and totals of the layers that have a time, in seconds; a list of its layers.

    A total has the 90 % interval that follows where errors of layers of one family are all the same and those of different
    families independent; bandwidth floors are taken as they are.
    """

    network: str
    title: str
    gpu: str
    batch: int
    fidelity: Fidelity
    layers: tuple[LayerReport, ...]
    critical_path: tuple[str, ...]

    @property
    def items(self) -> Sequence[LayerReport]:
        """The layers."""
        return self.layers

    @property
    def headline(self) -> str:
        """Network, GPU, how many layers have a time, and the total."""
        covered = sum(report.best is not None for report in self.layers)
        return (
            f"{self.title}, batch {self.batch}, on {self.gpu}: {covered} of {len(self.layers)} layers by {KERNELS}, "
            f"{time_text(self.total_s)} in all"
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each layer: floors, why it has no time, and the row of its best configuration."""
        return [
            {
                "layer": report.layer.name,
                "operation": report.layer.operation,
                "kind": report.layer.kind.value,
                "on_critical_path": report.on_critical_path,
                "basis": report.basis.value,
                "time_s": report.seconds,
                "flops": None if report.demand is None else report.demand.flops,
                "uncovered": report.reason,
                "dram_floor_s": None if report.floors is None else report.floors.dram_s,
                "fp32_floor_s": None if report.floors is None else report.floors.fp32_s,
                **({} if report.best is None else report.best.to_row()),
            }
            for report in self.layers
        ]

    def shown(self) -> list[dict[str, str]]:
        """Layer, operation, family, time or the reason why there is none."""
        return [
            {
                "layer": report.layer.name,
                "operation": report.layer.operation,
                "family": "" if report.best is None else report.best.kernel,
                "time": report.reason or "" if report.basis is TimeBasis.NONE else time_text(report.seconds),
                "limiter": report.limiter,
            }
            for report in self.layers
        ]

    def bars(self) -> list[Bar]:
        """One bar for each layer that has a time, the longest first."""
        timed = [report for report in self.layers if report.basis is not TimeBasis.NONE]
        return [
            Bar(
                label=report.layer.name,
                seconds=report.seconds,
                interval_s=None if report.best is None else report.best.time.interval_s,
            )
            for report in sorted(timed, key=lambda report: -report.seconds)
        ]

    def _critical(self) -> list[LayerReport]:
        return [report for report in self.layers if report.on_critical_path]

    @property
    def critical_path_s(self) -> float:
        """Time of the layers on the critical path: with unlimited streams no schedule is shorter."""
        return sum(report.seconds for report in self._critical())

    @property
    def critical_path_interval_s(self) -> tuple[float, float] | None:
        """The 90 % interval of that time, None where a layer has none."""
        return _interval(self._critical())

    @property
    def total_s(self) -> float:
        """Time of all layers one after the other, as a single stream runs them."""
        return sum(report.seconds for report in self.layers)

    @property
    def total_interval_s(self) -> tuple[float, float] | None:
        """The 90 % interval of that time, None where a layer has none."""
        return _interval(self.layers)

    @property
    def coverage(self) -> Coverage:
        """How much of the network's operations has a time, and from where."""
        parts = dict.fromkeys(TimeBasis, 0)
        for report in self.layers:
            parts[report.basis] += 0 if report.demand is None else report.demand.flops
        total = max(sum(parts.values()), 1)
        unknown = [report for report in self.layers if report.basis is TimeBasis.NONE and report.demand is None]
        return Coverage(
            predicted=parts[TimeBasis.PREDICTED] / total,
            floor=parts[TimeBasis.FLOOR] / total,
            none=parts[TimeBasis.NONE] / total,
            unknown_layers=len(unknown),
        )

    @property
    def uncovered(self) -> Mapping[str, int]:
        """How many layers have no time, by reason, the most frequent first."""
        reasons = [report.reason or "" for report in self.layers if report.basis is TimeBasis.NONE]
        return dict(Counter(reasons).most_common())

    def to_json(self) -> dict[str, Any]:
        """The object of ``perfmodel network --json``: times in microseconds, launch overhead not included."""
        return {
            "network": self.network,
            "title": self.title,
            "gpu": self.gpu,
            "batch": self.batch,
            "fidelity": self.fidelity.value,
            "kernels": KERNELS,
            "layers": [report.to_json() for report in self.layers],
            "covered": sum(report.best is not None for report in self.layers),
            "uncovered": dict(self.uncovered),
            "coverage": asdict(self.coverage),
            "critical_path": list(self.critical_path),
            "critical_path_us": microseconds(self.critical_path_s),
            "critical_path_interval_us": interval_us(self.critical_path_interval_s),
            "total_us": microseconds(self.total_s),
            "total_interval_us": interval_us(self.total_interval_s),
        }


def _interval(layers: Sequence[LayerReport]) -> tuple[float, float] | None:
    """The 90 % interval of a sum of layers: within a family errors add up, those of families as independent ones do."""
    below: defaultdict[str, float] = defaultdict(float)
    above: defaultdict[str, float] = defaultdict(float)
    for report in layers:
        if report.best is None:
            continue
        time = report.best.time
        if time.interval_s is None:
            return None
        below[report.best.kernel] += time.predicted_s - time.interval_s[0]
        above[report.best.kernel] += time.interval_s[1] - time.predicted_s
    total = sum(report.seconds for report in layers)
    return total - math.hypot(*below.values()), total + math.hypot(*above.values())


def network_report(
    network: Network,
    gpu: Gpu,
    rank: Rank,
    fidelity: Fidelity,
    progress: Progress | None = None,
    l2: L2State = L2State.COLD,
) -> NetworkReport:
    """Rank every layer of the network on a GPU at a fidelity, both as ``rank`` uses them, and add up.

    Equal problems are ranked once.
    A layer whose configurations all cannot run has no time and names the limit as its reason.
    """
    outcomes: dict[Any, Prediction | InfeasibleError] = {}
    reports: list[LayerReport] = []
    for layer in network.layers:
        if layer.problem is not None and layer.problem not in outcomes:
            outcomes[layer.problem] = _best(layer.problem, rank)
        outcome = outcomes.get(layer.problem)
        reason = layer.uncovered if outcome is None else str(outcome) if isinstance(outcome, InfeasibleError) else None
        needed = layer.demand if layer.problem is None else demand(layer.problem)
        reports.append(
            LayerReport(
                layer=layer,
                best=None if outcome is None or isinstance(outcome, InfeasibleError) else outcome,
                demand=needed,
                floors=None if needed is None else floors(needed, gpu, l2),
                launch_s=gpu.empty_kernel_s,
                reason=reason,
                on_critical_path=False,
            )
        )
        if progress is not None:
            progress(layer.name)
    path = network.critical_path({report.layer.name: report.seconds for report in reports})
    return NetworkReport(
        network=network.name,
        title=network.title,
        gpu=gpu.id,
        batch=network.batch,
        fidelity=fidelity,
        layers=tuple(replace(report, on_critical_path=report.layer.name in path) for report in reports),
        critical_path=path,
    )


def _best(problem: Any, rank: Rank) -> Prediction | InfeasibleError:
    try:
        return rank(problem).best
    except InfeasibleError as error:
        return error
