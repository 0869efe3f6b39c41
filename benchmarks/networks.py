"""Whole networks against measured layers, on the records in ``validation/data``: ``python -m benchmarks.networks``.

Of each layer the configuration is taken that is predicted fastest of those measured (analytic, cold L2). Two intervals of the
total are held against the measured total: that of `perfmodel network`, where errors of one family are the same and those of
families independent, and that of errors which are all independent.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perfmodel.cli.output import print_table
from perfmodel.core.units import interval_text, time_text
from perfmodel.errors import InputError
from perfmodel.families.registry import family, family_of
from perfmodel.launch.launch import L2State
from perfmodel.networks.estimate import NetworkReport, network_report
from perfmodel.networks.library import load_network, network_names
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.prediction import Prediction
from perfmodel.prediction.ranking import Ranking
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.columns import configuration_of_record, record_of_fields
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import RecordKind

DATA = Path(__file__).parents[1] / "validation" / "data"
RECORDS = {"h200": DATA / "h200.jsonl.gz", "h100-sxm-80gb": DATA / "h100.jsonl.gz"}

Measured = Mapping[Any, Mapping[Any, float]]
"""By problem, the median time of each configuration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """A network on a GPU: the report, and the measured time of all layers that a family covers."""

    report: NetworkReport
    measured_s: float

    @property
    def independent_s(self) -> tuple[float, float]:
        """The interval of the total if the errors of all layers were independent."""
        times = [layer.best.time for layer in self.report.layers if layer.best is not None]
        below = math.hypot(*(time.predicted_s - time.interval_s[0] for time in times if time.interval_s))
        above = math.hypot(*(time.interval_s[1] - time.predicted_s for time in times if time.interval_s))
        return self.report.total_s - below, self.report.total_s + above


def measured_times(path: Path) -> Measured:
    """Median times with a cold L2 of all runs of a file of records; those of designs that are gone are left out."""
    found: defaultdict[Any, dict[Any, float]] = defaultdict(dict)
    for record in read_records(path):
        timing = record.timing(L2State.COLD)
        if record.kind is not RecordKind.KERNEL or record.failure is not None or timing is None:
            continue
        own = family(record.name)
        try:
            problem = record_of_fields(own.problem_type, record.problem)
            found[problem][configuration_of_record(own, record.configuration)] = timing.median_s
        except InputError:
            continue
    return found


def compare(name: str, gpu: str, measured: Measured) -> Comparison:
    """A shipped network, each layer by the predicted fastest of its measured configurations."""
    scenario, times = scenario_of(gpu), dict[Any, float]()

    def best(problem: Any) -> Ranking:
        runs = measured[problem]
        predictions = sorted(
            predict_all(problem, list(runs), scenario, Fidelity.ANALYTIC), key=lambda one: one.time.predicted_s
        )
        times[problem] = runs[predictions[0].configuration]
        return _ranking(family_of(problem).name, problem, predictions)

    report = network_report(load_network(name), scenario.gpu, best, Fidelity.ANALYTIC)
    covered = [layer.layer.problem for layer in report.layers if layer.best is not None]
    return Comparison(report=report, measured_s=sum(times[problem] for problem in covered))


def _ranking(kernel: str, problem: Any, predictions: Sequence[Prediction]) -> Ranking:
    return Ranking(
        kernel=kernel,
        gpu=predictions[0].gpu,
        problem=problem,
        fidelity=Fidelity.ANALYTIC,
        candidates=len(predictions),
        rejected={},
        top=tuple(predictions),
    )


def main() -> None:
    """Print one table."""
    rows, inside = [], [0, 0]
    for gpu, path in RECORDS.items():
        measured = measured_times(path)
        for name in network_names():
            found = compare(name, gpu, measured)
            bounds = found.report.total_interval_s, found.independent_s
            holds = [bound is not None and bound[0] <= found.measured_s <= bound[1] for bound in bounds]
            inside = [count + hold for count, hold in zip(inside, holds, strict=True)]
            rows.append(
                (
                    gpu,
                    name,
                    len([layer for layer in found.report.layers if layer.best is not None]),
                    time_text(found.report.total_s),
                    time_text(found.measured_s),
                    *(
                        f"{interval_text(bound)}{'' if hold else ' ✗'}"
                        for bound, hold in zip(bounds, holds, strict=True)
                    ),
                )
            )
    print_table("", ("GPU", "network", "layers", "predicted", "measured", "90 % within", "if independent"), rows, 2)
    print(f"measured total inside: {inside[0]} of {len(rows)}; if errors were independent {inside[1]}")


if __name__ == "__main__":
    main()
