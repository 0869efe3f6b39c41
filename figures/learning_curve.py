"""How many runs on a GPU the model needs: the study ``learning-curve`` of the published runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from perfmodel.accuracy.learning_curve import DRAWS, Learned, learning_curve

from .published import WITH_LOCAL_BYTES, unspilled_runs
from .registry import Request
from .style import COLUMN_INCHES, CYCLE, MARKERS, figure, number_ticks, save, short_name_of


def draw(request: Request) -> tuple[Path, Path]:
    """The GPUs whose files say which runs spilled."""
    folder = request.require_measurements()
    curve = learning_curve([unspilled_runs(folder, gpu, request.fidelity) for gpu in WITH_LOCAL_BYTES])
    return draw_learning_curve(request.folder, curve, request.fidelity.value)


def draw_learning_curve(
    folder: Path, curve: Sequence[Learned], fidelity: str, name: str = "learning_curve"
) -> tuple[Path, Path]:
    """Median of the draws with the range from best to worst."""
    with figure(COLUMN_INCHES, 2.8) as (drawn, axes):
        for gpu, colour, marker in zip(dict.fromkeys(one.gpu for one in curve), CYCLE, MARKERS, strict=False):
            points = [one for one in curve if one.gpu == gpu]
            numbers = [one.runs for one in points]
            percents = [one.values("mape") * 100 for one in points]
            axes.fill_between(
                numbers, [of.min() for of in percents], [of.max() for of in percents], color=colour, alpha=0.2, lw=0
            )
            middle = [one.median("mape") * 100 for one in points]
            axes.plot(numbers, middle, marker=marker, color=colour, label=short_name_of(gpu))
        axes.set(xscale="log", ylim=(0, None))
        number_ticks(axes.xaxis, sorted({one.runs for one in curve}))
        axes.set_xlabel("runs on the GPU that the model is fitted to")
        axes.set_ylabel("mean error in % on other launches")
        axes.set_title(f"tiled_conv2d 15×15 without spills, {fidelity} counts;\nmedian and range of {DRAWS} draws")
        axes.legend()
        return save(drawn, folder, name)
