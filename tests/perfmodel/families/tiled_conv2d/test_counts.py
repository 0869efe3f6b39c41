"""Closed forms of the tiled convolution: against counting by hand, against execution, against a GPU's counters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.compiler.compiled import compile_kernel
from perfmodel.families.base import Batch
from perfmodel.families.tiled_conv2d import FAMILY, TiledConv2d, TiledConv2dConfiguration
from perfmodel.families.tiled_conv2d.launch import geometry
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.prediction.evaluation import evaluate
from perfmodel.prediction.scenario import scenario_of
from perfmodel.records.measurements import read_measurements

from ..right_results import hold_to_closed_form

GPU = load_gpu("rtx-2080-ti")
SECTORS = ("global_load_sectors", "global_load_lines", "global_store_sectors")
"""What the closed form estimates."""


def configuration(**fields: int | None) -> TiledConv2dConfiguration:
    return TiledConv2dConfiguration(**fields)


def test_one_warp_of_a_row_loads_its_row_and_the_rest() -> None:
    """32 × 1 threads, 3 × 3 taps: the patch is 3 rows of 34 = 32 + 2 columns, two requests a row."""
    counts = FAMILY.profile(
        TiledConv2d(height=1, width=32, filter_height=3, filter_width=3),
        Batch.of([configuration(block_size_x=32, block_size_y=1, tile_size_x=1, tile_size_y=1)]),
        GPU,
    ).counts
    assert counts.global_load_requests[0] == 3 * 2
    assert counts.shared_load_requests[0] == 3 * 3
    assert counts.fp32_fma[0] == 9
    assert counts.global_store_requests[0] == 1


def test_a_row_of_patch_of_16_columns_conflicts_without_padding() -> None:
    """16 × 4 threads, 15 taps: rows of 30 words; lane (0, 1) is on bank 30 and lane (2, 1) on bank 0, where (0, 0) is."""
    problem = TiledConv2d(height=64, width=64)
    fields = {"block_size_x": 16, "block_size_y": 4, "tile_size_x": 1, "tile_size_y": 1}
    batch = Batch.of([configuration(**fields, use_padding=0), configuration(**fields, use_padding=1)])
    assert geometry(problem, batch).row_length.tolist() == [30, 30 + (32 - 14)]
    counts = FAMILY.profile(problem, batch, GPU).counts
    assert counts.shared_load_wavefronts[0] == 2 * counts.shared_load_requests[0]
    assert counts.shared_load_wavefronts[1] == counts.shared_load_requests[1]


@pytest.mark.parametrize(
    ("block", "tile", "lines", "missed"),
    [((1, 32), (3, 6), 192 * (11 + 31) / 32, 152.1e6), ((32, 1), (1, 8), 8 * (40 + 24) / 32, 1.87e6)],
)
def test_lines_that_l1_has_no_room_for_are_read_again(
    block: tuple[int, int], tile: tuple[int, int], lines: float, missed: float
) -> None:
    """Sectors that L1 of an H200 missed, as counted, of tiles without shared memory: of 198 and 16 millions."""
    problem = TiledConv2d(height=3000, width=2000, filter_height=9, filter_width=9)
    sides = {"block_size_x": block[0], "block_size_y": block[1], "tile_size_x": tile[0], "tile_size_y": tile[1]}
    batch = Batch.of([configuration(**sides, use_padding=None, use_shmem=0)])
    profile = FAMILY.profile(problem, batch, load_gpu("h200"))
    assert profile.reloaded_lines.tolist() == [lines]
    found = evaluate(profile, scenario_of("h200"))
    assert found.counts.l2_read_sectors[0] == pytest.approx(missed, rel=0.1)


@st.composite
def small_cases(draw: st.DrawFn) -> tuple[TiledConv2d, TiledConv2dConfiguration]:
    shared = draw(st.integers(0, 1))
    chosen = configuration(
        block_size_x=draw(st.sampled_from((8, 16, 32, 48))),
        block_size_y=draw(st.sampled_from((4, 8))),
        tile_size_x=draw(st.integers(1, 3)),
        tile_size_y=draw(st.integers(1, 3)),
        use_padding=draw(st.integers(0, 1)) if shared else None,
        read_only=draw(st.integers(0, 1)),
        use_shmem=shared,
    )
    # Without a patch and with clamped coordinates the compiler merges what it can prove equal: closed forms hold for whole tiles.
    height, width = chosen.block_size_y * chosen.tile_size_y, chosen.block_size_x * chosen.tile_size_x
    problem = TiledConv2d(
        height=draw(st.integers(1, 40)) if shared else height * draw(st.integers(1, 3)),
        width=draw(st.integers(1, 70)) if shared else width * draw(st.integers(1, 3)),
        filter_height=draw(st.sampled_from((3, 5))),
        filter_width=draw(st.sampled_from((3, 5, 7))),
    )
    return problem, chosen


@pytest.mark.compiler
@settings(max_examples=15, deadline=None, derandomize=True)
@given(small_cases())
def test_execution_gives_the_reference_and_the_closed_form(case: tuple[TiledConv2d, TiledConv2dConfiguration]) -> None:
    # Beyond the image the kernel reads shared memory that nobody wrote, for outputs that it does not store.
    # PTX still has read-only loads of one place twice; machine code has no sums of single warps beyond the image, for which the
    # kernel reads shared memory that nobody wrote.
    hold_to_closed_form(FAMILY, *case, on=GPU, seed=1, ptx=bool(case[1].use_shmem), check=False, without=SECTORS)


@pytest.mark.compiler
def test_shared_memory_is_what_the_compiler_allocates() -> None:
    problem = TiledConv2d(height=64, width=64, filter_height=5, filter_width=5)
    chosen = configuration(block_size_x=16, block_size_y=4, tile_size_x=2, tile_size_y=1, use_padding=1)
    launch = FAMILY.launch(problem, Batch.of([chosen]), GPU)
    # rows: 4·1 + 4 = 8; columns: 16·2 + 4 = 36, padded by (32 − (36 − 16)) mod 32 = 12 to 48
    assert launch.static_shared_bytes[0] == 4 * 8 * 48
    for architecture in ("sm_75", "sm_90"):
        kernel = compile_kernel(FAMILY.compile_request(problem, chosen, GPU), architecture)
        assert kernel.resources.static_shared_bytes == 4 * 8 * 48


@pytest.mark.data
def test_counts_equal_the_counters_of_a_2080_ti(published_data: Path) -> None:
    rows = read_measurements(published_data / "tiled_conv2d" / "rtx-2080-ti.counters.csv", FAMILY)
    columns = rows.columns
    work = FAMILY.profile(rows.problems[0], rows.batch, GPU)
    assert (work.launch.static_shared_bytes == columns["shared_bytes_per_block"]).all()
    loads = columns["l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"].to_numpy()
    assert (work.counts.global_load_requests == loads).all()
    tile = (columns["tile_size_x"] * columns["tile_size_y"]).to_numpy()
    plain = (tile < 24) & (columns["local_bytes_per_thread"].to_numpy() == 0)
    measured = columns["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"].to_numpy()
    errors = np.abs(work.counts.shared_load_wavefronts / measured - 1)[plain]
    assert (errors < 0.01).mean() >= 0.95
    assert errors.max() < 0.03
    divides = ~geometry(rows.problems[0], rows.batch).guarded
    stores = columns["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum"].to_numpy()
    store_errors = np.abs(work.counts.shared_store_wavefronts / stores - 1)[divides]
    assert (store_errors < 0.10).mean() >= 0.90
