"""How many runs a search needs: Kernel Tuner replays a cache file for this package's strategy and for its own.

``python -m benchmarks.tuning CACHE.json[.gz] … --repeats 21``, with the extra ``kernel-tuner``. The cache files of
AutoTuningAssociation's benchmark hub can be given as they are. One row for each file and strategy, all medians over the repeats:
configurations measured until one was within 5 % and 1 % of the file's best. Runs that fail count, and none counts twice. This
package's strategy ends by itself: how many it measured, and the best of them relative to the file's. Kernel Tuner's are cut off
once they are within 1 %, or at the budget. Of random sampling the median is exact.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import statistics
import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.core.files import read_text
from perfmodel.records.kernel_tuner import cache_document
from perfmodel.tuning.kernel_tuner_strategy import kernel_tuner_strategy

GUIDED = "perfmodel"
RANDOM = "random"
STRATEGIES = (GUIDED, "adaptive_tabu_greywolf", "hybrid_vndx", RANDOM)
WITHIN = (1.05, 1.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache file of a whole space, closed where Kernel Tuner left it open."""

    path: Path
    document: dict[str, Any]

    @property
    def times(self) -> list[float]:
        """The time of every configuration, infinite where it did not run."""
        return [_time(run) for run in self.document["cache"].values()]


def _time(run: dict[str, Any]) -> float:
    return float(run["time"]) if isinstance(run["time"], int | float) else np.inf


def read_cache(path: Path, folder: Path) -> Cache:
    """Read a cache file and put a plain copy of it into a folder."""
    document = dict(cache_document(path, read_text(path)))
    copy = folder / f"{path.parent.name}-{path.name.removesuffix('.gz')}"
    copy.write_text(json.dumps(document, indent=0), encoding="utf-8")
    return Cache(path=copy, document=document)


class CutOff:
    """A strategy of Kernel Tuner that ends with the first run within a limit."""

    def __init__(self, strategy: Any, limit: float) -> None:
        self.strategy, self.limit = strategy, limit

    def tune(self, searchspace: Any, runner: Any, tuning_options: Any) -> list[dict[str, Any]]:
        """What Kernel Tuner calls."""
        from kernel_tuner.util import StopCriterionReached

        results: list[dict[str, Any]] = []
        run = runner.run

        def watched(configurations: Any, options: Any) -> Any:
            found = run(configurations, options)
            results.extend(one for one in found if one is not None)
            if any(_time(one) <= self.limit for one in found if one is not None):
                raise StopCriterionReached("within the limit")
            return found

        runner.run = watched
        with contextlib.suppress(StopCriterionReached):
            self.strategy.tune(searchspace, runner, tuning_options)
        return results


def times_of(cache: Cache, strategy: str, seed: int, budget: int) -> list[float]:
    """Times in the order in which a strategy asked for them, infinite where a configuration did not run; each once."""
    import kernel_tuner
    from kernel_tuner.interface import strategy_map

    document = cache.document
    names, known = document["tune_params_keys"], document["cache"]

    def is_known(values: dict[str, Any]) -> bool:
        return ",".join(str(values[name]) for name in names) in known

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  Kernel Tuner's strategies draw from it
    limit = min(WITHIN) * min(cache.times)
    chosen = kernel_tuner_strategy(seed=seed) if strategy == GUIDED else CutOff(strategy_map[strategy], limit)
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs, _ = kernel_tuner.tune_kernel(
            document["kernel_name"],
            f"__global__ void {document['kernel_name']}() {{}}",
            document["problem_size"],
            [],
            document["tune_params"],
            restrictions=is_known,
            strategy=chosen,
            strategy_options={"max_fevals": budget},
            simulation_mode=True,
            cache=str(cache.path),
            lang="CUDA",
        )
    found: dict[tuple[Any, ...], float] = {}
    for run in runs:
        found.setdefault(tuple(run[name] for name in names), _time(run))
    return list(found.values())


def runs_until(times: Sequence[float], limit: float) -> float:
    """Runs up to the first within a limit; infinite where there is none."""
    return next((place for place, time in enumerate(times, 1) if time <= limit), np.inf)


def random_runs(times: Sequence[float], limit: float) -> float:
    """Median of the runs that random sampling needs: where half of all orders have one of the g good ones among n by then."""
    good = sum(time <= limit for time in times)
    return len(times) * (1.0 - 0.5 ** (1.0 / good))


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("caches", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--budget", type=int, default=600)
    parser.add_argument("--strategy", action="append", choices=STRATEGIES)
    options = parser.parse_args(arguments)
    print("| cache | strategy | runs to 5 % | runs to 1 % | runs | best found |\n|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.caches:
            cache = read_cache(path, Path(folder))
            best = min(cache.times)
            for strategy in options.strategy or STRATEGIES:
                end = ["–", "–"]
                if strategy == RANDOM:
                    needed = [random_runs(cache.times, part * best) for part in WITHIN]
                else:
                    series = [times_of(cache, strategy, seed, options.budget) for seed in range(options.repeats)]
                    needed = [statistics.median(runs_until(times, part * best) for times in series) for part in WITHIN]
                    if strategy == GUIDED:
                        found = statistics.median(min(times) / best for times in series)
                        end = [f"{statistics.median(map(len, series)):.0f}", f"{found:.3f}"]
                cells = [f"{one:.0f}" if np.isfinite(one) else f"> {options.budget}" for one in needed]
                print(f"| {path.parent.name}/{path.name} | {strategy} | {' | '.join([*cells, *end])} |", flush=True)


if __name__ == "__main__":
    main()
