"""A ranking and a validation as pages, and a browser to open them in."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from perfmodel.accuracy.validating import Validation, predict_rows, validation_of
from perfmodel.families.tiled_conv2d import TiledConv2d
from perfmodel.families.tiled_conv2d.family import FAMILY
from perfmodel.figures.report.measured_runs import Comparison, comparison
from perfmodel.figures.report.parts import Page
from perfmodel.figures.report.ranking_page import ranking_page
from perfmodel.figures.report.validation_page import validation_page
from perfmodel.prediction.ranking import Ranking, rank_problem
from perfmodel.prediction.scenario import Scenario, scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements

PROGRAM = Path(__file__).parent / "browser.py"
GPU = "rtx-3090"
RANKED = 40


@dataclass(frozen=True, slots=True)
class Ranked:
    """A ranking with its page."""

    ranking: Ranking
    scenario: Scenario
    page: Page


@dataclass(frozen=True, slots=True)
class Validated:
    """A validation with its page."""

    found: Validation
    runs: Comparison
    page: Page


@pytest.fixture(scope="session")
def ranked() -> Ranked:
    scenario = scenario_of(GPU)
    problem = TiledConv2d(height=1024, width=1024, filter_height=7, filter_width=7)
    ranking = rank_problem(problem, scenario, Fidelity.ANALYTIC, top=RANKED)
    return Ranked(ranking, scenario, ranking_page(ranking, scenario, "perfmodel report …"))


@pytest.fixture(scope="session")
def validated(made_up: Path) -> Validated:
    scenario, rows = scenario_of(GPU), read_measurements(made_up, FAMILY)
    predicted = predict_rows(FAMILY, rows, scenario, Fidelity.ANALYTIC)
    found, runs = (
        validation_of(rows, predicted, scenario, Fidelity.ANALYTIC),
        comparison(rows, predicted, scenario, len(rows)),
    )
    return Validated(found, runs, validation_page(found, runs, "perfmodel report …"))


@dataclass(frozen=True, slots=True)
class Seen:
    """What the browser reports: the answers of the steps, console messages, requests for anything but the file."""

    opened: bool
    steps: list[Any]
    console: list[str]
    requests: list[str]


Browse = Callable[..., Seen]


def browse(path: Path, *steps: dict[str, str], size: Sequence[int] = (1200, 900)) -> Seen:
    request = {"file": str(path), "size": list(size), "steps": list(steps)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Seen(**json.loads(done.stdout))


@pytest.fixture(scope="session")
def browser() -> Browse:
    """Opens a file and does what steps say (see ``browser.py``); skips where there is no browser."""
    code = "from PyQt6.QtWebEngineWidgets import QWebEngineView"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        pytest.skip(f"no browser: PyQt6-WebEngine cannot be loaded: {done.stderr.strip().splitlines()[-1]}")
    return partial(browse)
