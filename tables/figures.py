"""Figures of an accuracy table with their standard errors: made of predictions, compared, written and read."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import DIGITS as EXACT_DIGITS
from perfmodel.accuracy.metrics import (
    LEAST_CANDIDATES,
    LEAST_RUNS,
    accuracy,
    regrets_by_problem,
    rows_by_problem,
    taus_by_problem,
)
from perfmodel.calibration.measured_runs import MeasuredRuns

from .held_out import sign_rate

NEAR_TIE = 1.05
"""Factor between two measured times from which on their order is asked for."""
REFIT = 0.005
"""Part by which predictions may differ where another machine makes the same fit."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure with its standard error, or for a regret how much more it can be where near-equal predictions change places.

    The standard error is that of drawing other runs of the same kind: of a mean σ/√n, of a part √(p(1 − p)/n), of tau the
    bound √(2(1 − τ²)/n) (Kendall, Rank Correlation Methods, 4.12).
    """

    value: float
    error: float

    def agrees(self, other: Figure) -> bool:
        """Whether the two differ by no more than the larger error, to the digits that are kept."""
        return abs(self.value - other.value) <= max(self.error, other.error) + 2 * 10.0**-DIGITS


DIGITS = 4
"""Decimal digits of a committed figure."""
Figures = dict[str, Figure]
"""Figures by name; ``n`` is the number of runs."""
Table = dict[str, dict[str, Figures]]
"""Figures by case and GPU (``h200, conv1d`` for one family of several)."""


def mean(values: Floats) -> Figure:
    """The mean of independent values.

    >>> mean(np.array([1.0, 3.0]))
    Figure(value=2.0, error=1.0)
    """
    return Figure(value=float(values.mean()), error=float(values.std(ddof=1) / np.sqrt(len(values))))


def part(number: int, of: int) -> Figure:
    """The part ``number`` of ``of``; its error is that of one more of each kind, so that it is not 0 for all or none.

    >>> round(part(24, 27).value, 3), round(part(24, 27).error, 3), part(27, 27).error > 0
    (0.889, 0.066, True)
    """
    p = (number + 1) / (of + 2)
    return Figure(value=number / of, error=float(np.sqrt(p * (1.0 - p) / of)))


def _tau(value: float, n: int) -> Figure:
    return Figure(value=value, error=float(np.sqrt(2.0 * (1.0 - value**2) / n)))


def tau_without_near_ties(predicted: Floats, measured: Floats, factor: float) -> float:
    """Kendall's tau over the pairs whose measured times differ by more than the factor; NaN where there are none.

    >>> tau_without_near_ties(np.array([2.0, 1.0, 3.0]), np.array([1.00, 1.01, 2.0]), 1.05)
    1.0
    """
    first, second = np.triu_indices(len(measured), 1)
    distinct = np.abs(np.log(measured[first] / measured[second])) > math.log(factor)
    agree = np.sign(predicted[first] - predicted[second]) * np.sign(measured[first] - measured[second])
    return round(float(agree[distinct].mean()), EXACT_DIGITS) if distinct.any() else math.nan


def largest_regret(predicted: Floats, measured: Floats, top: int, within: float) -> float:
    """The largest regret to be had where predictions that differ by less than the part ``within`` may change places.

    >>> largest_regret(np.array([1.0, 1.001, 3.0]), np.array([20.0, 10.0, 30.0]), 1, 0.005)
    2.0
    """
    number = min(top, len(predicted))
    last = np.partition(predicted, number - 1)[number - 1]
    certain = measured[predicted < last * (1.0 - within)]
    near = np.sort(measured[(predicted >= last * (1.0 - within)) & (predicted <= last * (1.0 + within))])
    best_of_slowest = near[len(near) - (number - len(certain))]
    return round(float(min(best_of_slowest, certain.min(initial=math.inf)) / measured.min()), EXACT_DIGITS)


def figures_of(data: MeasuredRuns, predicted_s: Floats) -> Figures:
    """What any prediction of a data set is judged by; of several problems also what each one's own choice costs."""
    measured = data.runs.seconds
    result, n = accuracy(predicted_s, measured), len(measured)
    figures = {
        "n": Figure(value=float(n), error=0.0),
        "mape": mean(np.abs(predicted_s / measured - 1.0)),
        "mape_scaled": mean(np.abs(predicted_s * result.scale / measured - 1.0)),
        "kendall_tau": _tau(result.kendall_tau, n),
    }
    for top, value in ((1, result.regret_top1), (5, result.regret_top5)):
        error = largest_regret(predicted_s, measured, top, REFIT) - value
        figures[f"regret_top{top}"] = Figure(value=value, error=error)
    signs = sign_rate(data.batch, data.problem_index, predicted_s, measured)
    if signs.pairs:
        figures["sensitivity"] = part(signs.right, signs.pairs)
    if len(data.problems) > 1:
        figures |= _within_problems(data, predicted_s)
        figures["tau_without_near_ties"] = _tau(tau_without_near_ties(predicted_s, measured, NEAR_TIE), n)
    return figures


