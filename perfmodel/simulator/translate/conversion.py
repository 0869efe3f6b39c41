"""``cvt`` in all its forms (PTX ISA 9.7.9.21)."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import Instruction
from ...ir.types import VALUE_TYPES, ScalarType, is_float
from .emitter import Emitter

_TO_INTEGRAL = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
_DIRECTED = ("rz", "rm", "rp")


def _is_bfloat(type_name: str) -> bool:
    return type_name == "bf16"


def emit_cvt(e: Emitter, i: Instruction) -> None:
    """``cvt``: between integers and floats of any width, with rounding and saturation."""
    parts = i.parts
    if parts[-1] not in VALUE_TYPES or len(parts) < 3:
        raise i.error("type is missing or not supported")
    if "pack" in parts or "rs" in parts:
        raise i.error("conversion is not supported")
    if parts[-2] in ("f16x2", "bf16x2"):
        _emit_packing(e, i)
        return
    if parts[-2] not in VALUE_TYPES or "pred" in parts[-2:]:
        raise i.error("type is not supported")
    source, target = VALUE_TYPES[parts[-1]], VALUE_TYPES[parts[-2]]
    value = e.read(i, i.operand(1), source)
    if _is_bfloat(parts[-1]):
        value, source = f"bfloat16_to_f32({value})", np.float32
    if "ftz" in parts and source is np.float32:
        value = f"flush({value})"
    if _is_bfloat(parts[-2]):
        value = f"rectify({value})" if "relu" in parts else value
        function = "truncate_bfloat16" if "rz" in parts else "to_bfloat16"
        e.write(i, i.operand(0), f"{function}({value})", np.uint16)
        return
    e.write(i, i.operand(0), _converted(i, value, source, target), target)


def _converted(i: Instruction, value: str, source: ScalarType, target: ScalarType) -> str:
    parts = i.parts
    integral = next((function for part, function in _TO_INTEGRAL.items() if part in parts), None)
    if is_float(source) and not is_float(target):
        return f"float_to_integer({integral or 'trunc'}({value}),{target.__name__})"
    if is_float(target):
        if integral and is_float(source):
            value = f"{integral}({value})"
        directed = next((part for part in _DIRECTED if part in parts), None)
        if directed and not integral:
            value = f"convert_directed({value},{target.__name__},{directed!r})"
        else:
            value = f"({value}).astype({target.__name__})"
        if "ftz" in parts and target is np.float32:
            value = f"flush({value})"
        if "sat" in parts:
            value = f"saturate({value})"
        return f"rectify({value})" if "relu" in parts else value
    if "sat" in parts:
        return f"clamp_integer({value},{target.__name__})"
    return f"({value}).astype({target.__name__})"


def _emit_packing(e: Emitter, i: Instruction) -> None:
    """Two floats to packed halves; the first operand goes to the upper half."""
    parts = i.parts
    if parts[-1] != "f32":
        raise i.error("conversion is not supported")
    high, low = (e.read(i, i.operand(k), np.float32) for k in (1, 2))
    flags = f"{parts[-2] == 'f16x2'},{'relu' in parts},{'rz' in parts}"
    e.write(i, i.operand(0), f"pack_halves({high},{low},{flags})", np.uint32)


EMITTERS = {"cvt": emit_cvt}
