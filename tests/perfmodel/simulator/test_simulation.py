"""Budgets, batches, parameters and the record of a simulation."""

from __future__ import annotations

import time

import numpy as np
import pytest

from perfmodel.errors import SimulationError
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.profiles.totals import counted_run
from perfmodel.ptx.parse import parse_module
from perfmodel.simulator.simulation import Budget

from .handwritten import kernel, run

FOREVER = "again: add.u32 %r2, %r2, 1; bra again;"
STORE = "st.global.u32 [%rd3], %r1;"


def call(words: int = 64) -> KernelCall:
    return KernelCall(parameters=(Buffer(name="out", array=np.zeros(words, np.uint32), output=True),))


def test_an_endless_loop_uses_up_the_instruction_budget() -> None:
    with pytest.raises(SimulationError, match="more than 1000 warp instructions"):
        run(FOREVER, budget=Budget(warp_instructions=1000))


def test_an_endless_loop_uses_up_the_time_budget() -> None:
    with pytest.raises(SimulationError, match=r"more than 0\.05 s"):
        run(FOREVER, budget=Budget(seconds=0.05))


def test_time_in_which_the_machine_does_something_else_is_not_counted() -> None:
    class Slow:
        """Waits without working, as a process does on a busy machine."""

        def access(self, _: object) -> None:
            time.sleep(0.2)

    stores = parse_module(kernel(f"{STORE} bar.sync 0; {STORE}")).kernel("k")
    counted_run(stores, Launch(grid_x=1, block_x=32), call(), budget=Budget(seconds=0.15), observers=[Slow()])
    with pytest.raises(SimulationError, match="time for the whole run"):
        run(FOREVER, budget=Budget(deadline_s=time.monotonic() + 0.05))


def test_a_large_shared_array_is_refused() -> None:
    with pytest.raises(
        SimulationError, match=r"a block needs 7629 MiB .* 2048 MiB are allowed: raise --max-memory-mib"
    ):
        run(f".shared .b8 huge[2000000000]; mov.u32 %r2, huge; {STORE}")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((), "has 1 parameters, 0 are given"),
        ((np.int32(1),), "parameter 0 of kernel k has 8 bytes, 4 are given"),
    ],
)
def test_wrong_arguments_are_refused(parameters: tuple[np.generic, ...], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        counted_run(
            parse_module(kernel(STORE)).kernel("k"), Launch(grid_x=1, block_x=32), KernelCall(parameters=parameters)
        )


def test_an_unknown_kernel_names_those_that_there_are() -> None:
    with pytest.raises(SimulationError, match=r"kernel 'x' is not in the module, which has \['k'\]"):
        counted_run(parse_module(kernel(STORE)).kernel("x"), Launch(grid_x=1, block_x=32), call())


def test_an_unknown_constant_is_refused() -> None:
    given = KernelCall(parameters=call().parameters, constants=(Buffer(name="w", array=np.zeros(1)),))
    with pytest.raises(SimulationError, match="constant 'w' is not a variable of the module, which has: none"):
        counted_run(parse_module(kernel(STORE)).kernel("k"), Launch(grid_x=1, block_x=32), given)


@pytest.mark.parametrize("launch", [Launch(grid_x=0, block_x=32), Launch(grid_x=1, block_x=1025)])
def test_impossible_launches_are_refused(launch: Launch) -> None:
    with pytest.raises(SimulationError, match="cannot be launched"):
        counted_run(parse_module(kernel(STORE)).kernel("k"), launch, call())


@pytest.mark.parametrize("blocks", [np.array([4]), np.array([-1])])
def test_blocks_outside_the_grid_are_refused(blocks: np.ndarray) -> None:
    with pytest.raises(SimulationError, match="blocks must lie in 0 … 3"):
        counted_run(parse_module(kernel(STORE)).kernel("k"), Launch(grid_x=4, block_x=32), call(), blocks=blocks)


def test_a_launch_of_billions_of_blocks_must_be_sampled() -> None:
    launch = Launch(grid_x=2**31 - 1, block_x=32)
    module = parse_module(kernel(STORE))
    with pytest.raises(SimulationError, match="choose some"):
        counted_run(module.kernel("k"), launch, call())
    chosen = counted_run(module.kernel("k"), launch, call(), blocks=np.array([2**31 - 2]))
    assert chosen.visits.tolist() == [1]  # the parameter, the index, the address in two, the store, the return


def test_callers_buffers_stay_as_they_are() -> None:
    given = call()
    result = counted_run(parse_module(kernel(STORE)).kernel("k"), Launch(grid_x=1, block_x=32), given)
    assert result.outputs["out"][31] == 31
    assert not given.parameters[0].array.any()  # type: ignore[union-attr]


def test_results_do_not_depend_on_the_size_of_batches() -> None:
    body = """
    mov.u32 %r2, %ctaid.x;
    and.b32 %r3, %r2, 3;
    setp.lt.u32 %p1, %r1, %r3;
    @%p1 bra skip;
    atom.global.add.u32 %r4, [%rd3], %r2;
skip:
    """
    module, launch = parse_module(kernel(body)), Launch(grid_x=3000, block_x=40)
    whole = counted_run(module.kernel("k"), launch, call())
    small = counted_run(module.kernel("k"), launch, call(), budget=Budget(memory_bytes=2**18))
    assert whole.instructions == small.instructions
    assert np.array_equal(whole.outputs["out"], small.outputs["out"])
    assert whole.outputs["out"][0] == sum(b for b in range(3000) if b % 4 == 0)
