"""Instructions in the machine code of a kernel, by class and width."""

from __future__ import annotations

from perfmodel.compiler.compiled import CompiledKernel
from perfmodel.machine_code.program import reachable_blocks, read_machine_code

WIDTHS = {"128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}


def count(kernel: CompiledKernel, class_name: str, width_bytes: int | None = None) -> int:
    """Instructions of a class of ``SASS_CLASSES`` that some path reaches, of one access width where that is given."""
    blocks = read_machine_code(kernel).blocks
    found = [i for index in reachable_blocks(blocks) for i in blocks[index].instructions if not i.never]
    widths = [
        next((WIDTHS[part] for part in i.parts if part in WIDTHS), 4) for i in found if i.class_name == class_name
    ]
    return len(widths) if width_bytes is None else widths.count(width_bytes)


def loops(kernel: CompiledKernel) -> dict[int, frozenset[int]]:
    """Blocks of each loop by its header."""
    from perfmodel.machine_code.control_flow import natural_loops, within_procedures

    return natural_loops(*within_procedures(read_machine_code(kernel).blocks))
