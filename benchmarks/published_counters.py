"""Published counters of an RTX 2080 Ti, against the kernel that was run: ``python -m benchmarks.published_counters``.

The rows of ``tiled_conv2d/rtx-2080-ti.counters.csv`` (2,640 configurations of one kernel) below ``PERFMODEL_DATA``. Their
kernel is fetched by whoever runs this (``--source``: `convolution.cu` of AutoTuningAssociation/benchmark_hub), and built with
the NVRTC that built theirs (``--nvrtc``: `libnvrtc.so.12` of the wheel nvidia-cuda-nvrtc-cu12 12.2.140), so that its machine
code is executed as it was counted. Rows come in an order that a seed draws. Each is a line of ``--keep``; a second run goes on.
All rows take some two hours of one core, most of them in the compiler. Without ``--source`` nothing is executed: the table says
what is kept.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import os
import time
from collections.abc import Mapping
from functools import cache
from io import StringIO
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd

import perfmodel.validation
from perfmodel.cli.output import print_table
from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.compiler.resources import read_resources
from perfmodel.core.files import read_text, write_text
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.machine_code.program import read_machine_code
from perfmodel.profiles.blocks.launch_counts import count_launch

KEPT = Path(perfmodel.validation.__file__).parent / "data" / "rtx-2080-ti-executed.csv.gz"
TOGETHER = 20
"""Rows that are written at once."""
ARCHITECTURE, KERNEL = "sm_75", "convolution_kernel"
COUNTERS = {
    "registers": "registers_per_thread",
    "warp_instructions": "smsp__inst_executed.sum",
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
}
"""Counts and the columns that hold them. Counted wavefronts hold those that are repeated because of other traffic of L1."""
FIELDS = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y", "use_padding", "read_only")


@cache
def loaded_nvrtc(library: Path) -> ModuleType:
    """The binding of NVRTC, on this library."""
    ctypes.CDLL(str(library))
    from cuda.bindings import nvrtc

    found: ModuleType = nvrtc
    return found


def compiled(nvrtc: ModuleType, source: str, row: Mapping[str, Any]) -> CompiledKernel:
    """The kernel of one row."""
    macros = {name: int(row[name]) for name in ("filter_width", "filter_height", *FIELDS)}
    options = [f"--gpu-architecture={ARCHITECTURE}", *(f"-D{name}={value}" for name, value in macros.items())]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), b"convolution.cu", 0, [], [])
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), [one.encode() for one in options])
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise SystemExit(f"{options}: {status}")
    buffer = bytearray(nvrtc.nvrtcGetCUBINSize(program)[1])
    nvrtc.nvrtcGetCUBIN(program, buffer)
    nvrtc.nvrtcDestroyProgram(program)
    cubin = bytes(buffer)
    return CompiledKernel(
        kernel_name=KERNEL,
        architecture=ARCHITECTURE,
        key="",
        ptx="",
        cubin=cubin,
        resources=read_resources(cubin, KERNEL, ARCHITECTURE, ""),
    )


def counted(nvrtc: ModuleType, source: str, row: Mapping[str, Any]) -> dict[str, int]:
    """Counts of one row under the names of `COUNTERS`; the kernel's data decide nothing, so its buffers are zeros."""
    kernel = compiled(nvrtc, source, row)
    launch = Launch(
        grid_x=int(row["grid_x"]),
        grid_y=int(row["grid_y"]),
        block_x=int(row["block_size_x"]),
        block_y=int(row["block_size_y"]),
    )
    width, height = int(row["image_width"]), int(row["image_height"])
    sizes = {
        "output": width * height,
        "input": (width + int(row["filter_width"]) - 1) * (height + int(row["filter_height"]) - 1),
        "filter": 1,
    }
    buffers = tuple(Buffer(name=n, array=np.broadcast_to(np.float32(0.0), (size,))) for n, size in sizes.items())
    found = count_launch(read_machine_code(kernel), launch, KernelCall(parameters=buffers))
    counts = {name: int(getattr(found.counts, name)) for name in COUNTERS if name != "registers"}
    return {"exact": int(found.exact), "registers": kernel.resources.registers_per_thread, **counts}


def counted_row(job: tuple[int, Mapping[str, Any], Path, Path]) -> dict[str, int]:
    """The line of one row, of its number, its fields, the kernel's file and the compiler."""
    index, row, source, library = job
    return {"row": index, **counted(loaded_nvrtc(library), source.read_text(), row)}


def kept_rows(path: Path) -> list[dict[str, int]]:
    """What is kept of each row."""
    return [{name: int(value) for name, value in one.items()} for one in csv.DictReader(StringIO(read_text(path)))]


def main() -> None:
    """Count rows until the time is over, and print how many are equal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, help="the kernel's file")
    parser.add_argument("--nvrtc", type=Path, help="libnvrtc.so.12 of the version that built it")
    parser.add_argument("--keep", type=Path, default=KEPT, help="a table with a line for each row")
    parser.add_argument("--sample", type=int, help="rows, those that are kept with them; all if left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--time-limit", type=float, default=600.0, metavar="SECONDS")
    chosen = parser.parse_args()
    rows = pd.read_csv(Path(os.environ["PERFMODEL_DATA"]) / "tiled_conv2d" / "rtx-2080-ti.counters.csv")
    drawn = np.random.default_rng(chosen.seed).permutation(len(rows))[: chosen.sample].tolist()
    kept = {one["row"]: one for one in kept_rows(chosen.keep)} if chosen.keep.is_file() else {}
    if chosen.source and chosen.nvrtc:
        left = [index for index in drawn if index not in kept]
        jobs = [(index, rows.iloc[index].to_dict(), chosen.source, chosen.nvrtc) for index in left]
        end = time.monotonic() + chosen.time_limit
        with get_context("spawn").Pool(chosen.workers) as pool:
            for number, line in enumerate(pool.imap_unordered(counted_row, jobs), 1):
                kept[line["row"]] = line
                over = time.monotonic() > end
                if over or number == len(jobs) or number % TOGETHER == 0:
                    write_text(chosen.keep, pd.DataFrame([kept[index] for index in sorted(kept)]).to_csv(index=False))
                if over:
                    break
    known = [index for index in drawn if index in kept]
    table = []
    for name, column in COUNTERS.items():
        ours = np.array([kept[index][name] for index in known], np.float64)
        theirs = rows[column].to_numpy(np.float64)[known]
        error = np.abs(ours - theirs) / np.maximum(theirs, 1.0)
        at_most = np.mean(ours <= theirs)
        table.append(
            (
                name,
                len(known),
                int((ours == theirs).sum()),
                f"{at_most:.1%}",
                f"{np.median(error):.3%}",
                f"{error.max():.2%}",
            )
        )
    print_table("executed against published", ("count", "rows", "equal", "at most", "median error", "largest"), table)


if __name__ == "__main__":
    main()
