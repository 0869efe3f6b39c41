"""A kernel's machine code: instructions cut into basic blocks, with what the cubin says of its parameters and memories."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from ..compiler.compiled import CompiledKernel
from ..compiler.kernel_names import demangled
from ..core.constants import INSTRUCTION_BYTES
from ..errors import SimulationError
from ..gpus.architecture import Architecture
from ..gpus.catalogue import load_architecture
from ..ir.instruction import SourceLine
from .cubin import Cubin, read_cubin
from .disassembly import PrintedInstruction, disassembly
from .instruction import MachineInstruction
from .linked_functions import with_called_functions
from .opcodes import class_of_word
from .operands import Register, parse_operand

_JUMP_TABLE_BANK = 2
_SYMBOL = re.compile(r"(?!U?R\d+$)[A-Za-z_$][\w$.]*")

_OF_LAUNCHES = re.compile(r"__cudaCDP2|cuda(?:LaunchDevice|GetParameterBuffer)")


class Transfer(Enum):
    """How a basic block ends."""

    NEXT = "next"
    BRANCH = "branch"
    INDIRECT = "indirect"
    CALL = "call"
    CALL_THROUGH_POINTER = "call through a pointer"
    CALL_OUTSIDE = "call outside"
    RETURN = "return"
    EXIT = "exit"


_TRANSFERS = {
    "BRA": Transfer.BRANCH,
    "JMP": Transfer.BRANCH,
    "BRX": Transfer.INDIRECT,
    "BRXU": Transfer.INDIRECT,
    "JMX": Transfer.INDIRECT,
    "CALL": Transfer.CALL,
    "RET": Transfer.RETURN,
    "EXIT": Transfer.EXIT,
    "KILL": Transfer.EXIT,
}


def transfer_of(instruction: MachineInstruction) -> Transfer:
    """Where control goes after an instruction."""
    if instruction.never:
        return Transfer.NEXT
    transfer = _TRANSFERS.get(instruction.name, Transfer.NEXT)
    if transfer is Transfer.CALL and instruction.target is None:
        return Transfer.CALL_OUTSIDE
    if transfer is Transfer.CALL and isinstance(instruction.operands[0], Register):
        return Transfer.CALL_THROUGH_POINTER
    return transfer


def is_conditional(instruction: MachineInstruction) -> bool:
    """Whether control may go on behind an instruction that can transfer it."""
    if instruction.guard is not None and instruction.guard.index is not None:
        return True
    if instruction.name != "BRA":
        return False
    own = [o for o in instruction.operands if isinstance(o, Register)]
    return instruction.has("DIV", "CONV") or any(o.index is not None or o.inverted for o in own)


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeBlock:
    """Instructions that one warp executes together; the last one may transfer control.

    ``first`` is the index of the first instruction. ``successors`` are block indices: of a condition the fall-through
    first, then the target; the index one past the last block stands for the end of the thread.
    """

    index: int
    first: int
    instructions: tuple[MachineInstruction, ...]
    successors: tuple[int, ...]
    transfer: Transfer
    conditional: bool

    @property
    def address(self) -> int:
        """Address of the first instruction."""
        return self.instructions[0].address


@dataclass(frozen=True, kw_only=True, eq=False)
class MachineCode:
    """The machine code of one kernel on one architecture."""

    name: str
    architecture: str
    cubin: Cubin
    instructions: tuple[MachineInstruction, ...]

    @property
    def properties(self) -> Architecture:
        """Of the architecture, by its sheet."""
        return load_architecture(self.architecture)

    @cached_property
    def blocks(self) -> tuple[CodeBlock, ...]:
        """Basic blocks in order of address, those that no path reaches among them."""
        return _blocks(self.instructions, self.cubin)

    @cached_property
    def translations(self) -> dict[type, Any]:
        """What was made of it to be executed, by type, and should last as long as it does."""
        return {}


def _guard(printed: str) -> Register | None:
    if not printed.startswith("@"):
        return None  # nvdisasm prints the register PR of P2R and R2P here
    guard = parse_operand(printed[1:])
    assert isinstance(guard, Register)
    return guard


def _target(printed: PrintedInstruction, labels: Mapping[str, int]) -> int | None:
    """Address of the label that an instruction names last."""
    name = printed.opcode.partition(".")[0]
    if name not in ("BRA", "JMP", "CALL", "BSSY"):
        return None
    text = printed.operands.rpartition(",")[2].strip().strip("`()")
    if text in labels:
        return labels[text]
    return int(text, 16) if text.startswith("0x") else None


def _instructions(printed: Sequence[PrintedInstruction], cubin: Cubin) -> tuple[MachineInstruction, ...]:
    if len(cubin.code) != len(printed) * INSTRUCTION_BYTES:
        raise SimulationError(
            f"nvdisasm prints {len(printed)} instructions of {len(cubin.code)} bytes in {cubin.kernel_name}"
        )
    words = list(struct.iter_unpack("<QQ", cubin.code))
    read = []
    source: SourceLine | None = None
    for index, one in enumerate(printed):
        address = index * INSTRUCTION_BYTES
        source = cubin.lines.get(address, source)
        read.append(
            MachineInstruction(
                address=address,
                opcode=one.opcode,
                operand_text=one.operands,
                guard=_guard(one.predicate),
                word=words[index][0],
                high=words[index][1],
                class_name=class_of_word(words[index][0]),
                source=source,
                target=_target(one, cubin.labels),
            )
        )
    return tuple(read)


def _jump_table(cubin: Cubin, size_bytes: int) -> tuple[int, ...]:
    """Addresses in the code that the bank of jump tables holds."""
    data = cubin.banks.get(_JUMP_TABLE_BANK, b"")
    words = struct.unpack(f"<{len(data) // 4}I", data[: len(data) // 4 * 4])
    return tuple(sorted({w for w in words if w % INSTRUCTION_BYTES == 0 and w < size_bytes}))


def _leaders(instructions: Sequence[MachineInstruction], tables: tuple[int, ...], functions: Sequence[int]) -> set[int]:
    """Indices of the instructions that begin a basic block."""
    leaders = {0}
    for index, instruction in enumerate(instructions):
        transfer = transfer_of(instruction)
        if transfer is Transfer.NEXT:
            continue
        leaders.add(index + 1)
        if transfer in (Transfer.BRANCH, Transfer.CALL):
            if instruction.target is None or not 0 <= instruction.target < len(instructions) * INSTRUCTION_BYTES:
                raise instruction.error("its target is not in the function")
            leaders.add(instruction.target // INSTRUCTION_BYTES)
        if transfer is Transfer.CALL_THROUGH_POINTER:
            leaders.update(address // INSTRUCTION_BYTES for address in functions)
        if transfer is Transfer.INDIRECT:
            leaders.update(address // INSTRUCTION_BYTES for address in tables)
    return {index for index in leaders if index < len(instructions)}


def _function_of(address: int, starts: Sequence[int]) -> int:
    return max((start for start in starts if start <= address), default=0)


def _blocks(instructions: tuple[MachineInstruction, ...], cubin: Cubin) -> tuple[CodeBlock, ...]:
    tables = _jump_table(cubin, len(cubin.code))
    starts = sorted({start for start in cubin.labels.values() if start < len(instructions) * INSTRUCTION_BYTES})
    functions = [start for start in starts if start > 0]
    first = sorted(_leaders(instructions, tables, functions))
    block_at = {index: number for number, index in enumerate(first)}
    end = len(first)
    returns = _return_points(instructions, starts)
    blocks = []
    for number, (begin, stop) in enumerate(zip(first, [*first[1:], len(instructions)], strict=True)):
        last = instructions[stop - 1]
        transfer = transfer_of(last)
        if transfer is Transfer.BRANCH or transfer is Transfer.CALL:
            assert last.target is not None
            going: tuple[int, ...] = (block_at[last.target // INSTRUCTION_BYTES],)
        elif transfer is Transfer.CALL_THROUGH_POINTER:
            going = tuple(block_at[address // INSTRUCTION_BYTES] for address in functions)
        elif transfer is Transfer.INDIRECT:
            going = tuple(block_at[address // INSTRUCTION_BYTES] for address in tables)
        elif transfer is Transfer.RETURN:
            own = returns.get(_function_of(last.address, starts)) or sorted(set().union(*returns.values()))
            going = tuple(block_at.get(index, end) for index in own)
        elif transfer is Transfer.EXIT:
            going = (end,)
        else:
            going = (number + 1,)
        conditional = transfer not in (Transfer.NEXT, Transfer.CALL_OUTSIDE) and is_conditional(last)
        blocks.append(
            CodeBlock(
                index=number,
                first=begin,
                instructions=instructions[begin:stop],
                successors=(number + 1, *going) if conditional else going,
                transfer=transfer,
                conditional=conditional,
            )
        )
    return tuple(blocks)


def _return_points(instructions: Sequence[MachineInstruction], starts: Sequence[int]) -> dict[int, list[int]]:
    """Indices of the instructions behind the calls of each function, by its address."""
    returns: dict[int, list[int]] = {}
    for index, instruction in enumerate(instructions):
        transfer = transfer_of(instruction)
        if transfer is Transfer.CALL and instruction.target is not None:
            returns.setdefault(_function_of(instruction.target, starts), []).append(index + 1)
        elif transfer is Transfer.CALL_THROUGH_POINTER:
            for start in starts:
                if start > 0:
                    returns.setdefault(start, []).append(index + 1)
    return returns


def reachable_blocks(blocks: Sequence[CodeBlock]) -> frozenset[int]:
    """Blocks that some path from the first one reaches."""
    reached, waiting = {0}, [0]
    while waiting:
        for successor in blocks[waiting.pop()].successors:
            if successor < len(blocks) and successor not in reached:
                reached.add(successor)
                waiting.append(successor)
    return frozenset(reached)


def _why_not_called(function: str) -> str:
    if _OF_LAUNCHES.match(function):
        return (
            "the kernel launches kernels itself (dynamic parallelism), which is not executed: launch them from the host"
        )
    name = demangled(function)
    return f"calls {name}, which was compiled apart (-rdc=true): compile the files that define and call it as one"


def read_machine_code(kernel: CompiledKernel) -> MachineCode:
    """The machine code of a compiled kernel.

    Raises:
        SimulationError: the architecture is older than sm_70, or control flow that is not understood.
        CompilerMissingError: nvdisasm is not installed.
    """
    if not load_architecture(kernel.architecture).decodable_machine_code:
        raise SimulationError(f"{kernel.architecture}: machine code is executed from sm_70 on")
    linked = with_called_functions(kernel.cubin, kernel.kernel_name)
    cubin = read_cubin(linked, kernel.kernel_name)
    printed = disassembly(linked).get(kernel.kernel_name)
    if printed is None:
        raise SimulationError(f"nvdisasm prints no kernel {kernel.kernel_name!r}")
    instructions = _instructions(printed, cubin)
    for instruction in instructions:
        if instruction.name == "CALL" and instruction.target is None and _SYMBOL.fullmatch(instruction.operand_text):
            raise instruction.error(_why_not_called(instruction.operand_text))
    return MachineCode(
        name=kernel.kernel_name, architecture=kernel.architecture, cubin=cubin, instructions=instructions
    )


__all__ = [
    "CodeBlock",
    "MachineCode",
    "Transfer",
    "is_conditional",
    "reachable_blocks",
    "read_machine_code",
    "transfer_of",
]
