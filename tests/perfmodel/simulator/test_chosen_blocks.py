"""An observer of some blocks of a run sees what it would see if these were executed alone."""

from __future__ import annotations

import numpy as np
import pytest

from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.access_counts import AccessCounts
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.chosen_blocks import ChosenBlocks
from perfmodel.simulator.simulation import Budget, Mode, simulate

from .handwritten import kernel

BODY = """
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, 0;
again:
    mad.lo.u32 %r4, %r2, 36, %r1;
    and.b32 %r4, %r4, 1023;
    mul.wide.u32 %rd4, %r4, 4;
    add.u64 %rd5, %rd3, %rd4;
    setp.lt.u32 %p1, %r1, %r2;
    @%p1 st.global.u32 [%rd5], %r1;
    add.u32 %r2, %r2, 3;
    add.u32 %r3, %r3, 1;
    setp.lt.u32 %p2, %r3, 5;
    @%p2 bra again;
"""
"""Five stores, moved from one to the next; the first lanes of a block store, more of them in later blocks."""


@pytest.mark.parametrize("memory_bytes", [2**31, 2**21])
def test_chosen_blocks_are_seen_as_if_they_ran_alone(memory_bytes: int) -> None:
    code = parse_module(kernel(BODY)).kernel("k")
    call = KernelCall(parameters=(Buffer(name="out", array=np.zeros(4096, np.uint32), output=True),))
    launch, budget, chosen = Launch(grid_x=60, block_x=64), Budget(memory_bytes=memory_bytes), np.array([3, 17, 18, 59])
    alone, among = AccessCounts(len(chosen)), AccessCounts(len(chosen))
    simulate(code, launch, call, mode=Mode.TRACE, blocks=chosen, observers=[alone], budget=budget)
    simulate(code, launch, call, mode=Mode.TRACE, observers=[ChosenBlocks(among, chosen)], budget=budget)
    (_, expected), (_, found) = alone.tables()[0], among.tables()[0]
    assert (found == expected).all()
    assert expected[:, 1].tolist() == [sum(min(b + 3 * k, 64) for k in range(5)) for b in chosen]  # lanes
