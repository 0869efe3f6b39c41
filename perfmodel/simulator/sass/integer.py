"""Moves, integer arithmetic, comparisons, logic and predicates of machine code, uniform ones among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Immediate, Operand, Register
from ...program.instruction import Space
from ..access import Action
from .emitter import Emitter
from .registers import members

_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_BOOLEAN = {"AND": "&", "OR": "|", "XOR": "^"}
_TRUE = Register(file="P", index=None)


def is_zero(operand: Operand) -> bool:
    """Whether an operand is RZ or a literal zero."""
    if isinstance(operand, Register):
        return operand.index is None and not operand.is_predicate and not operand.inverted
    return isinstance(operand, Immediate) and operand.value == 0


def is_false(operand: Operand) -> bool:
    """Whether an operand is ``!PT``."""
    return isinstance(operand, Register) and operand.is_predicate and operand.index is None and operand.inverted


def is_true(operand: Operand) -> bool:
    """Whether an operand is ``PT``."""
    return isinstance(operand, Register) and operand.is_predicate and operand.index is None and not operand.inverted


def split_predicates(operands: tuple[Operand, ...], first: int) -> tuple[list[Operand], int]:
    """Predicates that stand from a place on, and the place behind them."""
    predicates: list[Operand] = []
    while first < len(operands):
        operand = operands[first]
        if not isinstance(operand, Register) or not operand.is_predicate:
            break
        predicates.append(operand)
        first += 1
    return predicates, first


def _sum(e: Emitter, i: MachineInstruction, operands: list[Operand]) -> str:
    texts = [e.read(i, operand) for operand in operands if not is_zero(operand)]
    return "+".join(texts).replace("+(-", "+(-") if texts else e.constant(0)


def emit_mov(e: Emitter, i: MachineInstruction) -> None:
    """``MOV``, ``UMOV``, ``S2UR`` and others that copy."""
    if "64" in i.parts:
        e.write_pair(i, i.operand(0), e.pair(i, i.operand(1)))
        return
    source = i.operand(1)
    e.write(i, i.operand(0), e.read(i, source))


def emit_r2ur(e: Emitter, i: MachineInstruction) -> None:
    """``R2UR``: the value of the first active lane to a uniform register."""
    operands = [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate)]
    guard, e.guard = e.guard, "None"
    value = f"of_first_active(C,{e.read(i, operands[1])},{guard})"
    if guard != "None":
        value = f"where(any_of_warp(C,{guard}),{value},{e.read(i, operands[0])})"
    e.write(i, operands[0], value)
    e.guard = guard


def emit_iadd3(e: Emitter, i: MachineInstruction) -> None:
    """``IADD3`` and ``UIADD3``: three summands, carries out and (``.X``) in."""
    carries, first = split_predicates(i.operands, 1)
    if "64" in i.parts:
        texts = [e.pair(i, o) for o in i.operands[first:] if not is_zero(o)]
        e.write_pair(i, i.operand(0), "+".join(texts) if texts else e.constant(0, "u64"))
        return
    summands = list(i.operands[first : first + 3])
    incoming, _ = split_predicates(i.operands, first + len(summands))
    carrying = [p for p in incoming if not is_false(p)]
    wanted = [p for p in carries if isinstance(p, Register) and p.index is not None]
    if not wanted:
        text = _sum(e, i, summands)
        for predicate in carrying:
            text += f"+{e.predicate(i, predicate)}.astype(uint32)"
        e.write(i, i.operand(0), text)
        return
    terms = [_carried_term(e, i, operand) for operand in summands if not is_zero(operand)]
    terms += [e.predicate(i, predicate) for predicate in carrying]
    total = e.temporary(f"wide_sum({','.join(terms) if terms else e.constant(0)})")
    # destinations may be read above: all is computed before the first is written
    bits = [e.temporary(f"({total}>>{e.constant(32, 'u64')})>{e.constant(k, 'u64')}") for k in range(len(carries))]
    e.write(i, i.operand(0), f"lower_half({total})")
    for predicate, text in zip(carries, bits, strict=True):
        e.write_predicate(i, predicate, text)


def _carried_term(e: Emitter, i: MachineInstruction, operand: Operand) -> str:
    if isinstance(operand, Register | Constant) and operand.negated:
        plain = e.read(i, _without_sign(operand))
        return f"negated_for_sum({plain})"
    return e.read(i, operand)


def _without_sign(operand: Register | Constant) -> Operand:
    if isinstance(operand, Register):
        return Register(file=operand.file, index=operand.index, modifiers=operand.modifiers)
    return Constant(bank=operand.bank, base=operand.base, offset=operand.offset, modifiers=operand.modifiers)


def emit_add(e: Emitter, i: MachineInstruction) -> None:
    """``VIADD``, ``IADD``: two summands; ``.64`` of pairs, ``.16x2`` and ``.U8x4`` of parts of words."""
    part = _part_of_word(i)
    if part is not None:
        e.write(i, i.operand(0), _sum_of_parts(e, i, i.operand(1), i.operand(2), part))
        return
    if i.has("ISAT"):
        function = "subtract" if _is_negated(i.operand(2)) else "add"
        a, b = (f"{e.read(i, operand, 's32')}.astype(int64)" for operand in (i.operand(1), _positive(i.operand(2))))
        if _is_negated(i.operand(1)) or not i.has("S32"):
            raise i.error("this form of a sum that is clamped is not supported")
        e.write(i, i.operand(0), f"clamp_integer({function}({a},{b}),int32)", "s32")
        return
    if "64" in i.parts:
        e.write_pair(i, i.operand(0), f"({e.pair(i, i.operand(1))}+{e.pair(i, i.operand(2))})")
        return
    e.write(i, i.operand(0), _sum(e, i, list(i.operands[1:3])))


_PARTS = {"16x2": "uint16", "U16x2": "uint16", "S16x2": "int16", "U8x4": "uint8", "S8x4": "int8"}


def _part_of_word(i: MachineInstruction) -> str | None:
    """Type of the parts of a word that an instruction works on each for itself; None where it works on words."""
    found = next((part for part in i.parts if "x2" in part or "x4" in part), None)
    if found is not None and found not in _PARTS:
        raise i.error(f"words in parts of {found} are not supported")
    return None if found is None else _PARTS[found]


def _sum_of_parts(e: Emitter, i: MachineInstruction, a: Operand, b: Operand, part: str) -> str:
    """Sum or difference of the parts of two words."""
    if _is_negated(a):
        raise i.error("a negated first operand is not supported")
    function = "subtract" if _is_negated(b) else "add"
    return f"of_parts({function},{part},{e.read(i, a)},{e.read(i, _positive(b))})"


def _is_signed(i: MachineInstruction) -> bool:
    return not i.has("U32", "U64")


def emit_imad(e: Emitter, i: MachineInstruction) -> None:
    """``IMAD`` and ``UIMAD`` in all forms: low, ``.WIDE``, ``.HI``, ``.X``, and moves, shifts and sums made of them."""
    carries, first = split_predicates(i.operands, 1)
    a, b, c = i.operands[first : first + 3]
    incoming, _ = split_predicates(i.operands, first + 3)
    carrying = [p for p in incoming if not is_false(p)]
    if i.has("WIDE"):
        _emit_imad_wide(e, i, carries, (a, b, c), carrying)
        return
    if i.has("HI"):
        third = e.pair(i, c)
        total = e.temporary(f"product_wide({e.read(i, a)},{e.read(i, b)},{third},{_is_signed(i)})")
        wanted = [p for p in carries if isinstance(p, Register) and p.index is not None]
        carry = e.temporary(f"({total}<{third})") if wanted else ""
        e.write(i, i.operand(0), f"upper_half({total})")
        if wanted:
            e.write_predicate(i, wanted[0], carry)
        return
    text = _product_and_sum(e, i, a, b, c)
    for predicate in carrying:
        text += f"+{e.predicate(i, predicate)}.astype(uint32)"
    e.write(i, i.operand(0), text)


def _product_and_sum(e: Emitter, i: MachineInstruction, a: Operand, b: Operand, c: Operand) -> str:
    terms = []
    if not is_zero(a) and not is_zero(b):
        if isinstance(b, Immediate) and b.value == 1:
            terms.append(e.read(i, a))
        else:
            terms.append(f"{e.read(i, a)}*{e.read(i, b)}")
    if not is_zero(c):
        terms.append(e.read(i, c))
    return "+".join(terms) if terms else e.constant(0)


def _emit_imad_wide(
    e: Emitter, i: MachineInstruction, carries: list[Operand], operands: tuple[Operand, ...], carrying: list[Operand]
) -> None:
    a, b, c = operands
    third = "None" if is_zero(c) else e.pair(i, c)
    product = f"product_wide({e.read(i, a)},{e.read(i, b)},{third},{_is_signed(i)})"
    for predicate in carrying:
        product += f"+{e.predicate(i, predicate)}.astype(uint64)"
    wanted = [p for p in carries if isinstance(p, Register) and p.index is not None]
    if not wanted:
        e.write_pair(i, i.operand(0), product)
        return
    total = e.temporary(product)
    carry = f"({total}<{third})" if third != "None" else e.array(np.zeros((1, 1), np.bool_))
    carry = e.temporary(carry)
    e.write_pair(i, i.operand(0), total)
    e.write_predicate(i, wanted[0], carry)


def emit_lea(e: Emitter, i: MachineInstruction) -> None:
    """``LEA`` and ``ULEA``: a shifted value added to another; ``.HI`` of 64 bits, ``.X`` with a carry in."""
    carries, first = split_predicates(i.operands, 1)
    rest = list(i.operands[first:])
    a, b = rest[0], rest[1]
    position = 2
    high = "None"
    if i.has("HI") and not i.has("SX32"):
        high = e.read(i, rest[2])
        position = 3
    amount = rest[position] if position < len(rest) else None
    shift = (amount.value or 0) & 31 if isinstance(amount, Immediate) else 0
    incoming, _ = split_predicates(tuple(rest), position + 1)
    carrying = [p for p in incoming if not is_false(p)]
    if i.has("HI"):
        low = e.read(i, _positive(a))
        upper = f"{low}.view(int32).astype(int64).view(uint64)" if i.has("SX32") else f"join_halves({low},{high})"
        shifted = f"lower_half({upper}>>{e.constant(32 - shift, 'u64')})"
    else:
        shifted = f"({e.read(i, _positive(a))}<<{e.constant(shift)})" if shift else e.read(i, _positive(a))
    if _is_negated(a) and i.has("X", "HI"):
        raise i.error("a negated first operand of a long shift is not supported")
    wanted = [p for p in carries if isinstance(p, Register) and p.index is not None]
    if not wanted:
        shifted = f"(-{shifted})" if _is_negated(a) else shifted
        text = shifted if is_zero(b) else f"{shifted}+{e.read(i, b)}"
        for predicate in carrying:
            text += f"+{e.predicate(i, predicate)}.astype(uint32)"
        e.write(i, i.operand(0), text)
        return
    shifted = f"negated_for_sum({shifted})" if _is_negated(a) else shifted
    terms = [shifted] + ([] if is_zero(b) else [_carried_term(e, i, b)])
    terms += [e.predicate(i, predicate) for predicate in carrying]
    total = e.temporary(f"wide_sum({','.join(terms)})")
    carry = e.temporary(f"({total}>{e.constant(2**32 - 1, 'u64')})")
    e.write(i, i.operand(0), f"lower_half({total})")
    e.write_predicate(i, wanted[0], carry)


def _positive(operand: Operand) -> Operand:
    return _without_sign(operand) if isinstance(operand, Register | Constant) else operand


def _is_negated(operand: Operand) -> bool:
    return isinstance(operand, Register | Constant) and operand.negated


def emit_shf(e: Emitter, i: MachineInstruction) -> None:
    """``SHF`` and ``USHF``: shifts of 32 bits, and halves of shifts of 64 bits."""
    low, amount, high = i.operands[1:4]
    wrap, upper = i.has("W"), i.has("HI")
    limit = 64 if i.has("U64", "S64") else 32
    signed = i.has("S32", "S64")
    shift = e.read(i, amount)
    fixed = isinstance(amount, Immediate) and amount.value is not None and 0 <= amount.value < 32
    if i.has("L") and not upper and limit == 32 and not wrap:
        text = f"({e.read(i, low)}<<{shift})" if fixed else f"shift_word_left({e.read(i, low)},{shift})"
    elif i.has("R") and upper and limit == 32 and not wrap:
        if fixed and signed:
            text = f"({e.read(i, high, 's32')}>>{e.read(i, amount, 's32')}).view(uint32)"
        elif fixed:
            text = f"({e.read(i, high)}>>{shift})"
        else:
            text = f"shift_word_right({e.read(i, high)},{shift},{signed})"
    else:
        values = f"{e.read(i, low)},{e.read(i, high)},{shift},{limit},{wrap},{upper}"
        text = f"shift_left({values})" if i.has("L") else f"shift_right({values},{signed})"
    e.write(i, i.operand(0), text)


def table_expression(e: Emitter, table: int, a: str, b: str, c: str, zero: str) -> str:
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


def emit_lop3(e: Emitter, i: MachineInstruction) -> None:
    """``LOP3.LUT`` and ``ULOP3.LUT``: any function of three bits; a predicate says whether the result is not zero."""
    predicates, first = split_predicates(i.operands, 1)
    start = 1
    if isinstance(i.operand(0), Register) and i.operand(0).is_predicate:  # type: ignore[union-attr]
        predicates, target, start = [i.operand(0)], i.operand(1), 2
    else:
        target, predicates, start = i.operand(0), [], first
    a, b, c = (e.read(i, operand) for operand in i.operands[start : start + 3])
    literal = i.operand(start + 3)
    if not isinstance(literal, Immediate) or literal.value is None:
        raise i.error("the truth table must be a literal")
    text = table_expression(e, literal.value & 255, a, b, c, f"({a}&{e.constant(0)})")
    if predicates and isinstance(predicates[0], Register) and predicates[0].index is not None:
        result = e.temporary(text)
        holds = f"({result}!={e.constant(0)})"
        other = i.operand(start + 4) if len(i.operands) > start + 4 else None
        if other is not None and not is_false(other):
            holds = f"({holds}{'&' if i.has('PAND') else '|'}{e.predicate(i, other)})"
        holds = e.temporary(holds)
        e.write(i, target, result)
        e.write_predicate(i, predicates[0], holds)
        return
    e.write(i, target, text)


def emit_plop3(e: Emitter, i: MachineInstruction) -> None:
    """``PLOP3.LUT`` and ``UPLOP3.LUT``: two functions of three predicates."""
    first, second = i.operand(0), i.operand(1)
    a, b, c = (e.predicate(i, operand) for operand in i.operands[2:5])
    tables = [o.value for o in i.operands[5:] if isinstance(o, Immediate)]
    if not tables or tables[0] is None:
        raise i.error("the truth table must be a literal")
    zero = e.array(np.zeros((1, 1), np.bool_))
    texts = []
    for operand, table in zip((first, second), (tables[0], tables[1] if len(tables) > 1 else 0), strict=True):
        wanted = isinstance(operand, Register) and operand.index is not None
        texts.append(e.temporary(table_expression(e, int(table or 0) & 255, a, b, c, zero)) if wanted else zero)
    e.write_predicate(i, first, texts[0])
    e.write_predicate(i, second, texts[1])


def combined(e: Emitter, i: MachineInstruction, holds: str, others: list[Operand]) -> tuple[str, str]:
    """A comparison, and its contrary, each joined with a predicate as the opcode says."""
    operator = next((symbol for name, symbol in _BOOLEAN.items() if i.has(name)), "&")
    other = others[0] if others else _TRUE
    if operator == "&" and is_true(other):
        return holds, f"(~{holds})"
    text = e.predicate(i, other)
    return f"({holds}{operator}{text})", f"((~{holds}){operator}{text})"


def write_comparison(e: Emitter, i: MachineInstruction, holds: str, others: list[Operand]) -> None:
    """Write the two predicates of a comparison."""
    first, second = i.operand(0), i.operand(1)
    if isinstance(second, Register) and second.index is not None:
        holds = e.temporary(holds)
        one, other = (e.temporary(text) for text in combined(e, i, holds, others))
        e.write_predicate(i, first, one)
        e.write_predicate(i, second, other)
        return
    e.write_predicate(i, first, combined(e, i, holds, others)[0])


def emit_isetp(e: Emitter, i: MachineInstruction) -> None:
    """``ISETP`` and ``UISETP``; ``.EX`` continues a comparison of the lower halves."""
    operator = next((name for name in _COMPARISONS if i.has(name)), None)
    a, b = i.operand(2), i.operand(3)
    others, _ = split_predicates(i.operands, 4)
    if operator is None:
        if i.has("F") or i.has("T"):
            write_comparison(e, i, e.array(np.array([[i.has("T")]])), others)
            return
        raise i.error("the comparison is not supported")
    if i.has("64", "U64", "S64"):
        kind = "u64" if i.has("U64") else "s64"
        x, y = e.pair(i, a, kind), e.pair(i, b, kind)
    else:
        kind = "u32" if i.has("U32") else "s32"
        x, y = e.read(i, a, kind), e.read(i, b, kind)
    if i.has("EX"):
        low = e.predicate(i, others[1])
        if operator in ("EQ", "NE"):
            holds = f"(({x}=={y})&{low})" if operator == "EQ" else f"(({x}!={y})|{low})"
        else:
            holds = f"(({x}{operator_strict(operator)}{y})|(({x}=={y})&{low}))"
    else:
        holds = f"({x}{_COMPARISONS[operator]}{y})"
    write_comparison(e, i, holds, others[:1])


def operator_strict(operator: str) -> str:
    """The comparison without equality, as the upper halves are compared."""
    return "<" if operator in ("LT", "LE") else ">"


def emit_sel(e: Emitter, i: MachineInstruction) -> None:
    """``SEL`` and ``USEL``: one of two values."""
    if "64" in i.parts:
        text = f"where({e.predicate(i, i.operand(3))},{e.pair(i, i.operand(1))},{e.pair(i, i.operand(2))})"
        e.write_pair(i, i.operand(0), text)
        return
    a, b = e.read(i, i.operand(1)), e.read(i, i.operand(2))
    e.write(i, i.operand(0), f"chosen({e.predicate(i, i.operand(3))},{a},{b})")


def emit_minmax(e: Emitter, i: MachineInstruction) -> None:
    """``VIMNMX``, ``IMNMX``, ``VIMNMX3``, ``VIADDMNMX``: minimum where the predicate holds, else maximum."""
    if i.has("U64", "S64"):
        _emit_long_minmax(e, i)
        return
    kind = "u32" if i.has("U32") else "s32"
    values = [o for o in i.operands[1:] if not (isinstance(o, Register) and o.is_predicate)]
    predicates = [o for o in i.operands[1:] if isinstance(o, Register) and o.is_predicate]
    if not predicates:
        raise i.error("this form of minimum and maximum is not supported")
    part = _part_of_word(i)
    if part is not None:
        _emit_minmax_of_parts(e, i, values, predicates, part)
        return
    if any(isinstance(p, Register) and p.index is not None for p in predicates[:-1]):
        raise i.error("which operand a minimum or maximum takes is not told of whole words")
    smaller = e.predicate(i, predicates[-1])
    texts = [e.read(i, value, kind) for value in values]
    if i.name == "VIADDMNMX":
        total = f"({e.read(i, values[0])}+{e.read(i, values[1])})"
        texts = [total if kind == "u32" else f"{total}.view(int32)", texts[2]]
    text = texts[0]
    for other in texts[1:]:
        text = f"minimum_or_maximum({text},{other},{smaller})"
    if i.has("RELU"):
        text = f"maximum({text},{e.constant(0, kind)})"
    e.write(i, i.operand(0), text, kind)


def _emit_long_minmax(e: Emitter, i: MachineInstruction) -> None:
    """The same of 64 bits: two predicates, result, two values, the choice, and a predicate for longer numbers."""
    told, _ = split_predicates(i.operands, 0)
    target, a, b, smaller, further = i.operands[len(told) : len(told) + 5]
    if not is_false(further) or any(isinstance(p, Register) and p.index is not None for p in told):
        raise i.error("minimum and maximum of more than 64 bits are not supported")
    kind = "u64" if i.has("U64") else "s64"
    text = f"minimum_or_maximum({e.pair(i, a, kind)},{e.pair(i, b, kind)},{e.predicate(i, smaller)})"
    e.write_pair(i, target, text, kind)


def _emit_minmax_of_parts(
    e: Emitter, i: MachineInstruction, values: Sequence[Operand], predicates: Sequence[Operand], part: str
) -> None:
    """The same of the parts of words; two predicates say for which halves, the lower one first, it is the first operand."""
    smaller = predicates[-1]
    if not is_true(smaller) and not is_false(smaller):
        raise i.error("whether it is a minimum must be the same for all lanes")
    function = "minimum" if is_true(smaller) else "maximum"
    if i.name == "VIADDMNMX":
        texts = [_sum_of_parts(e, i, values[0], values[1], part), e.read(i, values[2])]
    else:
        texts = [e.read(i, value) for value in values]
    first = text = e.temporary(texts[0])
    for other in texts[1:]:
        text = f"of_parts({function},{part},{text},{other})"
    chosen = e.temporary(text)
    wanted = predicates[:-1]
    if wanted and part.endswith("16"):
        same = [f"((({first}^{chosen})&{e.constant(0xFFFF << 16 * half)})=={e.constant(0)})" for half in (0, 1)]
        for predicate, name in zip(wanted, [e.temporary(one) for one in same], strict=True):
            e.write_predicate(i, predicate, name)
    if i.has("RELU"):
        chosen = f"of_parts(maximum,{part},{chosen},{e.constant(0)})"
    e.write(i, i.operand(0), chosen)


def emit_iabs(e: Emitter, i: MachineInstruction) -> None:
    """``IABS``."""
    e.write(i, i.operand(0), f"absolute({e.read(i, i.operand(1), 's32')}).view(uint32)")


def emit_prmt(e: Emitter, i: MachineInstruction) -> None:
    """``PRMT`` and ``UPRMT``: four bytes picked from two registers."""
    a, selector, b = (e.read(i, operand) for operand in i.operands[1:4])
    mode = next((m.lower() for m in ("F4E", "B4E", "RC8", "ECL", "ECR", "RC16") if i.has(m)), "")
    e.write(i, i.operand(0), f"permute_bytes({a},{b},{selector},{mode!r})")


def emit_flo(e: Emitter, i: MachineInstruction) -> None:
    """``FLO`` and ``UFLO``: the highest bit."""
    values = [o for o in i.operands[1:] if not (isinstance(o, Register) and o.is_predicate)]
    value = e.read(i, values[0], "u32" if i.has("U32") else "s32")
    e.write(i, i.operand(0), f"find_leading_bit({value},{i.has('SH')})")


def emit_popc(e: Emitter, i: MachineInstruction) -> None:
    """``POPC`` and ``UPOPC``."""
    e.write(i, i.operand(0), f"count_ones({e.read(i, i.operand(1))})")


def emit_brev(e: Emitter, i: MachineInstruction) -> None:
    """``BREV`` and ``UBREV``."""
    e.write(i, i.operand(0), f"reversed_word({e.read(i, i.operand(1))})")


def emit_bmsk(e: Emitter, i: MachineInstruction) -> None:
    """``BMSK`` and ``UBMSK``: ones from a place for a length."""
    a, b = e.read(i, i.operand(1)), e.read(i, i.operand(2))
    e.write(i, i.operand(0), f"bit_mask({a},{b},{i.has('W')})")


def emit_sgxt(e: Emitter, i: MachineInstruction) -> None:
    """``SGXT`` and ``USGXT``: the low bits extended."""
    a, b = e.read(i, i.operand(1)), e.read(i, i.operand(2))
    e.write(i, i.operand(0), f"sign_extended({a},{b},{not i.has('U32')},{i.has('W')})")


def emit_idp(e: Emitter, i: MachineInstruction) -> None:
    """``IDP.4A`` and ``IDP.2A``: products of four bytes, or of two halves with the lower or upper bytes, added to a word."""
    kinds = [part for part in i.parts if part in ("U8", "S8", "U16", "S16")]
    if len(kinds) != 2 or not i.has("4A", "2A") or (i.has("2A") and not i.has("LO", "HI")):
        raise i.error("only products of bytes, and of halves with bytes, are supported")
    a, b, c = (e.read(i, operand) for operand in i.operands[1:4])
    arguments = f"{a},{b},{c},{kinds[0][0] == 'S'},{kinds[1][0] == 'S'}"
    text = f"dot_bytes({arguments})" if i.has("4A") else f"dot_halves({arguments},{i.has('HI')})"
    e.write(i, i.operand(0), text)


def emit_vabsdiff(e: Emitter, i: MachineInstruction) -> None:
    """``VABSDIFF``: absolute difference, added to a third operand."""
    kind = "u32" if i.has("U32") else "s32"
    a, b = (f"{e.read(i, operand, kind)}.astype(int64)" for operand in i.operands[1:3])
    e.write(i, i.operand(0), f"absolute({a}-{b}).astype(uint32)+{e.read(i, i.operand(3))}")


def emit_vabsdiff4(e: Emitter, i: MachineInstruction) -> None:
    """``VABSDIFF4``: absolute differences of four bytes, packed, or their sum (``.ACC``) added to a third operand."""
    a, b, c = (e.read(i, operand) for operand in i.operands[1:4])
    difference = f"of_parts(absolute_difference,{'uint8' if i.has('U8') else 'int8'},{a},{b})"
    if i.has("ACC"):
        e.write(i, i.operand(0), f"dot_bytes({difference},{e.constant(0x01010101)},{c},False,False)")
    elif is_zero(i.operand(3)):
        e.write(i, i.operand(0), difference)
    else:
        raise i.error("packed differences that are merged with a third operand are not supported")


def emit_p2r(e: Emitter, i: MachineInstruction) -> None:
    """``P2R``: predicates to the low bits of a register, the others from another one."""
    values = [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate)]
    mask = values[2].value if len(values) > 2 and isinstance(values[2], Immediate) else 0x7F
    wanted = [Register(file="P", index=k) for k in range(7) if int(mask or 0) >> k & 1]
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


_BOTH: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "MOV": emit_mov,
    "IADD3": emit_iadd3,
    "IMAD": emit_imad,
    "LEA": emit_lea,
    "SHF": emit_shf,
    "LOP3": emit_lop3,
    "PLOP3": emit_plop3,
    "ISETP": emit_isetp,
    "SEL": emit_sel,
    "PRMT": emit_prmt,
    "FLO": emit_flo,
    "POPC": emit_popc,
    "BREV": emit_brev,
    "BMSK": emit_bmsk,
    "SGXT": emit_sgxt,
    "IABS": emit_iabs,
    "VIADD": emit_add,
    "VIMNMX": emit_minmax,
    "VIMNMX3": emit_minmax,
}
EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    **_BOTH,
    **{f"U{name}": function for name, function in _BOTH.items()},
    "IADD": emit_add,
    "UIADD": emit_add,
    "IMNMX": emit_minmax,
    "UIMNMX": emit_minmax,
    "VIADDMNMX": emit_minmax,
    "IDP": emit_idp,
    "VABSDIFF": emit_vabsdiff,
    "VABSDIFF4": emit_vabsdiff4,
    "P2R": emit_p2r,
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
