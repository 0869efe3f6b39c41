"""Round trips of a kernel's global loads: which loads of the PTX a warp has in flight together in the machine code."""

from __future__ import annotations

from collections.abc import Mapping

from ...machine_code.code_profile import CodeProfile
from ...machine_code.loads import loads_in_flight
from ...program.instruction import Instruction
from ...program.kernel import Kernel

_OTHER_SPACES = frozenset({"shared", "local", "const", "param"})


def load_trips(kernel: Kernel, profile: CodeProfile | None) -> Mapping[int, int]:
    """Round trip of each global load, by the instruction's number as an observer of accesses is told it.

    The n-th load of the PTX is taken for the n-th of the machine code: the assembler moves loads within a round trip, hardly
    ever across one. Empty where the two have different numbers of loads or the machine code is not decoded; then each load
    is best taken for a round trip of its own.
    """
    loads = [
        block.first + i for block in kernel.blocks for i, one in enumerate(block.instructions) if _loads_global(one)
    ]
    trips = loads_in_flight(profile).tolist() if profile is not None else []
    return dict(zip(loads, trips, strict=True)) if len(loads) == len(trips) else {}


def _loads_global(instruction: Instruction) -> bool:
    """Whether it is a load from global memory, or from where only its address tells."""
    return instruction.name in ("ld", "ldu") and _OTHER_SPACES.isdisjoint(instruction.parts)
