"""Words of the stack that a kernel finds at fixed places, as those of registers that the compiler has spilled.

What is loaded from such a word is what was stored there, so that it can be followed as in a register: a loop counter that was
spilled does not make everything count that lies on the stack beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address
from ...machine_code.program import CodeBlock
from .emitter import Effects
from .registers import REGISTER_COUNT

_STACK_POINTER = 1
"""``R1`` holds where the stack of a thread begins."""
_WORD_BYTES = 4
_NARROW = ("U8", "S8", "U16", "S16")
REGISTERS = (1 << REGISTER_COUNT) - 1
"""All registers; the bits above are words of the stack."""


def with_stack_slots(
    instructions: Sequence[MachineInstruction],
    effects: Sequence[Effects],
    blocks: Sequence[CodeBlock],
    reached: Collection[int],
) -> list[Effects]:
    """The effects of a kernel, with those words of its stack as registers; as they are where it may find them otherwise.

    That needs accesses of whole words at fixed offsets from the stack pointer, which is set before the first of them and handed
    to nothing else.
    """
    plain = list(effects)
    at = [block.first + k for block in blocks if block.index in reached for k in range(len(block.instructions))]
    local = [n for n in at if Space.LOCAL in (effects[n].reads_space, effects[n].writes_space)]
    words = {n: _words(instructions[n]) for n in local}
    if not local or not all(words.values()) or any(_hands_on(effects[n], n in words) for n in at):
        return plain
    sets = [n for n in at if effects[n].writes >> _STACK_POINTER & 1]
    first = blocks[0]
    again = any(first.index in blocks[index].successors for index in reached)
    if again or any(n >= min(local) or n >= first.first + len(first.instructions) for n in sets):
        return plain
    numbers = sorted({word for found in words.values() for word in found})
    bits = {word: 1 << (REGISTER_COUNT + number) for number, word in enumerate(numbers)}
    for n, found in words.items():
        slots, effect = sum(bits[word] for word in found), effects[n]
        if effect.writes_space is None:
            plain[n] = replace(effect, reads_space=None, values=effect.values | slots)
        else:
            plain[n] = replace(
                effect, writes_space=None, writes=effect.writes | slots, values=effect.values | effect.stored, stored=0
            )
    return plain


def _words(i: MachineInstruction) -> tuple[int, ...]:
    """Words of the stack, counted from the stack pointer, that an instruction moves; none where that is not fixed."""
    address = next((o for o in i.operands if isinstance(o, Address)), None)
    plain = i.name in ("LDL", "STL") and not i.has(*_NARROW) and address is not None
    if not plain or address is None or address.uniform is not None or address.offset % _WORD_BYTES:
        return ()
    if address.base is None or address.base.index != _STACK_POINTER or address.base.file != "R" or address.scale != 1:
        return ()
    count = 4 if i.has("128") else 2 if i.has("64") else 1
    return tuple(range(address.offset // _WORD_BYTES, address.offset // _WORD_BYTES + count))


def _hands_on(effect: Effects, is_access: bool) -> bool:
    """Whether an instruction makes something else of the stack pointer."""
    read = effect.values | effect.stored | (0 if is_access else effect.roots)
    return bool(read >> _STACK_POINTER & 1) and effect.writes != 1 << _STACK_POINTER
