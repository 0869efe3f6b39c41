"""Floating-point arithmetic and conversions of machine code: single, double and half precision, special functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Constant, Immediate, Operand, Register
from ..translate import basic
from .emitter import Emitter
from .integer import write_comparison
from .registers import is_zero, split_predicates

_ROUNDING = {"RM": "downward", "RP": "upward", "RZ": "toward_zero"}
_COMPARISONS = ("EQ", "LT", "LE", "GT", "GE", "LTU", "LEU", "GTU", "GEU", "NEU", "NE", "EQU", "NUM", "NAN")


def comparison(i: MachineInstruction, a: str, b: str) -> str:
    """Expression of a comparison of floats."""
    if i.has("MAX"):
        return f"(({a}>{b})|isnan({b}))"
    if i.has("MIN"):
        return f"(({a}<{b})|isnan({b}))"
    operator = next((name for name in _COMPARISONS if i.has(name)), None)
    if operator is None:
        raise i.error("the comparison is not supported")
    return f"({basic.comparison(i, operator.lower(), a, b, np.float64)})"


def _flushed(i: MachineInstruction, text: str) -> str:
    return f"flush({text})" if i.has("FTZ") else text


def _finished(i: MachineInstruction, text: str) -> str:
    text = _flushed(i, text)
    return f"saturate({text})" if i.has("SAT") else text


def _directed(i: MachineInstruction, function: str) -> str | None:
    way = next((way for modifier, way in _ROUNDING.items() if i.has(modifier)), None)
    return None if way is None else f"{function}_{way}"


def _single(e: Emitter, i: MachineInstruction, position: int) -> str:
    return _flushed(i, e.read(i, i.operand(position), "f32"))


def emit_fadd(e: Emitter, i: MachineInstruction) -> None:
    """``FADD``."""
    a, b = _single(e, i, 1), _single(e, i, 2)
    directed = _directed(i, "add")
    e.write(i, i.operand(0), _finished(i, f"{directed}({a},{b})" if directed else f"({a}+{b})"), "f32")


def emit_fmul(e: Emitter, i: MachineInstruction) -> None:
    """``FMUL``, with a scale where the opcode has one."""
    a, b = _single(e, i, 1), _single(e, i, 2)
    directed = _directed(i, "mul")
    text = f"{directed}({a},{b})" if directed else f"({a}*{b})"
    for modifier, factor in (("D2", 0.5), ("D4", 0.25), ("D8", 0.125), ("M2", 2.0), ("M4", 4.0), ("M8", 8.0)):
        if i.has(modifier):
            text = f"({text}*{e.array(np.full((1, 1), factor, np.float32))})"
    e.write(i, i.operand(0), _finished(i, text), "f32")


def emit_ffma(e: Emitter, i: MachineInstruction) -> None:
    """``FFMA``."""
    a, b, c = (_single(e, i, k) for k in (1, 2, 3))
    function = _directed(i, "fma") or "fma_f32"
    e.write(i, i.operand(0), _finished(i, f"{function}({a},{b},{c})"), "f32")


def emit_packed_single(e: Emitter, i: MachineInstruction) -> None:
    """``FFMA2``, ``FMUL2`` and ``FADD2``: the same on both halves of pairs."""
    values = [e.temporary(e.pair(i, o)) for o in i.operands[1:]]
    directed = _directed(i, {"FFMA2": "fma", "FMUL2": "mul", "FADD2": "add"}[i.name])
    plain = {"FFMA2": "fma_f32({0},{1},{2})", "FMUL2": "({0}*{1})", "FADD2": "({0}+{1})"}[i.name]
    halves = []
    for half in (0, 1):
        texts = [_flushed(i, f"half_of_pair({value},{half})") for value in values]
        halves.append(_finished(i, f"{directed}({','.join(texts)})" if directed else plain.format(*texts)))
    e.write_pair(i, i.operand(0), f"pair_of({','.join(halves)})")


def emit_fmnmx(e: Emitter, i: MachineInstruction) -> None:
    """``FMNMX`` and ``FMNMX3``: minimum where the predicate holds, else maximum."""
    values = [o for o in i.operands[1:] if not (isinstance(o, Register) and o.is_predicate)]
    predicates = [o for o in i.operands[1:] if isinstance(o, Register) and o.is_predicate]
    smaller = e.predicate(i, predicates[-1])
    text = _flushed(i, e.read(i, values[0], "f32"))
    for operand in values[1:]:
        other = _flushed(i, e.read(i, operand, "f32"))
        joined = f"minimum_or_maximum({text},{other},{smaller})"
        text = f"propagate_nan({joined},{text},{other})" if i.has("NAN") else joined
    if i.has("XORSIGN"):  # of magnitudes; the sign is that of a product
        signs = "^".join(f"{e.read(i, _without_sign_changes(value), 'f32')}.view(uint32)" for value in values)
        text = f"({text}.view(uint32)^(({signs})&{e.constant(1 << 31)})).view(float32)"
    e.write(i, i.operand(0), text, "f32")


def _without_sign_changes(operand: Operand) -> Operand:
    if not isinstance(operand, Register):
        return operand
    return Register(file=operand.file, index=operand.index)


def emit_fsetp(e: Emitter, i: MachineInstruction) -> None:
    """``FSETP``."""
    a, b = _single(e, i, 2), _single(e, i, 3)
    others, _ = split_predicates(i.operands, 4)
    write_comparison(e, i, comparison(i, a, b), others)


def emit_fset(e: Emitter, i: MachineInstruction) -> None:
    """``FSET``: 1.0 (``.BF``) or all ones where the comparison holds."""
    a, b = _single(e, i, 1), _single(e, i, 2)
    holds = comparison(i, a, b)
    others, _ = split_predicates(i.operands, 3)
    if others:
        symbol = "|" if i.has("OR") else "^" if i.has("XOR") else "&"
        holds = f"({holds}{symbol}{e.predicate(i, others[0])})"
    one = e.constant(0x3F80_0000 if i.has("BF") else 2**32 - 1)
    e.write(i, i.operand(0), f"where({holds},{one},{e.constant(0)})")


def emit_fsel(e: Emitter, i: MachineInstruction) -> None:
    """``FSEL``: one of two values."""
    a, b = _single(e, i, 1), _single(e, i, 2)
    e.write(i, i.operand(0), f"chosen({e.predicate(i, i.operand(3))},{a},{b})", "f32")


def emit_fchk(e: Emitter, i: MachineInstruction) -> None:
    """``FCHK``: whether a division needs the long way."""
    a, b = e.read(i, i.operand(1), "f32"), e.read(i, i.operand(2), "f32")
    e.write_predicate(i, i.operand(0), f"needs_slow_division({a},{b})")


def emit_fswzadd(e: Emitter, i: MachineInstruction) -> None:
    """``FSWZADD`` belongs to derivatives of graphics."""
    raise i.error("instructions of graphics are not supported")


def emit_mufu(e: Emitter, i: MachineInstruction) -> None:
    """``MUFU``: the special-function unit."""
    function = i.parts[1]
    if function in ("RCP64H", "RSQ64H"):
        e.write(i, i.operand(0), f"approximate_upper({function!r},{e.read(i, i.operand(1))})")
        return
    kind = next((kind for name, kind in (("F16", "f16"), ("BF16", "bf16")) if i.has(name)), None)
    if kind is not None:
        operand = i.operand(1)
        half = 1 if isinstance(operand, Register) and {"H1", "H1_H1"} & set(operand.modifiers) else 0
        word = e.read(i, replace(operand, modifiers=()) if isinstance(operand, Register) else operand)
        e.write(i, i.operand(0), f"approximate_half({function!r},{word},{half},{kind!r})")
        return
    e.write(i, i.operand(0), f"approximate({function!r},{e.read(i, i.operand(1), 'f32')})", "f32")


# ---- double precision


def emit_double(e: Emitter, i: MachineInstruction) -> None:
    """``DADD``, ``DMUL`` and ``DFMA``."""
    count = 3 if i.name == "DFMA" else 2
    # DADD has its second operand where DFMA has its third: the one in between is not printed or RZ
    operands = [e.pair(i, o, "f64") for o in i.operands[1 : 1 + count]]
    directed = _directed(i, {"DADD": "add", "DMUL": "mul", "DFMA": "fma"}[i.name])
    plain = {"DADD": "({0}+{1})", "DMUL": "({0}*{1})", "DFMA": "fma_f64({0},{1},{2})"}[i.name]
    text = f"{directed}({','.join(operands)})" if directed else plain.format(*operands)
    e.write_pair(i, i.operand(0), text, "f64")


def emit_dsetp(e: Emitter, i: MachineInstruction) -> None:
    """``DSETP``."""
    a, b = e.pair(i, i.operand(2), "f64"), e.pair(i, i.operand(3), "f64")
    others, _ = split_predicates(i.operands, 4)
    if i.has("MAX", "MIN"):
        # the first predicate chooses an operand, the second says that the result is no number
        chosen = e.temporary(comparison(i, a, b))
        neither = e.temporary(f"(isnan({a})&isnan({b}))")
        e.write_predicate(i, i.operand(0), chosen)
        e.write_predicate(i, i.operand(1), neither)
        return
    write_comparison(e, i, comparison(i, a, b), others)


def emit_dmnmx(e: Emitter, i: MachineInstruction) -> None:
    """``DMNMX``."""
    a, b = e.pair(i, i.operand(1), "f64"), e.pair(i, i.operand(2), "f64")
    e.write_pair(i, i.operand(0), f"minimum_or_maximum({a},{b},{e.predicate(i, i.operand(3))})", "f64")


# ---- half precision


def _half_kind(i: MachineInstruction) -> str:
    return "bf16" if i.has("BF16_V2", "BF16") else "f16"


def _flushed_halves(i: MachineInstruction, text: str) -> str:
    return f"flush_halves({text})" if i.has("FTZ") and _half_kind(i) == "f16" else text


def _half(e: Emitter, i: MachineInstruction, operand: Operand) -> str:
    """Packed halves of an operand, with its choice of halves and signs."""
    if isinstance(operand, Immediate):
        return e.constant(i.immediate)
    if not isinstance(operand, Register):
        text = e.read(i, _plain(operand))
    elif operand.index is None:
        text = e.constant(0)
    else:
        text = e.read(i, Register(file=operand.file, index=operand.index))
    modifiers = getattr(operand, "modifiers", ())
    if "F32" in modifiers:
        # the compiler reads single precision this way where it rounds toward zero
        return f"pack_halves({_single_of(e, i, operand)},{_single_of(e, i, operand)},True,False,True)"
    if "H0_H0" in modifiers:
        text = f"both_halves({text},0)"
    elif "H1_H1" in modifiers:
        text = f"both_halves({text},1)"
    if getattr(operand, "absolute", False):
        text = f"({text}&{e.constant(0x7FFF_7FFF)})"
    text = _flushed_halves(i, text)
    return f"({text}^{e.constant(0x8000_8000)})" if getattr(operand, "negated", False) else text


def _plain(operand: Operand) -> Operand:
    if isinstance(operand, Constant):
        return Constant(bank=operand.bank, base=operand.base, offset=operand.offset)
    return operand


def _single_of(e: Emitter, i: MachineInstruction, operand: Operand) -> str:
    if not isinstance(operand, Register):
        raise i.error("only registers are read as single precision here")
    return e.read(
        i,
        Register(file=operand.file, index=operand.index, negated=operand.negated, absolute=operand.absolute),
        "f32",
    )


def _half_finished(i: MachineInstruction) -> str:
    return f"{_half_kind(i)!r},True,{i.has('RELU')},{i.has('SAT')}"


def emit_half(e: Emitter, i: MachineInstruction) -> None:
    """``HADD2``, ``HMUL2`` and ``HFMA2`` on packed halves."""
    operands = i.operands[1:]
    if i.name == "HFMA2" and is_zero(operands[0]) and is_zero(operands[1]) and isinstance(operands[2], Immediate):
        e.write(i, i.operand(0), e.constant(i.immediate))  # how a literal is moved by the pipe of half precision
        return
    texts = [_half(e, i, operand) for operand in operands if not _is_predicate(operand)]
    if i.has("F32"):
        kind = _half_kind(i)
        a, b = (f"lower_as_float({text},{kind!r})" for text in texts[:2])
        e.write(i, i.operand(0), f"({a}+{b})", "f32")
        return
    if len(texts) != (3 if i.name == "HFMA2" else 2):
        raise i.error("the number of its operands is not that of the opcode")
    function = {"HADD2": "add_wide", "HMUL2": "mul_wide", "HFMA2": "fma_wide"}[i.name]
    text = f"narrow({function},{_half_finished(i)},{','.join(texts)})"
    e.write(i, i.operand(0), _flushed_halves(i, text))


def _is_predicate(operand: Operand) -> bool:
    return isinstance(operand, Register) and operand.is_predicate


def emit_half_minmax(e: Emitter, i: MachineInstruction) -> None:
    """``HMNMX2`` of two and ``VHMNMX`` of three values: minimum where the predicate holds, else maximum."""
    *values, choice = i.operands[1:]
    if len(values) != (3 if i.name == "VHMNMX" else 2):
        raise i.error("the number of its operands is not that of the opcode")
    smaller, kind = e.predicate(i, choice), _half_kind(i)
    text = _half(e, i, values[0])
    for value in values[1:]:
        a, b = e.temporary(text), _half(e, i, value)
        low, high = (f"narrow({function},{kind!r},True,False,False,{a},{b})" for function in ("fmin", "fmax"))
        text = f"chosen({smaller},{low},{high})"
        if i.has("NAN"):
            text = f"packed_nan({text},{a},{b},{kind!r})"
    e.write(i, i.operand(0), text)


def _half_comparisons(e: Emitter, i: MachineInstruction, operands: tuple[Operand, ...]) -> list[str]:
    texts = [e.temporary(_half(e, i, operand)) for operand in operands]
    kind = _half_kind(i)
    return [comparison(i, *(f"half_as_double({text},{half},{kind!r})" for text in texts)) for half in (0, 1)]


def emit_hsetp2(e: Emitter, i: MachineInstruction) -> None:
    """``HSETP2``: a comparison of each half."""
    low, high = _half_comparisons(e, i, i.operands[2:4])
    others, _ = split_predicates(i.operands, 4)
    symbol = "|" if i.has("OR") else "^" if i.has("XOR") else "&"
    joined = [e.temporary(f"({text}{symbol}{e.predicate(i, others[0])})" if others else text) for text in (low, high)]
    e.write_predicate(i, i.operand(0), joined[0])
    e.write_predicate(i, i.operand(1), joined[1])


def emit_hset2(e: Emitter, i: MachineInstruction) -> None:
    """``HSET2``: 1.0 (``.BF``) or all ones in each half where the comparison holds."""
    low, high = _half_comparisons(e, i, i.operands[1:3])
    others, _ = split_predicates(i.operands, 3)
    if others:
        symbol = "|" if i.has("OR") else "^" if i.has("XOR") else "&"
        low, high = (f"({text}{symbol}{e.predicate(i, others[0])})" for text in (low, high))
    one = (0x3F80 if _half_kind(i) == "bf16" else 0x3C00) if i.has("BF") else 0xFFFF
    text = f"where({low},{e.constant(one)},{e.constant(0)})|where({high},{e.constant(one << 16)},{e.constant(0)})"
    e.write(i, i.operand(0), text)


# ---- conversions

_INTEGRAL = {"TRUNC": "trunc", "FLOOR": "floor", "CEIL": "ceil"}
_INTEGERS = {
    "U8": "uint8",
    "S8": "int8",
    "U16": "uint16",
    "S16": "int16",
    "U32": "uint32",
    "S32": "int32",
    "U64": "uint64",
    "S64": "int64",
}
_FLOATS = {"F16": "f16", "BF16": "bf16", "F32": "f32", "F64": "f64"}
_DIRECTIONS = {"RZ": "rz", "RM": "rm", "RP": "rp"}


def _types(i: MachineInstruction, known: dict[str, str]) -> list[str]:
    return [part for part in i.parts[1:] if part in known]


def _float_source(e: Emitter, i: MachineInstruction, operand: Operand, kind: str) -> str:
    """A floating-point operand of any width, widened to a NumPy type that holds it."""
    if kind == "f64":
        return e.pair(i, operand, "f64")
    if kind == "f32":
        return _flushed(i, e.read(i, operand, "f32"))
    return f"lower_as_float({_half(e, i, operand)},{kind!r})"


def _write_float(e: Emitter, i: MachineInstruction, text: str, kind: str) -> None:
    """Round a value to a floating-point type and write it."""
    way = next((name for modifier, name in _DIRECTIONS.items() if i.has(modifier)), None)
    if kind == "f64":
        text = f"convert_directed({text},float64,{way!r})" if way else f"({text}).astype(float64)"
        e.write_pair(i, i.operand(0), text, "f64")
    elif kind == "f32":
        text = f"convert_directed({text},float32,{way!r})" if way else f"({text}).astype(float32)"
        e.write(i, i.operand(0), _finished(i, text), "f32")
    else:
        if way not in (None, "rz"):
            raise i.error("this rounding to half precision is not supported")
        zero = e.array(np.zeros((1, 1), np.float32))
        e.write(i, i.operand(0), f"pack_halves({zero},{text},{kind == 'f16'},False,{way == 'rz'})")


def emit_f2f(e: Emitter, i: MachineInstruction) -> None:
    """``F2F``: between floating-point types (destination first), or to an integral value."""
    kinds = [_FLOATS[name] for name in _types(i, _FLOATS)]
    if len(kinds) != 2:
        raise i.error("needs two floating-point types")
    _write_float(e, i, _float_source(e, i, i.operand(1), kinds[1]), kinds[0])


def emit_frnd(e: Emitter, i: MachineInstruction) -> None:
    """``FRND``: to an integral value."""
    kinds = [_FLOATS[name] for name in _types(i, _FLOATS)]
    kind = kinds[0] if kinds else "f32"
    function = next((name for modifier, name in _INTEGRAL.items() if i.has(modifier)), "rint")
    _write_float(e, i, f"{function}({_float_source(e, i, i.operand(1), kind)})", kind)


def emit_f2i(e: Emitter, i: MachineInstruction) -> None:
    """``F2I``: a float to an integer, clamped to its range."""
    target = (_types(i, _INTEGERS) or ["S32"])[0]
    source = (_types(i, _FLOATS) or ["F32"])[0]
    function = next((name for modifier, name in _INTEGRAL.items() if i.has(modifier)), "rint")
    text = f"{function}({_float_source(e, i, i.operand(1), _FLOATS[source])})"
    text = f"float_to_integer({text},{_INTEGERS[target]})"
    if target in ("U64", "S64"):
        e.write_pair(i, i.operand(0), text, "u64" if target == "U64" else "s64")
    elif target in ("U32", "S32"):
        e.write(i, i.operand(0), text, "u32" if target == "U32" else "s32")
    else:
        e.write(i, i.operand(0), f"{text}.astype(int32).view(uint32)")


def emit_f2ip(e: Emitter, i: MachineInstruction) -> None:
    """``F2IP``: a float to an unsigned byte, clamped to its range; the other bytes are zero."""
    others = (i.operand(1), i.operand(3))
    if not i.has("U8") or not i.has("F32") or not all(is_zero(operand) for operand in others):
        raise i.error("only one float to an unsigned byte is supported")
    function = next((name for modifier, name in _INTEGRAL.items() if i.has(modifier)), "rint")
    text = f"{function}({_float_source(e, i, i.operand(2), 'f32')})"
    e.write(i, i.operand(0), f"float_to_integer({text},uint8).astype(uint32)")


def emit_i2f(e: Emitter, i: MachineInstruction) -> None:
    """``I2F``, ``I2FP`` and ``UI2F``: an integer to a float."""
    target = (_types(i, _FLOATS) or ["F32"])[0]
    source = (_types(i, _INTEGERS) or ["S32"])[0]
    operand = i.operand(1)
    if source in ("U64", "S64"):
        text = e.pair(i, operand, "u64" if source == "U64" else "s64")
    elif source in ("U32", "S32"):
        text = e.read(i, operand, "u32" if source == "U32" else "s32")
    else:
        byte = 0
        if isinstance(operand, Register):
            names = {**{f"B{k}": k for k in range(4)}, "H0": 0, "H1": 2, "H0_H0": 0, "H1_H1": 2}
            byte = next((names[m] for m in operand.modifiers if m in names), 0)
            operand = Register(file=operand.file, index=operand.index)
        scalar = _INTEGERS[source]
        bits = "uint8" if scalar.endswith("8") else "uint16"
        text = f"({e.read(i, operand)}>>{e.constant(8 * byte)}).astype({bits}).view({scalar})"
    _write_float(e, i, text, _FLOATS[target])


def emit_f2fp(e: Emitter, i: MachineInstruction) -> None:
    """``F2FP``: two floats to packed halves (the first goes to the upper half), 8-bit floats and back, ``tf32``."""
    kind = next((part.lower() for part in i.parts if part in ("E4M3", "E5M2")), None)
    if kind is not None and not i.has("BF16"):
        _emit_eight_bits(e, i, kind)
        return
    if i.has("TF32") and i.has("PACK_B") and not i.has("RZ", "RELU"):
        e.write(i, i.operand(0), f"to_tf32({e.read(i, i.operand(1), 'f32')})")
        return
    if not i.has("PACK_AB") or i.has("TF32", "SATFINITE"):
        raise i.error("only packing to half precision, bfloat16, 8-bit floats and tf32 is supported")
    high, low = (e.read(i, operand, "f32") for operand in i.operands[1:3])
    flags = f"{not i.has('BF16')},{i.has('RELU')},{i.has('RZ')}"
    e.write(i, i.operand(0), f"pack_halves({high},{low},{flags})")


def _emit_eight_bits(e: Emitter, i: MachineInstruction, kind: str) -> None:
    relu = i.has("RELU")
    if i.has("PACK_AB_MERGE_C") and i.has("SATFINITE"):
        high, low = (e.read(i, operand, "f32") for operand in i.operands[1:3])
        e.write(i, i.operand(0), f"pack_eight_bits({high},{low},{e.read(i, i.operand(3))},{kind!r},{relu})")
    elif i.has("UNPACK_B_MERGE_C") and i.has("SATFINITE"):
        halves = e.read(i, i.operand(1))
        high, low = (f"half_as_double({halves},{half},'f16')" for half in (1, 0))
        e.write(i, i.operand(0), f"pack_eight_bits({high},{low},{e.read(i, i.operand(2))},{kind!r},{relu})")
    elif i.has("UNPACK_B"):
        operand = i.operand(1)
        shift = 16 if isinstance(operand, Register) and {"H1", "H1_H1"} & set(operand.modifiers) else 0
        text = e.read(i, operand)
        word = f"({text}>>{e.constant(shift)})" if shift else text
        e.write(i, i.operand(0), f"unpack_eight_bits({word},{kind!r},{relu})")
    else:
        raise i.error("this conversion of 8-bit floats is not supported")


def emit_i2i(e: Emitter, i: MachineInstruction) -> None:
    """``I2I``: an integer clamped to a narrower type."""
    kinds = _types(i, _INTEGERS)
    if not kinds:
        raise i.error("the conversion is not supported")
    source = kinds[1] if len(kinds) > 1 else "S32"
    text = e.read(i, i.operand(1), "u32" if source == "U32" else "s32")
    scalar = _INTEGERS[kinds[0]]
    text = f"clamp_integer({text},{scalar})" if i.has("SAT") else f"{text}.astype({scalar})"
    e.write(i, i.operand(0), f"{text}.astype(int32).view(uint32)")


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "FADD": emit_fadd,
    "FMUL": emit_fmul,
    "FFMA": emit_ffma,
    "UFADD": emit_fadd,
    "UFMUL": emit_fmul,
    "UFFMA": emit_ffma,
    "FFMA2": emit_packed_single,
    "FMUL2": emit_packed_single,
    "FADD2": emit_packed_single,
    "FMNMX": emit_fmnmx,
    "FMNMX3": emit_fmnmx,
    "FSETP": emit_fsetp,
    "UFSETP": emit_fsetp,
    "FSET": emit_fset,
    "FSEL": emit_fsel,
    "UFSEL": emit_fsel,
    "FCHK": emit_fchk,
    "FSWZADD": emit_fswzadd,
    "MUFU": emit_mufu,
    "DADD": emit_double,
    "DMUL": emit_double,
    "DFMA": emit_double,
    "DSETP": emit_dsetp,
    "DMNMX": emit_dmnmx,
    "HADD2": emit_half,
    "HMUL2": emit_half,
    "HFMA2": emit_half,
    "HMNMX2": emit_half_minmax,
    "VHMNMX": emit_half_minmax,
    "HSETP2": emit_hsetp2,
    "HSET2": emit_hset2,
    "F2F": emit_f2f,
    "FRND": emit_frnd,
    "F2I": emit_f2i,
    "I2F": emit_i2f,
    "I2FP": emit_i2f,
    "UI2F": emit_i2f,
    "UI2FP": emit_i2f,
    "UF2I": emit_f2i,
    "F2FP": emit_f2fp,
    "F2IP": emit_f2ip,
    "I2I": emit_i2i,
}
