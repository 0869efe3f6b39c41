"""Instructions of a kernel's machine code whose results the program and its data do not fix, where these decide anything."""

from __future__ import annotations

from collections.abc import Iterator

from ...machine_code.control_flow import calls_long_way
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Immediate, Register
from ..undetermined import Cause, OpenInstruction, undetermined_at
from .asynchronous import waits_for_phase
from .environment import is_launch_word
from .program import MachineProgram

_CLOCKS = ("SR_CLOCK", "SR_GLOBALTIMER")
_PLACES = ("SR_VIRTID", "SR_SMID", "SR_VIRTUALSMID", "SR_WARPID")
_PRODUCTS = frozenset({"HMMA", "QMMA", "HGMMA", "QGMMA"})
"""Products of matrices whose partial sums the hardware rounds in an order of its own."""
_ONES = (Immediate(text="1", value=1), Immediate(text="-1", value=-1))
_CONVERSIONS = frozenset({"I2F", "I2FP", "UI2F", "UI2FP"})
_SQUARE_ROOT_RANGE = 0xF3000000
"""What the code of a square root adds to its operand to see whether the operand is an ordinary number."""


def undetermined(program: MachineProgram, short: MachineProgram) -> Iterator[OpenInstruction]:
    """Each such instruction; its place is its unit.

    ``short`` is the program without long ways of quotients and roots (`without_long_ways`). Those are for zeros and the ends of
    the range: where a launch takes none, the last bits of an approximate value have not decided on them.
    """
    long_ways = frozenset(
        unit.index
        for unit in program.units
        if unit.block in program.reached and unit.ends_block and calls_long_way(program.blocks[unit.block])
    )
    for unit in program.units:
        if unit.block not in program.reached:
            continue
        near = program.blocks[unit.block].instructions
        for k, instruction in enumerate(
            near[unit.first - program.blocks[unit.block].first :][: len(unit.instructions)]
        ):
            index = unit.first + k
            cause = None
            if waits_for_phase(instruction):
                cause = Cause.TRIES
            elif program.effects[index].writes & program.live_after[index]:
                cause = _cause(program, instruction, near)
            if cause is not None:
                decides = short.effects[index].writes & short.live_after[index]
                only_with = long_ways if cause is Cause.APPROXIMATION and not decides else frozenset()
                yield OpenInstruction(unit.index, undetermined_at(cause, instruction), only_with)


def _cause(program: MachineProgram, i: MachineInstruction, near: tuple[MachineInstruction, ...]) -> Cause | None:
    """Why the result of an instruction is open."""
    if program.is_unordered(i):
        return Cause.ORDER
    if i.name in ("S2R", "S2UR", "CS2R", "CS2UR"):
        name = getattr(i.operands[1], "text", None) or ""
        return Cause.CLOCK if name.startswith(_CLOCKS) else Cause.PLACE if name in _PLACES else None
    if i.name in _PRODUCTS or (i.name == "MUFU" and not _is_corrected(i, near)):
        return Cause.APPROXIMATION
    reads = (o for o in i.operands if isinstance(o, Constant) and o.bank == 0 and o.base is None)
    return Cause.DRIVER if any(not is_launch_word(program.kernel, o.offset) for o in reads) else None


def _is_corrected(i: MachineInstruction, near: tuple[MachineInstruction, ...]) -> bool:
    """Whether an approximate reciprocal or root is the first step to a result that is rounded as IEEE 754 says, or whole.

    Those of double precision are. A reciprocal is, where Newton's step ``1 - b r`` or ``b r - 1`` follows, or where ``b`` is a
    whole number; a root, where it is looked at first whether its operand is an ordinary number.
    """
    operand, result = i.operands[-1], i.operands[0]
    if i.has("RCP64H", "RSQ64H") or isinstance(operand, Immediate):
        return True
    if i.has("RCP"):
        return any(
            (n.name == "FFMA" and n.operands[-1] in _ONES and any(_same(o, result) for o in n.operands[1:3]))
            or (n.name in _CONVERSIONS and _same(n.operands[0], operand))
            for n in near
        )
    return i.has("RSQ") and any(
        n.name in ("VIADD", "IADD3", "IADD")
        and any(_same(o, operand) for o in n.operands[1:])
        and any(isinstance(o, Immediate) and (o.value or 0) % 2**32 == _SQUARE_ROOT_RANGE for o in n.operands)
        for n in near
    )


def _same(one: object, other: object) -> bool:
    """Whether two operands are the same register, whatever their signs."""
    if not isinstance(one, Register) or not isinstance(other, Register):
        return False
    return (one.file, one.index) == (other.file, other.index)
