"""Run the benchmarks and print one table: ``python -m benchmarks [--quick]``."""

from __future__ import annotations

import argparse
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from perfmodel.cli.output import print_table
from perfmodel.core.freed_memory import keep_freed_memory
from perfmodel.families.base import Product, Space
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.prediction.evaluation import evaluate_batch
from perfmodel.prediction.scenario import scenario_of

from .analysis import analysis_rows
from .fitting import fit_row
from .simulator import simulator_rows
from .timing import Row, program_seconds

CANDIDATES = 10_000_000


def machine() -> str:
    """Processor, cores and operating system of this machine."""
    model = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.is_file():
        lines = [line for line in info.read_text(encoding="utf-8").splitlines() if line.startswith("model name")]
        model = lines[0].partition(":")[2].strip() if lines else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def analytic_row(count: int) -> Row:
    """Candidates for each second of CPU time: all terms, one core, over a large synthetic space in chunks."""
    problem, scenario = TiledConv2d(), scenario_of("rtx-3090")
    values: dict[str, tuple[int, ...]] = {
        "block_size_x": (16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256),
        "block_size_y": tuple(range(1, 33)),
        "tile_size_x": tuple(range(1, 41)),
        "tile_size_y": tuple(range(1, 41)),
        "use_padding": (0, 1),
        "read_only": (0, 1),
        "use_shmem": (1,),
    }
    space = Space((Product(TiledConv2dConfiguration, values),))
    keep_freed_memory()
    start, done = time.process_time(), 0
    while done < count:
        for chunk in space.chunks():
            evaluate_batch(FAMILY, problem, chunk, scenario)
            done += len(chunk)
            if done >= count:
                break
    rate = done / (time.process_time() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return (
        "analytic candidates",
        f"{rate / 1e6:.2f} M/s, peak {peak:.2f} GiB for {done / 1e6:.1f} M",
        "≥ 1 M/s, < 1 GiB",
    )


def start_rows() -> list[Row]:
    """Start-up of the program; the best of five, because a cold disk is not the program's."""
    help_s = min(program_seconds("--help") for _ in range(5))
    gpus_s = min(program_seconds("gpus") for _ in range(5))
    return [("perfmodel --help", f"{help_s:.2f} s", "< 0.3 s"), ("perfmodel gpus", f"{gpus_s:.2f} s", "< 0.5 s")]


def rank_rows() -> list[Row]:
    """A whole ranking with an empty compile cache, and again with the full one."""
    arguments = ("rank", "tiled_conv2d", "--gpu", "h200")
    with tempfile.TemporaryDirectory(prefix="perfmodel-") as folder:
        cold = program_seconds(*arguments, cache=Path(folder))
        warm = min(program_seconds(*arguments, cache=Path(folder)) for _ in range(3))
    return [
        ("rank tiled_conv2d, cold", f"{cold:.1f} s", "< 90 s"),
        ("rank tiled_conv2d, warm", f"{warm:.2f} s", "< 2 s"),
    ]


def single_core(arguments: Sequence[str]) -> None:
    """Start over with one thread for linear algebra, so that rates are those of one core."""
    if os.environ.get("OMP_NUM_THREADS") != "1":
        os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        os.execv(sys.executable, [sys.executable, "-m", "benchmarks", *arguments])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer candidates, no cold ranking, no fit")
    chosen = parser.parse_args()
    single_core(sys.argv[1:])
    rows = [
        analytic_row(CANDIDATES // 10 if chosen.quick else CANDIDATES),
        *start_rows(),
        *simulator_rows(),
        *analysis_rows(),
    ]
    rows += [] if chosen.quick else [*rank_rows(), fit_row()]
    print_table(f"{machine()}, NumPy {np.__version__}", ("what", "measured", "wanted"), rows, left=3)


if __name__ == "__main__":
    main()
