"""Floating-point arithmetic in single, double and half precision (PTX ISA 9.7.3 and 9.7.4)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.instruction import Instruction
from ...ir.types import ScalarType
from .basic import value_type
from .emitter import Emitter

PACKED = {"f16x2": "f16", "bf16x2": "bf16"}
PAIR = "f32x2"
_KINDS = ("f16", "f32", "f64", "bf16", *PACKED, PAIR)
_NARROW = ("f16", "bf16", *PACKED)
_OPERATORS = {"add": "+", "sub": "-", "mul": "*"}
_DIRECTED = {"rz": "toward_zero", "rm": "downward", "rp": "upward"}
_APPROXIMATE = {
    "rcp": "reciprocal",
    "sqrt": "square_root",
    "rsqrt": "reciprocal_square_root",
    "ex2": "power_of_two",
    "lg2": "logarithm",
    "sin": "sine",
    "cos": "cosine",
    "tanh": "hyperbolic_tangent",
}


def float_kind(instruction: Instruction) -> str | None:
    """The floating type of an instruction, or None where it is an integer instruction."""
    kind = instruction.parts[-1]
    return kind if kind in _KINDS else None


def _operands(e: Emitter, i: Instruction, scalar_type: ScalarType, count: int) -> list[str]:
    return _flushed(i, [e.read(i, i.operand(k), scalar_type) for k in range(1, count + 1)], scalar_type)


def _flushed(i: Instruction, operands: list[str], scalar_type: ScalarType) -> list[str]:
    if "ftz" in i.parts and scalar_type is np.float32:
        return [f"flush({x})" for x in operands]
    return operands


def _finish(i: Instruction, expression: str, scalar_type: ScalarType) -> str:
    if "ftz" in i.parts and scalar_type is np.float32:
        expression = f"flush({expression})"
    if "sat" in i.parts:
        expression = f"saturate({expression})"
    if "relu" in i.parts:
        expression = f"rectify({expression})"
    return expression


def _narrow(e: Emitter, i: Instruction, function: str, count: int) -> None:
    """Half-precision and bfloat16 instructions, packed or not: compute wider, round once."""
    kind = i.parts[-1]
    if kind not in _NARROW or any(part in _KINDS for part in i.parts[1:-1]):
        raise i.error("type is missing or not supported")
    single = PACKED.get(kind, kind)
    storage = np.uint32 if kind in PACKED else np.uint16
    flushed = "ftz" in i.parts and single == "f16"
    operands = [e.read(i, i.operand(k), storage) for k in range(1, count + 1)]
    arguments = ",".join(f"flush_halves({text})" if flushed else text for text in operands)
    flags = f"{'relu' in i.parts},{'sat' in i.parts}"
    call = f"narrow({function},{single!r},{kind in PACKED},{flags},{arguments})"
    e.write(i, i.operand(0), f"flush_halves({call})" if flushed else call, storage)


def _rounding(i: Instruction) -> str | None:
    return next((name for part, name in _DIRECTED.items() if part in i.parts), None)


def _in_pairs(e: Emitter, i: Instruction, operation: Callable[[Instruction, list[str]], str], count: int) -> None:
    """The same on both single-precision halves of 64-bit operands."""
    words = [e.temporary(e.read(i, i.operand(k), np.uint64)) for k in range(1, count + 1)]
    low, high = (
        operation(i, _flushed(i, [f"half_of_pair({word},{half})" for word in words], np.float32)) for half in (0, 1)
    )
    e.write(i, i.operand(0), f"pair_of({low},{high})", np.uint64)


def _sum_or_product(i: Instruction, operands: list[str]) -> str:
    """``add``, ``sub``, ``mul``; directed roundings go through exact sums and products."""
    a, b = operands
    directed = _rounding(i)
    expression = f"{i.name}_{directed}({a},{b})" if directed else f"({a}{_OPERATORS[i.name]}{b})"
    return _finish(i, expression, np.float64 if i.parts[-1] == "f64" else np.float32)


def emit_binary(e: Emitter, i: Instruction) -> None:
    """``add``, ``sub``, ``mul`` in every precision."""
    if i.parts[-1] == PAIR:
        _in_pairs(e, i, _sum_or_product, 2)
    elif i.parts[-1] not in ("f32", "f64"):
        _narrow(e, i, f"{i.name}_wide", 2)
    else:
        scalar_type = value_type(i)
        e.write(i, i.operand(0), _sum_or_product(i, _operands(e, i, scalar_type, 2)), scalar_type)


def _fused(i: Instruction, operands: list[str]) -> str:
    """``fma`` and ``mad``: one rounding."""
    double = i.parts[-1] == "f64"
    suffix = f"_{_rounding(i)}" if _rounding(i) else ("_f64" if double else "_f32")
    return _finish(i, f"fma{suffix}({','.join(operands)})", np.float64 if double else np.float32)


def emit_fma(e: Emitter, i: Instruction) -> None:
    """``fma`` and ``mad`` in every precision."""
    if i.parts[-1] == PAIR:
        _in_pairs(e, i, _fused, 3)
    elif i.parts[-1] not in ("f32", "f64"):
        _narrow(e, i, "fma_wide", 3)
    else:
        scalar_type = value_type(i)
        e.write(i, i.operand(0), _fused(i, _operands(e, i, scalar_type, 3)), scalar_type)


def emit_div(e: Emitter, i: Instruction) -> None:
    """``div``: correctly rounded; the approximate forms are at least as exact as documented."""
    scalar_type = value_type(i)
    a, b = _operands(e, i, scalar_type, 2)
    directed = _rounding(i)
    if directed:
        expression = f"div_{directed}({a},{b})"
    elif "approx" in i.parts or "full" in i.parts:
        expression = f"approximate_quotient({a},{b})"
    else:
        expression = f"({a}/{b})"
    e.write(i, i.operand(0), _finish(i, expression, scalar_type), scalar_type)


def emit_extremum(e: Emitter, i: Instruction) -> None:
    """``min`` and ``max``: the other operand where one is NaN, unless ``.NaN`` is given."""
    if "xorsign" in i.parts:
        raise i.error("modifier .xorsign is not supported")
    function = ("least_or_nan" if i.name == "min" else "greatest_or_nan") if "NaN" in i.parts else f"f{i.name}"
    if i.parts[-1] not in ("f32", "f64"):
        _narrow(e, i, function, 2)
        return
    scalar_type = value_type(i)
    count = 3 if len(i.operands) == 4 else 2
    expression, *rest = _operands(e, i, scalar_type, count)
    for operand in rest:
        expression = f"{function}({expression},{operand})"
    e.write(i, i.operand(0), _finish(i, expression, scalar_type), scalar_type)


def emit_sign(e: Emitter, i: Instruction) -> None:
    """``abs``, ``neg`` and ``copysign``."""
    kind = i.parts[-1]
    if kind not in ("f32", "f64"):
        storage = np.uint32 if kind in PACKED else np.uint16
        sign = e.pool.constant(np.full((1, 1), 0x80008000 if kind in PACKED else 0x8000).astype(storage))
        operator = f"^{sign}" if i.name == "neg" else f"&~{sign}"
        e.write(i, i.operand(0), f"({e.read(i, i.operand(1), storage)}{operator})", storage)
        return
    scalar_type = value_type(i)
    operands = _operands(e, i, scalar_type, 2 if i.name == "copysign" else 1)
    if i.name == "copysign":
        expression = f"copysign({operands[1]},{operands[0]})"
    else:
        expression = f"(-{operands[0]})" if i.name == "neg" else f"absolute({operands[0]})"
    e.write(i, i.operand(0), expression, scalar_type)


def emit_approximate(e: Emitter, i: Instruction) -> None:
    """``rcp``, ``sqrt``, ``rsqrt``, ``ex2``, ``lg2``, ``sin``, ``cos``, ``tanh``: computed in double precision, rounded once."""
    function = _APPROXIMATE[i.name]
    if i.parts[-1] not in ("f32", "f64"):
        _narrow(e, i, function, 1)
        return
    scalar_type = value_type(i)
    (a,) = _operands(e, i, scalar_type, 1)
    directed = _rounding(i)
    if directed and i.name in ("rcp", "sqrt"):
        one = e.pool.constant(np.ones((1, 1), scalar_type))
        expression = f"div_{directed}({one},{a})" if i.name == "rcp" else f"sqrt_{directed}({a})"
    else:
        expression = f"{function}({a})"
    e.write(i, i.operand(0), _finish(i, expression, scalar_type), scalar_type)


def emit_testp(e: Emitter, i: Instruction) -> None:
    """``testp``: class of a floating-point value."""
    scalar_type = value_type(i)
    question = i.parts[1]
    if question not in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        raise i.error(f"test .{question} is not supported")
    e.write(i, i.operand(0), f"test_{question}({e.read(i, i.operand(1), scalar_type)})", np.bool_)


EMITTERS = {
    **dict.fromkeys(("add", "sub", "mul"), emit_binary),
    **dict.fromkeys(("fma", "mad"), emit_fma),
    "div": emit_div,
    **dict.fromkeys(("min", "max"), emit_extremum),
    **dict.fromkeys(("abs", "neg", "copysign"), emit_sign),
    "testp": emit_testp,
    **dict.fromkeys(_APPROXIMATE, emit_approximate),
}
