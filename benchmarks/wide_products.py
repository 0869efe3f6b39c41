"""Loops with integer products of 64 bits, measured and predicted: ``python -m benchmarks.wide_products``.

The source and the measured cycles are in `validation/data/h200-wide-products.json.gz`. Each loop is compiled for an H200,
analysed with two numbers of rounds, and timed by the model of one SM. A line has the cycles of a round, measured and predicted
over measured, with one warp and with four on each scheduler.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import perfmodel as pm
from perfmodel.cli.output import print_table
from perfmodel.core.constants import WARP_SIZE
from perfmodel.gpus.catalogue import load_gpu

_RECORD = Path(__file__).parents[1] / "validation/data/h200-wide-products.json.gz"
_WARPS = (4, 16)
_ROUNDS = (64, 192)


def cycles_of_a_round(source: Path, kernel: str, warps: int) -> float:
    """Predicted SM cycles of a round of a loop, one block of so many warps."""
    seconds = [
        pm.analyze(
            source,
            kernel=kernel,
            gpu="h200",
            grid=1,
            block=warps * WARP_SIZE,
            args=("i64[64]=0", "f32=1.0001", "f32=0.9999", "i32=3", "i32=5", f"i32={rounds}"),
        ).prediction.time.predicted_s
        for rounds in _ROUNDS
    ]
    return (seconds[1] - seconds[0]) * load_gpu("h200").boost_clock_hz / (_ROUNDS[1] - _ROUNDS[0])


def main() -> None:
    """Print the table."""
    record = json.loads(gzip.decompress(_RECORD.read_bytes()))
    rows = []
    with TemporaryDirectory() as folder:
        source = Path(folder) / "loops.cu"
        source.write_text(record["source"], encoding="utf-8")
        for loop in record["loops"]:
            cells = [loop["kernel"].removeprefix("p_")]
            for warps in _WARPS:
                measured = loop["cycles"][str(warps)]
                cells += [f"{measured:.0f}", f"{cycles_of_a_round(source, loop['kernel'], warps) / measured:.2f}"]
            rows.append(tuple(cells))
    names = (
        "loop",
        "4 warps: cycles a round",
        "predicted / measured",
        "16 warps: cycles a round",
        "predicted / measured",
    )
    print_table("loops with integer products", names, rows, left=1)


if __name__ == "__main__":
    main()
