"""What a network costs on a GPU: the best configuration of each layer, and totals along the critical path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.results import Bar, ResultList
from ..core.units import microseconds, time_text
from ..errors import InfeasibleError
from ..gpus.gpu import Gpu
from .floors import Floors, floors
from .graph import Layer, Network

if TYPE_CHECKING:
    from ..prediction.prediction import Prediction
    from ..prediction.ranking import Ranking
    from ..profiles.kernel_profile import Fidelity

Progress = Callable[[str], None]
"""Called with the name of each layer once it is done."""
Rank = Callable[[Any], "Ranking"]
"""Ranks the configurations of one problem; raises ``InfeasibleError`` where none can run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerReport:
    """One layer with its best configuration; ``reason`` says why there is none."""

    layer: Layer
    best: Prediction | None
    floors: Floors | None
    reason: str | None
    on_critical_path: bool

    @property
    def seconds(self) -> float:
        """Predicted device time, 0 where no family covers the layer."""
        return 0.0 if self.best is None else self.best.time.predicted_s

    def to_json(self) -> dict[str, Any]:
        """One row of the report: times in microseconds."""
        return {
            "name": self.layer.name,
            "operation": self.layer.operation,
            "on_critical_path": self.on_critical_path,
            "uncovered": self.reason,
            "dram_floor_us": None if self.floors is None else microseconds(self.floors.dram_s),
            "fp32_floor_us": None if self.floors is None else microseconds(self.floors.fp32_s),
            "prediction": None if self.best is None else self.best.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class NetworkReport(ResultList[LayerReport]):
    """All layers in order of dependence, and totals of the layers that families cover, in seconds; a list of its layers."""

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
            f"{self.title}, batch {self.batch}, on {self.gpu}: {covered} of {len(self.layers)} layers, "
            f"{time_text(self.total_s)} in all"
        )

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each layer: floors, why it has no time, and the row of its best configuration."""
        return [
            {
                "layer": report.layer.name,
                "operation": report.layer.operation,
                "on_critical_path": report.on_critical_path,
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
                "predicted": report.reason or "" if report.best is None else time_text(report.seconds),
                "limiter": "" if report.best is None else report.best.time.limiter,
            }
            for report in self.layers
        ]

    def bars(self) -> list[Bar]:
        """One bar for each layer that has a time, the longest first."""
        timed = [report for report in self.layers if report.best is not None]
        return [
            Bar(label=report.layer.name, seconds=report.seconds)
            for report in sorted(timed, key=lambda report: -report.seconds)
        ]

    @property
    def critical_path_s(self) -> float:
        """Time of the layers on the critical path: with unlimited streams no schedule is shorter."""
        return sum(report.seconds for report in self.layers if report.on_critical_path)

    @property
    def total_s(self) -> float:
        """Time of all layers one after the other, as a single stream runs them."""
        return sum(report.seconds for report in self.layers)

    @property
    def uncovered(self) -> Mapping[str, int]:
        """How many layers have no time, by reason, the most frequent first."""
        return dict(Counter(report.reason for report in self.layers if report.reason is not None).most_common())

    def to_json(self) -> dict[str, Any]:
        """The object of ``perfmodel network --json``: times in microseconds, launch overhead not included."""
        return {
            "network": self.network,
            "title": self.title,
            "gpu": self.gpu,
            "batch": self.batch,
            "fidelity": self.fidelity.value,
            "layers": [report.to_json() for report in self.layers],
            "covered": sum(report.best is not None for report in self.layers),
            "uncovered": dict(self.uncovered),
            "critical_path": list(self.critical_path),
            "critical_path_us": microseconds(self.critical_path_s),
            "total_us": microseconds(self.total_s),
        }


def network_report(
    network: Network, gpu: Gpu, rank: Rank, fidelity: Fidelity, progress: Progress | None = None
) -> NetworkReport:
    """Rank every layer of the network on a GPU at a fidelity, both as ``rank`` uses them, and add up.

    Equal problems are ranked once.
    A layer whose configurations all cannot run has no time and names the limit as its reason.
    """
    outcomes: dict[Any, Prediction | InfeasibleError] = {}
    best: dict[str, Prediction] = {}
    reasons: dict[str, str | None] = {}
    for layer in network.layers:
        if layer.problem is not None and layer.problem not in outcomes:
            outcomes[layer.problem] = _best(layer.problem, rank)
        outcome = outcomes.get(layer.problem)
        if outcome is None or isinstance(outcome, InfeasibleError):
            reasons[layer.name] = layer.uncovered if outcome is None else str(outcome)
        else:
            best[layer.name] = outcome
        if progress is not None:
            progress(layer.name)
    path = network.critical_path({name: one.time.predicted_s for name, one in best.items()})
    return NetworkReport(
        network=network.name,
        title=network.title,
        gpu=gpu.id,
        batch=network.batch,
        fidelity=fidelity,
        layers=tuple(
            LayerReport(
                layer=layer,
                best=best.get(layer.name),
                floors=None if layer.problem is None else floors(layer.problem, gpu),
                reason=reasons.get(layer.name),
                on_critical_path=layer.name in path,
            )
            for layer in network.layers
        ),
        critical_path=path,
    )


def _best(problem: Any, rank: Rank) -> Prediction | InfeasibleError:
    try:
        return rank(problem).best
    except InfeasibleError as error:
        return error
