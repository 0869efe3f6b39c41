"""Several sets of compile-time values of one kernel, such as those of ``@triton.autotune``, ranked without running any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.json_values import fields_text
from ..core.results import Bar, ResultList
from ..core.units import time_text
from ..errors import InfeasibleError, InputError, PerfmodelError
from ..sources.triton_kernel import configurations_of, values_of
from .analyze import Analysis, analyze


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RankedConfigurations(ResultList[Analysis]):
    """Analyses, the predicted fastest first; ``rejected`` are the values that do not compile or run, each with the reason."""

    top: tuple[Analysis, ...]
    rejected: tuple[tuple[Mapping[str, Any], str], ...]

    @property
    def best(self) -> Analysis:
        """The predicted fastest."""
        return self.top[0]

    @property
    def items(self) -> Sequence[Analysis]:
        """The analyses."""
        return self.top

    @property
    def headline(self) -> str:
        """How many there are, and the first."""
        return f"{len(self.top)} configurations, {len(self.rejected)} rejected; first {self.best.headline}"

    def to_rows(self) -> list[dict[str, Any]]:
        """One row for each analysis, with its place."""
        return [{"place": place} | row for place, found in enumerate(self.top, 1) for row in found.to_rows()]

    def shown(self) -> list[dict[str, str]]:
        """Place, compile-time values and time."""
        return [
            {
                "#": str(place),
                **{name: str(value) for name, value in found.configuration.defines.items()},
                "predicted": time_text(found.prediction.time.predicted_s),
                "limiter": found.prediction.time.limiter,
            }
            for place, found in enumerate(self.top, 1)
        ]

    def bars(self) -> list[Bar]:
        """One bar for each analysis."""
        return [
            Bar(
                label=fields_text(found.configuration.defines.items()),
                seconds=found.prediction.time.predicted_s,
                interval_s=found.prediction.time.interval_s,
            )
            for found in self.top
        ]


def rank_configurations(
    source: Any, configurations: Sequence[Any] | None = None, **launch: Any
) -> RankedConfigurations:
    """Analyse a kernel under every configuration and sort by predicted time.

    Args:
        source: as for `analyze`.
        configurations: ``triton.Config`` objects or mappings of compile-time values; those of ``@triton.autotune`` where None.
        launch: the other arguments of `analyze`; ``defines`` are values that all configurations share.

    Raises:
        InputError: there is nothing to rank, or an argument is wrong.
        InfeasibleError: no configuration compiles and runs.

    >>> source = "__global__ void fill(float *x) { for (int i = threadIdx.x; i < 4096; i += BLOCK) x[i] = 1.0f; }"
    >>> found = [
    ...     analyze(source, kernel="fill", grid=1, block=block, defines={"BLOCK": block}, args=["f32[4096]"], gpu="h200")
    ...     for block in (32, 256)
    ... ]
    >>> found[1].prediction.time.predicted_s < found[0].prediction.time.predicted_s
    True
    """
    chosen = configurations_of(source) if configurations is None else list(configurations)
    if not chosen:
        raise InputError("configurations are missing: the kernel has none of @triton.autotune")
    shared = dict(launch.pop("defines", None) or {})
    analyses: list[Analysis] = []
    rejected: list[tuple[Mapping[str, Any], str]] = []
    for one in chosen:
        values = dict(one) if isinstance(one, Mapping) else values_of(one)
        try:
            analyses.append(analyze(source, defines=shared | values, **launch))
        except InputError:
            raise
        except PerfmodelError as error:
            rejected.append((values, str(error)))
    if not analyses:
        raise InfeasibleError(f"none of the {len(chosen)} configurations compiles and runs: {rejected[0][1]}")
    analyses.sort(key=lambda found: found.prediction.time.predicted_s)
    return RankedConfigurations(top=tuple(analyses), rejected=tuple(rejected))
