"""``python -m tables.accuracy`` (``make accuracy``): compute the accuracy table anew and put it into the pages."""

from __future__ import annotations

import argparse
from pathlib import Path

from perfmodel.cli.output import note

from .cases import CASES, figures_of_case
from .figures import read_table, write_table
from .pages import filled
from .published import published_folder

ROOT = Path(__file__).parent.parent
FIGURES = Path(__file__).with_name("accuracy.json")
"""The committed figures."""
PAGES = (ROOT / "README.md", ROOT / "docs" / "accuracy.md")


def main() -> None:
    """Compute every case from the published measurements (``PERFMODEL_DATA``) and the project's own records."""
    parser = argparse.ArgumentParser(description=__doc__)
    names = [case.name for case in CASES]
    parser.add_argument("--only", nargs="*", choices=names, help="cases to compute; the others stay as they are")
    chosen = parser.parse_args()
    published, known = published_folder(), read_table(FIGURES)
    for case in CASES:
        if chosen.only is None or case.name in chosen.only:
            known[case.name] = figures_of_case(case, published, ROOT / "validation" / "data")
            write_table(FIGURES, {name: known[name] for name in names if name in known})
            note(f"{case.name}: {len(known[case.name])} rows")
    committed = read_table(FIGURES)  # rounded, as the pages are compared with it
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), committed), encoding="utf-8")


if __name__ == "__main__":
    main()
