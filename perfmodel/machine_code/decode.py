"""Machine code of sm_70 and newer, decoded as arrays: class, width, guard and target of every instruction.

Bits of the 128-bit instruction (low word, high word), as nvdisasm shows them: opcode low 0–11, guard predicate low
12–15, first destination low 16–23, access size high 9–11, a branch's own predicate high 23–26 and its conversion
flag high 27.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES
from ..errors import InputError
from ..gpus.architecture import Architecture
from ..gpus.catalogue import load_architecture
from .opcodes import CLASS_OF_OPCODE, MNEMONICS, SASS_CLASSES, opcode

NO_TARGET = -1

_ALWAYS, _NEVER = 0x7, 0xF
_NO_REGISTER = 0xFF
_UNIFORM_FORM = 0x2
_ACCESS_BYTES = np.array([1, 1, 2, 2, 4, 8, 16, 32], dtype=np.int16)
_ATOMIC_BYTES = np.array([4, 4, 8, 4, 4, 8, 8, 8], dtype=np.int16)
_RELATIVE = np.array([opcode(name) for name in ("BRA", "BSSY", "CALL", "RET", "BRX")])


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructions:
    """Decoded instructions in order of address, one array element for each.

    ``class_index`` points into ``SASS_CLASSES``; ``width_bytes`` is what one lane moves (0: not a memory instruction);
    ``guarded`` marks instructions under a predicate, ``never`` those under ``@!PT``; ``conditional`` marks branches
    that may fall through; ``target`` is the address of a relative branch, call or reconvergence point, ``NO_TARGET``
    where there is none.
    """

    words: NDArray[np.uint64]
    opcode: NDArray[np.int16]
    class_index: NDArray[np.int8]
    width_bytes: NDArray[np.int16]
    guarded: NDArray[np.bool_]
    never: NDArray[np.bool_]
    conditional: NDArray[np.bool_]
    target: NDArray[np.int64]
    unknown_opcodes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.opcode)

    def is_class(self, name: str) -> NDArray[np.bool_]:
        """Where the class is ``name`` and the instruction can execute at all."""
        of_class: NDArray[np.bool_] = (self.class_index == SASS_CLASSES.index(name)) & ~self.never
        return of_class

    def is_mnemonic(self, *names: str) -> NDArray[np.bool_]:
        """Where the mnemonic is one of ``names`` and the instruction can execute at all."""
        wanted = [code for code, name in enumerate(MNEMONICS) if name in names]
        of_opcode: NDArray[np.bool_] = np.isin(self.opcode, wanted) & ~self.never
        return of_opcode

    def mnemonic(self, index: int) -> str:
        """Mnemonic of one instruction without modifiers; its opcode in hexadecimal where it is not known."""
        code = int(self.opcode[index])
        return MNEMONICS[code] or f"0x{code:03x}"


def decodes(architecture: str) -> bool:
    """Whether the encoding is the 16-byte one that this module decodes (sm_70 and newer).

    >>> decodes("sm_61"), decodes("sm_90")
    (False, True)
    """
    return load_architecture(architecture).decodable_machine_code


def decode(code: bytes, architecture: str) -> Instructions:
    """Instructions of one code section (16 bytes each; ISA: CUDA Binary Utilities, instruction set reference).

    >>> ffma_exit = bytes.fromhex("23720000 01000000 02000000 00e20f00 4d790000 00000000 00008003 00ea0f00")
    >>> [decode(ffma_exit, "sm_75").mnemonic(i) for i in range(2)]
    ['FFMA', 'EXIT']
    """
    if not decodes(architecture) or len(code) % INSTRUCTION_BYTES:
        raise InputError(f"cannot decode {len(code)} bytes of {architecture} code: needs sm_70 or newer, 16 bytes each")
    words = np.frombuffer(code, dtype="<u8").reshape(-1, 2)
    low, high = words[:, 0], words[:, 1]
    code_index = (low & 0x1FF).astype(np.int16)
    class_index = _classes(low, code_index)
    guard = _field(low, 12, 4)
    return Instructions(
        words=words,
        opcode=code_index,
        class_index=class_index,
        width_bytes=_widths(high, code_index, class_index, load_architecture(architecture)),
        guarded=(guard != _ALWAYS) & (guard != _NEVER),
        never=guard == _NEVER,
        conditional=(guard != _ALWAYS) | _branch_condition(low, high, code_index),
        target=_targets(low, code_index, load_architecture(architecture)),
        unknown_opcodes=tuple(int(c) for c in np.unique(code_index[CLASS_OF_OPCODE[code_index] < 0])),
    )


def _field(word: NDArray[np.uint64], first_bit: int, bits: int) -> NDArray[np.int64]:
    return ((word >> np.uint64(first_bit)) & np.uint64((1 << bits) - 1)).astype(np.int64)


def _classes(low: NDArray[np.uint64], code: NDArray[np.int16]) -> NDArray[np.int8]:
    """Classes by opcode; a constant load without an index register is a move, an unknown opcode is control."""
    classes = CLASS_OF_OPCODE[code].copy()
    by_constant = (code == opcode("LDC")) | (code == opcode("LDCU"))
    fixed = by_constant & (_field(low, 24, 8) == _NO_REGISTER)
    classes[fixed] = SASS_CLASSES.index("integer")
    classes[classes < 0] = SASS_CLASSES.index("control")
    return classes


def _widths(
    high: NDArray[np.uint64], code: NDArray[np.int16], classes: NDArray[np.int8], architecture: Architecture
) -> NDArray[np.int16]:
    """Bytes of an access; asynchronous copies have a field of two bits of their own from sm_100 on."""
    first_memory_class = SASS_CLASSES.index("global_load")
    size = _field(high, 9, 3)
    widths = np.where(classes >= first_memory_class, _ACCESS_BYTES[size], 0).astype(np.int16)
    atomic = (classes == SASS_CLASSES.index("atomics")) | (classes == SASS_CLASSES.index("global_reduction"))
    widths[atomic] = _ATOMIC_BYTES[size[atomic]]
    if architecture.narrow_copy_widths:
        copies = code == opcode("LDGSTS")
        widths[copies] = 4 << _field(high, 10, 2)[copies]
    matrices = code == opcode("LDSM")
    widths[matrices] = 4 << _field(high, 8, 2)[matrices]
    return widths


def _branch_condition(low: NDArray[np.uint64], high: NDArray[np.uint64], code: NDArray[np.int16]) -> NDArray[np.bool_]:
    """Whether a BRA has another condition than its guard: own or uniform predicate, convergence test."""
    branch = code == opcode("BRA")
    uniform = _field(low, 9, 3) == _UNIFORM_FORM
    own = _field(high, 23, 4) != _ALWAYS
    by_uniform = uniform & (_field(low, 24, 4) != _ALWAYS)
    convergence = ~uniform & (_field(high, 27, 2) != 0)
    conditional: NDArray[np.bool_] = branch & (own | by_uniform | convergence)
    return conditional


def _targets(low: NDArray[np.uint64], code: NDArray[np.int16], architecture: Architecture) -> NDArray[np.int64]:
    """Targets are relative to the next instruction, in units of 4 bytes; from sm_90 on 8 low bits lie apart."""
    units = low.astype(np.int64) >> 34
    if architecture.split_branch_targets:
        split = code != opcode("BSSY")
        units = np.where(split, (units << 8) | _field(low, 16, 8), units)
    address = np.arange(1, len(low) + 1, dtype=np.int64) * INSTRUCTION_BYTES + 4 * units
    inside = np.isin(code, _RELATIVE) & (address >= 0) & (address < len(low) * INSTRUCTION_BYTES)
    return np.where(inside & (code != opcode("BRX")) & (code != opcode("RET")), address, NO_TARGET)
