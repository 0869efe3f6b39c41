"""Figures of one validation: predicted against measured, error by limiter, what choosing by prediction costs."""

from __future__ import annotations

from ..error_by_limiter import draw_error_by_limiter, errors_by_limiter
from ..predicted_measured import draw_panel
from ..published import Comparison
from ..regret_curve import draw_curves
from ..style import CYCLE
from .parts import Drawing
from .svg import canvas, markup, markup_of_file

WIDTH_INCHES = 4.2


def measured_drawing(runs: Comparison) -> Drawing:
    """Both axes logarithmic; the band is the interval of the calibration where it has one."""
    with canvas(WIDTH_INCHES, 3.9) as (drawn, axes):
        draw_panel(axes, runs, runs.scaled_s, CYCLE[0], unit_s=1e-3)
        axes.set_xlabel("measured time in ms")
        axes.set_ylabel(f"predicted time in ms, times {runs.accuracy.scale:.3f}")
        svg = markup(drawn, "figure-measured")
    return Drawing(
        name="figure-measured",
        svg=svg,
        says="predicted against measured time of every run, both axes logarithmic",
        caption="Every run that was compared. Predictions are multiplied by one factor, the median of measured / predicted, "
        "because a file may not record the clock.",
    )


def limiter_drawing(runs: Comparison, fidelity: str) -> Drawing | None:
    """Boxes of the signed error by limiter; None where no limiter has runs enough for quantiles."""
    if not errors_by_limiter(runs):
        return None
    return Drawing(
        name="figure-limiter",
        svg=markup_of_file(lambda folder: draw_error_by_limiter(folder, [runs], fidelity), "figure-limiter"),
        says="boxes of the error by what limits the configuration",
        caption="Error after that factor by what the model holds to be the limiter: a box away from zero names the term to "
        "look at.",
        wide=True,
    )


def regret_drawing(runs: Comparison) -> Drawing:
    """Slowdown of the best of the K predicted fastest, by K, beside K drawn at random."""
    with canvas(WIDTH_INCHES, 3.0) as (drawn, axes):
        draw_curves(axes, [runs])
        axes.legend(loc="upper right")
        svg = markup(drawn, "figure-regret")
    return Drawing(
        name="figure-regret",
        svg=svg,
        says="slowdown of the best of the K predicted fastest, by K, beside K drawn at random",
        caption="What is lost by running only the configurations that are predicted fastest, against running all of the file.",
    )
