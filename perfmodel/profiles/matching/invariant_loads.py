"""PTX with loads that a loop repeats in front of that loop, as the assembler leaves them."""

from __future__ import annotations

from ...program.instruction import BasicBlock, Instruction, Label
from ...program.kernel import Kernel
from ...ptx.operands import parse_address
from .load_order import Load, LoadOrder, orders_loads, rewritten


def with_invariant_loads_outside(kernel: Kernel) -> Kernel:
    """The kernel with loads at an address that their innermost loop does not change in front of that loop.

    Moved are those that each iteration executes, from loops that neither write global memory nor wait, or any loop if the
    data are read-only. Without such loads it is the same kernel.
    """
    code = LoadOrder(kernel)
    before: dict[int, list[Instruction]] = {}
    gone: dict[int, list[Instruction]] = {}
    for load in code.loads:
        place = _place_before_loop(code, load)
        if place is not None:
            before.setdefault(place, []).append(load.instruction)
            gone[id(load.instruction)] = []
    return rewritten(kernel, gone, before)


def _place_before_loop(code: LoadOrder, load: Load) -> int | None:
    """Position among the statements in front of a load's loop, where its address is the same; None where there is none."""
    region = code.region_of[load.block]
    base = parse_address(load.instruction, 1).base
    if not code.regions[region].is_loop or load.instruction.guard or not code.holds(load):
        return None
    inside = {block for block, loops in code.loops_around.items() if region in loops}
    if inside & set(code.writers.get(base, ())):
        return None
    instructions = (one for block in inside for one in code.kernel.blocks[block].instructions)
    if "nc" not in load.instruction.parts and any(map(orders_loads, instructions)):
        return None
    return _in_front(code.kernel, code.regions[region].blocks[0], inside)


def _in_front(kernel: Kernel, header: int, inside: set[int]) -> int | None:
    """Position among the statements where only those pass that enter a loop, once each time; None where there is none."""
    blocks = kernel.blocks
    outside = [block for block in blocks if header in block.successors and block.index not in inside]
    if len(outside) != 1:
        return None
    entering = outside[0]
    if entering.index == header - 1 and blocks[header] in _fallen_into(blocks, entering):
        place = _position(kernel, blocks[header].instructions[0])
        while isinstance(kernel.statements[place - 1], Label):
            place -= 1
        return place
    return _position(kernel, entering.instructions[-1]) if set(entering.successors) == {header} else None


def _fallen_into(blocks: tuple[BasicBlock, ...], entering: BasicBlock) -> list[BasicBlock]:
    """The next block, where a block can end without a branch taken."""
    last = entering.instructions[-1]
    falls = last.guard is not None or last.name not in ("bra", "brx", "ret", "exit", "trap")
    return [blocks[entering.index + 1]] if falls else []


def _position(kernel: Kernel, instruction: Instruction) -> int:
    return next(i for i, one in enumerate(kernel.statements) if one is instruction)
