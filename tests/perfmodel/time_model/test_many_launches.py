"""Many launches, or many sets of coefficients, at once: each takes what it takes alone."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from perfmodel.calibration.fitting import prior
from perfmodel.core.batched import PIECE, taken
from perfmodel.core.counts import Counts
from perfmodel.launch.launch import Launch
from perfmodel.profiles.kernel_profile import KernelProfile
from perfmodel.time_model.coefficients import Coefficients
from perfmodel.time_model.combine import launch_seconds

from .made_launches import BUSY, GPU, SMS, profile_of

PRIOR = prior().coefficients


def test_many_launches_at_once_take_what_each_takes_alone() -> None:
    blocks, resident = np.array([1, 68, 500]), np.array([1, 2, 8])
    counts = {name: value * np.array([0.01, 1.0, 7.0]) for name, value in BUSY.items()}
    many = profile_of(Launch(grid_x=blocks, block_x=np.array([32, 64, 256])), Counts(**counts))
    total, terms = launch_seconds(many, resident, GPU, PRIOR)
    for i in range(3):
        one = profile_of(Launch(grid_x=int(blocks[i]), block_x=(32, 64, 256)[i]), many.counts.at(i))
        alone, parts = launch_seconds(one, int(resident[i]), GPU, PRIOR)
        assert float(total[i]) == pytest.approx(float(alone), rel=1e-12)
        assert float(terms.at(i).exposed_memory_latency) == pytest.approx(
            float(parts.exposed_memory_latency), rel=1e-12
        )


SPILLING = np.arange(3 * PIECE // 2)
"""More candidates than are worked out at once; the last ones spill, the first piece has none that do."""


def many_launches() -> KernelProfile:
    size = 1.0 + SPILLING / len(SPILLING)
    spilled = np.where(SPILLING > PIECE + 5, 4096.0, 0.0)
    counts = {name: value * size for name, value in (BUSY | {"local_load_sectors": 1e5}).items()}
    return profile_of(
        Launch(grid_x=SMS * 4, block_x=256),
        Counts(**counts),
        stack_bytes=spilled,
        loop_code_bytes=np.where(SPILLING % 2, 4.0 * GPU.instruction_cache_l1_bytes, 0.0),
    )


def test_what_is_worked_out_in_pieces_is_what_each_takes_alone() -> None:
    resident = 1 + SPILLING % 4
    total, terms = launch_seconds(many_launches(), resident, GPU, PRIOR)
    assert total.shape == SPILLING.shape
    for index in (0, PIECE - 1, PIECE, PIECE + 6, len(SPILLING) - 1):
        one = taken(many_launches(), index)
        alone, parts = launch_seconds(one, resident[index], GPU, PRIOR)
        assert float(total[index]) == pytest.approx(float(alone), rel=1e-12)
        for name, value in parts.items():
            assert float(getattr(terms.at(index), name)) == pytest.approx(float(value), rel=1e-12), name
    assert float(terms.local_memory[-1]) > 0.0 == float(terms.local_memory[0])


def test_sets_of_coefficients_at_once_give_what_each_gives() -> None:
    """What the fit takes derivatives by; in pieces, too."""
    sharper = replace(PRIOR, demand_norm=2.0, round_trip_latencies=1.3)
    both = Coefficients(
        **{name: np.array([[value], [getattr(sharper, name)]]) for name, value in asdict(PRIOR).items()}
    )
    for of, resident in ((many_launches(), 1 + SPILLING % 4), (taken(many_launches(), slice(0, 7)), np.full(7, 2))):
        seconds, _ = launch_seconds(of, resident, GPU, both)
        assert seconds.shape == (2, len(resident))
        for row, coefficients in zip(seconds, (PRIOR, sharper), strict=True):
            np.testing.assert_allclose(row, launch_seconds(of, resident, GPU, coefficients)[0], rtol=1e-12)


def test_time_does_not_depend_on_what_else_is_asked_about() -> None:
    """Few waves beside many: whether the last wave is worth working out is a matter of each launch."""
    blocks, resident = np.array([30 * SMS, SMS + 1]), np.array([1, 1])
    of = profile_of(Launch(grid_x=blocks, block_x=256), Counts(fp32_fma=np.array([1e8, 1e6])))
    together, _ = launch_seconds(of, resident, GPU, PRIOR)
    alone = [float(launch_seconds(taken(of, slice(i, i + 1)), resident[i : i + 1], GPU, PRIOR)[0][0]) for i in (0, 1)]
    assert together.tolist() == alone
