"""One machine instruction with its parsed operands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from ..errors import SimulationError
from ..ir.instruction import SourceLine
from .operands import Immediate, Operand, Register, parse_operand, split_operands

_PAST_L1 = frozenset({"STRONG", "MMIO"})
_BLOCK_SCOPE = frozenset({"CTA", "SM"})


@dataclass(frozen=True, kw_only=True)
class MachineInstruction:
    """An instruction of 16 bytes at an address of its function.

    ``word`` is the lower half of its encoding, which holds immediates in its upper 32 bits; ``high`` the upper half.
    ``target`` is the address of a label among the operands.
    """

    address: int
    opcode: str
    operand_text: str
    guard: Register | None
    word: int
    high: int
    class_name: str
    source: SourceLine | None = None
    target: int | None = None

    @cached_property
    def parts(self) -> tuple[str, ...]:
        """The opcode split at its dots."""
        return tuple(self.opcode.split("."))

    @cached_property
    def name(self) -> str:
        """First part of the opcode."""
        return self.parts[0]

    @cached_property
    def _modifiers(self) -> frozenset[str]:
        return frozenset(self.parts[1:])

    def has(self, *modifiers: str) -> bool:
        """Whether the opcode has any of the modifiers."""
        return not self._modifiers.isdisjoint(modifiers)

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """The operands; two packed literals (of half precision) are one."""
        try:
            parsed = [parse_operand(text) for text in split_operands(self.operand_text)]
        except SimulationError as error:
            raise self.error(str(error)) from None
        merged: list[Operand] = []
        for operand in parsed:
            packed = self.name in ("HFMA2", "HADD2", "HMUL2", "HSETP2", "HSET2", "HMNMX2", "VHMNMX", "HFMA2_32I")
            if packed and isinstance(operand, Immediate) and merged and isinstance(merged[-1], Immediate):
                continue
            merged.append(operand)
        return tuple(merged)

    @property
    def immediate(self) -> int:
        """The 32 bits of the encoding that hold a literal."""
        return self.word >> 32

    @cached_property
    def never(self) -> bool:
        """Whether its guard is never true (``@!PT``)."""
        return self.guard is not None and self.guard.index is None and self.guard.inverted

    @property
    def loads_past_l1(self) -> bool:
        """Whether it reads L2 whatever L1 holds: loads that other SMs' stores must be seen by."""
        strong = self.name in ("LD", "LDG") and not _PAST_L1.isdisjoint(self.parts)
        return strong and _BLOCK_SCOPE.isdisjoint(self.parts)

    @property
    def copies_past_l1(self) -> bool:
        """Whether it is an asynchronous copy that leaves L1 out."""
        return self.name == "LDGSTS" and "BYPASS" in self.parts

    @property
    def bulk_direction(self) -> str | None:
        """Where a bulk copy of contiguous bytes goes and where it comes from, shared (S) or global (G) memory: ``S.G``."""
        return next((f"{to}.{by}" for to, by in pairwise(self.parts) if {to, by} <= {"S", "G"}), None)

    @property
    def evicts_first(self) -> bool:
        """Whether what it loads is to give way in the caches first."""
        return "EF" in self.parts

    @property
    def line(self) -> int:
        """The address, where PTX has a line number."""
        return self.address

    @property
    def text(self) -> str:
        """The instruction as one line."""
        guard = ""
        if self.guard is not None:
            name = f"{self.guard.file}{'T' if self.guard.index is None else self.guard.index}"
            guard = f"@{'!' if self.guard.inverted else ''}{name} "
        return f"{guard}{self.opcode} {self.operand_text}".strip()

    def operand(self, position: int) -> Operand:
        """Operand at a position; a SimulationError names the instruction when it has fewer."""
        if position >= len(self.operands):
            raise self.error(f"needs more than {len(self.operands)} operands")
        return self.operands[position]

    def error(self, reason: str) -> SimulationError:
        """The error that names this instruction, its address and the reason."""
        where = f" ({self.source.file}:{self.source.line})" if self.source else ""
        return SimulationError(f"machine code {self.address:#06x}{where}: {self.text}: {' '.join(reason.split())}")
