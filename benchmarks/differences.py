"""From which difference on predictions are in the measured order: ``python -m benchmarks.differences FILE.jsonl.gz …``.

Configurations of the families with measured times are executed, as `analyze` does, and timed by the model of one SM; every two of
one problem are a pair. They take part in no fit of that model. Of each family the problems with the shortest launches are taken,
of those with enough configurations, and of each problem a sample. The table says how often pairs that are predicted so far apart
are in the measured order. What ``perfmodel/data/calibrations/differences.toml`` holds is the least difference from which on three
of four are: half-way between a coin and certainty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.errors import InputError
from perfmodel.families.profiling import gather_profiles
from perfmodel.families.registry import family, family_names
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of
from perfmodel.profiles.kernel_profile import Fidelity, KernelProfile
from perfmodel.records.measurements import Measurements, read_measurements

EDGES = (0.0, 0.01, 0.02, 0.03, 0.04, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)
"""Differences of predicted times, as a part of the slower one, between which pairs are counted together."""
IN_ORDER = 0.75
"""Share of pairs in the measured order from which on one of the two is called faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """Pairs of configurations, arrays of shape ``(pairs,)``: the faster one is the one that is predicted to be.

    ``apart`` is by which part of the slower prediction they differ, ``log_error`` of the ratio of the two times.
    """

    apart: NDArray[np.float64]
    in_order: NDArray[np.bool_]
    log_error: NDArray[np.float64]


def pairs_of(predicted_s: NDArray[np.float64], measured_s: NDArray[np.float64]) -> Pairs:
    """All pairs of some configurations of one problem.

    >>> pairs_of(np.array([1.0, 2.0, 4.0]), np.array([1.0, 4.0, 3.0])).in_order.tolist()
    [True, True, False]
    """
    one, other = np.triu_indices(len(predicted_s), 1)
    predicted, measured = (np.log(times[other] / times[one]) for times in (predicted_s, measured_s))
    return Pairs(
        apart=1.0 - np.exp(-np.abs(predicted)),
        in_order=predicted * measured > 0,
        log_error=np.abs(predicted - measured),
    )


def least_difference(pairs: Pairs, edges: Sequence[float] = EDGES) -> float:
    """The lowest edge from which on so many pairs are in order, between all higher edges that have pairs.

    >>> apart = np.array([0.005, 0.005, 0.03, 0.03])
    >>> found = Pairs(apart=apart, in_order=np.array([True, False, True, True]), log_error=apart)
    >>> least_difference(found, (0.0, 0.01, 0.02, 1.0))
    0.01
    """
    least = edges[-1]
    for low, high in reversed(list(pairwise(edges))):
        here = (pairs.apart >= low) & (pairs.apart < high)
        if here.any() and pairs.in_order[here].mean() < IN_ORDER:
            return least
        least = low
    return least


def measured_files(path: Path) -> Iterator[Measurements]:
    """What a file holds of each family."""
    for name in family_names():
        try:
            yield read_measurements(path, family(name))
        except InputError:
            continue  # the file has none of this family


def pairs_of_problems(found: Measurements, scenario: Scenario, shortest: int, sample: int, seed: int) -> list[Pairs]:
    """The pairs of the problems of one family with the shortest launches."""
    own = family(found.family_name)
    ran = found.take(found.ran)
    counts = np.bincount(ran.problem_index, minlength=len(ran.problems))
    fastest = {
        place: ran.time_s[ran.problem_index == place].min() for place in np.flatnonzero(counts >= sample).tolist()
    }
    pairs = []
    for place in sorted(fastest, key=lambda place: fastest[place])[:shortest]:
        rows = ran.take(ran.problem_index == place).drawn(None, sample, seed)
        problem = rows.problems[0]
        profiles = gather_profiles(own, problem, rows.batch, scenario.gpu, fidelity=Fidelity.SIMULATED)
        kept = [index for index, one in enumerate(profiles) if isinstance(one, KernelProfile)]
        executed = [one for one in profiles if isinstance(one, KernelProfile)]
        seconds = np.asarray(evaluate_batch(own, problem, rows.batch.take(np.array(kept)), scenario, executed).seconds)
        pairs.append(pairs_of(seconds, rows.time_s[kept]))
        right = pairs[-1].in_order.mean()
        print(f"{found.path.name} {own.name} {problem}: {len(kept)} executed, {right:.0%} in order", file=sys.stderr)
    return pairs


def joined(parts: Sequence[Pairs]) -> Pairs:
    """All pairs together."""
    return Pairs(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in Pairs.__slots__})


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--shortest", type=int, default=3, help="problems of each family")
    parser.add_argument("--sample", type=int, default=10, help="configurations of each problem")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    scenario = scenario_of(options.gpu)
    parts = [
        pairs
        for path in options.files
        for found in measured_files(path)
        for pairs in pairs_of_problems(found, scenario, options.shortest, options.sample, options.seed)
    ]
    pairs = joined(parts)
    print("| predicted apart | pairs | in the measured order |\n|---|---:|---:|")
    for low, high in pairwise(EDGES):
        here = (pairs.apart >= low) & (pairs.apart < high)
        if here.any():
            print(f"| {low:.1%} to {high:.1%} | {here.sum():,} | {pairs.in_order[here].mean():.0%} |")
    error = np.expm1(np.quantile(pairs.log_error, (0.5, 0.9)))
    print(
        f"\n{len(pairs.apart):,} pairs of {len(parts)} problems; ratio of two times: median error {error[0]:.1%}, 90 % within "
        f"{error[1]:.0%}; least difference {least_difference(pairs):.1%}"
    )


if __name__ == "__main__":
    main()
