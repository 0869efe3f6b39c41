"""Texture and surface instructions of machine code: operands to calls of the simulator's textures.

``TEX``, ``TLD``, ``TLD4`` and ``TXD`` write up to four components, two from the second operand on and two from the first; the
object's handle stands in a constant bank, in a uniform register or, with ``.B``, before what else there is.
"""

from __future__ import annotations

from collections.abc import Callable

from ...core.constants import SECTOR_BYTES
from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Constant, Immediate, Operand, Register, Word
from ..access import Action
from ..textures.fetching import Sites
from .emitter import Emitter
from .moves import following

_COORDINATES = {"1D": 1, "2D": 2, "3D": 3, "CUBE": 3, "ARRAY_1D": 2, "ARRAY_2D": 3, "ARRAY_CUBE": 4}
"""Registers of coordinates by geometry, the layer with them."""
_ALL_COMPONENTS = 0xF
_SURFACE_COORDINATES = {"1D": 1, "2D": 2, "3D": 3, "1D_ARRAY": 2, "2D_ARRAY": 3}
_SURFACE_BYTES = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}


def _sites(e: Emitter, i: MachineInstruction, space: Space, request: Action, passes: Action, halves: Action) -> str:
    """The sites of an instruction; of a pass the bytes of a sector."""
    return repr(
        Sites(
            request=e.site(i, request, space, SECTOR_BYTES),
            passes=e.site(i, passes, Space.GLOBAL, SECTOR_BYTES),
            halves=e.site(i, halves, Space.GLOBAL, SECTOR_BYTES),
        )
    )


def _object(e: Emitter, i: MachineInstruction, before_shape: tuple[Operand, ...]) -> str | None:
    """The handle where it is not in the instruction's registers; None where it is."""
    for operand in before_shape:
        if isinstance(operand, Register) and operand.file == "UR":
            return e.read(i, operand)
    numbers = [o for o in before_shape if isinstance(o, Immediate)]
    if len(numbers) < 2:
        return None
    bank, word = numbers[-2].value, numbers[-1].value
    return e.read(i, Constant(bank=int(bank or 0), base=None, offset=4 * int(word or 0)))


def emit_texture(e: Emitter, i: MachineInstruction) -> None:
    """``TEX``, ``TLD``, ``TLD4`` and ``TXD``; there is one level, so that its number and gradients change nothing."""
    operands = i.operands
    shape = next((k for k, o in enumerate(operands) if isinstance(o, Word) and o.text in _COORDINATES), None)
    if shape is None or not all(isinstance(o, Register) and not o.is_predicate for o in operands[:3]):
        raise i.error("the operands of a texture instruction are not understood")
    geometry = _word(i, operands[shape])
    place, second, first = operands[2], operands[1], operands[0]
    assert isinstance(place, Register)
    assert isinstance(second, Register)
    assert isinstance(first, Register)
    after = operands[shape + 1 :]
    mask = after[0].value if after and isinstance(after[0], Immediate) else _ALL_COMPONENTS
    components = [k for k in range(4) if int(mask or 0) >> k & 1]
    targets = [second, following(second, 1), first, following(first, 1)][: len(components)]
    e.acts()
    e.reads_memory(Space.GLOBAL)
    e.root = True
    handle = _object(e, i, operands[3:shape])
    if handle is None:
        handle = e.read(i, operands[3])
    coordinates = ",".join(e.read(i, following(place, k)) for k in range(_COORDINATES[geometry]))
    e.root = False
    operation = {"TLD": "fetch", "TLD4": str("RGBA".find(i.parts[-1]))}.get(i.name, "sample")
    wanted = e.live(*targets)
    sites = _sites(e, i, Space.TEXTURE, Action.LOAD, Action.TEXTURE_READ, Action.TEXTURE_HALF_READ)
    found = e.temporary(
        f"texture_read(C,{sites},{e.index},{handle},{geometry!r},({coordinates},),{operation!r},{e.guard},{wanted})"
    )
    if wanted:
        for component, target in zip(components, targets, strict=True):
            e.write(i, target, f"{found}[{component}]")
    e.line(f"del {found}")


def _word(i: MachineInstruction, operand: Operand) -> str:
    if not isinstance(operand, Word):
        raise i.error("the geometry of a texture instruction is not understood")
    return operand.text


def _surface(e: Emitter, i: MachineInstruction, address: Operand) -> tuple[str, str, int]:
    """Handle, geometry and coordinates as arguments, how the boundary is treated, and bytes of a lane."""
    if not isinstance(address, Address) or address.base is None:
        raise i.error("the operands of a surface instruction are not understood")
    geometry = next((part for part in i.parts if part in _SURFACE_COORDINATES), None)
    if geometry is None or not i.has("D"):
        raise i.error("only plain bytes of surfaces are read and written")
    boundary = "trap" if i.has("TRAP") else "zero" if i.has("IGN") else "clamp"
    width = next((size for part, size in _SURFACE_BYTES.items() if part in i.parts), 4)
    e.root = True
    handle = _object(e, i, i.operands[2:]) or e.read(i, i.operands[2])
    coordinates = ",".join(e.read(i, following(address.base, k)) for k in range(_SURFACE_COORDINATES[geometry]))
    e.root = False
    return f"{handle},{geometry!r},({coordinates},)", boundary, width


def emit_surface_load(e: Emitter, i: MachineInstruction) -> None:
    """``SULD.D``."""
    target, address = i.operand(0), i.operand(1)
    if not isinstance(target, Register):
        raise i.error("the operands of a surface instruction are not understood")
    e.acts()
    e.reads_memory(Space.GLOBAL)
    place, boundary, width = _surface(e, i, address)
    words = max(width // 4, 1)
    wanted = e.live_registers(target, words)
    sites = _sites(e, i, Space.SURFACE, Action.LOAD, Action.SURFACE_READ, Action.SURFACE_READ)
    found = e.temporary(f"surface_access(C,{sites},{e.index},{place},{width},{boundary!r},None,{e.guard},{wanted})")
    if wanted:
        signed = {"S8": "int8", "S16": "int16"}.get(next((p for p in i.parts if p in ("S8", "S16")), ""), "")
        for k in range(words):
            text = f"{found}[{k}]"
            text = f"{text}.astype({signed}).astype(int32).view(uint32)" if signed else text
            e.write(i, following(target, k), text)
    e.line(f"del {found}")


def emit_surface_store(e: Emitter, i: MachineInstruction) -> None:
    """``SUST.D``."""
    address, source = i.operand(0), i.operand(1)
    e.acts()
    place, boundary, width = _surface(e, i, address)
    values = e.stored(i, [(source, max(width // 4, 1))], Space.GLOBAL)
    moves = e.pool.moves(Space.GLOBAL)
    stored = f"({','.join(values)},)" if moves else "()"
    sites = _sites(e, i, Space.SURFACE, Action.STORE, Action.SURFACE_WRITE, Action.SURFACE_WRITE)
    e.line(f"surface_access(C,{sites},{e.index},{place},{width},{boundary!r},{stored},{e.guard},{moves})")


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    **dict.fromkeys(("TEX", "TLD", "TLD4", "TXD"), emit_texture),
    "SULD": emit_surface_load,
    "SUST": emit_surface_store,
}
