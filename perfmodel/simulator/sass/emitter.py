"""Python source for machine instructions: registers become local variables, pairs of registers 64-bit values.

The same code runs in two ways. A recording emitter notes which registers each instruction reads and writes; a writing one
makes the source of a unit's function, knowing from that which registers live on.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...ir.instruction import Space
from ...ir.types import ScalarType
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Constant, Immediate, Operand, Register
from ..access import Action
from ..translate.emitter import Pool
from .registers import BARRIER_PREDICATE, is_uniform, members, number_of

REDUCTIONS = {
    "ADD": "add",
    "MIN": "min",
    "MAX": "max",
    "AND": "and",
    "OR": "or",
    "XOR": "xor",
    "INC": "inc",
    "DEC": "dec",
}
"""Operations by their names in machine code that need not give back what was there before."""

_ALIASES = {"u32": "uint32", "s32": "int32", "f32": "float32", "u64": "uint64", "s64": "int64", "f64": "float64"}
_FLOAT_SIGN = {"f32": (np.uint32, 0x8000_0000), "f64": (np.uint64, 0x8000_0000_0000_0000)}


@dataclass(slots=True)
class Effects:
    """Registers (as bits) of one instruction.

    ``roots`` are read whatever becomes of the result: addresses, and the guard of what is counted. ``values`` are read for
    the result, ``stored`` for what goes to memory. ``acts`` says that the instruction does more than write registers.
    ``guard`` is the predicate, and whether it is inverted, of the lanes that it is for; None where it is for all. What the
    destinations hold in the other lanes stays, and is not among what is read.
    """

    roots: int = 0
    values: int = 0
    stored: int = 0
    writes: int = 0
    reads_space: Space | None = None
    writes_space: Space | None = None
    acts: bool = False
    guard: tuple[int, bool] | None = None


@dataclass(slots=True)
class _Held:
    """What the local variables of the function under construction hold."""

    typed: dict[int, str] = field(default_factory=dict)
    """Type of the local variable of a register: u32, f32, s32 or bool."""
    halves: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Registers that are the lower (0) or upper (1) half of a 64-bit variable and have no variable of their own."""
    pairs: dict[int, tuple[str, str]] = field(default_factory=dict)
    """64-bit variable and its type that the pair from a register on equals."""
    addresses: dict[tuple[int, int, int], str] = field(default_factory=dict)
    """64-bit variables of base register, uniform register and scale."""
    guards: dict[tuple[int, bool], str] = field(default_factory=dict)
    """Masks of the guards by predicate and whether it is inverted: one array each, so that analysed addresses are reused."""


