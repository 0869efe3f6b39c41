"""Executed counts and caches against the hardware counters that others published for the RTX 2080 Ti."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from perfmodel.compiler.compiled import CompiledKernel, compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.profiles.executed_profile import executed_profile

COUNTERS = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "warp_instructions": "smsp__inst_executed.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "local_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum",
    "local_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum",
    "l2_read_sectors": "lts__t_sectors_op_read.sum",
    "l2_write_sectors": "lts__t_sectors_op_write.sum",
}
BYTES_PER_DRAM_SECTOR = 32
FIELDS = ("block_size_x", "block_size_y", "tile_size_x", "tile_size_y")
CONFIGURATIONS = ((16, 4, 1, 1), (64, 2, 2, 1), (48, 8, 1, 3), (8, 8, 2, 2), (32, 32, 1, 2), (16, 4, 2, 8))
"""Tiles that divide the image and tiles that do not, narrow and wide, and one whose kernel spills (136 bytes a thread)."""

pytestmark = [pytest.mark.data, pytest.mark.compiler]


@pytest.fixture(scope="module", params=CONFIGURATIONS, ids=lambda values: "x".join(map(str, values)))
def case(request: pytest.FixtureRequest, published_data: Path) -> tuple[pd.Series, CompiledKernel, pd.Series]:
    """Published row, compiled kernel, and our counts under the counters' names."""
    rows = pd.read_csv(published_data / "tiled_conv2d" / "rtx-2080-ti.counters.csv")
    chosen = dict(zip(FIELDS, request.param, strict=True))
    (row,) = [
        row
        for _, row in rows.iterrows()
        if all(row[name] == value for name, value in chosen.items()) and not row.read_only
    ]
    gpu, problem = load_gpu("rtx-2080-ti"), TiledConv2d()
    configuration = TiledConv2dConfiguration(**chosen, use_padding=0, read_only=0, use_shmem=1)
    kernel = compile_kernel(FAMILY.compile_request(problem, configuration, gpu), gpu.architecture.name)
    launch = FAMILY.launch(problem, Batch.of([configuration]), gpu).at(0)
    inputs = FAMILY.inputs(problem, np.random.default_rng(0))
    profile = executed_profile(kernel, launch, FAMILY.call(problem, configuration, gpu, inputs), gpu)
    assert profile.exact, profile.notes
    found = {counter: float(getattr(profile.counts, name)) for name, counter in COUNTERS.items()}
    found["lts__t_sectors_op_read.sum"] += float(profile.counts.l2_instruction_sectors)
    found["dram__sectors_read.sum"] = float(profile.counts.dram_read_bytes) / BYTES_PER_DRAM_SECTOR
    found["dram__sectors_write.sum"] = float(profile.counts.dram_write_bytes) / BYTES_PER_DRAM_SECTOR
    return row, kernel, pd.Series(found)


def test_requests_are_equal_to_the_unit(case: tuple[pd.Series, CompiledKernel, pd.Series]) -> None:
    row, _, found = case
    name = COUNTERS["global_load_requests"]
    assert found[name] == row[name]


def test_local_sectors_are_equal_where_the_registers_are(case: tuple[pd.Series, CompiledKernel, pd.Series]) -> None:
    row, kernel, found = case
    if kernel.resources.registers_per_thread == row.registers_per_thread:
        for name in (COUNTERS["local_load_sectors"], COUNTERS["local_store_sectors"]):
            assert found[name] == row[name]


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("smsp__inst_executed.sum", 0.03),
        ("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum", 0.03),
        ("lts__t_sectors_op_write.sum", 0.01),
        ("lts__t_sectors_op_read.sum", 0.2),
        ("dram__sectors_read.sum", 0.02),
    ],
)
def test_counters_are_met(case: tuple[pd.Series, CompiledKernel, pd.Series], name: str, tolerance: float) -> None:
    row, kernel, found = case
    if name.startswith(("lts", "dram")) and kernel.resources.stack_bytes_per_thread:
        tolerance = 1.0  # what spills leave in the caches is an estimate
    assert found[name] == pytest.approx(row[name], rel=tolerance)