def _within_problems(data: MeasuredRuns, predicted_s: Floats) -> Figures:
    """Tau of each problem's own order and regret of its own choice: the mean over the problems, and the worst."""
    measured = data.runs.seconds
    figures: Figures = {}
    taus = taus_by_problem(predicted_s, measured, data.problem_index)
    if len(taus) > 1:
        worst_tau = int(taus.argmin())
        runs = len(rows_by_problem(data.problem_index, LEAST_RUNS)[worst_tau])
        figures |= {"tau_in_problems": mean(taus), "worst_tau": _tau(float(taus[worst_tau]), runs)}
    rows = rows_by_problem(data.problem_index, LEAST_CANDIDATES)
    for top in (1, 5) if len(rows) > 1 else ():
        regrets = regrets_by_problem(predicted_s, measured, data.problem_index, top)
        logs, highest = mean(np.log(regrets)), float(regrets.max())
        middle = float(np.exp(logs.value))
        most = max(largest_regret(predicted_s[of], measured[of], top, REFIT) for of in rows)
        figures[f"regret_top{top}_in_problems"] = Figure(value=middle, error=middle * logs.error)
        figures[f"worst_regret_top{top}"] = Figure(value=highest, error=most - highest)
    return figures


def worst(rows: Iterable[Figures]) -> Figures:
    """Figure by figure the worst of some rows: the largest error and regret, the smallest tau and coverage; all runs.

    A figure that not all rows have is that of those which have it; coverage is left out where one lacks it.
    """
    listed = list(rows)
    result = {"n": Figure(value=sum(row["n"].value for row in listed), error=0.0)}
    for name, choose in (
        ("mape_scaled", max),
        ("regret_top1", max),
        ("regret_top5", max),
        ("regret_top1_in_problems", max),
        ("worst_regret_top1", max),
        ("kendall_tau", min),
        ("tau_in_problems", min),
        ("worst_tau", min),
        ("coverage", min),
    ):
        known = [row for row in listed if name in row]
        if len(known) == len(listed) or (known and name != "coverage"):
            result[name] = choose((row[name] for row in known), key=lambda figure: figure.value)
    return result


def read_table(path: Path) -> Table:
    """The committed figures."""
    return {
        case: {gpu: {name: Figure(value=v, error=e) for name, (v, e) in figures.items()} for gpu, figures in of.items()}
        for case, of in json.loads(path.read_text(encoding="utf-8")).items()
    }


def write_table(path: Path, figures: Table) -> None:
    """Write figures with ``DIGITS`` digits: case, GPU, figure, then value and error."""
    plain = {
        case: {
            gpu: {name: [round(one.value, DIGITS), round(one.error, DIGITS)] for name, one in row.items()}
            for gpu, row in of.items()
        }
        for case, of in figures.items()
    }
    text = json.dumps(plain, indent=1).replace("[\n    ", "[")
    path.write_text(text.replace(",\n    ", ", ").replace("\n   ]", "]") + "\n", encoding="utf-8")


def differences(committed: Mapping[str, Figures], figures: Mapping[str, Figures]) -> list[str]:
    """Figures of a case that differ from the committed ones by more than their errors, or stand in one of the two alone."""
    lines = []
    for gpu in dict.fromkeys((*committed, *figures)):
        before, after = committed.get(gpu, {}), figures.get(gpu, {})
        for name in dict.fromkeys((*before, *after)):
            if name not in before or name not in after:
                lines.append(f"{gpu}: {name} stands in one of the two alone")
            elif not before[name].agrees(after[name]):
                lines.append(f"{gpu}: {name} {before[name].value:.4f} became {after[name].value:.4f}")
    return lines
