"""How many runs a search needs: Kernel Tuner replays a cache file for this package's strategy and for its own.

``python -m benchmarks.tuning CACHE.json[.gz] … --repeats 11``, with the extra ``kernel-tuner``. The cache files
of AutoTuningAssociation's benchmark hub can be given as they are. One row for each file and strategy, all medians over the
repeats: configurations measured until one was within 5 % and 1 % of the file's best, all that were measured, and the best of them
relative to the file's best. Kernel Tuner's strategies go on to the budget; this package's ends by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
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

from perfmodel.tuning.kernel_tuner_strategy import kernel_tuner_strategy

GUIDED = "perfmodel"
STRATEGIES = (GUIDED, "adaptive_tabu_greywolf", "hybrid_vndx", "random_sample")
WITHIN = (1.05, 1.01)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cache:
    """A cache file of a whole space, closed where Kernel Tuner left it open."""

    path: Path
    document: dict[str, Any]

    @property
    def best(self) -> float:
        """The least time in the file."""
        return min(run["time"] for run in self.document["cache"].values() if isinstance(run["time"], int | float))


def read_cache(path: Path, folder: Path) -> Cache:
    """Read a cache file and put a plain copy of it into a folder."""
    text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text(encoding="utf-8")
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        text = text.rstrip().rstrip(",") + "}}"
        document = json.loads(text)
    copy = folder / f"{path.parent.name}-{path.name.removesuffix('.gz')}"
    copy.write_text(text, encoding="utf-8")
    return Cache(path=copy, document=document)


def times_of(cache: Cache, strategy: str, seed: int, budget: int) -> list[float]:
    """Times in the order in which a strategy asked for them, infinite where a configuration did not run; each once."""
    import kernel_tuner

    document = cache.document
    names, known = document["tune_params_keys"], document["cache"]

    def is_known(values: dict[str, Any]) -> bool:
        return ",".join(str(values[name]) for name in names) in known

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  Kernel Tuner's strategies draw from it
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs, _ = kernel_tuner.tune_kernel(
            document["kernel_name"],
            f"__global__ void {document['kernel_name']}() {{}}",
            document["problem_size"],
            [],
            document["tune_params"],
            restrictions=is_known,
            strategy=kernel_tuner_strategy(seed=seed) if strategy == GUIDED else strategy,
            strategy_options={"max_fevals": budget},
            simulation_mode=True,
            cache=str(cache.path),
            lang="CUDA",
        )
    found: dict[tuple[Any, ...], float] = {}
    for run in runs:
        time = run["time"]
        found.setdefault(tuple(run[name] for name in names), time if isinstance(time, int | float) else np.inf)
    return list(found.values())


def runs_until(times: Sequence[float], limit: float) -> float:
    """Runs up to the first within a limit; infinite where there is none."""
    return next((place for place, time in enumerate(times, 1) if time <= limit), np.inf)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("caches", nargs="+", type=Path)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--strategy", action="append", choices=STRATEGIES)
    options = parser.parse_args(arguments)
    print("| cache | strategy | runs to 5 % | runs to 1 % | runs | best found |\n|---|---|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for path in options.caches:
            cache = read_cache(path, Path(folder))
            for strategy in options.strategy or STRATEGIES:
                series = [times_of(cache, strategy, seed, options.budget) for seed in range(options.repeats)]
                needed = [
                    statistics.median(runs_until(times, part * cache.best) for times in series) for part in WITHIN
                ]
                runs = statistics.median(map(len, series))
                found = statistics.median(min(times) / cache.best for times in series)
                cells = [f"{one:.0f}" if np.isfinite(one) else f"> {options.budget}" for one in needed]
                print(
                    f"| {path.parent.name}/{path.name} | {strategy} | {' | '.join(cells)} | {runs:.0f} | {found:.3f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
