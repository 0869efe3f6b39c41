"""Matrix products of the tensor cores, on fragments spread over the lanes of a warp (PTX ISA 9.7.14, ``mma``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Register
from .emitter import Emitter
from .integer import following


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Shape of a product, types of factors and sums, and registers of the fragments of A, B and C."""

    shape: tuple[int, int, int]
    factors: tuple[str, str]
    sums: str
    registers: tuple[int, int, int]


_HMMA_SHAPES = {"1688": (16, 8, 8), "16816": (16, 8, 16), "1684": (16, 8, 4)}
_IMMA_SHAPES = {"8816": (8, 8, 16), "16816": (16, 8, 16), "16832": (16, 8, 32)}


def product_of(i: MachineInstruction) -> Product:
    """What a matrix instruction multiplies."""
    if i.name == "DMMA" and i.has("884", "8x8x4"):
        return Product(shape=(8, 8, 4), factors=("f64", "f64"), sums="f64", registers=(2, 2, 4))
    shapes = _HMMA_SHAPES if i.name == "HMMA" else _IMMA_SHAPES if i.name == "IMMA" else {}
    shape = next((value for part, value in shapes.items() if i.has(part)), None)
    if shape is None or (i.has("SP", "TF32", "S4", "U4") and i.name != "HMMA"):
        raise i.error("this matrix product is not executed")
    m, n, k = shape
    if i.name == "IMMA":
        kinds = [part.lower() for part in i.parts if part in ("S8", "U8")]
        factors = (kinds[0], kinds[1]) if len(kinds) == 2 else ("s8", "s8")
        size = 1
        sums = "s32"
    else:
        kind = "bf16" if i.has("BF16") else "tf32" if i.has("TF32") else "f16"
        factors = (kind, kind)
        size = 4 if kind == "tf32" else 2
        sums = "f32" if i.has("F32") else "f16"
    width = 2 if sums == "f16" else 4
    return Product(
        shape=shape,
        factors=factors,
        sums=sums,
        registers=(m * k * size // 128, k * n * size // 128, m * n * width // 128),
    )


def emit_product(e: Emitter, i: MachineInstruction) -> None:
    """``HMMA``, ``IMMA`` and ``DMMA``."""
    product = product_of(i)
    registers = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate][:4]
    if len(registers) < 4 or (i.guard is not None and i.guard.index is not None):
        raise i.error("this matrix product is not executed")
    target, *sources = registers
    fragments = []
    for source, count in zip(sources, product.registers, strict=True):
        words = [e.read(i, following(source, k)) for k in range(count)]
        fragments.append(f"({','.join(words)},)")
    arguments = f"{product.shape},{product.factors},{product.sums!r},{','.join(fragments)}"
    result = e.temporary(f"matrix_product(C,{arguments})")
    for k in range(product.registers[2]):
        e.write(i, following(target, k), f"{result}[{k}]")
    e.line(f"del {result}")


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "HMMA": emit_product,
    "IMMA": emit_product,
    "DMMA": emit_product,
}