class Emitter:
    """Builds the source of one function ``def unit(C, R, m)``: lanes, registers, mask to merge under."""

    def __init__(self, pool: Pool, masked: bool, recorded: Effects | None = None) -> None:
        self.pool = pool
        self.masked = masked
        self.recorded = recorded
        self.lines: list[str] = []
        self.index = 0
        self.guard = "None"
        self.live_after = 0
        self.stores_slot = False
        """Whether the instruction stores a word of the stack that is needed later."""
        self.written: set[int] = set()
        self.warp_wide: set[int] = set()
        self.reduction: str | None = None
        """What the barrier before this instruction reduces its predicates to."""
        self._held = _Held()
        self._temporaries = 0
        self.root = False
        """Whether what is read now is needed whatever becomes of the result."""
        self._kinds: dict[str, str] = {}
        """Types of the 64-bit variables that are in use."""
        self._constants: dict[tuple[int, int, str], str] = {}

    # ---- lines

    def line(self, text: str) -> None:
        """Append a line."""
        if self.recorded is None:
            self.lines.append(text)

    def temporary(self, expression: str) -> str:
        """Name of a fresh local variable that holds an expression."""
        self._temporaries += 1
        name = f"t{self._temporaries}"
        self.line(f"{name}={expression}")
        return name

    # ---- what is recorded

    def _reads(self, number: int) -> None:
        if self.recorded is not None:
            if self.root:
                self.recorded.roots |= 1 << number
            else:
                self.recorded.values |= 1 << number

    def acts(self) -> None:
        """Note that the instruction is needed whatever becomes of its result."""
        if self.recorded is not None:
            self.recorded.acts = True

    def live(self, *operands: Operand) -> bool:
        """Whether anything reads one of some destinations later; a recording emitter takes all for live."""
        if self.recorded is not None:
            return True
        numbers = (number_of(o) for o in operands if isinstance(o, Register) and o.index is not None)
        return any(self.live_after >> number & 1 for number in numbers)

    def live_registers(self, first: Operand, count: int) -> bool:
        """The same for consecutive registers."""
        if self.recorded is not None:
            return True
        if not isinstance(first, Register) or first.index is None:
            return False
        return any(self.live_after >> (number_of(first) + k) & 1 for k in range(count))

    # ---- registers of 32 bits

    def _local(self, number: int, kind: str) -> str:
        """Expression of a register as a type."""
        self._reads(number)
        held = self._held
        if self.recorded is not None:
            return f"r{number}"
        if number in held.halves:
            pair, half = held.halves.pop(number)
            wide = pair if self._kinds[pair] == "u64" else f"{pair}.view(uint64)"
            self.line(f"r{number}={'upper_half' if half else 'lower_half'}({wide})")
            held.typed[number] = "u32"
        elif number not in held.typed:
            self.line(f"r{number}=R[{number}]")
            held.typed[number] = "bool" if kind == "bool" else "u32"
        have = held.typed[number]
        return f"r{number}" if have == kind else f"r{number}.view({_ALIASES[kind]})"

    def _assign(self, number: int, expression: str, kind: str) -> None:
        held = self._held
        self._forget_pairs(number)
        held.halves.pop(number, None)
        self.line(f"r{number}={expression}")
        held.typed[number] = kind
        self._wrote(number)

    def _wrote(self, number: int) -> None:
        self.written.add(number)
        if self.recorded is not None:
            self.recorded.writes |= 1 << number
        self._held.addresses = {k: v for k, v in self._held.addresses.items() if number not in (k[0], k[1])}
        for inverted in (False, True):
            self._held.guards.pop((number, inverted), None)

    def _forget_pairs(self, number: int) -> None:
        self._held.pairs.pop(number, None)
        self._held.pairs.pop(number - 1, None)

    # ---- operands

    def constant(self, value: int, kind: str = "u32") -> str:
        """A uniform value from bits."""
        width = np.uint64 if kind.endswith("64") else np.uint32
        bits = np.array([[value % 2 ** (64 if width is np.uint64 else 32)]], width)
        scalar: ScalarType = getattr(np, _ALIASES[kind])
        return self.pool.constant(bits.view(scalar))

    def array(self, value: object) -> str:
        """A uniform value of any type from a NumPy array."""
        return self.pool.constant(value)

    def _bank(self, operand: Constant, kind: str) -> str:
        """A word or pair of a constant bank at a fixed place."""
        key = (operand.bank, operand.offset, kind)
        if key not in self._constants:
            self._constants[key] = self.temporary(f"C.environment.constant({operand.bank},{operand.offset},{kind!r})")
        return self._constants[key]

    def read(self, i: MachineInstruction, operand: Operand, kind: str = "u32") -> str:
        """Expression of a 32-bit operand as ``u32``, ``s32`` or ``f32``, with its signs applied."""
        if isinstance(operand, Immediate):
            if kind == "f32":
                return self.constant(i.immediate, "f32")
            value = operand.value if operand.value is not None else i.immediate
            return self.constant(value, kind)
        if isinstance(operand, Constant):
            if operand.base is not None:
                raise i.error("an indexed constant is no operand of arithmetic")
            return self._signed(operand, self._bank(operand, kind), kind)
        if isinstance(operand, Register) and not operand.is_predicate:
            if operand.index is None:
                text = self.constant(0, kind)
                return self._signed(operand, text, kind)
            return self._signed(operand, self._local(number_of(operand), kind), kind)
        raise i.error(f"operand {operand} is not a value of 32 bits")

    def _signed(self, operand: Register | Constant, text: str, kind: str) -> str:
        if kind in _FLOAT_SIGN:
            text = f"absolute({text})" if operand.absolute else text
            return f"(-{text})" if operand.negated else text
        if operand.absolute:
            text = f"absolute({text}.view(int32)).view(uint32)"
        if operand.inverted:
            text = f"(~{text})"
        return f"(-{text})" if operand.negated else text

    def pair(self, i: MachineInstruction, operand: Operand, kind: str = "u64") -> str:
        """Expression of a 64-bit operand as ``u64``, ``s64`` or ``f64``, with its signs applied.

        A literal of double precision gives the upper half; an integer one is extended by its sign.
        """
        if isinstance(operand, Immediate):
            if kind == "f64":
                return self.constant(i.immediate << 32, "f64")
            value = operand.value if operand.value is not None else i.immediate
            return self.constant(value, kind)
        if isinstance(operand, Constant):
            return self._signed(operand, self._bank(operand, kind), kind)
        if not isinstance(operand, Register) or operand.is_predicate:
            raise i.error(f"operand {operand} is not a value of 64 bits")
        if operand.index is None:
            return self._signed(operand, self.constant(0, kind), kind)
        return self._signed(operand, self._pair(number_of(operand), kind), kind)

    def _pair(self, number: int, kind: str) -> str:
        self._reads(number)
        self._reads(number + 1)
        held = self._held
        if self.recorded is not None:
            return f"r{number}"
        if number not in held.pairs:
            low, high = self._local(number, "u32"), self._local(number + 1, "u32")
            name = self.temporary(f"join_halves({low},{high})")
            self._kinds[name] = "u64"
            held.pairs[number] = (name, "u64")
        name, have = held.pairs[number]
        return name if have == kind else f"{name}.view({_ALIASES[kind]})"

    def predicate(self, i: MachineInstruction, operand: Operand) -> str:
        """Expression of a predicate, or of the sign of a value (``R2.SIGN``)."""
        if isinstance(operand, Register | Constant) and "SIGN" in operand.modifiers:
            sign = f"({self.read(i, replace(operand, inverted=False), 's32')}<{self.constant(0, 's32')})"
            return f"(~{sign})" if operand.inverted else sign
        if not isinstance(operand, Register) or not operand.is_predicate:
            raise i.error(f"operand {operand} is no predicate")
        if operand.index is None:
            return self.array(np.array([[not operand.inverted]]))
        text = self._local(number_of(operand), "bool")
        return f"(~{text})" if operand.inverted else text

    def root_predicate(self, i: MachineInstruction, operand: Operand) -> str:
        """Expression of a predicate that decides what is accessed."""
        self.root = True
        text = self.predicate(i, operand)
        self.root = False
        return text

    def barrier_predicate(self) -> str:
        """Expression of the predicates that were handed to a reducing barrier."""
        return self._local(BARRIER_PREDICATE, "bool")

    def read_register(self, number: int, kind: str) -> str:
        """Expression of a register by its number."""
        return self._local(number, kind)

    def read_pair(self, number: int) -> str:
        """Expression of the pair of registers from a number on, as 64 bits."""
        return self._pair(number, "u64")

    # ---- results

    def _guarded(self, expression: str, old: str) -> str:
        """What a guarded instruction leaves; where blocks are followed, its value matters in the lanes of the guard alone."""
        if self.guard == "None" or self.recorded is not None:
            return expression
        self.line(f"C.guard={self.guard}")
        new = self.temporary(f"settled({expression})")
        self.line("C.guard=None")
        return f"chosen({self.guard},{new},{old})"

    def write(self, i: MachineInstruction, operand: Operand, expression: str, kind: str = "u32") -> None:
        """Assign a 32-bit value to a register, under the guard."""
        if not isinstance(operand, Register) or operand.is_predicate:
            raise i.error(f"destination {operand} is no register")
        if operand.index is None:
            return
        number = number_of(operand)
        if self.guard != "None":
            expression = self._guarded(expression, self._local(number, kind))
        self._assign(number, expression, kind)

    def write_register(self, number: int, expression: str, kind: str) -> None:
        """Assign to a register by its number, under the guard."""
        if self.guard != "None":
            expression = self._guarded(expression, self._local(number, kind))
        self._assign(number, expression, kind)

    def write_predicate(self, i: MachineInstruction, operand: Operand, expression: str) -> None:
        """Assign a predicate, under the guard."""
        if not isinstance(operand, Register) or not operand.is_predicate:
            raise i.error(f"destination {operand} is no predicate")
        if operand.index is not None:
            self.write_register(number_of(operand), expression, "bool")

    def write_pair(self, i: MachineInstruction, operand: Operand, expression: str, kind: str = "u64") -> None:
        """Assign a 64-bit value to a pair of registers, under the guard."""
        if not isinstance(operand, Register) or operand.is_predicate:
            raise i.error(f"destination {operand} is no pair of registers")
        if operand.index is None:
            return
        number = number_of(operand)
        if self.guard != "None":
            expression = self._guarded(expression, self._pair(number, kind))
        name = self.temporary(expression)
        held = self._held
        self._kinds[name] = kind
        for half in (0, 1):
            self._forget_pairs(number + half)
            held.typed.pop(number + half, None)
            held.halves[number + half] = (name, half)
            self._wrote(number + half)
        held.pairs[number] = (name, kind)

    # ---- memory

    def address(self, i: MachineInstruction, operand: Operand, wide: bool) -> tuple[str, int]:
        """Expression of a memory operand's base as 64-bit addresses, and the byte offset to add.

        ``wide``: addresses of 64 bits (global and generic memory); others are extended by their sign, so that adding an
        offset to a negative base comes out as modulo 2**32 does.
        """
        if not isinstance(operand, Address):
            raise i.error(f"operand {operand} is no address")
        self.root = True
        base = None if operand.base is None or operand.base.index is None else number_of(operand.base)
        uniform = None if operand.uniform is None or operand.uniform.index is None else number_of(operand.uniform)
        key = (-1 if base is None else base, -1 if uniform is None else uniform, operand.scale)
        if key not in self._held.addresses or self.recorded is not None:
            narrow_base = operand.base is not None and "U32" in operand.base.modifiers
            expression = (
                self._wide_address(base, uniform, narrow_base)
                if wide
                else self._narrow_address(base, uniform, operand.scale)
            )
            if expression not in self._kinds:
                expression = self.temporary(expression)
                self._kinds[expression] = "u64"
            self._held.addresses[key] = expression
        self.root = False
        return self._held.addresses[key], operand.offset

    def _wide_address(self, base: int | None, uniform: int | None, narrow_base: bool) -> str:
        terms = []
        if base is not None:
            terms.append(f"{self._local(base, 'u32')}.astype(uint64)" if narrow_base else self._pair(base, "u64"))
        if uniform is not None:
            terms.append(self._pair(uniform, "u64"))
        return "+".join(terms) if terms else self.constant(0, "u64")

    def _narrow_address(self, base: int | None, uniform: int | None, scale: int) -> str:
        terms = []
        if base is not None:
            text = self._local(base, "u32")
            terms.append(f"{text}*{self.constant(scale)}" if scale != 1 else text)
        if uniform is not None:
            terms.append(self._local(uniform, "u32"))
        if not terms:
            return self.constant(0, "u64")
        return f"({'+'.join(terms)}).view(int32).astype(int64).view(uint64)"

    def site(self, i: MachineInstruction, action: Action, space: Space, width: int) -> int:
        """Number of the site of this instruction and space."""
        if self.recorded is not None:
            return 0
        return self.pool.site(self.index, i, action, space, width)

    def reads_memory(self, space: Space) -> None:
        """Note from which space the result comes."""
        if self.recorded is not None:
            self.recorded.reads_space = space

    def writes_memory(self, space: Space) -> None:
        """Note to which space it writes."""
        if self.recorded is not None:
            self.recorded.writes_space = space

    def note_copy(self) -> None:
        """Note that the instruction moves global to shared memory."""
        if self.recorded is not None:
            self.recorded.reads_space, self.recorded.writes_space = Space.GLOBAL, Space.SHARED

    def stored(self, i: MachineInstruction, operands: list[tuple[Operand, int]], space: Space) -> list[str]:
        """Expressions of the consecutive registers that go to memory, noted apart from other reads."""
        before = 0 if self.recorded is None else self.recorded.values
        texts = []
        for operand, count in operands:
            for k in range(count):
                if isinstance(operand, Register) and operand.index is not None:
                    self._check_plain(i, operand)
                    texts.append(self._local(number_of(operand) + k, "u32"))
                else:
                    texts.append(self.read(i, operand))
        if self.recorded is not None:
            self.recorded.stored |= self.recorded.values & ~before
            self.recorded.values = before
            self.recorded.writes_space = space
        return texts

    def _check_plain(self, i: MachineInstruction, operand: Register) -> None:
        if operand.negated or operand.absolute or operand.inverted:
            raise i.error("what is stored has no sign")

    # ---- instructions and the whole function

    def begin(self, index: int, i: MachineInstruction, live_after: int) -> None:
        """Start an instruction: its guard becomes the mask that effects and results are under."""
        self.index = index
        self.live_after = live_after
        self.guard = "None"
        if i.guard is not None and i.guard.index is not None:
            key = (number_of(i.guard), i.guard.inverted)
            value = self.predicate(i, i.guard)
            if self.recorded is not None:
                self.recorded.guard = key
                return
            if key not in self._held.guards:
                self._held.guards[key] = self.temporary(value)
            self.guard = self._held.guards[key]

    def forget(self, live: int) -> None:
        """Drop local variables that nothing reads any more, so that their memory is reused while it is in the cache."""
        if self.recorded is not None:
            return
        held = self._held
        gone = [number for number in held.typed if not live >> number & 1]
        for number in gone:
            del held.typed[number]
        names = [f"r{number}" for number in gone]
        for number in [n for n in held.halves if not live >> n & 1]:
            del held.halves[number]
        for number in [n for n in held.pairs if not (live >> n & 1 or live >> (n + 1) & 1)]:
            del held.pairs[number]
        for key in [k for k in held.addresses if any(n >= 0 and not live >> n & 1 for n in k[:2])]:
            del held.addresses[key]
        used = {name for name, _ in held.halves.values()} | {name for name, _ in held.pairs.values()}
        used |= set(held.addresses.values())
        dead = [name for name in self._kinds if name not in used]
        for name in dead:
            del self._kinds[name]
        if names or dead:
            self.line("del " + ",".join([*names, *dead]))

    def source(self, name: str, result: str | None, live_out: int) -> str:
        """Source of the function; what lives on is kept, under the mask where there is one."""
        if result is not None:
            result = self.temporary(result)
        kept = [number for number in members(live_out) if number in self.written]
        if self.masked and any(is_uniform(n) or n in self.warp_wide for n in kept):
            self.line("w=whole_warps(C,m)")
        for number in kept:
            value = self._local(number, "bool" if self._held.typed.get(number) == "bool" else "u32")
            if not self.masked:
                self.line(f"R[{number}]={value}")
                continue
            mask = "w" if is_uniform(number) or number in self.warp_wide else "m"
            self.line(f"o=R[{number}]")
            self.line(f"R[{number}]={value} if o is UNDEFINED[{number}] else where({mask},{value},o)")
        self.line(f"return {result}")
        return f"def {name}(C,R,m):\n" + "\n".join(" " + line for line in self.lines) + "\n"
