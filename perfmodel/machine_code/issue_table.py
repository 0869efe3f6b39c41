"""What the issue stage of an SM must know of each instruction: its pipe, its control bits, its register reads.

The control bits are those of `schedule.fields`. A register's bank is its number modulo two; an operand that is kept in the reuse
cache (``.reuse``) is not read again. Sources: Jia et al., "Dissecting the NVIDIA Volta GPU architecture via microbenchmarking"
(2018), sections 2.1 and 3; how long operands are kept: docs/notes/2026-11-registers.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from ..core.constants import BANK_BYTES, CONSTANT_BANK_BYTES, CONSTANT_LINE_BYTES
from .instruction import MachineInstruction
from .matrix_products import shared_bytes_of_product, tensor_work
from .opcodes import LOADS_THROUGH_L1
from .operands import Immediate
from .program import MachineCode
from .schedule import fields

Integers = NDArray[np.int64]

BANKS = 2
_CONSTANT = re.compile(r"c\[(0x[0-9a-f]+)\]\[(0x[0-9a-f]+)\]")
"""A constant whose place stands in the instruction."""
_REGISTER = re.compile(r"(?<![A-Z])R(\d+)(?:\.64)?(?:\.[A-Z]\w*)*(\.reuse)?")


class Pipe(IntEnum):
    """Execution pipe of a sub-partition that an instruction occupies (Nsight Compute: pipelines)."""

    NONE = 0
    FMA = 1
    """FP32 multiply and add: both halves where a sub-partition has two."""
    FMA_HEAVY = 2
    """The half that also multiplies integers."""
    ALU = 3
    FP64 = 4
    XU = 5
    """Special functions, conversions, bit counts."""
    TENSOR = 6
    TEXTURE = 7
    """Of the SM, not of a sub-partition: what it takes is the time of L1's data pipe."""


