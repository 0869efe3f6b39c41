"""Moves of machine code: between registers, predicates, constants and special registers, and what has no result."""

from __future__ import annotations

from collections.abc import Callable

from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Immediate, Operand, Register
from ..access import Action
from .emitter import Emitter
from .registers import is_zero, members


def emit_mov(e: Emitter, i: MachineInstruction) -> None:
    """``MOV``, ``UMOV``, ``S2UR`` and others that copy."""
    if "64" in i.parts:
        e.write_pair(i, i.operand(0), e.pair(i, i.operand(1)))
        return
    source = i.operand(1)
    e.write(i, i.operand(0), e.read(i, source))


def emit_r2ur(e: Emitter, i: MachineInstruction) -> None:
    """``R2UR``: the value of the first active lane to a uniform register; a predicate says where lanes hold another one."""
    differs = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    operands = [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate)]
    guard, e.guard = e.guard, "None"
    value = f"of_first_active(C,{e.read(i, operands[1])},{guard})"
    own = e.temporary(e.read(i, operands[1])) if differs else ""
    shared = e.temporary(value) if differs else value
    if guard != "None":
        value = f"where(any_of_warp(C,{guard}),{shared},{e.read(i, operands[0])})"
    e.write(i, operands[0], value if guard != "None" else shared)
    e.guard = guard
    if differs:
        other = f"({own}!={shared})"
        e.write_predicate(i, differs[0], f"({other}|{e.predicate(i, differs[0])})" if i.has("OR") else other)


def emit_p2r(e: Emitter, i: MachineInstruction) -> None:
    """``P2R`` and ``UP2UR``: predicates to the low bits of a register, the others from another one."""
    file = "UP" if i.opcode.startswith("U") else "P"
    values = [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate) and not _is_word(o)]
    mask = values[2].value if len(values) > 2 and isinstance(values[2], Immediate) else 0x7F
    wanted = [Register(file=file, index=k) for k in range(7) if int(mask or 0) >> k & 1]
    texts = [f"({e.predicate(i, p)}.astype(uint32)<<{e.constant(p.index or 0)})" for p in wanted]
    old = e.read(i, values[1])
    kept = f"({old}&{e.constant(~int(mask or 0))})"
    e.write(i, i.operand(0), "|".join([kept, *texts]))


def emit_r2p(e: Emitter, i: MachineInstruction) -> None:
    """``R2P``: the bits of a register to predicates."""
    values = [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate) and not _is_word(o)]
    source = values[0]
    byte = 0
    if isinstance(source, Register):
        byte = next((int(m[1]) for m in source.modifiers if m in ("B0", "B1", "B2", "B3")), 0)
    mask = values[1].value if len(values) > 1 and isinstance(values[1], Immediate) else 0x7F
    bits = e.temporary(e.read(i, source))
    for number in members(int(mask or 0) & 0x7F):
        text = f"({bits}&{e.constant(1 << (8 * byte + number))})!={e.constant(0)}"
        e.write_predicate(i, Register(file="P", index=number), f"({text})")


def _is_word(operand: Operand) -> bool:
    return not isinstance(operand, Register | Immediate | Constant)


def emit_ldc(e: Emitter, i: MachineInstruction) -> None:
    """``LDC``, ``ULDC`` and ``LDCU``: a constant, at a fixed place or an indexed one."""
    source = i.operand(1)
    if not isinstance(source, Constant):
        raise i.error("the operand is no constant")
    words = {"64": 2, "128": 4}.get(next((p for p in i.parts if p in ("64", "128")), ""), 1)
    kind = next((p for p in i.parts if p in ("U8", "S8", "U16", "S16")), None)
    target = i.operand(0)
    if not isinstance(target, Register):
        raise i.error("the destination is no register")
    if source.base is None:
        _emit_fixed_constant(e, i, target, source, words, kind)
        return
    e.root = True
    base = e.temporary(f"({e.read(i, source.base)}).view(int32).astype(int64).view(uint64)")
    e.root = False
    width = {"U8": 1, "S8": 1, "U16": 2, "S16": 2}.get(kind or "", 4)
    scalar = {"U8": "uint8", "S8": "int8", "U16": "uint16", "S16": "int16"}.get(kind or "", "uint32")
    offset = f"C.environment.bank_offset({source.bank},{source.offset})"
    e.acts()
    site = e.site(i, Action.LOAD, Space.CONSTANT, width * words)
    arguments = f"C,{site},{e.index},Space.CONSTANT,{base},{offset}"
    if not e.live_registers(target, words):
        e.line(f"touch({arguments},{width * words},{e.guard})")
        return
    loaded = e.temporary(f"load({arguments},{scalar},{words},{e.guard})")
    write_words(e, i, target, loaded, words, kind)
    e.line(f"del {loaded}")


def _emit_fixed_constant(
    e: Emitter, i: MachineInstruction, target: Register, source: Constant, words: int, kind: str | None
) -> None:
    for k in range(words):
        place = Constant(bank=source.bank, base=None, offset=source.offset + 4 * k)
        text = (
            f"C.environment.narrow_constant({source.bank},{source.offset},{kind!r})"
            if kind is not None
            else e.read(i, place)
        )
        e.write(i, following(target, k), text)


