"""Speed of ``perfmodel fit``: from stored counts to a calibration with all that is known of its errors."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tables.cases import FAMILIES, OWN, PUBLISHED, SMALL_TILES

from .timing import Row, program_seconds

DATA_VARIABLE = "PERFMODEL_DATA"
TILED = "tiled_conv2d"


def fit_row() -> Row:
    """The fit that ships: own records of two GPUs, one held out, with the published runs where the variable names them."""
    data, records = os.environ.get(DATA_VARIABLE), Path("validation", "data")
    sets = [(TILED, gpu, Path(data, name), SMALL_TILES) for gpu, name in PUBLISHED.items()] if data else []
    for gpu, name in OWN.items():
        unspilled = f"{SMALL_TILES} and local_bytes_per_thread == 0"
        sets += [(TILED, gpu, records / name, unspilled), *((family, gpu, records / name, "") for family in FAMILIES)]
    options = [
        option
        for _, gpu, path, where in sets
        for option in ("--gpu", gpu, "--measurements", str(path), "--where", where)
    ]
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        seconds = program_seconds(
            "fit",
            ",".join(family for family, *_ in sets),
            *options,
            *("--held-out", "h100-sxm-80gb", "--output", str(Path(folder, "fitted.toml"))),
        )
    what = "full fit with its held-out errors" if data else f"fit of own records ({DATA_VARIABLE} is not set)"
    return (what, f"{seconds:.0f} s, {len(sets)} data sets", "< 60 s")
