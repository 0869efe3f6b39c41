"""The main job end to end, with no GPU: rank real convolutions for real GPUs, then compare with published measurements.

Run by ``make demo``. Everything printed is computed now; published measurements are used where PERFMODEL_DATA names them.
"""

import os
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import perfmodel as pm
from perfmodel.cli.output import print_table
from perfmodel.core.json_values import plain
from perfmodel.core.units import time_text
from perfmodel.networks.library import load_network
from perfmodel.prediction.scenario import scenario_of

FILES = (
    ("rtx-2080-ti", "rtx-2080-ti.counters.csv"),
    ("rtx-3090", "rtx-3090.csv"),
    ("a100-pcie-40gb", "a100-pcie-40gb.csv"),
)
REFINED = 6
"""Candidates that are compiled for each problem of parts (a) and (b): fewer than by default, to be quick with a cold cache."""
COLUMNS = (
    "problem",
    "GPU",
    "best configuration",
    "registers/thread",
    "blocks/SM",
    "occupancy",
    "global reads",
    "predicted",
    "limiter",
)

NEXT = """
How to go on:
  source .venv/bin/activate
  perfmodel rank direct_conv2d --gpu rtx-4090 --height 1080 --width 1920 --filter-height 5 --filter-width 5
  perfmodel analyze examples/transpose.cu --kernel transpose --gpu h200 --grid 64,64 --block 32,8 \\
      --arg 'f32[2048*2048]' --arg 'f32[2048*2048]=0' --arg i32=2048 --source
  perfmodel --help        # all commands; docs/tutorial-own-kernel.md and docs/tutorial-tune.md explain them"""


def chosen(configuration: Any) -> str:
    """A configuration in few words: its values in the order of its fields, without those that have no effect."""
    values, names = plain(configuration), [field.name for field in fields(configuration)]
    return " ".join(str(values[name]) for name in names if getattr(configuration, name) is not None)


def row(name: str, best: pm.Prediction) -> tuple[object, ...]:
    """One line of a table of winners; what it reads of global memory, it loads or copies asynchronously."""
    reads = float(best.counts.global_load_requests) + float(best.counts.async_copy_read_requests)
    return (
        name,
        best.gpu,
        chosen(best.configuration),
        best.resources.registers_per_thread,
        best.occupancy.blocks_per_sm,
        f"{best.occupancy.fraction:.0%}",
        f"{reads / 1e6:.3g} M",
        time_text(best.time.predicted_s),
        best.time.limiter,
    )


def image_filters() -> None:
    """Direct convolution of a 4K frame with four filters on two GPUs."""
    rows = []
    for width in (3, 5, 7, 11):
        problem = pm.Conv2d(height=2160, width=3840, filter_height=width, filter_width=width)
        for gpu in ("h200", "rtx-2080-ti"):
            rows.append(row(f"{width}×{width} on 3840×2160", pm.rank(problem, gpu=gpu, top=1, refine=REFINED).best))
    print_table("\n(a) direct_conv2d: fields reuse, exchange, accumulators, rows, block", COLUMNS, rows, left=3)


def depthwise_layers() -> None:
    """The depthwise layers of MobileNetV1 at two batch sizes."""
    rows = []
    for batch in (1, 32):
        seen = set()
        for layer in load_network("mobilenet_v1", batch).layers:
            problem = layer.problem
            if isinstance(problem, pm.Conv2d) and problem.depthwise and problem not in seen:
                seen.add(problem)
                name = f"batch {batch}: {problem.in_channels}×{problem.height}×{problem.width}, stride {problem.stride}"
                rows.append(row(name, pm.rank(problem, gpu="h200", top=1, refine=REFINED).best))
    print_table("\n(b) depthwise layers of MobileNetV1", COLUMNS, rows, left=3)


def tuning_space() -> None:
    """The auto-tuners' benchmark, ranked, drawn and, where there are measurements, compared with them."""
    found = pm.rank(pm.TiledConv2d(), gpu="a100-pcie-40gb", top=5)
    rows = [row(f"rank {place}", best) for place, best in enumerate(found.top, 1)]
    print_table(
        f"\n(c) tiled_conv2d 15×15 on 4096×4096, best of {found.candidates:,} candidates", COLUMNS, rows, left=3
    )
    draw(Path("out"))
    data = os.environ.get("PERFMODEL_DATA")
    if not data:
        print("PERFMODEL_DATA is not set: no comparison with published measurements")
        return
    lines = []
    for gpu, name in FILES:
        file = Path(data) / "tiled_conv2d" / name
        for where in ("tile_size_x * tile_size_y < 14", "tile_size_x * tile_size_y < 24", None):
            result = pm.validate("tiled_conv2d", gpu=gpu, measurements=file, where=where)
            a = result.accuracy
            regret = f"{a.regret_top1:.3f} / {a.regret_top5:.3f} / {a.regret_top10:.3f}"
            lines.append((gpu, where or "all rows", f"{a.n:,}", f"{a.kendall_tau:.3f}", f"{a.mape_scaled:.1%}", regret))
    columns = ("GPU", "rows", "n", "Kendall tau", "MAPE scaled", "regret top-1 / 5 / 10")
    print_table("\n(c) against published measurements", columns, lines, left=2)


def draw(folder: Path) -> None:
    """The design space as a heat map, where matplotlib is installed."""
    try:
        from perfmodel.figures.design_space import draw_design_space

        written = draw_design_space(folder, pm.TiledConv2d(), scenario_of("a100-pcie-40gb"))
    except ImportError as error:
        print(f"no figure: {error}; install the extra `figures`")
        return
    print(f"figure: {written[1]}")


def main() -> None:
    """Run the three parts and say how long they took."""
    start = time.perf_counter()
    image_filters()
    depthwise_layers()
    tuning_space()
    print(f"\n{time.perf_counter() - start:.0f} s\n{NEXT}")


if __name__ == "__main__":
    main()
