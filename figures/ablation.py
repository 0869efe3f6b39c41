"""What each part of the time model buys: the study ``ablation`` of the published runs."""

from __future__ import annotations

import functools
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perfmodel.accuracy.ablation import FOLDS, Ablated, ablation
from perfmodel.gpus.gpu import Gpu
from perfmodel.profiles.kernel_profile import Fidelity

from .published import WITH_LOCAL_BYTES, unspilled_runs
from .registry import Request
from .style import CYCLE, MARKERS, PAGE_INCHES, figure, in_words, number_ticks, save, short_name

VISIBLE = 0.01
"""A part is drawn where its absence changes the error by at least this fraction of itself on some GPU."""
LINE_LETTERS = 150
TICKS = (2, 3, 4, 5, 7, 10, 15, 20, 30, 50)
MARK_OFFSET = 0.13
"""Rows between the marks of two GPUs, so that neither hides the other."""


def draw(request: Request) -> tuple[Path, Path]:
    """The GPUs whose files say which runs spilled."""
    gpus, ablated = _study(request.require_measurements(), request.fidelity)
    return draw_ablation(request.folder, gpus, ablated, request.fidelity.value)


@functools.cache
def _study(folder: Path, fidelity: Fidelity) -> tuple[list[Gpu], list[Ablated]]:
    """A fit for each fold of each part, once however often they are drawn."""
    data = [unspilled_runs(folder, gpu, fidelity) for gpu in WITH_LOCAL_BYTES]
    return [one.runs.gpu for one in data], ablation(data)


def label(one: Ablated) -> str:
    """What was done to the model, in words."""
    return "the whole model" if one.part is None else f"without {in_words(one.part)}"


def by_effect(ablated: Sequence[Ablated]) -> tuple[list[Ablated], list[Ablated]]:
    """Parts whose absence is seen in some error, the dearest on the first GPU first, and the others."""
    whole, *parts = ablated

    def seen(one: Ablated) -> bool:
        pairs = zip(one.accuracies, whole.accuracies, strict=True)
        return any(abs(here.mape / there.mape - 1) >= VISIBLE for here, there in pairs)

    shown = sorted((one for one in parts if seen(one)), key=lambda one: -one.accuracies[0].mape)
    return shown, [one for one in parts if not seen(one)]


def _rest_text(others: Sequence[Ablated]) -> str:
    """Names of the parts that are not drawn."""
    names = ", ".join(in_words(one.part or "") for one in others)
    return f"Changes of less than {VISIBLE:.0%} of the error: without {names}." if names else ""


def draw_ablation(
    folder: Path, gpus: Sequence[Gpu], ablated: Sequence[Ablated], fidelity: str, name: str = "ablation"
) -> tuple[Path, Path]:
    """Error and rank correlation on held-out launches, each part taken out in turn and the rest fitted again."""
    shown, others = by_effect(ablated)
    rest = textwrap.wrap(_rest_text(others), LINE_LETTERS)
    with figure(PAGE_INCHES, 0.19 * len(shown) + 0.14 * len(rest) + 1.3, ncols=2, sharey=True) as (drawn, axes):
        for index, (gpu, colour, marker) in enumerate(zip(gpus, CYCLE, MARKERS, strict=False)):
            _draw_gpu(axes, index, ablated[0], shown, label=short_name(gpu), marker=marker, color=colour)
        axes[0].set_yticks(range(len(shown)), [label(one) for one in shown])
        axes[0].invert_yaxis()
        axes[0].set_xscale("log")
        low, high = axes[0].get_xlim()
        number_ticks(axes[0].xaxis, [tick for tick in TICKS if low <= tick <= high])
        axes[0].set_xlabel(f"mean error in % on launches held out ({FOLDS} folds, {fidelity} counts)")
        axes[1].set_xlabel("Kendall tau")
        for axis in axes:
            axis.grid(axis="y", color="0.92", lw=0.6)
        drawn.legend(loc="outside upper left", ncols=2 * len(gpus))
        drawn.supxlabel("\n".join(rest), fontsize=6.5, x=0.01, ha="left")
        return save(drawn, folder, name)


def _draw_gpu(
    axes: Any, index: int, whole: Ablated, shown: Sequence[Ablated], *, label: str, marker: str, color: str
) -> None:
    """One mark for each part, and a line where the whole model stands."""
    full = whole.accuracies[index]
    places = [place + (2 * index - 1) * MARK_OFFSET for place in range(len(shown))]
    runs = f"{label}, {full.n:,} runs"
    axes[0].plot([one.accuracies[index].mape * 100 for one in shown], places, marker, color=color, label=runs)
    axes[1].plot([one.accuracies[index].kendall_tau for one in shown], places, marker, color=color)
    axes[0].axvline(full.mape * 100, color=color, lw=0.7, zorder=0, label="the whole model")
    axes[1].axvline(full.kendall_tau, color=color, lw=0.7, zorder=0)
