"""Matrix products of the tensor cores: of fragments spread over a warp (``mma``), and of warpgroups (``wgmma``)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.matrix_products import ELEMENT_BITS, product_of
from ...machine_code.operands import MatrixDescriptors, Register
from .emitter import Emitter
from .moves import following


def emit_product(e: Emitter, i: MachineInstruction) -> None:
    """``HMMA``, ``IMMA``, ``QMMA``, ``BMMA`` and ``DMMA``."""
    product = product_of(i)
    registers = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate][:4]
    if len(registers) < 4:
        raise i.error("this matrix product is not executed")
    target, *sources = registers
    if "COL" in sources[0].modifiers or "ROW" in sources[1].modifiers:
        raise i.error("factors are given by rows of the first and columns of the second")
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
