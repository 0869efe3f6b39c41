"""Predictions of unseen_kernels beside their measured times, as Markdown: by benchmark or kind, and launch by launch."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from perfmodel.time_model.combine import LIMITER_NAMES

from .launches import LeftOut, UnseenPrediction

SHOWN_TERMS = 3


def kernel_table(found: Sequence[UnseenPrediction]) -> str:
    """One row for each group and state of the L2: how far predictions are off, and which launch is off most."""
    lines = [
        "| kernel | L2 | clock | launches | median predicted/measured | mean error | bias | tau | worst | of which | limiter |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys((one.launch.group, one.measured.l2, one.measured.way) for one in found)
    for group, l2, way in keys:
        rows = [one for one in found if (one.launch.group, one.measured.l2, one.measured.way) == (group, l2, way)]
        ratios = np.array([one.ratio for one in rows])
        worst = max(rows, key=lambda one: abs(np.log(max(one.ratio, 1e-9))))
        lines.append(
            f"| {group} | {l2.value} | {way} | {len(rows)} | {np.median(ratios):.2f} | {np.mean(np.abs(ratios - 1)):.1%} "
            f"| {bias(ratios):+.1%} | {_tau_text(order_within_problems(rows))} | {worst.ratio:.2f} | {_name(worst)} "
            f"| {worst.whole.time.limiter} |"
        )
    return "\n".join(lines) + "\n"


def bias(ratios: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Geometric mean of predicted over measured, less 1.

    >>> float(round(bias(np.array([2.0, 0.5])), 12))
    0.0
    """
    return float(np.exp(np.mean(np.log(np.maximum(ratios, 1e-9)))) - 1.0)


def order_within_problems(rows: Sequence[UnseenPrediction]) -> float | None:
    """Kendall's tau over pairs of launches of one problem, which are the ones that a choice is among; None without any."""
    agreed = pairs = 0
    for one, other in combinations(rows, 2):
        if one.launch.problem and one.launch.problem == other.launch.problem:
            measured = np.sign(one.measured.seconds - other.measured.seconds)
            agreed += int(measured * np.sign(one.predicted_s - other.predicted_s))
            pairs += 1
    return agreed / pairs if pairs else None


def launch_table(found: Sequence[UnseenPrediction]) -> str:
    """Every launch: measured and predicted time, and the terms that would take longest alone over the whole launch."""
    lines = [
        "| kernel | setting | L2 | clock | measured µs | predicted µs | ratio | largest terms alone, µs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one.launch.group} | {_name(one)} | {one.measured.l2.value} | {one.measured.way} "
        f"| {one.measured.seconds * 1e6:.2f} | {one.predicted_s * 1e6:.2f} | {one.ratio:.2f} | {_terms(one)} |"
        for one in found
    ]
    return "\n".join(lines) + "\n"


def left_out_lines(found: Sequence[LeftOut]) -> str:
    """Which launches have no prediction, and why."""
    return "".join(f"- {one.launch.group} {one.launch.setting}: {one.reason}\n" for one in found)


def _name(one: UnseenPrediction) -> str:
    return ", ".join(text for text in (one.launch.problem, one.launch.setting) if text) or "–"


def _tau_text(tau: float | None) -> str:
    return "–" if tau is None else f"{tau:.2f}"


def _terms(one: UnseenPrediction) -> str:
    terms = [(float(seconds), name) for name, seconds in one.whole.time.terms.items() if name in LIMITER_NAMES]
    return ", ".join(f"{name} {seconds * 1e6:.2f}" for seconds, name in sorted(terms, reverse=True)[:SHOWN_TERMS])
