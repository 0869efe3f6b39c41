"""The results of studies in Markdown."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from ..calibration.fit import FOLDS
from .held_out import HeldOut
from .learning_curve import DRAWS, Learned
from .metrics import LEAST_CANDIDATES, LEAST_RUNS, Accuracy, WithinProblems
from .sensitivity import SignRate, pooled
from .studies import Study, StudyResults

Cells = Sequence[str]

_HEADS = {
    Study.LOGO: (
        "Launch shapes held out",
        f"Each run is predicted by a fit that saw no run of its launch shape (grid and block) on any GPU; {FOLDS} folds, one "
        "pooled ranking. MAPE is after the scale that the other runs of the data set gave. The 90 % interval of a fold comes "
        "from fits that saw neither it nor the fold whose errors it is made of.",
    ),
    Study.GPU_OUT: (
        "GPUs held out",
        "Each GPU is predicted by coefficients fitted to the others; MAPE scaled is after one factor for the clock.",
    ),
    Study.ARCHITECTURE_OUT: (
        "Architectures held out",
        "Each architecture is predicted by coefficients fitted to the others and its data sheet; MAPE scaled is after one "
        "factor for the clock.",
    ),
}
_CURVE = (
    "Runs of one data set, drawn at random or spread (unlike one another in what the model knows of them); agreement on the "
    f"launches of all other shapes; median of {DRAWS} choices, smallest and largest in brackets."
)
_SENSITIVITY = (
    "Sensitivity: of pairs that differ in one field by one step and in time by over 5 %, the part predicted right."
)
_ACCURACY_COLUMNS = ("runs", "MAPE", "MAPE scaled", "tau", "Spearman", "regret top-1 / 5 / 10")
_WITHIN = (
    f"Inside problems, mean and worst: tau of problems of {LEAST_RUNS} runs or more, regret of those of {LEAST_CANDIDATES} or "
    "more (geometric mean)."
)


def table(columns: Cells, rows: Sequence[Cells], left: int = 1) -> str:
    """A Markdown table; the first ``left`` columns are text, the others numbers, aligned to the right.

    >>> print(table(("GPU", "tau"), [("h200", "0.94")]))
    | GPU | tau |
    | --- | ---: |
    | h200 | 0.94 |
    """
    rules = ["---" if index < left else "---:" for index in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rules, *rows))


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in percent; a dash where there is none.

    >>> percent(0.0329), percent(None)
    ('3.3 %', '–')
    """
    return "–" if value is None else f"{value * 100:.{digits}f} %"


def markdown(results: StudyResults) -> str:
    """The report: data sets first, then a section for each study."""
    return "\n\n".join(_parts(results)) + "\n"


def _parts(results: StudyResults) -> Iterator[str]:
    yield f"# {results.kernel}: accuracy on runs not seen"
    yield f"Fidelity: {results.fidelity}." + ("" if results.where is None else f" Rows: `{results.where}`.")
    if results.data:
        rows = [
            (one.runs.name, one.runs.gpu.id, f"{len(one):,}", f"{len(np.unique(one.groups)):,}", one.sha256[:12])
            for one in results.data
        ]
        yield table(("data set", "GPU", "runs", "launch shapes", "SHA-256 of the file"), rows, left=2)
    for study, held_out in results.held_out.items():
        title, meaning = _HEADS[study]
        yield f"## {title}"
        yield meaning
        yield from _held_out(held_out)
    for title, points in (("Learning curve", results.learned), ("Residual learner", results.residuals)):
        if points:
            yield from (f"## {title}", _CURVE, _learned(points))
    if results.repeats:
        pairs = [(one.gpu, one.first, one.second, *_accuracy_cells(one.accuracy)) for one in results.repeats]
        yield "## Repeats"
        yield "One file taken as the prediction of the other, over the configurations that both measured."
        yield table(("GPU", "first", "second", *_ACCURACY_COLUMNS), pairs, left=3)


def _accuracy_cells(of: Accuracy) -> tuple[str, ...]:
    regrets = f"{of.regret_top1:.3f} / {of.regret_top5:.3f} / {of.regret_top10:.3f}"
    return (
        f"{of.n:,}",
        percent(of.mape),
        percent(of.mape_scaled),
        f"{of.kendall_tau:.3f}",
        f"{of.spearman:.3f}",
        regrets,
    )


def _held_out(results: Sequence[HeldOut]) -> Iterator[str]:
    yield table(
        ("data set", *_ACCURACY_COLUMNS), [(one.data.runs.name, *_accuracy_cells(one.accuracy)) for one in results]
    )
    inside = [(one.data.runs.name, one.accuracy.within_problems) for one in results if len(one.data.problems) > 1]
    if inside:
        yield _WITHIN
        columns = ("data set", "problems", "tau", "of these with a choice", "regret top-1", "regret top-5")
        yield table(columns, [(name, *_within_cells(of)) for name, of in inside if of is not None])
    covered = [(one.data.runs.gpu.id, one.coverage) for one in results if one.coverage is not None]
    if covered:
        widths = [(gpu, f"{of.n:,}", percent(of.fraction), f"× {of.median_factor:.3f}") for gpu, of in covered]
        yield table(("GPU", "runs", "within the 90 % interval", "half width"), widths)
    rates = [(one.data.runs.name, one.sensitivity) for one in results]
    fields = list(dict.fromkeys(name for _, by_field in rates for name in by_field))
    if fields:
        yield _SENSITIVITY
        rows = []
        for name, of in rates:
            signs = [pooled(of), *(of.get(field, SignRate(pairs=0, right=0)) for field in fields)]
            rows.append((name, *(f"{percent(one.rate)} of {one.pairs:,}" for one in signs)))
        yield table(("data set", "all fields", *fields), rows)


def _within_cells(of: WithinProblems) -> tuple[str, ...]:
    pairs = [
        (of.kendall_tau_mean, of.kendall_tau_worst),
        (of.regret_top1_mean, of.regret_top1_worst),
        (of.regret_top5_mean, of.regret_top5_worst),
    ]
    tau, first, five = ("–" if math.isnan(mean) else f"{mean:.3f} / {worst:.3f}" for mean, worst in pairs)
    return f"{of.problems:,}", tau, f"{of.regret_problems:,}", first, five


def _learned(points: Sequence[Learned]) -> str:
    rows = []
    for one in points:
        model = "physics + residual" if one.residual else "physics"
        tau, regret = (_spread(one.values(figure), 1, 3) for figure in ("kendall_tau", "regret_top1"))
        mape = _spread(one.values("mape"), 100, 2, " %")
        rows.append((one.name, model, f"{one.runs} {one.design.value}", mape, tau, regret, *_intervals(one)))
    columns = ("data set", "model", "runs seen", "MAPE", "tau", "regret top-1", "with an interval", "of these within")
    return table(columns, rows, left=2)


def _intervals(one: Learned) -> tuple[str, str]:
    """Median part of the launches that have an interval, and the part of these that lay in it."""
    known = [of for of in one.coverages if of is not None]
    if not known:
        return "–", "–"
    parts = [0.0 if of is None else of.n / draw.n for of, draw in zip(one.coverages, one.draws, strict=True)]
    return percent(float(np.median(parts)), 0), _spread(np.array([of.fraction for of in known]), 100, 1, " %")


def _spread(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], factor: float, digits: int, unit: str = ""
) -> str:
    """Median, smallest and largest."""
    middle, low, high = (factor * value for value in (np.median(values), values.min(), values.max()))
    return f"{middle:.{digits}f}{unit} ({low:.{digits}f} … {high:.{digits}f})"
