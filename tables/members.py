"""``python -m tables.members`` (``make members``): fill the tables of compiled members that ship."""

from __future__ import annotations

import argparse
import itertools
import math
import os
from importlib.resources import files
from pathlib import Path

import numpy as np

from perfmodel.cli.output import note, progress_bar
from perfmodel.errors import PerfmodelError
from perfmodel.families.compiled_members import member_table
from perfmodel.families.registry import family, family_names
from perfmodel.profiles.kernel_profile import KernelProfile

from .drawn_members import compiled_members, drawn_members, tables


def main() -> None:
    """Draw members of each design, compile and execute them, and write a table for each design that is complete."""
    shipped = {design: name for name in family_names() for design in family(name).designs}
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--design", action="append", choices=sorted(shipped), help="only this one; may be given several times"
    )
    parser.add_argument("--share", type=float, default=1.0, help="part of the members that the shipped tables have")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="stop then; what was compiled is kept for the next time"
    )
    parser.add_argument(
        "--extend", action="store_true", help="keep the members that the shipped tables have, and add those drawn"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", type=Path, default=Path(str(files("perfmodel.data"))) / "members", metavar="FOLDER")
    chosen = parser.parse_args()
    chosen.output.mkdir(parents=True, exist_ok=True)
    designs, members = set(chosen.design or shipped), []
    for name in family_names():
        own = family(name)
        wanted = {
            design: math.ceil(chosen.share * number) for design, number in own.designs.items() if design in designs
        }
        members += drawn_members(own, wanted, chosen.seed)
    with progress_bar("compiled", len(members)) as advance:
        profiles = compiled_members(members, chosen.workers, 60.0 * chosen.minutes, advance)
    failures = [str(profile) for profile in profiles if isinstance(profile, PerfmodelError)]
    for text, times in zip(*np.unique(failures, return_counts=True), strict=True):
        note(f"{times} members left out: {text}")
    waiting = {member.traits()[0] for member, profile in zip(members, profiles, strict=True) if profile is None}
    for design in sorted(waiting):
        note(f"{design} is not complete and stays as it was; run again to go on")
    done = [isinstance(profile, KernelProfile) for profile in profiles]
    known = [profile for profile in profiles if isinstance(profile, KernelProfile)]
    kept = {design: member_table(design) for design in designs} if chosen.extend else {}
    for table in tables(list(itertools.compress(members, done)), known, kept):
        if table.design not in waiting:
            (chosen.output / f"{table.design}.npz").write_bytes(table.to_bytes())
            note(f"{table.design}: {len(table.members)} members")


if __name__ == "__main__":
    main()
