"""Matrix products of the tensor cores: of fragments spread over a warp (``mma``), and of warpgroups (``wgmma``)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import MatrixDescriptors, Register
from ...program.instruction import Space
from .emitter import Emitter
from .integer import following
from .matrices import ELEMENT_BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """Shape of a product (rows, columns, depth), types of factors and sums, and how products are combined."""

    shape: tuple[int, int, int]
    factors: tuple[str, str]
    sums: str
    combination: str = "product"

    @property
    def registers(self) -> tuple[int, int, int]:
        """Registers of the fragments of A, B and C."""
        m, n, k = self.shape
        x, y = (ELEMENT_BITS[kind] for kind in self.factors)
        return m * k * x // 1024, k * n * y // 1024, m * n * ELEMENT_BITS[self.sums] // 1024


_SHAPES = {
    "884": (8, 8, 4),
    "8x8x4": (8, 8, 4),
    "16x8x4": (16, 8, 4),
    "16x8x8": (16, 8, 8),
    "16x8x16": (16, 8, 16),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "88128": (8, 8, 128),
    "168128": (16, 8, 128),
    "168256": (16, 8, 256),
}
_WARPGROUP = re.compile(r"64x(\d+)x(\d+)")
_INTEGERS = ("S8", "U8", "S4", "U4")
_EIGHT_BITS = ("E4M3", "E5M2")


def _factors(i: MachineInstruction) -> tuple[str, str]:
    """Types of both factors."""
    if i.name in ("DMMA", "BMMA", "BGMMA"):
        kind = "f64" if i.name == "DMMA" else "b1"
        return kind, kind
    named = [part.lower() for part in i.parts if part in (*_INTEGERS, *_EIGHT_BITS)]
    if named:
        return named[0], named[-1]
    if i.name in ("IMMA", "IGMMA", "QMMA", "QGMMA"):
        raise i.error("this matrix product is not executed")
    kind = "bf16" if i.has("BF16") else "tf32" if i.has("TF32") else "f16"
    return kind, kind


def _sums(i: MachineInstruction) -> str:
    if i.name == "DMMA":
        return "f64"
    if i.name in ("IMMA", "IGMMA", "BMMA", "BGMMA"):
        return "s32"
    return "f32" if i.has("F32") else "f16"


def product_of(i: MachineInstruction) -> Product:
    """What a matrix instruction multiplies.

    Raises:
        SimulationError: it is sparse, scaled by blocks, or of a shape that is not known.
    """
    warpgroup = next((m for m in map(_WARPGROUP.fullmatch, i.parts) if m), None)
    shape = next((_SHAPES[part] for part in i.parts if part in _SHAPES), None)
    if warpgroup is not None:
        shape = (64, int(warpgroup[1]), int(warpgroup[2]))
    if shape == (8, 8, 4) and i.name != "DMMA":
        raise i.error("this matrix product is not executed: Volta's are done in four steps")
    if shape is None or i.has("SP", "SF", "E2M1", "E2M3", "E3M2", "SPARSE"):
        raise i.error("this matrix product is not executed: sparse and block-scaled ones are not")
    combination = "xor" if i.has("XOR") else "saturating" if i.has("SAT") else "product"
    return Product(shape=shape, factors=_factors(i), sums=_sums(i), combination=combination)


def emit_product(e: Emitter, i: MachineInstruction) -> None:
    """``HMMA``, ``IMMA``, ``QMMA``, ``BMMA`` and ``DMMA``."""
    product = product_of(i)
    registers = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate][:4]
    if len(registers) < 4:
        raise i.error("this matrix product is not executed")
    target, *sources = registers
    fragments = []
    for source, count in zip(sources, product.registers, strict=True):
        words = [e.read(i, following(source, k)) for k in range(count)]
        fragments.append(f"({','.join(words)},)")
    arguments = f"{product.shape},{product.factors},{product.sums!r},{product.combination!r},{','.join(fragments)}"
    result = e.temporary(f"matrix_product(C,{arguments})")
    for k in range(product.registers[2]):
        e.write(i, following(target, k), f"{result}[{k}]")
    e.line(f"del {result}")


def emit_warpgroup_product(e: Emitter, i: MachineInstruction) -> None:
    """``HGMMA``, ``IGMMA`` and ``QGMMA``: A from shared memory or registers, B from shared memory.

    Of four uniform registers the first two describe A, the last two B.
    """
    product = product_of(i)
    described = next((o for o in i.operands if isinstance(o, MatrixDescriptors)), None)
    registers = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate]
    predicates = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    if described is None or len(registers) not in (2, 3) or product.combination != "product":
        raise i.error("this matrix product is not executed")
    _, columns, depth = product.shape
    target, c = registers[0], registers[-1]
    e.reads_memory(Space.SHARED)
    descriptors = [e.read(i, following(described.register, k)) for k in range(4)]
    a = [e.read(i, following(registers[1], k)) for k in range(4)] if len(registers) == 3 else descriptors[:2]
    count = columns * ELEMENT_BITS[product.sums] // 64
    before = [e.read(i, following(c, k)) for k in range(count)]
    adds = e.predicate(i, predicates[0]) if predicates else e.array(np.ones((1, 1), np.bool_))
    result = e.temporary(
        f"warpgroup_product(C,{e.index},({columns},{depth}),{product.factors},{product.sums!r},({','.join(a)},),"
        f"({','.join(descriptors[2:])},),({','.join(before)},),{adds},{described.modifiers})"
    )
    for k in range(count):
        e.write(i, following(target, k), f"{result}[{k}]")
    e.line(f"del {result}")


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    **dict.fromkeys(("HMMA", "IMMA", "QMMA", "BMMA", "DMMA"), emit_product),
    **dict.fromkeys(("HGMMA", "IGMMA", "QGMMA"), emit_warpgroup_product),
}