class Wait(IntEnum):
    """How the result of an instruction comes about, or what it makes its warp wait for."""

    FIXED = 0
    """After the cycles that its control bits say."""
    VARIABLE = 1
    """Special functions, FP64, constants of the uniform path, special registers: announced by a scoreboard."""
    SHARED = 2
    """Shared memory, its atomics, and shuffles: through the data pipe of L1."""
    GLOBAL_LOAD = 3
    GLOBAL_STORE = 4
    GLOBAL_REDUCTION = 5
    GLOBAL_ATOMIC = 6
    LOCAL_LOAD = 7
    LOCAL_STORE = 8
    ASYNC_COPY = 9
    COPY_GROUP = 10
    """Closes a group of asynchronous copies."""
    COPY_WAIT = 11
    """Waits for groups of asynchronous copies."""
    BARRIER = 12
    CONSTANT = 13
    """Constant memory through the cache of indexed constants."""
    BRANCH = 14
    """The next instruction is not known before it has been executed."""
    FENCE = 15
    """Waits until what the warp has stored is seen by all SMs."""
    CLUSTER_BARRIER = 16
    """Waits for the warps of all blocks of the cluster."""
    PHASE_WAIT = 17
    """Waits until a phase of an ``mbarrier`` is over."""
    PHASE_ARRIVAL = 18
    """Arrives at an ``mbarrier``."""
    COPIES_ARRIVAL = 19
    """Arrives at an ``mbarrier`` when the warp's asynchronous copies are there."""
    BULK_LOAD = 20
    """Starts a bulk copy (TMA) to shared memory, whose bytes an ``mbarrier`` waits for."""
    BULK_STORE = 21
    """Starts a bulk copy to global memory."""
    GROUP_PRODUCT = 22
    """A product of a warpgroup, which goes on beside its warps."""
    PRODUCT_WAIT = 23
    """Waits for groups of products of a warpgroup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IssueTable:
    """One element for each instruction, in order of address.

    Attributes:
        pipe: `Pipe`.
        pipe_passes: How often it passes its pipe: twice for integer products of 64 bits or of their upper half.
        wait: `Wait`.
        stall_cycles: Until the next instruction of the warp may issue.
        write_barrier: Scoreboard that the result releases, 7 for none.
        read_barrier: Scoreboard that the operands release, 7 for none.
        wait_mask: Scoreboards that must be free before it issues, one bit for each.
        bank_reads: Registers read from each bank, shape ``(n, 2)``, where all that are kept for reuse are still there.
        kept_reads: Further registers of each bank that are read where another warp has been issued meanwhile, same shape.
        kept_for: Instructions of the warp since the first of these was kept.
        groups_left: Groups of copies or of products that a `Wait.COPY_WAIT` or `Wait.PRODUCT_WAIT` lets run on; of a
            `Wait.GROUP_PRODUCT` 1 where it is the last of its group, else 0.
        tensor_rate: `TensorRate` of matrix products.
        tensor_operations: Operations of a matrix product of one warp; negative for its part of a ``wgmma``.
        constant_line: Line of constant memory whose place stands in the instruction, among all banks; -1 for none, and for
            kernel parameters.
        product_bytes: Bytes of shared memory that a warp's part of a ``wgmma`` reads.
        past_l1: 1 for asynchronous copies that pass L1 by, else 0; -1 where that is not known.
        generic_bytes: Bytes of a lane of a generic access, which may reach the shared memory of another block; 0 for others.
        shared_bytes: Bytes of a lane that a load from shared memory brings; 0 for others.
        global_bytes: The same of a load from global memory, a generic one among them.
    """

    pipe: Integers
    pipe_passes: Integers
    wait: Integers
    stall_cycles: Integers
    write_barrier: Integers
    read_barrier: Integers
    wait_mask: Integers
    bank_reads: Integers
    kept_reads: Integers
    kept_for: Integers
    groups_left: Integers
    tensor_rate: Integers
    tensor_operations: Integers
    constant_line: Integers
    generic_bytes: Integers
    shared_bytes: Integers
    global_bytes: Integers
    product_bytes: Integers
    past_l1: Integers

    def __len__(self) -> int:
        return len(self.pipe)


_FMA = frozenset({"FFMA", "FMUL", "FADD", "FSWZADD", "FFMA2", "FMUL2", "FADD2", "HFMA2", "HADD2", "HMUL2"})
_FMA_HEAVY = frozenset({"IMAD", "IDP"})
_XU = frozenset({"MUFU", "F2I", "I2F", "F2F", "FRND", "POPC", "FLO", "BREV", "I2I"})
_SPECIAL_REGISTERS = frozenset({"S2R", "S2UR", "CS2R", "B2R", "R2UR"})
_CONSTANTS = frozenset({"LDC", "ULDC", "LDCU"})
_BRANCHES = frozenset(
    {"BRA", "BRX", "BRXU", "JMP", "JMX", "BSYNC", "WARPSYNC", "BREAK", "CALL", "RET", "EXIT", "YIELD"}
)
_WAITS = {
    "shared_load": Wait.SHARED,
    "shared_store": Wait.SHARED,
    "shuffles": Wait.SHARED,
    "atomics": Wait.SHARED,
    **dict.fromkeys(LOADS_THROUGH_L1, Wait.GLOBAL_LOAD),
    "surface_store": Wait.GLOBAL_STORE,
    "global_store": Wait.GLOBAL_STORE,
    "local_load": Wait.LOCAL_LOAD,
    "local_store": Wait.LOCAL_STORE,
    "async_copy": Wait.ASYNC_COPY,
    "fp64": Wait.VARIABLE,
    "tensor": Wait.VARIABLE,
    "votes": Wait.VARIABLE,
    "constant_load": Wait.VARIABLE,
}


_OF_PHASES = frozenset({"SYNCS", "ARRIVES", "STAS", "UTMALDG", "UTMASTG", "UTMAREDG", "UBLKCP", "UBLKRED"})
_GROUP = re.compile(r"\bgsb\d")


def pipe_of(instruction: MachineInstruction) -> Pipe:
    """The pipe of one instruction.

    >>> from .operands import Register
    >>> ffma = MachineInstruction(
    ...     address=0, opcode="FFMA", operand_text="R0, R1, R2, R3", guard=None, word=0, high=0, class_name="fp32_fma"
    ... )
    >>> pipe_of(ffma).name
    'FMA'
    """
    name, kind = instruction.name, instruction.class_name
    if instruction.never:
        return Pipe.NONE
    if name in _FMA:
        return Pipe.FMA
    if name in _FMA_HEAVY:
        return Pipe.FMA_HEAVY
    if kind == "fp64":
        return Pipe.FP64
    if kind == "tensor":
        return Pipe.TENSOR
    if kind == "texture_load":
        return Pipe.TEXTURE
    if name in _XU:
        return Pipe.XU
    vector = name not in _SPECIAL_REGISTERS and name not in _CONSTANTS and not name.startswith("U")
    return Pipe.ALU if vector and kind in ("integer", "fp32_other", "conversion", "fp16") else Pipe.NONE


def wait_of_result(instruction: MachineInstruction) -> Wait:
    """How the result of one instruction comes about."""
    name = instruction.name
    if instruction.never:
        return Wait.FIXED
    if name == "LDGDEPBAR":
        return Wait.COPY_GROUP
    if name == "DEPBAR" and instruction.has("LE"):
        return Wait.COPY_WAIT
    if name == "BAR":
        return Wait.FIXED if instruction.has("ARV") else Wait.BARRIER
    if name == "MEMBAR" and not instruction.has("CTA"):
        return Wait.FENCE
    if name == "UCGABAR_WAIT":
        return Wait.CLUSTER_BARRIER
    if name == "WARPGROUP" and instruction.has("DEPBAR"):
        return Wait.PRODUCT_WAIT
    if name in _OF_PHASES:
        return _of_phase(instruction)
    if instruction.class_name == "tensor" and tensor_work(instruction)[2]:
        return Wait.GROUP_PRODUCT
    if instruction.class_name == "global_reduction":
        return Wait.GLOBAL_REDUCTION if name.startswith("RED") else Wait.GLOBAL_ATOMIC
    if name in _BRANCHES:
        return Wait.BRANCH
    if name == "LDC":
        return Wait.CONSTANT
    if name in _XU or name in _SPECIAL_REGISTERS or name in _CONSTANTS:
        return Wait.VARIABLE
    return _WAITS.get(instruction.class_name, Wait.FIXED)


def _of_phase(instruction: MachineInstruction) -> Wait:
    """What an instruction does with an ``mbarrier``, or as a bulk copy."""
    name = instruction.name
    if name == "SYNCS":
        if instruction.has("PHASECHK"):
            return Wait.PHASE_WAIT
        return Wait.PHASE_ARRIVAL if instruction.has("ARRIVE") else Wait.FIXED
    if name in ("ARRIVES", "STAS"):
        return Wait.COPIES_ARRIVAL if name == "ARRIVES" else Wait.PHASE_ARRIVAL
    if name == "UTMALDG":
        return Wait.BULK_LOAD
    if name in ("UBLKCP", "UBLKRED"):
        direction = instruction.bulk_direction
        if direction == "S.S":
            return Wait.FIXED
        return Wait.BULK_LOAD if direction == "S.G" else Wait.BULK_STORE
    return Wait.BULK_STORE


def issue_table(code: MachineCode) -> IssueTable:
    """The table of a kernel's machine code."""
    instructions = code.instructions
    stall, write, read, mask = fields(instructions)
    products = [tensor_work(i) for i in instructions]
    reads, kept_reads, kept_for = _bank_reads(instructions)
    return IssueTable(
        pipe=np.array([pipe_of(i) for i in instructions], np.int64),
        pipe_passes=np.array([2 if i.name == "IMAD" and i.has("WIDE", "HI") else 1 for i in instructions], np.int64),
        wait=np.array([wait_of_result(i) for i in instructions], np.int64),
        stall_cycles=np.maximum(stall, 1),
        write_barrier=write,
        read_barrier=read,
        wait_mask=mask,
        bank_reads=reads,
        kept_reads=kept_reads,
        kept_for=kept_for,
        groups_left=np.array([_groups_left(i) for i in instructions], np.int64),
        tensor_rate=np.array([rate for rate, _, _ in products], np.int64),
        tensor_operations=np.array([-count if group else count for _, count, group in products], np.int64),
        constant_line=np.array([_constant_line(i) for i in instructions], np.int64),
        generic_bytes=np.array([_bytes_of_lane(i, ("LD", "ST")) for i in instructions], np.int64),
        shared_bytes=np.array([_bytes_of_lane(i, ("LDS",)) for i in instructions], np.int64),
        global_bytes=np.array([_bytes_of_lane(i, ("LDG", "LD")) for i in instructions], np.int64),
        past_l1=np.array([i.copies_past_l1 for i in instructions], np.int64),
        product_bytes=np.array([shared_bytes_of_product(i) for i in instructions], np.int64),
    )