def following(register: Register, k: int) -> Register:
    """The register k places after another; RZ stays."""
    index = None if register.index is None else register.index + k
    return Register(file=register.file, index=index)


def write_words(e: Emitter, i: MachineInstruction, target: Register, loaded: str, words: int, kind: str | None) -> None:
    """Write the elements of a loaded list to consecutive registers; narrow ones are extended."""
    for k in range(words):
        text = f"{loaded}[{k}]"
        if kind in ("U8", "U16"):
            text = f"{text}.astype(uint32)"
        elif kind in ("S8", "S16"):
            text = f"{text}.astype(int32).view(uint32)"
        if target.index is not None:
            e.write(i, following(target, k), text)


_SPECIAL = {
    **{f"SR_TID.{a.upper()}": f"%tid.{a}" for a in "xyz"},
    **{f"SR_CTAID.{a.upper()}": f"%ctaid.{a}" for a in "xyz"},
    **{f"SR_NTID.{a.upper()}": f"%ntid.{a}" for a in "xyz"},
    **{f"SR_NCTAID.{a.upper()}": f"%nctaid.{a}" for a in "xyz"},
    **{f"SR_CLUSTERID.{a.upper()}": f"%clusterid.{a}" for a in "xyz"},
    **{f"SR_NCLUSTERID.{a.upper()}": f"%nclusterid.{a}" for a in "xyz"},
    "SR_LANEID": "%laneid",
    "SR_VIRTID": "%smid",
    "SR_SMID": "%smid",
    "SR_VIRTUALSMID": "%smid",
    "SR_WARPID": "%warpid",
    "SR_EQMASK": "%lanemask_eq",
    "SR_LTMASK": "%lanemask_lt",
    "SR_LEMASK": "%lanemask_le",
    "SR_GTMASK": "%lanemask_gt",
    "SR_GEMASK": "%lanemask_ge",
    "SR_CgaCtaId": "%cluster_ctarank",
    "SR_SMEMSZ": "%total_smem_size",
    "SR_DYNSMEMSZ": "%dynamic_smem_size",
}
_CLOCKS = ("SR_CLOCKLO", "SR_CLOCKHI", "SR_GLOBALTIMERLO", "SR_GLOBALTIMERHI")


def _special(e: Emitter, i: MachineInstruction, name: str) -> str:
    if name == "SRZ":
        return e.constant(0)
    if name in _SPECIAL:
        return f"C.special[{_SPECIAL[name]!r}]"
    if name == "SR_CgaSize":
        # the compiler uses it to find one of several tables about clusters; the first one is filled here
        return e.constant(0)
    if name in _CLOCKS:
        return "C.clock(uint32)" if name.endswith("LO") else e.constant(0)
    if name == "SR_SWINHI":
        return "C.environment.window(Space.SHARED)"
    if name == "SR_LWINHI":
        return "C.environment.window(Space.LOCAL)"
    if name == "SR_TID":
        x, y, z = (f"C.special['%tid.{axis}']" for axis in "xyz")
        return f"({x}|({y}<<{e.constant(16)})|({z}<<{e.constant(26)}))"
    raise i.error(f"special register {name} is not supported")


def emit_s2r(e: Emitter, i: MachineInstruction) -> None:
    """``S2R``, ``S2UR`` and ``CS2R``: special registers."""
    source = i.operand(1)
    name = getattr(source, "text", None)
    if name is None and is_zero(source):
        name = "SRZ"
    text = _special(e, i, str(name))
    target = i.operand(0)
    if i.name in ("CS2R", "CS2UR") and not i.has("32") and isinstance(target, Register):
        upper = e.constant(0)
        e.write(i, target, text)
        if target.index is not None:
            e.write(i, following(target, 1), upper)
        return
    if i.name == "S2UR":
        text = f"of_first_active(C,{text},{e.guard})"
    e.write(i, target, text)


def emit_nothing(e: Emitter, i: MachineInstruction) -> None:
    """Instructions without an effect on results: fences, hints, waits for loads."""


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "MOV": emit_mov,
    "UMOV": emit_mov,
    "P2R": emit_p2r,
    "UP2UR": emit_p2r,
    "R2P": emit_r2p,
    "LDC": emit_ldc,
    "ULDC": emit_ldc,
    "LDCU": emit_ldc,
    "S2R": emit_s2r,
    "S2UR": emit_s2r,
    "CS2R": emit_s2r,
    "CS2UR": emit_s2r,
    "R2UR": emit_r2ur,
    **dict.fromkeys(
        (
            "MEMBAR",
            "ERRBAR",
            "FENCE",
            "CCTL",
            "CCTLL",
            "CCTLT",
            "DEPBAR",
            "LDGDEPBAR",
            "YIELD",
            "NANOSLEEP",
            "PREEXIT",
            "ACQBULK",
            "PMTRIG",
            "ENDCOLLECTIVE",
            "CGAERRBAR",
            "UCGABAR_ARV",
            "UCGABAR_WAIT",
        ),
        emit_nothing,
    ),
}
