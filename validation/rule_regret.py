"""How the three rules that choose a pointwise configuration fare on measured times, layer by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfmodel.families.pointwise_conv2d.family import FAMILY
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.pointwise_conv2d.report import layer_report
from perfmodel.families.pointwise_conv2d.selection import Rule
from perfmodel.prediction.predicting import evaluate_scenario
from perfmodel.prediction.scenario import Scenario
from perfmodel.records.measurements import Measurements


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRegret:
    """One layer: of the measured configurations, each rule's choice over the fastest; 1 is perfect."""

    problem: PointwiseConv2d
    measured: int
    regret: Mapping[Rule, float]


def rule_regrets(measurements: Measurements, scenario: Scenario) -> tuple[LayerRegret, ...]:
    """The regret of every rule for each layer with at least two measured configurations.

    A rule chooses among the configurations that were measured, as if there were no others.
    """
    found = []
    for index, problem in enumerate(measurements.problems):
        rows = np.flatnonzero((measurements.problem_index == index) & measurements.ran)
        if len(rows) < 2:
            continue
        batch, seconds = measurements.batch.take(rows), measurements.time_s[rows]
        predicted = evaluate_scenario(FAMILY, problem, batch, scenario).seconds
        chosen = layer_report(problem, batch, scenario.gpu, predicted_s=predicted).chosen
        regret = {rule: float(seconds[place] / seconds.min()) for rule, place in chosen.items() if place is not None}
        found.append(LayerRegret(problem=problem, measured=len(rows), regret=regret))
    return tuple(found)


def regret_table(found: Sequence[LayerRegret]) -> str:
    """The regrets as a Markdown table, with the geometric mean of each rule below."""
    lines = [
        "| layer | measured | " + " | ".join(rule.value for rule in Rule) + " |",
        "|---|---|" + "---|" * len(Rule),
    ]
    for one in found:
        layer = f"{one.problem.batch}×{one.problem.in_channels}→{one.problem.out_channels}"
        place = f"{one.problem.height}×{one.problem.width}"
        lines.append(
            f"| {layer}, {place} | {one.measured} | " + " | ".join(_text(one.regret.get(r)) for r in Rule) + " |"
        )
    means = (_mean([one.regret[rule] for one in found if rule in one.regret]) for rule in Rule)
    lines.append("| geometric mean | | " + " | ".join(_text(mean) for mean in means) + " |")
    return "\n".join(lines) + "\n"


def _mean(regrets: Sequence[float]) -> float | None:
    return float(np.exp(np.mean(np.log(regrets)))) if regrets else None


def _text(regret: float | None) -> str:
    return "–" if regret is None else f"{regret:.3f}"
