"""Errors of what `rank` compiles on measured runs: ``python -m benchmarks.new_problems FAMILY FILE … --half report``.

Runs are drawn from the problems in turn. Each is compiled, one block of it is executed, and it is timed by the model of one SM,
as `rank` and `predict` do. A line for each design, and one for all. Runs of kernels whose code has changed since are left out.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.cli.output import print_table
from perfmodel.core.json_values import plain
from perfmodel.families.base import Batch
from perfmodel.families.profiling import gather_profiles
from perfmodel.families.registry import family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.records.measurements import Measurements, read_measurements

from .coverage import half_of, of_todays_code

_DESIGN = ("reuse", "layout", "variant", "version", "use_shmem")
"""Fields that name a design, of whatever family."""


def drawn(
    name: str, files: list[Path], half: str | None, gpu: str, number: int, seed: int
) -> dict[Any, dict[Any, float]]:
    """So many measured configurations with their seconds: from each problem in turn, in an order drawn by the seed."""
    kind, scenario, runs = family(name), scenario_of(gpu), defaultdict[Any, list[tuple[Measurements, int]]](list)
    for file in files:
        measured = read_measurements(file, kind, scenario.l2)
        for row in np.flatnonzero(measured.ran & np.isfinite(measured.time_s)).tolist():
            problem = measured.problems[measured.problem_index[row]]
            if half in (None, half_of(name, problem)):
                runs[problem].append((measured, row))
    rng, left = np.random.default_rng(seed), number
    orders = {problem: rng.permutation(len(runs[problem])).tolist() for problem in runs}
    chosen = defaultdict[Any, dict[Any, float]](dict)
    while left and any(orders.values()):
        for problem in [one for one in orders if orders[one]]:
            measured, row = runs[problem][orders[problem].pop()]
            if left and list(of_todays_code(kind, scenario.gpu, measured, [row])):
                chosen[problem][measured.batch.configuration(row)] = float(measured.time_s[row])
                left -= 1
    return chosen


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("family")
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--half", choices=("development", "report"))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--sample", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    kind, scenario = family(given.family), scenario_of(given.gpu)
    ratios = defaultdict[str, list[float]](list)
    for problem, runs in drawn(given.family, given.files, given.half, given.gpu, given.sample, given.seed).items():
        batch = Batch.of(list(runs))
        outcomes = gather_profiles(kind, problem, batch, scenario.gpu, stores=())
        kept = [index for index, one in enumerate(outcomes) if isinstance(one, KernelProfile)]
        profiles = [one for one in outcomes if isinstance(one, KernelProfile)]
        if not kept:
            continue
        seconds = evaluate_batch(kind, problem, batch.take(kept), scenario, profiles).seconds
        for index, predicted in zip(kept, seconds.tolist(), strict=True):
            configuration = batch.configuration(index)
            design = next(str(value) for name, value in plain(configuration).items() if name in _DESIGN)
            for label in (design, "all") if np.isfinite(predicted) else ():
                ratios[label].append(predicted / runs[configuration])
    rows = []
    for label, found in sorted(ratios.items(), key=lambda one: (one[0] == "all", one[0])):
        errors = np.abs(np.array(found) - 1.0)
        bias = f"{np.exp(np.mean(np.log(found))):.2f}"
        rows.append((label, str(len(found)), f"{errors.mean():.1%}", f"{np.median(errors):.1%}", bias))
    print_table(given.family, ("design", "runs", "MAPE", "median", "predicted / measured"), rows, left=1)


if __name__ == "__main__":
    main()
