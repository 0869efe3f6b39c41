"""What an observer sees, recounted with Python sets, equals the counts; parts add up to the whole."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.ir.instruction import Space
from perfmodel.memory.access_counts import BLOCK_TOTALS, AccessCounts
from perfmodel.simulator.access import Action, WarpAccess
from perfmodel.simulator.simulation import Mode, Simulation, simulate

from ..simulator import cases_control, cases_memory, cases_warp
from ..simulator.corpus_case import Case, kernel_of

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
    """Requests, lanes, sectors, lines, and operations of atomics by instruction, from the addresses that an observer receives."""

    def __init__(self) -> None:
        self.totals: dict[int, list[int]] = defaultdict(lambda: [0, 0, 0, 0, 0])

    def access(self, access: WarpAccess) -> None:
        if access.site.space is not Space.GLOBAL:
            return
        warps = access.of_warps
        assert len(warps.block) == len(warps.warp) == len(warps.addresses)
        for row, mask in zip(warps.addresses, warps.active, strict=True):
            used = [int(address) for address, on in zip(row, mask, strict=True) if on]
            assert all(address % access.site.width_bytes == 0 for address in used)
            sectors, operations = {a // 32 for a in used}, 0
            if access.site.action is Action.REDUCTION:  # in each sector the most lanes on one address
                lanes = Counter(used)
                operations = sum(max(n for a, n in lanes.items() if a // 32 == sector) for sector in sectors)
            found = (1, len(used), len(sectors), len({a // 128 for a in used}), operations)
            before = self.totals[access.site.instruction_index]
            self.totals[access.site.instruction_index] = [a + b for a, b in zip(before, found, strict=True)]


@pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])
@pytest.mark.parametrize("mode", list(Mode))
def test_observed_addresses_give_the_counts(make: object, mode: Mode) -> None:
    case = make()  # type: ignore[operator]
    kernel = kernel_of(case)
    recount, counts = Recount(), AccessCounts()
    simulate(kernel, case.launch, case.call, mode=mode, observers=[recount, counts])
    counted = {
        count.instruction: [
            count.requests,
            count.lanes,
            count.sectors,
            count.lines,
            count.uncached_sectors if count.action is Action.REDUCTION else 0,
        ]
        for count in counts.instructions()
        if count.space is Space.GLOBAL
    }
    assert counted == dict(recount.totals)


def run_by_block(case: Case, blocks: NDArray[np.int64] | None = None) -> tuple[Simulation, AccessCounts]:
    """Some blocks of a case, counted one by one."""
    counts = AccessCounts(int(case.launch.blocks) if blocks is None else len(blocks))
    kernel = kernel_of(case)
    return simulate(kernel, case.launch, case.call, blocks=blocks, observers=[counts], visits_by_block=True), counts


@pytest.mark.parametrize("make", MAKERS, ids=[maker.__name__ for maker in MAKERS])
def test_totals_of_blocks_add_up(make: object) -> None:
    case = make()  # type: ignore[operator]
    whole, totals = run_by_block(case)
    assert whole.visits_by_block is not None
    assert whole.visits_by_block.sum(axis=0).tolist() == whole.visits.tolist()
    for (action, space), table in totals.by_block().items():
        counts = [c for c in totals.instructions() if c.action is action and c.space is space]
        assert table.shape == (int(case.launch.blocks), len(BLOCK_TOTALS))
        assert table.sum(axis=0).tolist() == [sum(getattr(c, field) for c in counts) for field in BLOCK_TOTALS]


def test_blocks_in_any_order_and_number() -> None:
    case = cases_memory.stencil_3d()
    order = np.random.default_rng(1).permutation(int(case.launch.blocks))
    parts = [run_by_block(case, part) for part in np.split(order, [7, 8])]
    whole, totals = run_by_block(case)
    key = (Action.LOAD, Space.GLOBAL)
    for part, counts in parts:
        assert np.array_equal(counts.by_block()[key], totals.by_block()[key][part.blocks])
    assert np.array_equal(sum(part.visits for part, _ in parts), whole.visits)
