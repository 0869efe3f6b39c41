"""How many runs a search needs: Kernel Tuner replays a cache file for this package's strategy and for its own.

``python -m benchmarks.tuning CACHE.json[.gz] … --repeats 21``, with the extra ``kernel-tuner``. The cache files of
AutoTuningAssociation's benchmark hub can be given as they are. One row for each file and strategy, all medians over the repeats:
configurations measured until one was within 5 % and 1 % of the file's best. Runs that fail count, and none counts twice. This
package's strategy ends by itself: how many it measured, and the best of them relative to the file's. Kernel Tuner's are cut off
once they are within 1 %, or at the budget. Of random sampling the median is exact. A last table says what part of the runs of
each other strategy this package's needs: the median over the files, and in how many it is below one half; a search that ends
before it is there counts as infinite.

``--repeats 41`` is of all strategies, ``--repeats hybrid_vndx=11`` of one; ``--workers`` replays side by side.
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
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
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
REPEATS = 21


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


def repeats_of(given: Sequence[str]) -> dict[str, int]:
    """How often each strategy is replayed: ``41`` is for all, ``hybrid_vndx=11`` for one.

    >>> repeats_of(["41", "hybrid_vndx=11"])
    {'perfmodel': 41, 'adaptive_tabu_greywolf': 41, 'hybrid_vndx': 11}
    """
    found = dict.fromkeys((one for one in STRATEGIES if one != RANDOM), REPEATS)
    for text in given:
        name, _, count = text.rpartition("=")
        found |= dict.fromkeys([name] if name else list(found), int(count))
    return found


def medians(series: Sequence[Sequence[float]], best: float) -> list[float]:
    """Median over the repeats of the runs until each limit."""
    return [statistics.median(runs_until(times, part * best) for times in series) for part in WITHIN]


def parts(needed: Mapping[str, Mapping[str, Sequence[float]]], other: str, place: int) -> list[float]:
    """Runs of this package's search over those of another, for each file in which one of them gets there.

    Where only this package's does, the other needs more than any number: the part is 0.

    >>> parts({"a": {"perfmodel": [2.0], "random": [8.0]}}, "random", 0)
    [0.25]
    """
    pairs = [(of[GUIDED][place], of[other][place]) for of in needed.values()]
    return [own / others for own, others in pairs if np.isfinite(min(own, others))]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("caches", nargs="+", type=Path)
    parser.add_argument("--repeats", action="append", default=[])
    parser.add_argument("--budget", type=int, default=600)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--strategy", action="append", choices=STRATEGIES)
    options = parser.parse_args(arguments)
    repeats = repeats_of(options.repeats)
    strategies = [one for one in STRATEGIES if one in (options.strategy or STRATEGIES)]
    print("| cache | strategy | runs to 5 % | runs to 1 % | runs | best found |\n|---|---|---:|---:|---:|---:|")
    needed: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(options.workers) as pool:
        caches = [read_cache(path, Path(folder)) for path in options.caches]
        replays = {
            (cache.path, strategy): [
                pool.submit(times_of, cache, strategy, seed, options.budget) for seed in range(repeats[strategy])
            ]
            for cache in caches
            for strategy in strategies
            if strategy != RANDOM
        }
        for path, cache in zip(options.caches, caches, strict=True):
            best, name = min(cache.times), f"{path.parent.name}/{path.name}"
            for strategy in strategies:
                end = ["–", "–"]
                if strategy == RANDOM:
                    found = [random_runs(cache.times, part * best) for part in WITHIN]
                else:
                    series = [one.result() for one in replays[cache.path, strategy]]
                    found = medians(series, best)
                    if strategy == GUIDED:
                        ratio = statistics.median(min(times) / best for times in series)
                        end = [f"{statistics.median(map(len, series)):.0f}", f"{ratio:.3f}"]
                needed.setdefault(name, {})[strategy] = found
                cells = [
                    f"{one:.1f}".removesuffix(".0") if np.isfinite(one) else f"> {options.budget}" for one in found
                ]
                print(f"| {name} | {strategy} | {' | '.join([*cells, *end])} |", flush=True)
    if GUIDED in strategies and len(strategies) > 1:
        print_parts(needed, [one for one in strategies if one != GUIDED])


def print_parts(needed: Mapping[str, Mapping[str, Sequence[float]]], others: Sequence[str]) -> None:
    """Print what part of the runs of each other strategy this package's needs."""
    print("\n| against | part of its runs to 5 % | below one half in | part of its runs to 1 % | below one half in |")
    print("|---|---:|---:|---:|---:|")
    for other in others:
        cells = []
        for place in range(len(WITHIN)):
            found = parts(needed, other, place)
            cells += [f"{statistics.median(found):.2f}", f"{sum(part < 0.5 for part in found)} of {len(found)}"]
        print(f"| {other} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
