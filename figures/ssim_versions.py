"""Eight designs of the fused SSIM: predicted against the published times of an A100, with and without gradient maps."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from perfmodel.accuracy.metrics import accuracy
from perfmodel.families.base import Batch
from perfmodel.families.registry import family_of
from perfmodel.families.ssim import Ssim, SsimConfiguration, Version
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of

from .registry import Request
from .style import COLUMN_INCHES, CYCLE, figure, save, short_name

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedTimes:
    """Published seconds by version, on a GPU and a problem; nothing in this project is fitted to them."""

    gpu: str
    sizes: Mapping[str, int]
    seconds: Mapping[Version, float]


def published_times() -> PublishedTimes:
    """The times that ship as data with their source.

    >>> published_times().seconds[Version.V4_1]
    0.001
    """
    text = files("perfmodel.data").joinpath("published", "ssim_a100.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    seconds = {Version(name): value / 1e3 for name, value in table["milliseconds"].items()}
    return PublishedTimes(gpu=table["gpu"], sizes=table["problem"], seconds=seconds)


def predicted_times(problem: Ssim, versions: Sequence[Version], scenario: Scenario) -> Floats:
    """Predicted seconds of each version, by closed forms and the resources of the compiled kernels."""
    batch = Batch.of([SsimConfiguration(version=version) for version in versions])
    return evaluate_batch(family_of(problem), problem, batch, scenario).seconds


def draw(request: Request) -> tuple[Path, Path]:
    """The published problem on the GPU that the file names."""
    return draw_ssim_versions(request.folder, published_times())


def draw_ssim_versions(folder: Path, published: PublishedTimes, name: str = "ssim_versions") -> tuple[Path, Path]:
    """Bars of published and predicted times by version; the source does not say whether gradients were written."""
    scenario, versions = scenario_of(published.gpu), list(published.seconds)
    measured = np.array(list(published.seconds.values()))
    bars = [("published", measured)]
    titles = []
    for gradients in (False, True):
        predicted = predicted_times(Ssim(**published.sizes, gradients=gradients), versions, scenario)
        agreement = accuracy(predicted, measured)
        words = "with gradients" if gradients else "without gradients"
        bars.append((f"predicted, {words}", predicted))
        titles.append(
            f"{words}: tau {agreement.kendall_tau:.2f}, "
            f"error {agreement.mape_scaled * 100:.0f} % after factor {agreement.scale:.2f}"
        )
    with figure(COLUMN_INCHES, 3.1) as (drawn, axes):
        places = np.arange(len(versions))
        for index, ((label, seconds), colour, hatch) in enumerate(zip(bars, CYCLE, ("", "//", "\\\\"), strict=False)):
            style = {"color": colour} if not hatch else {"facecolor": "white", "edgecolor": colour, "hatch": hatch * 2}
            axes.bar(places + (index - 1) * 0.27, seconds * 1e3, 0.25, label=label, **style)
        axes.set_xticks(places, [version.value for version in versions])
        axes.set_ylabel("time in ms")
        axes.set_title(f"SSIM on {short_name(scenario.gpu)}, closed forms\n" + "\n".join(titles), fontsize=7)
        drawn.legend(loc="outside lower left")
        return save(drawn, folder, name)
