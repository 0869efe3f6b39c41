"""An autotuner for Helion: it measures a few of many configurations, next the one that the runs so far make most promising."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.units import SECONDS_PER_MS
from ..core.value_types import require_type
from ..errors import InputError
from ..prediction.guided_search import TOLERANCE, GuidedSearch
from .tuning_run import run_search

CANDIDATES = 2000
"""Configurations that Helion draws, by default."""
RUNS = 100
"""Configurations that are measured at most, by default."""


def helion_autotuner(
    *, candidates: int = CANDIDATES, runs: int = RUNS, tolerance: float = TOLERANCE, seed: int = 0
) -> Callable[..., Any]:
    """What ``autotuner_fn`` of ``@helion.kernel`` takes; needs Helion.

    Helion draws configurations, its default and those that its compiler proposes among them, and compiles, checks and times
    those that the search asks for. It ends where no other is expected to be faster by more than ``tolerance``.

    Args:
        candidates: how many configurations to draw.
        runs: how many to measure at most.
        tolerance: expected improvement, as a part of the best time, below which tuning ends; 0 goes on to ``runs``.
        seed: of what the search chooses at random; what Helion draws follows its own ``autotune_random_seed``.

    Raises:
        InputError: ``candidates`` or ``runs`` is too small; when a kernel is tuned, Helion is not installed, or no configuration
            runs.

    >>> callable(helion_autotuner(runs=50))
    True
    """
    require_type(int, "an integer", candidates=candidates, runs=runs)
    if candidates < 2:
        raise InputError(f"candidates={candidates} must be at least 2")
    if runs < 1:
        raise InputError(f"runs={runs} must be at least 1")

    def autotuner(bound_kernel: Any, args: Sequence[Any], **others: Any) -> Any:
        random_search = _random_search()

        class Guided(random_search):  # type: ignore[misc, valid-type]
            """A search among drawn configurations, in the order that the runs suggest."""

            def _autotune(self) -> Any:
                drawn = list(dict.fromkeys(self.configs))
                places = [self.config_gen.encode_config(self.config_gen.flatten(one)) for one in drawn]
                values = {f"axis {axis}": column for axis, column in enumerate(zip(*places, strict=True))}
                search = GuidedSearch(values, tolerance=tolerance, seed=seed)

                def measure(index: int) -> float | None:
                    milliseconds = float(self.benchmark(drawn[index]).perf)
                    return milliseconds * SECONDS_PER_MS if math.isfinite(milliseconds) else None

                run_search(search, measure, known={}, most_runs=runs, time_limit_s=math.inf)
                if search.best is None:
                    raise InputError(f"none of {runs} configurations runs")
                return drawn[search.best[0]]

        return Guided(bound_kernel, args, count=candidates)

    return autotuner


def _random_search() -> Any:
    """Helion's search that draws configurations; how it checks and times one is inherited."""
    try:
        from helion.autotuner import RandomSearch
    except ImportError as error:
        raise InputError(f"an autotuner for Helion needs Helion: pip install helion ({error})") from error
    return RandomSearch
