"""Matrix instructions of the tensor cores: shapes, types, and the rate of the pipe that each needs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from ..errors import SimulationError
from .instruction import MachineInstruction

WARPGROUP_ROWS = 64
"""Rows of a product of a warpgroup (PTX ISA, ``wgmma``)."""
WARPGROUP_WARPS = 4

ELEMENT_BITS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "s8": 8,
    "u8": 8,
    "s4": 4,
    "u4": 4,
    "b1": 1,
    "f64": 64,
    "f32": 32,
    "s32": 32,
}


class TensorRate(IntEnum):
    """What the rate of the tensor cores depends on: the types of factors and sums."""

    NONE = 0
    F16 = 1
    """Half precision with sums in half precision."""
    F16_F32 = 2
    """Half precision or bfloat16 with sums in single precision."""
    TF32 = 3
    F8 = 4
    I8 = 5
    I4 = 6
    F64 = 7


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


def rate_of(product: Product) -> TensorRate:
    """By which rate a product is done; single bits have none that is published for all GPUs.

    >>> rate_of(Product(shape=(16, 8, 16), factors=("bf16", "bf16"), sums="f32")).name
    'F16_F32'
    """
    kind = product.factors[0]
    if kind in ("f16", "bf16"):
        return TensorRate.F16 if product.sums == "f16" else TensorRate.F16_F32
    names = {"e4m3": "F8", "e5m2": "F8", "s8": "I8", "u8": "I8", "s4": "I4", "u4": "I4", "tf32": "TF32", "f64": "F64"}
    return TensorRate[names.get(kind, "NONE")]


def tensor_work(instruction: MachineInstruction) -> tuple[TensorRate, float, bool]:
    """Rate and operations (a multiplication and an addition are two) of one warp's instruction, and whether it is ``wgmma``.

    Nothing for what is no matrix product, or one that is not known.
    """
    if instruction.class_name != "tensor" or instruction.never:
        return TensorRate.NONE, 0.0, False
    try:
        product = product_of(instruction)
    except SimulationError:
        return TensorRate.NONE, 0.0, False
    rows, columns, depth = product.shape
    of_warpgroup = rows == WARPGROUP_ROWS
    warps = WARPGROUP_WARPS if of_warpgroup else 1
    return rate_of(product), 2.0 * rows * columns * depth / warps, of_warpgroup


def shared_bytes_of_product(instruction: MachineInstruction) -> int:
    """Bytes of shared memory that a warp's part of a ``wgmma`` reads; 0 for other instructions.

    The second factor always lies there, the first one where it is not given in registers.
    """
    if not tensor_work(instruction)[2]:
        return 0
    product = product_of(instruction)
    rows, columns, depth = product.shape
    first_in_shared = instruction.operand_text.split(",")[1].strip().startswith("gdesc")
    bits = depth * (
        rows * first_in_shared * ELEMENT_BITS[product.factors[0]] + columns * ELEMENT_BITS[product.factors[1]]
    )
    return bits // 8 // WARPGROUP_WARPS
