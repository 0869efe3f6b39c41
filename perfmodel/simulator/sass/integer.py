"""Integer arithmetic, comparisons, logic and predicates of machine code, uniform ones among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Immediate, Operand, Register
from ..translate.basic import table_expression
from .emitter import Emitter
from .registers import is_false, is_true, is_zero, split_predicates

_COMPARISONS = {"EQ": "==", "NE": "!=", "LT": "<", "LE": "<=", "GT": ">", "GE": ">="}
_BOOLEAN = {"AND": "&", "OR": "|", "XOR": "^"}
_TRUE = Register(file="P", index=None)


def _sum(e: Emitter, i: MachineInstruction, operands: list[Operand]) -> str:
    texts = [e.read(i, operand) for operand in operands if not is_zero(operand)]
    return "+".join(texts).replace("+(-", "+(-") if texts else e.constant(0)


def emit_iadd3(e: Emitter, i: MachineInstruction) -> None:
    """``IADD3`` and ``UIADD3``: three summands, carries out and (``.X``) in; two of ``IADD`` and ``UIADD``."""
    carries, first = split_predicates(i.operands, 1)
    summands = list(i.operands[first : first + (2 if i.name in ("IADD", "UIADD") else 3)])
    incoming, _ = split_predicates(i.operands, first + len(summands))
    carrying = [p for p in incoming if not is_false(p)]
    wanted = [p for p in carries if isinstance(p, Register) and p.index is not None]
    if "64" in i.parts:
        if wanted or carrying:
            raise i.error("carries of a sum of 64 bits are not supported")
        texts = [e.pair(i, o) for o in summands if not is_zero(o)]
        e.write_pair(i, i.operand(0), "+".join(texts) if texts else e.constant(0, "u64"))
        return
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
    """``VIADD``: two summands; ``.64`` of pairs, ``.16x2`` and ``.U8x4`` of parts of words."""
    part = _part_of_word(i)
    if part is not None:
        if i.has("ISAT"):
            raise i.error("sums of parts of words that are clamped are not supported")
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
    text = table_expression(literal.value & 255, a, b, c, f"({a}&{e.constant(0)})")
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
        texts.append(e.temporary(table_expression(int(table or 0) & 255, a, b, c, zero)) if wanted else zero)
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
        raise i.error("predicates that say which operand a minimum or maximum of whole words takes are not supported")
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
    taken, _ = split_predicates(i.operands, 0)
    target, a, b, smaller, further = i.operands[len(taken) : len(taken) + 5]
    if not is_false(further) or any(isinstance(p, Register) and p.index is not None for p in taken):
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
    e.write(i, i.operand(0), f"{'find_leading_shift' if i.has('SH') else 'find_leading'}({value})")


def emit_popc(e: Emitter, i: MachineInstruction) -> None:
    """``POPC`` and ``UPOPC``."""
    e.write(i, i.operand(0), f"count_ones({e.read(i, i.operand(1))})")


def emit_brev(e: Emitter, i: MachineInstruction) -> None:
    """``BREV`` and ``UBREV``."""
    e.write(i, i.operand(0), f"reverse_bits({e.read(i, i.operand(1))})")


def emit_bmsk(e: Emitter, i: MachineInstruction) -> None:
    """``BMSK`` and ``UBMSK``: ones from a place for a length."""
    a, b = e.read(i, i.operand(1)), e.read(i, i.operand(2))
    e.write(i, i.operand(0), f"bit_mask({a},{b},{i.has('W')})")


def emit_sgxt(e: Emitter, i: MachineInstruction) -> None:
    """``SGXT`` and ``USGXT``: the low bits extended.

    With a constant operand ptxas (12.9 and 13.5) encodes neither which constant it is nor whether the sign is extended.
    """
    if isinstance(i.operand(2), Constant):
        raise i.error("the assembler does not encode which constant this is")
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


_BOTH: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
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
    "IADD": emit_iadd3,
    "UIADD": emit_iadd3,
    "IMNMX": emit_minmax,
    "UIMNMX": emit_minmax,
    "VIADDMNMX": emit_minmax,
    "IDP": emit_idp,
    "VABSDIFF": emit_vabsdiff,
    "VABSDIFF4": emit_vabsdiff4,
}
