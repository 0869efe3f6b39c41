"""The committed accuracy table: its figures in a file, and as the text that stands in the manuals."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from perfmodel.accuracy.studies.report import percent, table

from .accuracy_table import CASES, ROOT, Figures

GOLDEN = Path(__file__).with_name("accuracy_table.json")
BEGIN, END = "<!-- accuracy table: begin -->", "<!-- accuracy table: end -->"
MANUALS = (ROOT / "README.md", ROOT / "docs" / "accuracy.md")


def read_golden() -> dict[str, dict[str, Figures]]:
    """The committed figures: case, GPU, figure."""
    found: dict[str, dict[str, Figures]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


def write_golden(case: str, figures: Mapping[str, Figures]) -> None:
    """Put the figures of a case into the golden file and the table into the manuals."""
    with Path(__file__).open(encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other cases are written at the same time where tests run in parallel
        _write(case, figures)


def _write(case: str, figures: Mapping[str, Figures]) -> None:
    known = read_golden() if GOLDEN.exists() else {}
    known[case] = {gpu: {name: _rounded(value) for name, value in of.items()} for gpu, of in figures.items()}
    ordered = {one.name: known[one.name] for one in CASES if one.name in known}
    GOLDEN.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    text = rendered(ordered)
    for path in MANUALS:
        content = path.read_text(encoding="utf-8")
        head, rest = content.split(BEGIN, 1)
        path.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


def table_in(path: Path) -> str:
    """What stands between the markers of a manual."""
    return path.read_text(encoding="utf-8").split(BEGIN, 1)[1].split(END, 1)[0].strip("\n")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def rendered(golden: Mapping[str, Mapping[str, Figures]]) -> str:
    """The table as the manuals have it."""
    columns = (
        "told by", "GPU", "runs", "MAPE", "tau", "tau apart", "regret top-1 / 5", "choice", "what-if", "in the 90 % interval",
    )  # fmt: skip
    titles = {case.name: case.title for case in CASES}
    rows = [(titles[name], gpu, *_cells(figures)) for name, of in golden.items() for gpu, figures in of.items()]
    return table(columns, rows, left=2)


def _cells(figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{figures['n']:,.0f}",
        percent(figures["mape_scaled"]),
        f"{figures['kendall_tau']:.3f}",
        "–" if figures.get("tau_apart") is None else f"{figures['tau_apart']:.3f}",
        f"{figures['regret_top1']:.3f} / {figures['regret_top5']:.3f}",
        "–" if figures.get("choice") is None else f"{figures['choice']:.3f} / {figures['worst_choice']:.3f}",
        percent(figures.get("what_if")),
        percent(figures.get("coverage")),
    )
