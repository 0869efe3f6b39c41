"""Predicted against measured time of every launch that this project timed itself, one panel for each family."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from perfmodel.accuracy.validating import predict_rows
from perfmodel.families.registry import family, family_names
from perfmodel.prediction.scenario import scenario_of
from perfmodel.profiles.kernel_profile import Fidelity
from perfmodel.records.measurements import read_measurements

from .predicted_measured import draw_panel, in_words_of
from .published import Comparison, comparison
from .registry import Request
from .style import CYCLE, PAGE_INCHES, figure, save, short_name

GPU = "h200"
COLUMNS = 3


def draw(request: Request) -> tuple[Path, Path]:
    """Every family, L2 cold."""
    found = own_comparisons(request.require_records(), request.fidelity)
    return draw_predicted_measured_own(request.folder, found, request.fidelity.value)


@functools.cache
def own_comparisons(path: Path, fidelity: Fidelity) -> list[Comparison]:
    """The timed launches of each family in a file of own records, in the order of the families' names."""
    scenario, comparisons = scenario_of(GPU), []
    for name in family_names():
        chosen = family(name)
        rows = read_measurements(path, chosen, scenario.l2)
        predicted = predict_rows(chosen, rows, scenario, fidelity, stored_only=True)
        comparisons.append(comparison(rows, predicted, scenario, int(rows.ran.sum())))
    return comparisons


def draw_predicted_measured_own(
    folder: Path, comparisons: Sequence[Comparison], fidelity: str, name: str = "predicted_measured_own"
) -> tuple[Path, Path]:
    """Both axes logarithmic, predictions as they are: the records hold the clock, and no factor is free."""
    rows = -(-len(comparisons) // COLUMNS)
    with figure(PAGE_INCHES, 2.5 * rows + 0.3, nrows=rows, ncols=COLUMNS, squeeze=False) as (drawn, axes):
        for axis in axes.flat[len(comparisons) :]:
            axis.set_axis_off()
        for axis, found, colour in zip(axes.flat, comparisons, CYCLE, strict=False):
            draw_panel(axis, found, found.predicted_s, colour, unit_s=1e-6)
            name_and_runs = f"{found.measurements.family_name}: {found.covered}"
            axis.set_title(f"{name_and_runs}\n{in_words_of(found, found.predicted_s)}", fontsize=6.5)
        drawn.supxlabel(
            f"measured time in µs ({short_name(comparisons[0].scenario.gpu)}, cold L2, {fidelity} counts)", fontsize=8
        )
        drawn.supylabel("predicted time in µs", fontsize=8)
        return save(drawn, folder, name)
