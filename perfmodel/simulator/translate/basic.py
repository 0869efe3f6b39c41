"""Moves, address conversion, selection, comparison and logic (PTX ISA 9.7.1, 9.7.5 to 9.7.9)."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import ExecutedInstruction, Instruction, Space
from ...ir.types import VALUE_TYPES, ScalarType, is_float, is_signed, unsigned_of, width_bytes
from ...ptx.operands import integer, names, vector
from .emitter import Emitter, window_of

_ORDERED = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_UNORDERED = {"ltu": ">=", "leu": ">", "gtu": "<=", "geu": "<"}
"""Comparisons that hold for NaN, by the ordered comparison that is their negation."""
_BOOLEAN = {"and": "&", "or": "|", "xor": "^"}


def value_type(instruction: Instruction, position: int = -1) -> ScalarType:
    """NumPy type of a type modifier of the opcode; SimulationError where it is none."""
    parts = instruction.parts
    if len(parts) < -position or parts[position] not in VALUE_TYPES:
        raise instruction.error("type is missing or not supported")
    return VALUE_TYPES[parts[position]]


def comparison(instruction: ExecutedInstruction, operator: str, a: str, b: str, scalar_type: ScalarType) -> str:
    """Expression of a comparison (PTX ISA 9.7.6.1, table of operators)."""
    if operator == "ne" and is_float(scalar_type):
        return f"(({a}<{b})|({a}>{b}))"
    if operator in _ORDERED:
        return f"({a}{_ORDERED[operator]}{b})"
    if operator == "neu":
        return f"({a}!={b})"
    if operator == "equ":
        return f"~(({a}<{b})|({a}>{b}))"
    if operator in _UNORDERED:
        return f"~({a}{_UNORDERED[operator]}{b})"
    if operator in ("num", "nan"):
        return f"{'~' if operator == 'num' else ''}(isnan({a})|isnan({b}))"
    raise instruction.error(f"comparison .{operator} is not supported")


_HALVES = ("bf16", "f16x2", "bf16x2")
"""Types of halves that are compared in double precision."""


def _comparisons(e: Emitter, i: Instruction) -> list[str]:
    """Expressions of what an instruction compares: one, or one for each half of packed operands."""
    kind = i.parts[-1]
    if len(i.parts) < 3:
        raise i.error("comparison is missing")
    if kind not in _HALVES:
        scalar_type = value_type(i)
        a, b = (e.read(i, i.operand(k), scalar_type) for k in (1, 2))
        return [comparison(i, i.parts[1], a, b, scalar_type)]
    packed = kind.endswith("x2")
    texts = [e.temporary(e.read(i, i.operand(k), np.uint32 if packed else np.uint16)) for k in (1, 2)]
    if "ftz" in i.parts:
        texts = [f"flush_halves({text})" for text in texts]
    single = kind.removesuffix("x2")
    pairs = [[f"half_as_double({text},{half},{single!r})" for text in texts] for half in range(1 + packed)]
    return [comparison(i, i.parts[1], a, b, np.float64) for a, b in pairs]


def _combined(e: Emitter, i: Instruction, compared: str) -> str:
    """A comparison with the predicate that it is combined with, if any."""
    if i.parts[2] not in _BOOLEAN:
        return compared
    return f"({compared}{_BOOLEAN[i.parts[2]]}{e.predicate(i, i.operand(3))})"


def emit_setp(e: Emitter, i: Instruction) -> None:
    """``setp``: one or two predicates; the second of packed halves is that of the upper ones, else the opposite."""
    compared = _comparisons(e, i)
    first, _, second = i.operand(0).partition("|")
    if second:
        compared = [e.temporary(text) for text in compared]
    texts = [_combined(e, i, text) for text in (*compared, f"(~{compared[0]})")[:2]]
    if second and i.parts[2] in _BOOLEAN:
        texts = [e.temporary(text) for text in texts]
    e.write(i, first, texts[0], np.bool_)
    if second:
        e.write(i, second, texts[1], np.bool_)


def emit_set(e: Emitter, i: Instruction) -> None:
    """``set``: all ones or 1.0 where the comparison holds, in each half of packed operands."""
    compared, kind = [_combined(e, i, text) for text in _comparisons(e, i)], i.parts[-2]
    target, ones = value_type(i, -2), {"f16x2": 0x3C00, "bf16": 0x3F80, "bf16x2": 0x3F80}
    bits = ones.get(kind, 0xFFFF if len(compared) == 2 else -1)
    zero, parts = e.pool.constant(np.zeros((1, 1), target)), []
    for half, text in enumerate(compared):
        one = np.full((1, 1), 1 if is_float(target) else bits << 16 * half).astype(target)
        parts.append(f"where({text},{e.pool.constant(one)},{zero})")
    e.write(i, i.operand(0), "|".join(parts), target)


def emit_selp(e: Emitter, i: Instruction) -> None:
    """``selp``: one of two values."""
    scalar_type = value_type(i)
    a, b = (e.read(i, i.operand(k), scalar_type) for k in (1, 2))
    e.write(i, i.operand(0), f"where({e.predicate(i, i.operand(3))},{a},{b})", scalar_type)


def emit_slct(e: Emitter, i: Instruction) -> None:
    """``slct``: one of two values by the sign of a third."""
    scalar_type, chooser = value_type(i, -2), value_type(i)
    a, b = (e.read(i, i.operand(k), scalar_type) for k in (1, 2))
    e.write(i, i.operand(0), f"where({e.read(i, i.operand(3), chooser)}>=0,{a},{b})", scalar_type)


def emit_mov(e: Emitter, i: Instruction) -> None:
    """``mov``: a value, or packing and unpacking of a vector of halves."""
    scalar_type = value_type(i)
    target, source = i.operand(0), i.operand(1)
    if target.startswith("{"):
        _unpack(e, i, vector(target), e.read(i, source, _whole(i, scalar_type)), width_bytes(scalar_type))
    elif source.startswith("{"):
        elements = vector(source)
        part = unsigned_of(_part_width(i, scalar_type, len(elements)))
        whole = _whole(i, scalar_type)
        shift = 8 * width_bytes(part)
        packed = "|".join(
            f"({e.read(i, text, part)}.astype({whole.__name__})<<{e.pool.constant(np.full((1, 1), k * shift, whole))})"
            for k, text in enumerate(elements)
        )
        e.write(i, target, f"({packed})", whole)
    else:
        e.write(i, target, e.read(i, source, scalar_type), scalar_type)


def _whole(i: Instruction, scalar_type: ScalarType) -> ScalarType:
    if scalar_type is np.bool_:
        raise i.error("predicates are not packed")
    return unsigned_of(width_bytes(scalar_type))


def _part_width(i: Instruction, scalar_type: ScalarType, count: int) -> int:
    width = width_bytes(scalar_type)
    if count not in (2, 4) or width % count:
        raise i.error(f"{width} bytes are not packed from {count} elements")
    return width // count


def _unpack(e: Emitter, i: Instruction, elements: tuple[str, ...], value: str, width: int) -> None:
    part = unsigned_of(_part_width(i, unsigned_of(width), len(elements)))
    whole = e.temporary(value)
    for k, name in enumerate(elements):
        shift = e.pool.constant(np.full((1, 1), 8 * k * width_bytes(part), unsigned_of(width)))
        e.write(i, name, f"({whole}>>{shift}).astype({part.__name__})", part)


def emit_cvta(e: Emitter, i: Instruction) -> None:
    """``cvta``: between generic addresses and those of a space."""
    parts = i.parts
    space = next((s for s in Space if s.value in parts), None)
    if space is None:
        raise i.error("state space is not supported")
    value = e.read(i, i.operand(1), np.uint64)
    window = window_of(space)
    if window:
        value = f"({value}{'-' if 'to' in parts else '+'}{e.pool.constant(np.full((1, 1), window, np.uint64))})"
    e.write(i, i.operand(0), value, np.uint64)


def emit_isspacep(e: Emitter, i: Instruction) -> None:
    """``isspacep``: whether a generic address lies in a space."""
    space = i.parts[-1]
    value = e.read(i, i.operand(1), np.uint64)
    if space not in ("global", "shared", "local", "const", "shared::cta", "shared::cluster"):
        raise i.error("state space is not supported")
    e.write(i, i.operand(0), f"is_in_space({value},{space.partition('::')[0]!r})", np.bool_)


def emit_logic(e: Emitter, i: Instruction) -> None:
    """``and``, ``or``, ``xor`` on bits or predicates."""
    scalar_type = value_type(i)
    if is_float(scalar_type):
        raise i.error("logic needs bits")
    a, b = (e.read(i, i.operand(k), scalar_type) for k in (1, 2))
    e.write(i, i.operand(0), f"({a}{_BOOLEAN[i.name]}{b})", scalar_type)


def emit_not(e: Emitter, i: Instruction) -> None:
    """``not``: complement of bits or of a predicate."""
    scalar_type = value_type(i)
    if is_float(scalar_type):
        raise i.error("logic needs bits")
    e.write(i, i.operand(0), f"(~{e.read(i, i.operand(1), scalar_type)})", scalar_type)


def emit_cnot(e: Emitter, i: Instruction) -> None:
    """``cnot``: 1 where the operand is 0."""
    scalar_type = value_type(i)
    zero = e.pool.constant(np.zeros((1, 1), scalar_type))
    e.write(
        i, i.operand(0), f"({e.read(i, i.operand(1), scalar_type)}=={zero}).astype({scalar_type.__name__})", scalar_type
    )


def table_expression(table: int, a: str, b: str, c: str, zero: str) -> str:
    """A function of three bits from its truth table, in as few operations as its form allows."""
    simple = {
        0x00: zero,
        0xC0: f"({a}&{b})",
        0xFC: f"({a}|{b})",
        0x3C: f"({a}^{b})",
        0x30: f"({a}&~{b})",
        0x0C: f"(~{a}&{b})",
        0xF3: f"({a}|~{b})",
        0x33: f"(~{b})",
        0x0F: f"(~{a})",
        0x55: f"(~{c})",
        0xF0: a,
        0xCC: b,
        0xAA: c,
        0x80: f"({a}&{b}&{c})",
        0xFE: f"({a}|{b}|{c})",
        0x96: f"({a}^{b}^{c})",
        0xF8: f"({a}|({b}&{c}))",
        0xEA: f"(({a}&{b})|{c})",
        0xE2: f"(({a}&{b})|({c}&~{b}))",
        0xCA: f"(({a}&{b})|(~{a}&{c}))",
        0xD8: f"(({a}&{c})|({b}&~{c}))",
        0xB8: f"(({a}&~{b})|({b}&{c}))",
        0x48: f"(({a}^{c})&{b})",
        0x6A: f"(({a}&{b})^{c})",
        0x78: f"({a}^({b}&{c}))",
        0xC8: f"(({a}|{c})&{b})",
        0xA8: f"(({a}|{b})&{c})",
        0xE0: f"({a}&({b}|{c}))",
        0xE8: f"(({a}&{b})|({c}&({a}|{b})))",
    }
    if table in simple:
        return simple[table]
    terms = []
    for row in range(8):
        if table >> row & 1:
            parts = (f"{'' if row >> bit & 1 else '~'}{x}" for x, bit in ((a, 2), (b, 1), (c, 0)))
            terms.append("(" + "&".join(parts) + ")")
    return "(" + "|".join(terms) + ")"


def emit_lop3(e: Emitter, i: Instruction) -> None:
    """``lop3``: any function of three bits, given as a table of eight."""
    a, b, c = (e.read(i, i.operand(k), np.uint32) for k in (1, 2, 3))
    zero = e.pool.constant(np.zeros((1, 1), np.uint32))
    text = table_expression(literal_integer(i, 4) & 255, f"({a})", f"({b})", f"({c})", f"(({a})&{zero})")
    e.write(i, i.operand(0), text, np.uint32)


def literal_integer(i: Instruction, position: int) -> int:
    """An operand that must be an integer literal."""
    value = integer(i.operand(position))
    if value is None:
        raise i.error(f"operand {i.operand(position)!r} must be a literal")
    return value


def emit_shift(e: Emitter, i: Instruction) -> None:
    """``shl`` and ``shr``; amounts beyond the width give zeros or sign bits."""
    scalar_type = value_type(i)
    if is_float(scalar_type) or scalar_type is np.bool_:
        raise i.error("shifts need integers")
    amount = e.read(i, i.operand(2), np.uint32)
    width = width_bytes(scalar_type)
    if width != 4:
        amount = (
            f"minimum({amount},{e.pool.constant(np.full((1, 1), 64, np.uint32))}).astype({unsigned_of(width).__name__})"
        )
    right = i.name == "shr"
    if right and is_signed(scalar_type):
        amount = f"({amount}).view({scalar_type.__name__})"
        if width == 4:
            limit = e.pool.constant(np.full((1, 1), 32, np.uint32))
            amount = f"minimum({e.read(i, i.operand(2), np.uint32)},{limit}).view(int32)"
    elif is_signed(scalar_type):
        scalar_type = unsigned_of(width)
    e.write(i, i.operand(0), f"({e.read(i, i.operand(1), scalar_type)}{'>>' if right else '<<'}{amount})", scalar_type)


def emit_nothing(e: Emitter, i: Instruction) -> None:
    """Instructions without an effect on results: fences, prefetches, hints."""
    for text in i.operands:
        for name in names(text):
            if e.is_register(name):
                return


def emit_createpolicy(e: Emitter, i: Instruction) -> None:
    """``createpolicy``: what L2 is asked to keep changes no result."""
    e.write(i, i.operand(0), e.pool.constant(np.zeros((1, 1), np.uint64)), np.uint64)


EMITTERS = {
    "createpolicy": emit_createpolicy,
    "setp": emit_setp,
    "set": emit_set,
    "selp": emit_selp,
    "slct": emit_slct,
    "mov": emit_mov,
    "cvta": emit_cvta,
    "isspacep": emit_isspacep,
    **dict.fromkeys(("and", "or", "xor"), emit_logic),
    "not": emit_not,
    "cnot": emit_cnot,
    "lop3": emit_lop3,
    **dict.fromkeys(("shl", "shr"), emit_shift),
    **dict.fromkeys(
        [
            "membar",
            "fence",
            "prefetch",
            "prefetchu",
            "discard",
            "applypriority",
            "nanosleep",
            "pmevent",
            "griddepcontrol",
        ],
        emit_nothing,
    ),
}
