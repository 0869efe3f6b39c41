"""``python -m tables.counts`` (``make counts``): fill the counts store that ships with the package."""

from __future__ import annotations

import argparse
import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from perfmodel.cli.output import note, progress_bar
from perfmodel.compiler.toolchain import compiler_version
from perfmodel.families.registry import family
from perfmodel.records.own_records import read_records
from perfmodel.records.schema import RecordKind

from .counted_rows import fill, rows_of
from .published import published_folder


def main() -> None:
    """Fill the shipped stores from own records, or from every CSV below ``PERFMODEL_DATA`` (the folder is the family)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--time-limit", type=float, default=120.0, metavar="SECONDS", help="for each configuration")
    parser.add_argument("--with-equivalents", action="store_true", help="also those that an equivalent is taken for")
    parser.add_argument("--records", type=Path, metavar="FILE", help="own records instead of published measurements")
    parser.add_argument("--family", metavar="NAME", help="only this one")
    parser.add_argument(
        "--beside",
        action="store_true",
        help="write what this compiler gives beside the stores of the usual one, from files that record registers",
    )
    parser.add_argument("--again", action="store_true", help="what the stores have instead of what they lack")
    chosen = parser.parse_args()
    for family_name, paths in _sources(chosen.records).items():
        if chosen.family not in (None, family_name):
            continue
        rows = rows_of(family_name, paths, recorded=chosen.beside)
        if not chosen.with_equivalents:
            rows = [row for row in rows if not family(row.family_name).equivalents(row.configuration)]
        ending = f".{compiler_version().replace(' ', '-')}.npz" if chosen.beside else ".npz"
        target = Path(str(files("perfmodel.data"))) / "counts" / f"{family_name}{ending}"
        target.parent.mkdir(exist_ok=True)
        with progress_bar("counted", len(rows)) as advance:
            failures = fill(target, rows, chosen.time_limit, chosen.workers, advance, again=chosen.again)
        for text, times in zip(*np.unique(failures, return_counts=True), strict=True):
            note(f"{times} configurations not counted: {text}")


def _sources(records: Path | None) -> dict[str, list[Path]]:
    """Files of measurements by family: the given records, else every CSV below ``PERFMODEL_DATA``."""
    if records is not None:
        kinds = {record.name for record in read_records(records) if record.kind is RecordKind.KERNEL and record.timings}
        return {name: [records] for name in sorted(kinds)}
    folders = sorted(path for path in published_folder().iterdir() if path.is_dir())
    return {folder.name: sorted(folder.glob("*.csv")) for folder in folders}


if __name__ == "__main__":
    main()
