"""Runs whose truth is known: times that the model itself gives, with a scale and noise, as a file that the program reads."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from perfmodel.calibration.measured_runs import MeasuredRuns, measured_runs
from perfmodel.core.json_values import plain
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d
from perfmodel.prediction.predicting import predict_all
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements
from perfmodel.validation.selection import drawn

PROBLEM = TiledConv2d(height=1024, width=1024, filter_height=5, filter_width=5)


def made_file(
    folder: Path, gpu: str, *, scale: float = 1.0, noise: float = 0.02, count: int = 80, seed: int = 7
) -> Path:
    """A CSV of runs on a GPU that takes ``scale`` times what is predicted, with log-normal noise."""
    scenario, rng = scenario_of(gpu), np.random.default_rng(seed)
    predictions = predict_all(PROBLEM, drawn(FAMILY, PROBLEM, scenario, count, rng), scenario, Fidelity.ANALYTIC)
    factors = scale * np.exp(rng.normal(0.0, noise, count))
    rows = [
        {"gpu": gpu, **plain(PROBLEM), **plain(one.configuration), "time_ms": 1e3 * factor * one.time.predicted_s}
        for one, factor in zip(predictions, factors.tolist(), strict=True)
    ]
    path = folder / f"{gpu}-{seed}.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def made_runs(folder: Path, gpu: str, *, scale: float = 1.0, noise: float = 0.02, count: int = 80) -> MeasuredRuns:
    """The same as a data set of analytic counts."""
    rows = read_measurements(made_file(folder, gpu, scale=scale, noise=noise, count=count), FAMILY)
    return measured_runs(gpu, FAMILY, rows, scenario_of(gpu), Fidelity.ANALYTIC)
