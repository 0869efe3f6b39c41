"""Where the time goes: every resource's time for the best and the worst configurations of two families."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from perfmodel.core.json_values import plain
from perfmodel.core.units import MILLISECONDS
from perfmodel.families.registry import family
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import Scenario, scenario_of
from perfmodel.time_model.combine import LIMITER_NAMES, Terms

from .style import CYCLE, PAGE_INCHES, figure, in_words, save, short_name

BARS = 3
VISIBLE = 0.01
"""A term is named where it takes at least this part of some bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One configuration: its name, predicted seconds and terms."""

    label: str
    seconds: float
    terms: Terms


def _tiled(configuration: Any) -> str:
    c = plain(configuration)
    where = "" if c["use_shmem"] else ", no shared patch"
    return f"{c['block_size_x']}×{c['block_size_y']} threads, tile {c['tile_size_x']}×{c['tile_size_y']}{where}"


def _direct(configuration: Any) -> str:
    c = plain(configuration)
    names = [f"{c['reuse']} reuse".replace("_", " + ").replace("none", "no")]
    names += [str(c[name]).replace("_", " ") for name in ("exchange", "accumulators") if c[name] != "none"]
    rows = f"{c['rows_per_thread']} row{'s' if c['rows_per_thread'] > 1 else ''}"
    return f"{', '.join(names)}, {rows}, {c['block_x']}×{c['block_y']}"


SUBJECTS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("tiled_conv2d", "rtx-3090", _tiled),
    ("direct_conv2d", "h200", _direct),
)


def extremes(
    family_name: str, problem: Any, scenario: Scenario, label: Callable[[Any], str], count: int = BARS
) -> tuple[list[Bar], list[Bar]]:
    """The predicted fastest configurations, fastest first, and the slowest, slowest first; each label once."""
    chosen = family(family_name)
    batch = chosen.space(problem, scenario.gpu).batch()
    found = evaluate_batch(chosen, problem, batch, scenario)
    order = np.argsort(found.seconds, kind="stable")
    order = order[np.isfinite(found.seconds[order])]

    def bars(indices: Sequence[int]) -> list[Bar]:
        kept: dict[str, Bar] = {}
        for index in indices:
            text = label(batch.configuration(index))
            kept.setdefault(text, Bar(label=text, seconds=float(found.seconds[index]), terms=found.terms.at(index)))
            if len(kept) == count:
                break
        return list(kept.values())

    return bars(order.tolist()), bars(order[::-1].tolist())


def draw(folder: Path) -> tuple[Path, Path]:
    """Default problems of both subjects, at analytic fidelity."""
    panels = []
    for name, gpu, label in SUBJECTS:
        scenario = scenario_of(gpu)
        both = extremes(name, family(name).default_problem(), scenario, label)
        for words, bars in zip(("fastest", "slowest"), both, strict=True):
            panels.append((f"{name} on {short_name(scenario.gpu)}: the predicted {words}", bars))
    return draw_time_terms(folder, panels)


def draw_time_terms(
    folder: Path, panels: Sequence[tuple[str, Sequence[Bar]]], name: str = "time_terms"
) -> tuple[Path, Path]:
    """Stacked bars: what each resource needs if it worked alone; the diamond is the predicted time, in which they overlap."""
    shown = _visible([bar for _, bars in panels for bar in bars])
    with figure(PAGE_INCHES, 0.95 * len(panels) + 0.6, nrows=len(panels), squeeze=False) as (drawn, axes):
        for axis, (title, bars) in zip(axes[:, 0], panels, strict=True):
            _panel(axis, bars, shown)
            axis.set_title(title)
        axes[-1][0].set_xlabel("time in ms; every resource as if it worked alone, stacked")
        handles, labels = axes[0][0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=4)
        return save(drawn, folder, name)


def _visible(bars: Sequence[Bar]) -> list[str]:
    """Names of the terms that matter in some bar."""
    totals = [sum(float(getattr(bar.terms, name)) for name in LIMITER_NAMES) for bar in bars]
    return [
        name
        for name in LIMITER_NAMES
        if any(float(getattr(bar.terms, name)) > VISIBLE * total for bar, total in zip(bars, totals, strict=True))
    ]


def _panel(axis: Any, bars: Sequence[Bar], shown: Sequence[str]) -> None:
    places, start = np.arange(len(bars)), np.zeros(len(bars))
    for index, term in enumerate(shown):
        width = np.array([float(getattr(bar.terms, term)) for bar in bars]) * MILLISECONDS
        colour, hatch = CYCLE[index % len(CYCLE)], "" if index < len(CYCLE) else "////"
        axis.barh(
            places,
            width,
            0.7,
            left=start,
            color=colour,
            hatch=hatch,
            edgecolor="white",
            lw=0.4,
            label=in_words(term),
        )
        start = start + width
    seconds = np.array([bar.seconds for bar in bars]) * MILLISECONDS
    axis.plot(seconds, places, "D", mfc="white", mec="black", ms=5, ls="none", label="predicted time")
    axis.set_yticks(places, [bar.label for bar in bars])
    axis.tick_params(axis="y", labelsize=6.5, length=0)
    axis.invert_yaxis()
