"""Blocks of whole planes: right results into poisoned outputs, no faults, and the counts of which their tiles leave no doubt."""

from __future__ import annotations

import pytest

from perfmodel.families.base import Batch
from perfmodel.families.direct_conv2d import FAMILY, DirectConv2dConfiguration, Reuse, plane
from perfmodel.gpus.catalogue import load_gpu

from ..right_results import right_run
from .depthwise import layer

pytestmark = pytest.mark.compiler


def planes(rows: int, columns: int, threads: int) -> DirectConv2dConfiguration:
    return DirectConv2dConfiguration(
        reuse=Reuse.PLANE,
        exchange=None,
        accumulators=None,
        rows_per_thread=rows,
        block_x=threads,
        block_y=1,
        columns_per_thread=columns,
    )


CASES = {
    "a_plane_in_a_thread": (layer(70, 7, 7, 5, padding=2), planes(7, 7, 64)),
    "rows": (layer(21, 14, 14, 3, padding=1, batch=3), planes(2, 14, 64)),
    "tiles_beyond_both_edges": (layer(5, 13, 11, 5, padding=2), planes(4, 6, 64)),
    "stride": (layer(6, 15, 9, 3, padding=1, stride=2), planes(2, 3, 64)),
    "whole_rows_with_stride": (layer(3, 12, 12, 5, padding=2, stride=2), planes(1, 6, 64)),
    "more_planes_than_channels": (layer(2, 3, 5, 2, padding=1, batch=9), planes(4, 6, 64)),
    "more_taps_than_threads": (layer(3, 12, 12, 9, padding=4), planes(1, 6, 64)),
    "fours_of_planes": (layer(10, 7, 7, 3, padding=1, batch=2), planes(1, 7, 64)),  # 9 fit the threads, 8 have vectors of four
    "padding_beyond_the_image": (layer(2, 3, 5, 2, padding=7), planes(4, 10, 64)),
}  # fmt: skip


@pytest.fixture
def many_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any launch counts as one of many blocks, whose outputs pass through shared memory."""
    monkeypatch.setattr(plane, "FEW_BLOCKS", 0)


@pytest.mark.parametrize("name", CASES)
def test_results_that_threads_store(name: str) -> None:
    right_run(FAMILY, *CASES[name])


@pytest.mark.usefixtures("many_blocks")
@pytest.mark.parametrize("name", CASES)
def test_results_that_pass_through_shared_memory(name: str) -> None:
    right_run(FAMILY, *CASES[name])


def test_results_without_asynchronous_copies() -> None:
    right_run(FAMILY, *CASES["rows"], on="rtx-2080-ti")


def test_counts_where_threads_store() -> None:
    problem, chosen = CASES["a_plane_in_a_thread"]
    done = right_run(FAMILY, problem, chosen).counts
    closed = FAMILY.closed_counts(problem, Batch.of([chosen]), load_gpu("h200")).at(0)
    # 70 planes are 3 warps; of 7 × 7 outputs of 5 × 5 taps along either axis 7·5 − 2·(1 + 2) = 29 lie in the image.
    assert done.fp32_fma == closed.fp32_fma == 3 * 29 * 29
    # Elements word by word, taps by vectors of four.
    assert done.shared_load_requests == closed.shared_load_requests == 3 * (49 + 7)
    # Word by word, and no two planes have one in the same sector; 70 planes are 1.09 blocks of 64.
    assert done.global_store_requests == 3 * 49
    assert closed.global_store_requests == pytest.approx(2 * 49 * 70 / 64)
    assert done.global_store_sectors == closed.global_store_sectors == 70 * 49


def test_stores_of_rows_of_vectors() -> None:
    problem, chosen = layer(6, 8, 8, 3, padding=1), planes(2, 4, 64)
    done = right_run(FAMILY, problem, chosen).counts
    closed = FAMILY.closed_counts(problem, Batch.of([chosen]), load_gpu("h200")).at(0)
    # 8 tiles of two rows of four words a plane, 48 lanes: two requests of each warp have whole sectors, rows of 32 bytes.
    assert done.global_store_requests == 2 * 2
    assert done.global_store_sectors == closed.global_store_sectors == 6 * 8


@pytest.mark.usefixtures("many_blocks")
def test_counts_where_outputs_pass_through_shared_memory() -> None:
    problem, chosen = CASES["a_plane_in_a_thread"]
    done = right_run(FAMILY, problem, chosen).counts
    closed = FAMILY.closed_counts(problem, Batch.of([chosen]), load_gpu("h200")).at(0)
    assert done.fp32_fma == closed.fp32_fma == 3 * 29 * 29
    # Elements word by word, taps by vectors of four; 49 and 5 requests of two words a lane take the outputs of both blocks away.
    assert done.shared_load_requests == 3 * (49 + 7) + 49 + 5
    assert done.global_store_sectors == 70 * 49 * 4 // 32 + 1  # rounded up
