"""Executed configurations on GPUs that the model of one SM was or was not fitted to: ``python -m benchmarks.coverage``.

``--case FAMILY GPU FILE`` (once or more) draws runs from own records or published files; each is compiled, executed and timed as
``analyze`` does. The table says how many lie in the predicted 90 % interval. The last line says what 90 % of all runs lie within,
as the logarithm of measured over predicted, every case counting the same: `other_gpu_log_error` is that of other GPUs.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.calibration.fit import conformal_quantile
from perfmodel.cli.output import print_table
from perfmodel.families.base import Batch
from perfmodel.families.profiling import Depth, configuration_profile
from perfmodel.families.user.family import source_family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.measurements import read_measurements
from perfmodel.time_model.sm_time import sm_backing


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Runs of one family on one GPU: log(measured / predicted) of each, and half the interval's width on that scale."""

    family: str
    gpu: str
    log_errors: NDArray[np.float64]
    log_error_90: float


def case_of(family_name: str, gpu: str, file: Path, sample: int, seed: int) -> Case:
    """Predict so many runs of a file, drawn by the seed."""
    family, scenario = source_family(family_name, None), scenario_of(gpu)
    measured = read_measurements(file, family, scenario.l2)
    ran = np.flatnonzero(measured.ran & np.isfinite(measured.time_s))
    rows = np.random.default_rng(seed).choice(ran, min(sample, len(ran)), replace=False)
    errors = []
    for row in rows.tolist():
        problem, configuration = measured.problems[measured.problem_index[row]], measured.batch.configuration(row)
        profile = configuration_profile(family, problem, configuration, scenario.gpu, Depth.CACHES)
        found = evaluate_batch(family, problem, Batch.of([configuration]), scenario, [profile])
        errors.append(np.log(float(measured.time_s[row]) / float(found.seconds[0])))
    return Case(
        family=family.name,
        gpu=scenario.gpu.id,
        log_errors=np.array(errors),
        log_error_90=sm_backing(scenario.gpu).log_error_90,
    )


def main() -> None:
    """Print a line for each case, and what 90 % of all runs lie within."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", nargs=3, action="append", required=True, metavar=("FAMILY", "GPU", "FILE"))
    parser.add_argument("--sample", type=int, default=10, help="runs of each case")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    cases = [case_of(name, gpu, Path(file), chosen.sample, chosen.seed) for name, gpu, file in chosen.case]
    rows = []
    for case in cases:
        sizes = np.abs(case.log_errors)
        ratio = float(np.median(np.exp(-case.log_errors)))
        inside = f"{np.mean(sizes <= case.log_error_90):.0%}"
        rows.append((case.family, case.gpu, str(len(sizes)), f"{ratio:.2f}", f"{np.median(sizes):.3f}", inside))
    names = ("family", "GPU", "runs", "predicted / measured", "median log error", "in the 90 % interval")
    print_table("executed configurations", names, rows, left=2)
    every = np.concatenate([np.abs(case.log_errors) for case in cases])
    weights = np.concatenate([np.full(len(case.log_errors), 1.0 / len(case.log_errors)) for case in cases])
    print(f"90 % of {len(every)} runs of {len(cases)} cases within {conformal_quantile(every, weights):.3f}")


if __name__ == "__main__":
    main()
