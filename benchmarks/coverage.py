"""How many measured runs lie in the predicted interval, by family and GPU: ``python -m benchmarks.coverage``.

``--case FAMILY GPU FILE`` (once or more) draws runs from own records or published files; each is compiled, executed and timed as
``analyze`` does. The table gives their errors and how many lie in the predicted 90 % interval. The last line says what 90 % of
all runs lie within, as the logarithm of measured over predicted, every case counting the same: `other_gpu_log_error` is that of
other GPUs.

Runs of kernels whose code has changed since are left out: a record has the hash of the code that ran.

``--fidelity analytic`` predicts by closed forms alone. ``--half`` takes half of the problems, chosen by a hash of each: what was
developed on one half is reported on the other.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import accuracy
from perfmodel.calibration.fit import conformal_quantile
from perfmodel.cli.output import print_table
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.core.json_values import plain
from perfmodel.families.base import Batch, Family
from perfmodel.families.profiling import Depth, configuration_profile
from perfmodel.families.user.family import source_family
from perfmodel.gpus.gpu import Gpu
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.predicting import backing_of
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import Measurements, read_measurements

NAMES = (
    "family",
    "GPU",
    "problems",
    "runs",
    "predicted / measured",
    "MAPE",
    "median",
    "90 % within",
    "in the interval",
    "tau inside problems",
    "regret top-5, mean / worst",
)
"""What `Case.cells` gives; errors are parts of the measured time, the interval's share a mean over the problems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Runs of one family on one GPU, shape ``(n,)``: which problem each solves, its predicted and its measured seconds.

    ``log_error_90``: half the width of the predicted 90 % interval, on a logarithmic scale.
    """

    family: str
    gpu: str
    problems: NDArray[np.intp]
    predicted: NDArray[np.float64]
    measured: NDArray[np.float64]
    log_error_90: float

    @property
    def log_errors(self) -> NDArray[np.float64]:
        """log(measured / predicted), shape ``(n,)``."""
        return np.asarray(np.log(self.measured / self.predicted), np.float64)

    def cells(self) -> tuple[str, ...]:
        """What the table says of the case."""
        found, sizes = accuracy(self.predicted, self.measured, self.problems), np.abs(self.log_errors)
        within = found.within_problems
        of_problems = 1.0 / np.bincount(self.problems)[self.problems]
        numbers = (f"{1.0 / found.scale:.2f}", f"{found.mape:.1%}", f"{found.median_ape:.1%}")
        nine = f"{conformal_quantile(sizes, of_problems) or np.nan:.3f}"
        inside = f"{np.average(sizes <= self.log_error_90, weights=of_problems):.0%}"
        order = ("–", "–")
        if within is not None and within.regret_problems:
            regret = f"{within.regret_top5_mean:.3f} / {within.regret_top5_worst:.3f}"
            order = (f"{within.kendall_tau_mean:.2f}", regret)
        return (
            self.family,
            self.gpu,
            str(len(set(self.problems.tolist()))),
            str(found.n),
            *numbers,
            nine,
            inside,
            *order,
        )


def half_of(family_name: str, problem: Any) -> str:
    """Which half of the problems one belongs to, whatever its file.

    >>> from perfmodel import Ssim
    >>> half_of("ssim", Ssim()), half_of("ssim", Ssim(batch=2))
    ('development', 'report')
    """
    words = json.dumps([family_name, plain(problem)], sort_keys=True, default=str).encode()
    return "report" if hashlib.sha256(words).digest()[0] % 2 else "development"


def of_todays_code(family: Family[Any, Any], gpu: Gpu, measured: Measurements, rows: list[int]) -> Iterator[int]:
    """Those rows whose record says that the kernel was the one that is compiled today, or does not say which it was."""
    for row in rows:
        recorded = measured.columns["cubin_sha256"].iloc[row] if "cubin_sha256" in measured.columns else None
        if isinstance(recorded, str):
            problem, configuration = measured.problems[measured.problem_index[row]], measured.batch.configuration(row)
            kernel = compile_kernel(family.compile_request(problem, configuration, gpu), gpu.architecture.name)
            if hashlib.sha256(kernel.cubin).hexdigest() != recorded:
                continue
        yield row


def case_of(
    family_name: str, gpu: str, files: list[Path], sample: int, seed: int, fidelity: Fidelity, half: str | None
) -> Case:
    """Predict so many runs of files (all where 0), drawn by the seed."""
    family, scenario = source_family(family_name, None), scenario_of(gpu)
    runs, seen = list[tuple[int, float, float]](), list[Any]()
    for file in files:
        measured = read_measurements(file, family, scenario.l2)
        halves = np.array([half in (None, half_of(family.name, problem)) for problem in measured.problems])
        ran = np.flatnonzero(measured.ran & np.isfinite(measured.time_s) & halves[measured.problem_index])
        order = np.random.default_rng(seed).permutation(ran).tolist()
        for row in itertools.islice(of_todays_code(family, scenario.gpu, measured, order), sample or None):
            problem, configuration = measured.problems[measured.problem_index[row]], measured.batch.configuration(row)
            executed = None
            if fidelity is not Fidelity.ANALYTIC:
                executed = [configuration_profile(family, problem, configuration, scenario.gpu, Depth.CACHES)]
            found = evaluate_batch(family, problem, Batch.of([configuration]), scenario, executed)
            if problem not in seen:
                seen.append(problem)
            if np.isfinite(found.seconds[0]):
                runs.append((seen.index(problem), float(found.seconds[0]), float(measured.time_s[row])))
    owners, predicted, times = zip(*runs, strict=True)
    return Case(
        family=family.name,
        gpu=scenario.gpu.id,
        problems=np.array(owners, np.intp),
        predicted=np.array(predicted),
        measured=np.array(times),
        log_error_90=backing_of(
            family.name, scenario, fidelity, followed=fidelity is not Fidelity.ANALYTIC
        ).log_error_90
        or np.nan,
    )


def main() -> None:
    """Print a line for each case, and what 90 % of all runs lie within."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--case", nargs="+", action="append", required=True, metavar="FAMILY GPU FILE")
    parser.add_argument("--sample", type=int, default=10, help="runs of each file, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fidelity", type=Fidelity, default=Fidelity.COMPILED)
    parser.add_argument("--half", choices=("development", "report"))
    chosen = parser.parse_args()
    cases = [
        case_of(name, gpu, [Path(file) for file in paths], chosen.sample, chosen.seed, chosen.fidelity, chosen.half)
        for name, gpu, *paths in chosen.case
    ]
    print_table("measured runs", NAMES, [case.cells() for case in cases], left=2)
    every = np.concatenate([np.abs(case.log_errors) for case in cases])
    weights = np.concatenate([np.full(len(case.log_errors), 1.0 / len(case.log_errors)) for case in cases])
    print(f"90 % of {len(every)} runs of {len(cases)} cases within {conformal_quantile(every, weights):.3f}")


if __name__ == "__main__":
    main()
