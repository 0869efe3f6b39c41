"""``python -m perfmodel.cli.member_filling`` (``make members``): fill the tables of compiled members that ship."""

from __future__ import annotations

import argparse
import itertools
import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from ..calibration.member_filling import compiled_members, drawn_members, tables
from ..errors import PerfmodelError
from ..families.registry import family
from .output import note, progress_bar

FAMILIES = ("conv1d", "direct_conv2d", "pointwise_conv2d", "ssim", "tiled_conv2d")


def main() -> None:
    """Draw members of each family, compile and execute them, and write a table for each design."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--family", action="append", choices=FAMILIES, help="only this one; may be given several times")
    parser.add_argument("--number", type=int, default=500, help="members of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=Path(str(files("perfmodel.data"))) / "members", metavar="FOLDER")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name in chosen.family or FAMILIES:
        own = family(name)
        members = list(itertools.islice(drawn_members(own, np.random.default_rng(chosen.seed)), chosen.number))
        with progress_bar("compiled", len(members)) as advance:
            profiles = compiled_members(own, members, chosen.workers, advance)
        failures = [str(profile) for profile in profiles if isinstance(profile, PerfmodelError)]
        for text, times in zip(*np.unique(failures, return_counts=True), strict=True):
            note(f"{times} members of {name} left out: {text}")
        for table in tables(own, members, profiles):
            (chosen.output / f"{table.design}.npz").write_bytes(table.to_bytes())
            note(f"{table.design}: {len(table.members)} members")


if __name__ == "__main__":
    main()
