"""What the studies found, in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...calibration.fit import FOLDS
from ..metrics import Accuracy
from . import ablation
from .ablation import Ablated
from .held_out import HeldOut
from .learning_curve import DRAWS, Learned
from .repeats import Repeat
from .running import Findings, Study
from .sensitivity import SignRate

Cells = Sequence[str]

_TITLES = {
    Study.LOGO: "Launch shapes held out",
    Study.GPU_OUT: "GPUs held out",
    Study.ARCHITECTURE_OUT: "Architectures held out",
}
_MEANINGS = {
    Study.LOGO: (
        f"Each run is told by a fit that saw no run of its launch shape (grid and block) on any GPU; {FOLDS} folds, one "
        "pooled ranking. MAPE is after the scale that the other runs of the data set gave. The 90 % interval of a fold comes "
        "from fits that saw neither it nor the fold whose errors it is made of."
    ),
    Study.GPU_OUT: "Each GPU is told by coefficients fitted to the others; MAPE scaled is after one factor for the clock.",
    Study.ARCHITECTURE_OUT: (
        "Each architecture is told by coefficients fitted to the others and its data sheet; MAPE scaled is after one factor "
        "for the clock."
    ),
}


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


def markdown(found: Findings) -> str:
    """The report: data sets first, then a section for each study."""
    chosen = "" if found.where is None else f" Rows: `{found.where}`."
    parts = [f"# {found.kernel}: accuracy on runs not seen", f"Fidelity: {found.fidelity}.{chosen}"]
    if found.data:
        rows = [
            (one.runs.name, one.runs.gpu.id, f"{len(one):,}", f"{len(np.unique(one.groups)):,}", one.sha256[:12])
            for one in found.data
        ]
        parts.append(table(("data set", "GPU", "runs", "launch shapes", "SHA-256 of the file"), rows, left=2))
    for study, told in found.held_out.items():
        parts += [f"## {_TITLES[study]}", _MEANINGS[study], *_held_out(told)]
    if found.ablated:
        parts += ["## Ablation", _ablation_text(), _ablated(found)]
    if found.learned:
        parts += ["## Learning curve", _CURVE, _learned(found.learned)]
    if found.residuals:
        parts += ["## Residual learner", _CURVE, _learned(found.residuals)]
    if found.repeats:
        text = "One file taken as the prediction of the other, over the configurations that both measured."
        parts += ["## Repeats", text, _repeats(found.repeats)]
    return "\n\n".join(parts) + "\n"


_CURVE = (
    "Runs of one data set, drawn at random or spread (unlike one another in what the model knows of them); agreement on the "
    f"launches of all other shapes; median of {DRAWS} choices, smallest and largest in brackets."
)


def _accuracy_cells(found: Accuracy) -> tuple[str, ...]:
    regrets = f"{found.regret_top1:.3f} / {found.regret_top5:.3f} / {found.regret_top10:.3f}"
    return (
        f"{found.n:,}",
        percent(found.mape),
        percent(found.mape_scaled),
        f"{found.kendall_tau:.3f}",
        f"{found.spearman:.3f}",
        regrets,
    )


_ACCURACY_COLUMNS = ("runs", "MAPE", "MAPE scaled", "tau", "Spearman", "regret top-1 / 5 / 10")


def _held_out(told: Sequence[HeldOut]) -> list[str]:
    parts = [
        table(
            ("data set", *_ACCURACY_COLUMNS),
            [(one.data.runs.name, *_accuracy_cells(one.accuracy)) for one in told],
        )
    ]
    covered = [(one, one.coverage) for one in told if one.coverage is not None]
    if covered:
        rows = [
            (one.data.runs.gpu.id, f"{of.n:,}", percent(of.fraction), f"× {of.median_factor:.3f}")
            for one, of in covered
        ]
        parts.append(table(("GPU", "runs", "within the 90 % interval", "half width"), rows))
    return [*parts, *_what_if(told)]


def _what_if(told: Sequence[HeldOut]) -> list[str]:
    """Sign of one-step changes, by GPU and field."""
    rates = [(one.data.runs.name, one.sensitivity) for one in told]
    fields = list(dict.fromkeys(name for _, of in rates for name in of.fields))
    if not fields:
        return []
    rows = []
    for name, of in rates:
        cells = [of.all, *(of.fields.get(field, SignRate(pairs=0, right=0)) for field in fields)]
        rows.append((name, *(f"{percent(one.rate)} of {one.pairs:,}" for one in cells)))
    text = "What-if: pairs that differ in one field by one step and whose times differ by more than 5 %, predicted sign right."
    return [text, table(("data set", "all fields", *fields), rows)]


def _ablation_text() -> str:
    return (
        f"Each part taken out, all coefficients fitted again, told on held-out launch shapes ({ablation.FOLDS} folds). A "
        "coefficient that is not fitted stays at its prior."
    )


def _ablated(found: Findings) -> str:
    columns = ["without", "kind"]
    for one in found.data:
        columns += [f"MAPE, {one.runs.name}", "tau"]
    whole, *parts = found.ablated
    ordered = sorted(parts, key=lambda one: -one.accuracies[0].mape)
    return table(columns, [_ablated_row(one) for one in (whole, *ordered)], left=2)


def _ablated_row(one: Ablated) -> Cells:
    cells = [one.part or "nothing", one.kind.value]
    for accuracy in one.accuracies:
        cells += [percent(accuracy.mape, 2), f"{accuracy.kendall_tau:.3f}"]
    return cells


def _learned(points: Sequence[Learned]) -> str:
    rows = []
    for one in points:
        mape, tau, regret = (_spread(one, figure) for figure in ("mape", "kendall_tau", "regret_top1"))
        model = "physics + residual" if one.residual else "physics"
        rows.append((one.name, model, f"{one.runs} {one.design.value}", mape, tau, regret, *_intervals(one)))
    columns = ("data set", "model", "runs seen", "MAPE", "tau", "regret top-1", "told an interval", "of these within")
    return table(columns, rows, left=2)


def _intervals(one: Learned) -> tuple[str, str]:
    """Median part of the launches that a residual tells an interval, and range of the parts that lay in it."""
    known = [of for of in one.coverages if of is not None]
    if not known:
        return "–", "–"
    told = [0.0 if of is None else of.n / draw.n for of, draw in zip(one.coverages, one.draws, strict=True)]
    within = [of.fraction for of in known]
    return percent(float(np.median(told)), 0), (
        f"{percent(float(np.median(within)))} ({min(within) * 100:.1f} … {max(within) * 100:.1f})"
    )


def _spread(one: Learned, figure: str) -> str:
    middle, (low, high) = one.median(figure), one.range(figure)
    if figure == "mape":
        return f"{percent(middle, 2)} ({low * 100:.2f} … {high * 100:.2f})"
    return f"{middle:.3f} ({low:.3f} … {high:.3f})"


def _repeats(found: Sequence[Repeat]) -> str:
    rows = [(one.gpu, one.first, one.second, *_accuracy_cells(one.accuracy)) for one in found]
    return table(("GPU", "first", "second", *_ACCURACY_COLUMNS), rows, left=3)
