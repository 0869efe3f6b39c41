"""Records of arrays: some of their candidates, several records as one, and what is worked out piece by piece."""

import numpy as np
import pytest

from perfmodel.core.batched import PIECE, joined, mapped, pieces, taken
from perfmodel.core.counts import Counts
from perfmodel.launch.launch import Launch
from perfmodel.profiles.kernel_profile import KernelProfile, estimated_resources

WORK = KernelProfile(
    launch=Launch(grid_x=np.array([1, 2, 3]), block_x=64),
    resources=estimated_resources(Launch(grid_x=1, block_x=64), 32),
    counts=Counts(fp32_fma=np.array([10.0, 20.0, 30.0])),
)


def test_records_within_records_are_taken_with_them() -> None:
    found = taken(WORK, np.array([False, True, True]))
    assert found.launch.grid_x.tolist() == [2, 3]
    assert found.counts.fp32_fma.tolist() == [20.0, 30.0]
    assert found.launch.block_x == 64
    assert found.counts.integer == 0.0


def test_pieces_joined_are_the_whole() -> None:
    found = joined(taken(WORK, slice(0, 1)), taken(WORK, slice(1, 3)))
    assert found.launch.grid_x.tolist() == [1, 2, 3]
    assert found.counts.fp32_fma.tolist() == [10.0, 20.0, 30.0]
    assert found.launch.block_x == 64


def test_rows_of_two_axes_are_joined_along_the_last() -> None:
    found = joined(Counts(fp32_fma=np.ones((2, 3))), Counts(fp32_fma=np.zeros((2, 1))))
    assert found.fp32_fma.shape == (2, 4)


def test_a_number_in_one_piece_and_an_array_in_another_is_an_error() -> None:
    """One of them would be lost without a word."""
    for first, second in ((0.0, np.ones(2)), (np.ones(2), 0.0)):
        with pytest.raises(ValueError, match="dimension"):
            joined(Counts(fp32_fma=first), Counts(fp32_fma=second))


def test_mapped_gives_the_same_field_of_all() -> None:
    found = mapped(lambda one, other: one - other, WORK.launch, WORK.launch)
    assert found.grid_x.tolist() == [0, 0, 0]
    assert found.block_x == 0


@pytest.mark.parametrize("count", [0, 1, PIECE, PIECE + 1, 3 * PIECE])
def test_pieces_cover_every_candidate_once(count: int) -> None:
    covered = [index for piece in pieces(count) for index in range(piece.start, piece.stop)]
    assert covered == list(range(count))
    assert all(piece.stop - piece.start <= PIECE for piece in pieces(count))
