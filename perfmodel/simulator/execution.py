"""Execute a kernel in either form: its machine code, as the hardware does, or its PTX where there is no such code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES
from ..ir.instruction import Space
from ..ir.kernel import Kernel
from ..machine_code.control_flow import largest_loop, within_procedures
from ..machine_code.program import MachineCode, Transfer
from .sass.environment import waits_for_grid as machine_code_waits_for_grid
from .sass.simulation import kept_in_trace as kept_by_machine_code
from .sass.simulation import simulate_machine_code, units_of
from .sass.simulation import steering_instructions as steering_in_machine_code
from .sass.simulation import undetermined_instructions as undetermined_in_machine_code
from .simulation import Simulation, simulate
from .simulation import kept_in_trace as kept_by_ptx
from .simulation import steering_instructions as steering_in_ptx
from .undetermined import Cause, OpenInstruction

Code = Kernel | MachineCode
"""A kernel that can be executed."""


def execute_code(code: Code, *arguments: Any, **options: Any) -> Simulation:
    """`simulate` or `simulate_machine_code`; their arguments, result and errors."""
    if isinstance(code, MachineCode):
        return simulate_machine_code(code, *arguments, **options)
    return simulate(code, *arguments, **options)


def instructions_of_places(code: Code) -> Sequence[Sequence[Any]]:
    """Instructions of each place whose visits a simulation counts: basic blocks of PTX, units of machine code."""
    if isinstance(code, MachineCode):
        return units_of(code)
    return [block.instructions for block in code.blocks]


def steering_instructions(code: Code) -> frozenset[int]:
    """Indices of the instructions whose result a branch, an address or a guard of a memory access depends on."""
    return steering_in_machine_code(code) if isinstance(code, MachineCode) else steering_in_ptx(code)


def steering_without_long_ways(code: Code) -> frozenset[int]:
    """Those of them that decide more than whether a quotient or a root takes its long way; of PTX all."""
    return steering_in_machine_code(code, long_ways=False) if isinstance(code, MachineCode) else steering_in_ptx(code)


def loads_decide(code: Code) -> bool:
    """Whether values loaded from global memory decide branches, addresses, or what other loads read."""
    kept = kept_by_machine_code(code) if isinstance(code, MachineCode) else kept_by_ptx(code)
    return Space.GLOBAL in kept


def undetermined_instructions(code: Code) -> tuple[OpenInstruction, ...]:
    """Instructions by which the counts of an execution that comes to them are open; of PTX they are not known.

    Places are those of `instructions_of_places`.
    """
    return undetermined_in_machine_code(code) if isinstance(code, MachineCode) else ()


def decided_by_order(code: Code) -> bool:
    """Whether it matters for what is executed in which order threads come to memory; of PTX that is not known."""
    return any(one.reason.cause is Cause.ORDER for one in undetermined_instructions(code))


def shared_decides(code: Code) -> bool:
    """Whether values loaded from shared memory decide branches, addresses, or what other loads read."""
    kept = kept_by_machine_code(code) if isinstance(code, MachineCode) else kept_by_ptx(code)
    return Space.SHARED in kept


def called_outside(code: Code) -> tuple[str, ...]:
    """Functions of the device's runtime that a kernel may call (``vprintf``, ``malloc`` …); of PTX they are not known."""
    if not isinstance(code, MachineCode) or all(block.transfer is not Transfer.CALL_OUTSIDE for block in code.blocks):
        return ()
    return tuple(code.cubin.external_functions)


def waits_for_grid(code: Code) -> bool:
    """Whether a kernel synchronises its grid, so that it must be launched cooperatively; of PTX it is not known."""
    return isinstance(code, MachineCode) and machine_code_waits_for_grid(code)


def largest_loop_bytes(code: Code, code_bytes: int) -> float:
    """Machine code of the largest loop, 0 without loops; of PTX that part of ``code_bytes`` that it has of the instructions."""
    lengths = [len(block.instructions) for block in code.blocks]
    if isinstance(code, MachineCode):
        successors, entries = within_procedures(code.blocks)
        return float(INSTRUCTION_BYTES * largest_loop(successors, lengths, entries))
    return float(round(code_bytes * largest_loop([b.successors for b in code.blocks], lengths) / max(sum(lengths), 1)))


def executions(code: Code, visits: NDArray[Any]) -> NDArray[Any]:
    """How often each instruction was executed, from visits of places in the last axis; shape ``(…, instructions)``."""
    lengths = [len(instructions) for instructions in instructions_of_places(code)]
    return np.repeat(visits, lengths, axis=-1)
