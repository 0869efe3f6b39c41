"""Integer arithmetic and bit manipulation (PTX ISA 9.7.1)."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import Instruction
from ...ir.types import VALUE_TYPES, ScalarType, is_float, is_signed, signed_of, unsigned_of, width_bytes
from ...ptx.operands import CARRY
from .basic import value_type
from .emitter import Emitter


def integer_type(instruction: Instruction, position: int = -1) -> ScalarType:
    """NumPy type of an integer type modifier; SimulationError where it is none."""
    scalar_type = value_type(instruction, position)
    if is_float(scalar_type) or scalar_type is np.bool_:
        raise instruction.error("needs an integer type")
    return scalar_type


def _operands(e: Emitter, i: Instruction, scalar_type: ScalarType, count: int) -> list[str]:
    return [e.read(i, i.operand(k), scalar_type) for k in range(1, count + 1)]


def _packed_halves(i: Instruction) -> bool:
    return i.parts[-1] in ("u16x2", "s16x2")


def emit_add_sub(e: Emitter, i: Instruction) -> None:
    """``add`` and ``sub`` on integers; ``.sat`` clamps signed 32-bit results."""
    if _packed_halves(i):
        _emit_packed(e, i, "x+y" if i.name == "add" else "x-y")
        return
    scalar_type = integer_type(i)
    a, b = _operands(e, i, scalar_type, 2)
    operator = "+" if i.name in ("add", "addc") else "-"
    if "sat" in i.parts:
        e.write(i, i.operand(0), f"clamp_s32({a}.astype(int64){operator}{b}.astype(int64))", np.int32)
    elif "cc" in i.parts or i.name in ("addc", "subc"):
        _write_with_carry(e, i, "add_with_carry" if operator == "+" else "subtract_with_borrow", a, b, scalar_type)
    else:
        e.write(i, i.operand(0), f"({a}{operator}{b})", scalar_type)


def _write_with_carry(e: Emitter, i: Instruction, function: str, a: str, b: str, scalar_type: ScalarType) -> None:
    """A sum or difference that reads or writes the carry flag (PTX ISA 9.7.2)."""
    carry = e.read(i, CARRY, np.uint32) if i.name in ("addc", "subc", "madc") else "None"
    result = e.temporary(f"{function}({a},{b},{carry})")
    e.write(i, i.operand(0), f"{result}[0]", scalar_type)
    if "cc" in i.parts:
        e.write(i, CARRY, f"{result}[1]", np.uint32)


def _emit_packed(e: Emitter, i: Instruction, operation: str) -> None:
    """An operation of ``x`` and ``y`` on both 16-bit halves of words."""
    half = np.uint16 if i.parts[-1] == "u16x2" else np.int16
    a, b = _operands(e, i, np.uint32, 2)
    e.write(i, i.operand(0), f"of_parts(lambda x,y:{operation},{half.__name__},{a},{b})", np.uint32)


def emit_extremum(e: Emitter, i: Instruction) -> None:
    """``min`` and ``max`` on integers."""
    packed = _packed_halves(i)
    scalar_type: ScalarType = np.int16 if packed else integer_type(i)
    a, b = ("x", "y") if packed else _operands(e, i, scalar_type, 2)
    result = f"{i.name}imum({a},{b})"
    if "relu" in i.parts:
        result = f"maximum({result},{e.pool.constant(np.zeros((1, 1), scalar_type))})"
    if packed:
        _emit_packed(e, i, result)
    else:
        e.write(i, i.operand(0), result, scalar_type)


def _wide(scalar_type: ScalarType, i: Instruction) -> ScalarType:
    width = width_bytes(scalar_type)
    if width > 4:
        raise i.error("64-bit operands have no wide product")
    return signed_of(2 * width) if is_signed(scalar_type) else unsigned_of(2 * width)


def _product(e: Emitter, i: Instruction, form: str, scalar_type: ScalarType) -> tuple[str, ScalarType]:
    a, b = _operands(e, i, scalar_type, 2)
    if form == "lo":
        return f"({a}*{b})", scalar_type
    if form == "wide":
        wide = _wide(scalar_type, i)
        return f"({a}.astype({wide.__name__})*{b}.astype({wide.__name__}))", wide
    if form != "hi":
        raise i.error("needs .lo, .hi or .wide")
    if width_bytes(scalar_type) == 8:
        return f"high_product({a},{b})", scalar_type
    wide = _wide(scalar_type, i)
    shift = e.pool.constant(np.full((1, 1), 8 * width_bytes(scalar_type), wide))
    return (
        f"(({a}.astype({wide.__name__})*{b}.astype({wide.__name__}))>>{shift}).astype({scalar_type.__name__})",
        scalar_type,
    )


def emit_mul(e: Emitter, i: Instruction) -> None:
    """``mul`` and ``mad`` on integers: low, high or wide product."""
    scalar_type = integer_type(i)
    form = i.parts[1]
    product, result = _product(e, i, form, scalar_type)
    if "cc" in i.parts or i.name == "madc":
        _write_with_carry(e, i, "add_with_carry", product, e.read(i, i.operand(3), result), result)
        return
    if i.name == "mad":
        addend = e.read(i, i.operand(3), result)
        product = f"clamp_s32({product}.astype(int64)+{addend})" if "sat" in i.parts else f"({product}+{addend})"
    e.write(i, i.operand(0), product, result)


def emit_mul24(e: Emitter, i: Instruction) -> None:
    """``mul24`` and ``mad24``: product of the low 24 bits."""
    scalar_type = integer_type(i)
    a, b = (f"low_24({x})" for x in _operands(e, i, scalar_type, 2))
    product = f"({a}*{b})" if i.parts[1] == "lo" else f"(({a}*{b})>>16)"
    if i.name == "mad24":
        product = f"({product}+{e.read(i, i.operand(3), scalar_type)})"
    e.write(i, i.operand(0), f"{product}.astype({scalar_type.__name__})", scalar_type)


def emit_div_rem(e: Emitter, i: Instruction) -> None:
    """``div`` and ``rem`` on integers; towards zero; by zero all ones and the dividend, as the hardware gives."""
    scalar_type = integer_type(i)
    a, b = _operands(e, i, scalar_type, 2)
    function = "quotient" if i.name == "div" else "remainder"
    e.write(i, i.operand(0), f"{function}({a},{b})", scalar_type)


def emit_abs_neg(e: Emitter, i: Instruction) -> None:
    """``abs`` and ``neg`` on integers."""
    scalar_type = integer_type(i)
    (a,) = _operands(e, i, scalar_type, 1)
    e.write(i, i.operand(0), f"(-{a})" if i.name == "neg" else f"absolute({a})", scalar_type)


def emit_sad(e: Emitter, i: Instruction) -> None:
    """``sad``: sum of an absolute difference."""
    scalar_type = integer_type(i)
    a, b, c = _operands(e, i, scalar_type, 3)
    e.write(i, i.operand(0), f"({c}+(maximum({a},{b})-minimum({a},{b})))", scalar_type)


def emit_bit_count(e: Emitter, i: Instruction) -> None:
    """``popc``, ``clz``, ``bfind``, ``brev``."""
    scalar_type = integer_type(i)
    (a,) = _operands(e, i, scalar_type, 1)
    if i.name == "brev":
        e.write(i, i.operand(0), f"reverse_bits({a})", scalar_type)
        return
    function = {"popc": "count_ones", "clz": "leading_zeros"}.get(i.name)
    if function is None:
        function = "find_leading_shift" if "shiftamt" in i.parts else "find_leading"
    e.write(i, i.operand(0), f"{function}({a})", np.uint32)


def emit_bfe(e: Emitter, i: Instruction) -> None:
    """``bfe``: a bit field, extended as its sign says."""
    scalar_type = integer_type(i)
    (a,) = _operands(e, i, scalar_type, 1)
    position, length = (e.read(i, i.operand(k), np.uint32) for k in (2, 3))
    e.write(i, i.operand(0), f"extract_field({a},{position},{length})", scalar_type)


def emit_bfi(e: Emitter, i: Instruction) -> None:
    """``bfi``: a bit field put into another value."""
    scalar_type = integer_type(i)
    a, b = _operands(e, i, scalar_type, 2)
    position, length = (e.read(i, i.operand(k), np.uint32) for k in (3, 4))
    e.write(i, i.operand(0), f"insert_field({a},{b},{position},{length})", scalar_type)


def emit_bmsk(e: Emitter, i: Instruction) -> None:
    """``bmsk``: a mask of a position and a length."""
    a, b = _operands(e, i, np.uint32, 2)
    e.write(i, i.operand(0), f"bit_mask({a},{b},{'wrap' in i.parts})", np.uint32)


def emit_szext(e: Emitter, i: Instruction) -> None:
    """``szext``: sign- or zero-extension from a bit position."""
    scalar_type = integer_type(i)
    (a,) = _operands(e, i, scalar_type, 1)
    width = e.read(i, i.operand(2), np.uint32)
    if "wrap" in i.parts:
        width = f"({width}&{e.pool.constant(np.full((1, 1), 31, np.uint32))})"
    e.write(i, i.operand(0), f"extend({a},{width})", scalar_type)


def emit_fns(e: Emitter, i: Instruction) -> None:
    """``fns``: the n-th set bit from a place."""
    mask, base = _operands(e, i, np.uint32, 2)
    e.write(i, i.operand(0), f"nth_set({mask},{base},{e.read(i, i.operand(3), np.int32)})", np.uint32)


def emit_prmt(e: Emitter, i: Instruction) -> None:
    """``prmt``: bytes of two words picked by a selector."""
    mode = i.parts[2] if len(i.parts) > 2 else ""
    if mode not in ("", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        raise i.error(f"mode .{mode} is not supported")
    a, b, selector = _operands(e, i, np.uint32, 3)
    e.write(i, i.operand(0), f"permute_bytes({a},{b},{selector},{mode!r})", np.uint32)


def emit_shf(e: Emitter, i: Instruction) -> None:
    """``shf``: funnel shift of two words."""
    parts = i.parts
    if len(parts) < 3 or parts[1] not in ("l", "r") or parts[2] not in ("wrap", "clamp"):
        raise i.error("needs .l or .r and .wrap or .clamp")
    a, b, amount = _operands(e, i, np.uint32, 3)
    e.write(i, i.operand(0), f"funnel_shift({a},{b},{amount},{parts[1] == 'l'},{parts[2] == 'wrap'})", np.uint32)


def emit_dot_product(e: Emitter, i: Instruction) -> None:
    """``dp4a`` and ``dp2a``: products of bytes added to a word."""
    a_type, b_type = (VALUE_TYPES.get(i.parts[k]) for k in (-2, -1))
    if a_type not in (np.uint32, np.int32) or b_type not in (np.uint32, np.int32):
        raise i.error("needs the signs of both operands")
    a, b, c = _operands(e, i, np.uint32, 3)
    signs = f"{a_type is np.int32},{b_type is np.int32}"
    if i.name == "dp4a":
        e.write(i, i.operand(0), f"dot_bytes({a},{b},{c},{signs})", np.uint32)
    else:
        e.write(i, i.operand(0), f"dot_halves({a},{b},{c},{signs},{'hi' in i.parts})", np.uint32)


EMITTERS = {
    **dict.fromkeys(("add", "sub", "addc", "subc"), emit_add_sub),
    **dict.fromkeys(("madc", "mul", "mad"), emit_mul),
    **dict.fromkeys(("min", "max"), emit_extremum),
    **dict.fromkeys(("mul24", "mad24"), emit_mul24),
    **dict.fromkeys(("div", "rem"), emit_div_rem),
    **dict.fromkeys(("abs", "neg"), emit_abs_neg),
    "sad": emit_sad,
    **dict.fromkeys(("popc", "clz", "bfind", "brev"), emit_bit_count),
    "bfe": emit_bfe,
    "bfi": emit_bfi,
    "bmsk": emit_bmsk,
    "szext": emit_szext,
    "fns": emit_fns,
    "prmt": emit_prmt,
    "shf": emit_shf,
    **dict.fromkeys(("dp4a", "dp2a"), emit_dot_product),
}
