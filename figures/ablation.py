"""What each part of the time model buys: its error when the part is taken out and all coefficients are fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from perfmodel.accuracy import accuracy
from perfmodel.time.coefficients import COEFFICIENT_NAMES
from perfmodel.time.fitting import PRIOR, FitSet, fit

from .refits import GPUS, mean_error, predicted_s, unspilled_runs
from .registry import Request
from .style import CYCLE, MARKERS, PAGE_INCHES, figure, number_ticks, save, short_name

TICKS = (1, 2, 3, 5, 10, 20, 30, 50)
HARD = 30.0
"""Exponent from which a p-norm is a maximum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the model: coefficients that are held at a value, and counts that are set to 0, when it is taken out."""

    name: str
    held: Mapping[str, float] = field(default_factory=dict)
    zeroed: tuple[str, ...] = ()


PARTS: tuple[Part, ...] = (
    Part(
        name="shared-memory pipe",
        zeroed=(
            "shared_load_requests",
            "shared_load_wavefronts",
            "shared_store_requests",
            "shared_store_wavefronts",
            "shuffles",
        ),
    ),
    Part(name="latency of loads", held={"round_trip_latencies": 0.0, "block_start_cycles": 0.0}),
    Part(name="latency of computing", held={"fma_issue_intervals": 0.0, "compute_share": 0.0}),
    Part(name="smooth maxima", held={"demand_norm": HARD, "latency_norm": HARD, "latency_norm_growth": 0.0}),
    Part(name="contention of blocks", held={"contention": 0.0}),
    Part(name="L1 sectors", held={"sector_cycles": 0.0}),
    Part(name="arithmetic pipes", zeroed=("fp32_fma", "fp32_other", "integer")),
    Part(name="instruction issue", zeroed=("warp_instructions",)),
    Part(name="barriers", held={"barrier_latencies": 0.0}, zeroed=("barriers",)),
    Part(name="instruction fetch", held={"fetch_cycles_per_instruction": 0.0}),
    Part(name="L2 and DRAM", zeroed=("l2_read_sectors", "l2_write_sectors", "dram_read_bytes", "dram_write_bytes")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ablated:
    """The model without one part: mean error (a fraction) and Kendall's tau over all runs, after a new fit."""

    name: str
    error: float
    kendall_tau: float


def without(part: Part, runs: FitSet) -> Ablated:
    """Take a part out, fit every other coefficient to the runs again, and see how well they are told."""
    counts = replace(runs.work.counts, **{name: np.zeros_like(runs.seconds) for name in part.zeroed})
    reduced = replace(runs, work=replace(runs.work, counts=counts))
    free = [name for name in COEFFICIENT_NAMES if name not in part.held]
    fitted = fit([reduced], free, replace(PRIOR, **part.held))
    told = accuracy(predicted_s(reduced, fitted), runs.seconds)
    return Ablated(name=part.name, error=mean_error(reduced, fitted), kendall_tau=told.kendall_tau)


def draw(request: Request) -> tuple[Path, Path]:
    """The GPUs whose files say which runs spilled."""
    folder = request.require_measurements()
    sets = [unspilled_runs(folder, gpu, request.fidelity).runs for gpu in GPUS]
    return draw_ablation(request.folder, sets, PARTS, request.fidelity.value)


def draw_ablation(
    folder: Path, sets: Sequence[FitSet], parts: Sequence[Part], fidelity: str, name: str = "ablation"
) -> tuple[Path, Path]:
    """Error and rank correlation without each part, the dearest first by the first GPU."""
    whole = [without(Part(name="nothing"), runs) for runs in sets]
    found = [[without(part, runs) for part in parts] for runs in sets]
    order = sorted(range(len(parts)), key=lambda index: -found[0][index].error)
    places = range(len(order))
    with figure(PAGE_INCHES, 0.2 * len(parts) + 1.0, ncols=2, sharey=True) as (drawn, axes):
        for runs, full, results, colour, marker in zip(sets, whole, found, CYCLE, MARKERS, strict=False):
            label = f"{short_name(runs.gpu)}, {len(runs.seconds):,} runs"
            axes[0].plot([results[i].error * 100 for i in order], places, marker, color=colour, label=label)
            axes[1].plot([results[i].kendall_tau for i in order], places, marker, color=colour)
            axes[0].axvline(full.error * 100, color=colour, lw=0.7, zorder=0, label="the whole model")
            axes[1].axvline(full.kendall_tau, color=colour, lw=0.7, zorder=0)
        axes[0].set_yticks(places, [f"without {parts[i].name}" for i in order])
        axes[0].invert_yaxis()
        axes[0].set_xscale("log")
        low, high = axes[0].get_xlim()
        number_ticks(axes[0].xaxis, [value for value in TICKS if low <= value <= high])
        axes[0].set_xlabel(f"mean error in % after a new fit ({fidelity} counts)")
        axes[1].set_xlabel("Kendall tau")
        for axis in axes:
            axis.grid(axis="y", color="0.92", lw=0.6)
        drawn.legend(loc="outside lower center", ncols=2 * len(sets))
        return save(drawn, folder, name)
