"""Selection rules judged by times that were made so that one rule is right."""

import csv
from pathlib import Path

import numpy as np

from perfmodel.families.base import Batch
from perfmodel.families.pointwise_conv2d.family import FAMILY
from perfmodel.families.pointwise_conv2d.problem import PointwiseConv2d
from perfmodel.families.pointwise_conv2d.selection import Rule
from perfmodel.prediction.predicting import evaluate_scenario
from perfmodel.prediction.prediction import plain
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.measurements import read_measurements
from perfmodel.validation.rule_regret import regret_table, rule_regrets
from perfmodel.validation.selection import drawn

UNDER = scenario_of("rtx-2080-ti")
PROBLEM = PointwiseConv2d(in_channels=64, out_channels=128, height=28, width=28)


def test_on_times_as_predicted_the_predicted_time_chooses_best(tmp_path: Path) -> None:
    configurations = drawn(FAMILY, PROBLEM, UNDER, 12, np.random.default_rng(0))
    seconds = evaluate_scenario(FAMILY, PROBLEM, Batch.of(configurations), UNDER).seconds
    rows = [
        {**plain(PROBLEM), **plain(configuration), "time_ms": 1e3 * float(time_s)}
        for configuration, time_s in zip(configurations, seconds, strict=True)
    ]
    path = tmp_path / "pointwise.csv"
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    (layer,) = rule_regrets(read_measurements(path, FAMILY), UNDER)
    assert layer.measured == 12
    assert layer.regret[Rule.PREDICTED_TIME] == 1.0
    assert all(regret >= 1.0 for regret in layer.regret.values())
    table = regret_table([layer]).splitlines()
    assert table[2].startswith("| 1×64→128, 28×28 | 12 | ")
    assert table[3].startswith("| geometric mean")