def constant_line_of(address: int) -> int:
    """Line of an address among all constant banks."""
    return address // CONSTANT_LINE_BYTES


def _constant_line(instruction: MachineInstruction) -> int:
    """Parameters (bank 0) are few and stay at hand."""
    for bank, offset in _CONSTANT.findall(instruction.operand_text):
        if int(bank, 0) > 0:
            return constant_line_of(int(bank, 0) * CONSTANT_BANK_BYTES + int(offset, 0))
    return -1


def _bytes_of_lane(instruction: MachineInstruction, names: tuple[str, ...]) -> int:
    """Bytes of a lane of an access whose name is one of these; 0 for others."""
    if instruction.name not in names:
        return 0
    widths = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 2 * BANK_BYTES, "128": 4 * BANK_BYTES}
    return next((widths[part] for part in instruction.parts if part in widths), BANK_BYTES)


def _groups_left(instruction: MachineInstruction) -> int:
    wait = wait_of_result(instruction)
    if wait is Wait.GROUP_PRODUCT:
        return int(_GROUP.search(instruction.operand_text) is not None)
    if wait not in (Wait.COPY_WAIT, Wait.PRODUCT_WAIT):
        return 0
    last = instruction.operands[-1]
    return last.value or 0 if isinstance(last, Immediate) else 0


