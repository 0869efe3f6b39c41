"""What an observer sees, recounted with Python sets, equals the counts; parts add up to the whole."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.program.instruction import Space
from perfmodel.simulator.recorder import BLOCK_TOTALS, Action
from perfmodel.simulator.simulation import Mode, simulate

from . import cases_control, cases_memory, cases_warp
from .corpus_case import kernel_of

pytestmark = pytest.mark.compiler
MAKERS = [
    cases_memory.saxpy,
    cases_memory.vector_copy,
    cases_memory.strided_gather,
    cases_memory.sgemm,
    cases_memory.stencil_3d,
    cases_memory.cache_operators,
    cases_memory.async_pipeline,
    cases_memory.generic_pointers,
    cases_warp.histogram,
    cases_warp.atomics,
    cases_warp.aggregated_atomics,
    cases_control.nested_divergence,
    cases_control.jump_table,
    cases_control.last_block,
]


class Recount:
    """Requests, lanes, sectors and lines by instruction, from the addresses that an observer receives."""

    def __init__(self) -> None:
        self.totals: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0])

    def access(
        self,
        instruction: int,
        space: Space,
        store: bool,
        width: int,
        block: NDArray[np.int64],
        warp: NDArray[np.int64],
        addresses: NDArray[np.uint64],
        active: NDArray[np.bool_],
    ) -> None:
        assert space is Space.GLOBAL
        assert len(block) == len(warp) == len(addresses)
        for row, mask in zip(addresses, active, strict=True):
            used = [int(address) for address, on in zip(row, mask, strict=True) if on]
            assert all(address % width == 0 for address in used)
            found = (1, len(used), len({a // 32 for a in used}), len({a // 128 for a in used}))
            self.totals[instruction] = [a + b for a, b in zip(self.totals[instruction], found, strict=True)]


@pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])
@pytest.mark.parametrize("mode", list(Mode))
def test_observed_addresses_give_the_counts(make: object, mode: Mode) -> None:
    case = make()  # type: ignore[operator]
    kernel = kernel_of(case)
    recount = Recount()
    simulation = simulate(kernel, case.launch, case.call, mode=mode, observer=recount)
    counted = {
        count.instruction: [count.requests, count.lanes, count.sectors, count.lines]
        for count in simulation.instructions
        if count.space is Space.GLOBAL
    }
    assert counted == dict(recount.totals)


@pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])
def test_totals_of_blocks_add_up(make: object) -> None:
    case = make()  # type: ignore[operator]
    kernel = kernel_of(case)
    whole = simulate(kernel, case.launch, case.call, per_block=True)
    assert whole.per_block is not None
    assert whole.per_block.visits.sum(axis=0).tolist() == whole.visits.tolist()
    for (action, space), table in whole.per_block.accesses.items():
        counts = [c for c in whole.instructions if c.action is action and c.space is space]
        assert table.shape == (int(case.launch.blocks), len(BLOCK_TOTALS))
        assert table.sum(axis=0).tolist() == [sum(getattr(c, field) for c in counts) for field in BLOCK_TOTALS]


def test_blocks_in_any_order_and_number() -> None:
    case = cases_memory.stencil_3d()
    kernel = kernel_of(case)
    total = int(case.launch.blocks)
    order = np.random.default_rng(1).permutation(total)
    parts = [simulate(kernel, case.launch, case.call, blocks=part, per_block=True) for part in np.split(order, [7, 8])]
    whole = simulate(kernel, case.launch, case.call, per_block=True)
    key = (Action.LOAD, Space.GLOBAL)
    assert whole.per_block is not None
    for part in parts:
        assert part.per_block is not None
        assert np.array_equal(part.per_block.accesses[key], whole.per_block.accesses[key][part.blocks])
    assert sum(part.warp_instructions for part in parts) == whole.warp_instructions
