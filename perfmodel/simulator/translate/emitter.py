"""Python source for one unit of a kernel: registers become local variables while they live, constants go to a pool."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ...ir.instruction import ExecutedInstruction, Instruction, Space
from ...ir.types import ScalarType, is_float, is_signed, signed_of, unsigned_of, width_bytes
from ...ptx.operands import literal, parse_address
from ..access import Action, Site
from ..global_memory import CONSTANT_WINDOW, LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW
from ..program import Program

CLOCKS = frozenset({"%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"})
_AXES = tuple(
    f"%{stem}.{axis}"
    for stem in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
    for axis in "xyz"
)
SPECIAL = frozenset(_AXES) | frozenset(
    [
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%lanemask_eq",
        "%lanemask_lt",
        "%lanemask_le",
        "%lanemask_ge",
        "%lanemask_gt",
        "%smid",
        "%nsmid",
        "%gridid",
        "%dynamic_smem_size",
        "%total_smem_size",
        "%aggr_smem_size",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%is_explicit_cluster",
        "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end",
        "%reserved_smem_offset_cap",
        "%envreg1",
        "%envreg2",
    ]
)


class Pool:
    """What all units of a translation share: constants by name, and the sites of accesses."""

    def __init__(self, trace: bool) -> None:
        self.trace = trace
        self.namespace: dict[str, Any] = {}
        self.sites: list[Site] = []
        self.wanted: set[int] = set()
        self.kept: frozenset[Space] = frozenset()
        self._names: dict[tuple[str, bytes], str] = {}
        self._site_index: dict[tuple[int, Action, Space], int] = {}

    def moves(self, space: Space) -> bool:
        """Whether what is written to a space is kept; trace mode keeps only what its slice reads again."""
        return not self.trace or space in self.kept or (space is Space.GENERIC and bool(self.kept))

    def constant(self, value: Any) -> str:
        """Name of a constant array in generated code."""
        key = (value.dtype.str, value.tobytes())
        if key not in self._names:
            name = f"k{len(self._names)}"
            self._names[key] = name
            value.flags.writeable = False
            self.namespace[name] = value
        return self._names[key]

    def site(self, index: int, instruction: ExecutedInstruction, action: Action, space: Space, width: int) -> int:
        """Number of the site of an instruction and space; the same when asked again."""
        key = (index, action, space)
        if key not in self._site_index:
            self._site_index[key] = len(self.sites)
            self.sites.append(Site(len(self.sites), index, instruction, action, space, width))
        return self._site_index[key]


class Emitter:
    """Builds the source of one function: ``def unit(C, R, m)`` with lanes, registers and the mask to merge under.

    The function returns what the block's last instruction branches on, if it does. With ``masked`` set, registers that
    live on are merged into their old values under the mask ``m``.
    """

    def __init__(self, program: Program, pool: Pool, live_out: set[int], masked: bool) -> None:
        self.program = program
        self.pool = pool
        self.masked = masked
        self.live_out = live_out
        self.lines: list[str] = []
        self.instruction_index = 0
        self.guard = "None"
        self._loaded: set[int] = set()
        self._written: set[int] = set()
        self._address_of: dict[str, str] = {}
        self._temporaries = 0

    # ---- lines and names

    def line(self, text: str) -> None:
        """Append a line."""
        self.lines.append(text)

    def temporary(self, expression: str) -> str:
        """Name of a fresh local variable that holds an expression."""
        self._temporaries += 1
        name = f"t{self._temporaries}"
        self.line(f"{name}={expression}")
        return name

    def is_register(self, name: str) -> bool:
        """Whether a name is a register of the kernel."""
        return name in self.program.register_index

    def type_of(self, register: str) -> ScalarType:
        """How a register is held."""
        return self.program.register_types[self.program.register_index[register]]

    def _local(self, index: int) -> str:
        if index not in self._loaded:
            self.line(f"r{index}=R[{index}]")
            self._loaded.add(index)
        return f"r{index}"

    # ---- operands

    def read(self, instruction: Instruction, text: str, scalar_type: ScalarType) -> str:
        """Expression of an operand's value as a type; a wider integer register is truncated.

        Raises:
            SimulationError: the operand is not known, or its register cannot be read as the type.
        """
        if text.startswith(("!", "-")) and self.is_register(text[1:].strip()):
            if text[0] == "!" and is_float(scalar_type):
                raise instruction.error(f"operand {text!r} is not supported")
            sign = "~" if text[0] == "!" else "-"
            return f"({sign}{self.read(instruction, text[1:].strip(), scalar_type)})"
        if self.is_register(text):
            return self._read_register(instruction, text, scalar_type)
        value = literal(text, scalar_type)
        if value is not None:
            return self.pool.constant(value)
        if text in SPECIAL or text in CLOCKS:
            return self._read_special(text, scalar_type)
        if text == "WARP_SZ":
            return self.pool.constant(np.full((1, 1), 32, scalar_type))
        address = self._symbol(text)
        if address is not None and width_bytes(scalar_type) >= 4 and not is_float(scalar_type):
            return f"C.environment.symbol({address!r},{scalar_type.__name__})"
        raise instruction.error(f"operand {text!r} is not supported")

    def _read_register(self, instruction: Instruction, name: str, scalar_type: ScalarType) -> str:
        held = self.type_of(name)
        expression = self._local(self.program.register_index[name])
        if held is scalar_type:
            return expression
        if np.bool_ in (held, scalar_type):
            raise instruction.error(f"register {name} and the instruction's type do not fit")
        have, want = width_bytes(held), width_bytes(scalar_type)
        if have == want:
            return f"{expression}.view({scalar_type.__name__})"
        if have > want and not is_float(held) and not is_float(scalar_type):
            narrow = f"{expression}.astype({unsigned_of(want).__name__})"
            return narrow if scalar_type is unsigned_of(want) else f"{narrow}.view({scalar_type.__name__})"
        raise instruction.error(f"register {name} of {have} bytes is read as {want} bytes")

    def _read_special(self, name: str, scalar_type: ScalarType) -> str:
        if name in CLOCKS:
            return f"C.clock({scalar_type.__name__})"
        expression = f"C.special[{name!r}]"
        return expression if scalar_type is np.uint32 else f"{expression}.astype({scalar_type.__name__})"

    def _symbol(self, text: str) -> str | None:
        known = text in self.program.kernel.variables or text in self.program.kernel.own_variables
        return text if known or text in self.program.parameters.offsets else None

    def predicate(self, instruction: Instruction, text: str) -> str:
        """Expression of a predicate operand."""
        return self.read(instruction, text, np.bool_)

    def address(self, instruction: Instruction, position: int) -> tuple[str, int]:
        """Expression of a memory operand's base as 64-bit addresses, and the byte offset to add.

        A 32-bit base is extended by its sign, so that adding an offset to a negative one comes out as modulo 2**32 does.
        """
        address = parse_address(instruction, position)
        if not self.is_register(address.base):
            return self.read(instruction, address.base, np.uint64), address.offset
        if self.type_of(address.base) is np.uint64:
            return self.read(instruction, address.base, np.uint64), address.offset
        if address.base not in self._address_of:
            wide = self.read(instruction, address.base, np.int32) + ".astype(int64).view(uint64)"
            self._address_of[address.base] = self.temporary(wide)
        return self._address_of[address.base], address.offset

    # ---- results

    def write(self, instruction: Instruction, name: str, expression: str, scalar_type: ScalarType) -> None:
        """Assign a value of a type to a register; narrow integers are extended as their sign says.

        Raises:
            SimulationError: the destination is no register, or does not fit.
        """
        if name == "_":
            return
        if not self.is_register(name):
            raise instruction.error(f"destination {name!r} is no register")
        held = self.type_of(name)
        if held is not scalar_type:
            expression = self._converted(instruction, name, expression, scalar_type, held)
        index = self.program.register_index[name]
        if self.guard != "None":
            expression = f"chosen({self.guard},{expression},{self._local(index)})"
        self.line(f"r{index}={expression}")
        self._loaded.add(index)
        self._written.add(index)
        self._address_of.pop(name, None)

    def _converted(
        self, instruction: Instruction, name: str, expression: str, value: ScalarType, held: ScalarType
    ) -> str:
        if np.bool_ in (held, value):
            raise instruction.error(f"destination {name} and the instruction's type do not fit")
        have, want = width_bytes(value), width_bytes(held)
        if have == want:
            return f"({expression}).view({held.__name__})"
        if have > want or is_float(held):
            raise instruction.error(f"destination {name} of {want} bytes does not hold {have} bytes")
        if is_signed(value):
            return f"({expression}).astype({signed_of(want).__name__}).view({held.__name__})"
        if is_float(value):
            expression = f"({expression}).view({unsigned_of(have).__name__})"
        return f"({expression}).astype({held.__name__})"

    def wanted(self, names: Iterable[str]) -> bool:
        """Whether the mode computes any of some destinations."""
        index = self.program.register_index
        return not self.pool.trace or any(index.get(name) in self.pool.wanted for name in names)

    # ---- instructions and the whole function

    def begin(self, index: int, instruction: Instruction) -> None:
        """Start an instruction: its guard becomes the mask that effects and results are under."""
        self.instruction_index = index
        self.guard = "None"
        if instruction.guard:
            if not self.is_register(instruction.guard):
                raise instruction.error(f"guard {instruction.guard!r} is no register")
            value = self.predicate(instruction, instruction.guard)
            self.guard = self.temporary(f"~{value}" if instruction.negated else value)

    def forget(self, dead: set[int]) -> None:
        """Drop local variables that nothing reads any more, so that their memory is reused while it is in the cache."""
        gone = sorted(index for index in dead if index in self._loaded)
        if gone:
            self.line("del " + ",".join(f"r{index}" for index in gone))
            self._loaded.difference_update(gone)

    def source(self, name: str, result: str | None) -> str:
        """Source of the function."""
        body = list(self.lines)
        for index in sorted(self._written & self.live_out):
            if self.masked:
                body.append(f"o=R[{index}]")
                body.append(f"R[{index}]=r{index} if o is UNDEFINED[{index}] else where(m,r{index},o)")
            else:
                body.append(f"R[{index}]=r{index}")
        body.append(f"return {result}")
        return f"def {name}(C,R,m):\n" + "\n".join(" " + line for line in body) + "\n"


_WINDOWS = {
    Space.SHARED: SHARED_WINDOW,
    Space.LOCAL: LOCAL_WINDOW,
    Space.CONSTANT: CONSTANT_WINDOW,
    Space.PARAMETER: PARAMETER_WINDOW,
}


def window_of(space: Space) -> int:
    """First generic address of a state space; 0 for global memory."""
    return _WINDOWS.get(space, 0)