def _bank_reads(instructions: tuple[MachineInstruction, ...]) -> tuple[Integers, Integers, Integers]:
    """Registers that each arithmetic instruction reads from each bank, those that are kept for reuse, and for how long these are.

    Each operand keeps the last register that an instruction has marked there, until another one is marked or it is read without
    a mark. A register that an instruction reads twice is read once.
    """
    reads, kept_reads = np.zeros((2, len(instructions), BANKS), np.int64)
    kept_for = np.zeros(len(instructions), np.int64)
    kept: dict[int, tuple[int, int]] = {}
    for place, instruction in enumerate(instructions):
        pipe = pipe_of(instruction)
        if pipe not in (Pipe.FMA, Pipe.FMA_HEAVY, Pipe.ALU, Pipe.FP64, Pipe.TENSOR):
            continue
        marked: dict[int, int] = {}
        for slot, text in enumerate(instruction.operand_text.split(",")[1:]):
            match = _REGISTER.search(text)
            if match is None:
                continue
            number = int(match[1])
            since, register = kept.get(slot, (-1, -1))
            if register != number:
                since = -1
            marked[number] = min(marked.get(number, place), since)
            if match[2]:
                kept[slot] = (place, number)
            elif register == number:
                del kept[slot]
        if pipe is Pipe.TENSOR:
            continue
        for number, since in marked.items():
            if since < 0:
                reads[place, number % BANKS] += 1
            else:
                kept_reads[place, number % BANKS] += 1
                kept_for[place] = max(kept_for[place], place - since)
    return reads, kept_reads, kept_for
