"""The accuracy table as the pages show it: all of it for the manual, five rows for the README."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .cases import CASES
from .figures import Figures, Table, worst


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A Markdown table; the first ``left`` columns are text, the others numbers, aligned to the right.

    >>> print(markdown_table(("GPU", "tau"), [("h200", "0.94")]))
    | GPU | tau |
    | --- | ---: |
    | h200 | 0.94 |
    """
    rules = ["---" if index < left else "---:" for index in range(len(columns))]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (columns, rules, *rows))


def percent(value: float | None) -> str:
    """A fraction in percent; a dash where there is none.

    >>> percent(0.0329), percent(None)
    ('3.3 %', '–')
    """
    return "–" if value is None else f"{value * 100:.1f} %"


def full_table(figures: Table) -> str:
    """Every row, as Markdown."""
    columns = (
        "runs, and what was held out", "GPU", "runs", "MAPE", "tau", "tau without near-ties", "tau inside problems",
        "regret top-1 / 5",
        "regret top-1 inside problems", "regret top-5 inside problems", "sign of one-step changes", "in the 90 % interval",
    )  # fmt: skip
    titles = {case.name: case.title for case in CASES}
    rows = [(titles[case], gpu, *_full_cells(row)) for case, of in figures.items() for gpu, row in of.items()]
    return markdown_table(columns, rows, left=2)


def _full_cells(row: Figures) -> tuple[str, ...]:
    return (
        f"{row['n'].value:,.0f}",
        _percent(row, "mape_scaled"),
        _numbers(row, "kendall_tau"),
        _numbers(row, "tau_without_near_ties"),
        _numbers(row, "tau_in_problems", "worst_tau"),
        _numbers(row, "regret_top1", "regret_top5"),
        _numbers(row, "regret_top1_in_problems", "worst_regret_top1"),
        _numbers(row, "regret_top5_in_problems", "worst_regret_top5"),
        _percent(row, "sensitivity"),
        _percent(row, "coverage"),
    )


def _numbers(row: Figures, *names: str) -> str:
    return " / ".join(f"{row[name].value:.3f}" if name in row else "–" for name in names if name in row) or "–"


def _percent(row: Figures, name: str) -> str:
    return percent(row[name].value if name in row else None)


def summary_table(figures: Table) -> str:
    """Five rows for the README, as Markdown; where a row is of several data sets, each figure is that of the worst."""
    shapes, own = figures["shapes-all"], {**figures["own"], **figures["own-tiled"]}
    rows = (
        ("published runs on an RTX 2080 Ti, launch shapes held out", shapes["rtx-2080-ti"]),
        ("published runs on an RTX 3090, launch shapes held out", shapes["rtx-3090"]),
        ("a GPU known by its data sheet only: worst of three", worst(figures["architecture-of-three"].values())),
        ("H200, problems held out: worst of five kernel families", worst(own.values())),
        ("H200, GPU and kernel both unseen: worst of four families", worst(figures["unseen-kernels"].values())),
    )
    columns = (
        "runs predicted", "runs", "MAPE after one factor", "tau, pooled", "tau inside problems, mean / worst",
        "regret top-1 inside problems, mean / worst", "in the 90 % interval",
    )  # fmt: skip
    return markdown_table(columns, [(title, *_summary_cells(row)) for title, row in rows])


def _summary_cells(row: Figures) -> tuple[str, ...]:
    """A data set of one problem has the same figures inside it as over all of its runs."""
    inside = ("tau_in_problems", "worst_tau") if "tau_in_problems" in row else ("kendall_tau",)
    regrets = ("regret_top1_in_problems", "worst_regret_top1") if "tau_in_problems" in row else ("regret_top1",)
    return (
        f"{row['n'].value:,.0f}",
        _percent(row, "mape_scaled"),
        _numbers(row, "kendall_tau"),
        _numbers(row, *inside),
        _numbers(row, *regrets),
        _percent(row, "coverage"),
    )


TEXTS: Mapping[str, Callable[[Table], str]] = {"accuracy table": full_table, "accuracy summary": summary_table}
"""What stands in a page between the comments ``<!-- NAME: begin -->`` and ``<!-- NAME: end -->``."""


def filled(page: str, figures: Table) -> str:
    """The page with the tables that it has places for made anew."""
    for name, text in TEXTS.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if begin in page:
            head, rest = page.split(begin, 1)
            page = f"{head}{begin}\n{text(figures)}\n{end}{rest.split(end, 1)[1]}"
    return page
