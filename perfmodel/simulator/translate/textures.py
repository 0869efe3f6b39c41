"""Texture and surface instructions (PTX ISA 9.7.10 and 9.7.11): ``tex``, ``tld4``, ``suld.b`` and ``sust.b`` of objects."""

from __future__ import annotations

import re

import numpy as np

from ...core.constants import SECTOR_BYTES
from ...ir.instruction import Instruction, Space
from ...ir.types import ScalarType
from ...ptx.operands import vector
from ..access import Action
from ..faults import OFFSETS
from ..textures.fetching import Sites
from .emitter import Emitter

_OBJECT = re.compile(r"\[\s*(%[\w$@~.]+)\s*,\s*(\{.*\}|%?[\w$@~.]+)\s*\]$")
_GEOMETRIES = {
    "1d": ("1D", 1),
    "2d": ("2D", 2),
    "3d": ("3D", 3),
    "a1d": ("ARRAY_1D", 2),
    "a2d": ("ARRAY_2D", 3),
    "cube": ("CUBE", 3),
    "acube": ("ARRAY_CUBE", 4),
}
"""Geometries as machine code names them, and their coordinates, the layer first."""
_SURFACES = {"1d": "1D", "2d": "2D", "3d": "3D", "a1d": "1D_ARRAY", "a2d": "2D_ARRAY"}
_BOUNDARIES = {"trap": "trap", "clamp": "clamp", "zero": "zero"}
_VECTORS = {"v2": 2, "v4": 4}


def _sites(e: Emitter, i: Instruction, space: Space, request: Action, passes: Action, halves: Action) -> str:
    def site(action: Action, of_space: Space) -> int:
        return e.pool.site(e.instruction_index, i, action, of_space, SECTOR_BYTES)

    return repr(
        Sites(request=site(request, space), passes=site(passes, Space.GLOBAL), halves=site(halves, Space.GLOBAL))
    )


def _object(e: Emitter, i: Instruction, position: int) -> tuple[str, list[str]]:
    """Handle and texts of the coordinates of the operand in brackets."""
    match = _OBJECT.match(i.operand(position))
    if match is None or not e.is_register(match[1]):
        raise i.error("only texture and surface objects are read: texture references were removed in CUDA 12")
    handle = f"{e.read(i, match[1], np.uint64)}.astype(uint32)"
    return e.temporary(handle), list(vector(match[2]))


def _words(e: Emitter, i: Instruction, texts: list[str], kind: str) -> str:
    """Coordinates as 32-bit words, each with a comma behind."""
    scalar: ScalarType = np.float32 if kind == "f32" else np.uint32
    read = [e.read(i, text, scalar) for text in texts]
    return "".join(f"{text}.view(uint32)," if scalar is np.float32 else f"{text}," for text in read)


def emit_texture(e: Emitter, i: Instruction) -> None:
    """``tex`` and ``tld4``; there is one level, so that its number and gradients change nothing."""
    parts = i.parts
    shape = next((part for part in parts if part in _GEOMETRIES), None)
    kind = parts[-1]
    if shape is None or kind not in ("f32", "s32") or parts[-2] not in ("f32", "s32", "u32") or len(i.operands) < 2:
        raise i.error("this form of texture instruction is not executed")
    gradients = 2 if "grad" in parts else 1 if "level" in parts else 0
    if len(i.operands) > 2 + gradients:
        raise i.error(OFFSETS)
    targets = vector(i.operand(0))
    geometry, count = _GEOMETRIES[shape]
    handle, texts = _object(e, i, 1)
    layered = geometry.startswith("ARRAY")
    layer = _words(e, i, texts[:1], "u32") if layered else ""
    coordinates = layer + _words(e, i, texts[layered:count], kind)
    component = next((part for part in parts[1:] if part in "rgba"), "r")
    operation = str("rgba".index(component)) if i.name == "tld4" else "fetch" if kind == "s32" else "sample"
    wanted = e.wanted(targets)
    sites = _sites(e, i, Space.TEXTURE, Action.LOAD, Action.TEXTURE_READ, Action.TEXTURE_HALF_READ)
    found = e.temporary(
        f"texture_read(C,{sites},{e.instruction_index},{handle},{geometry!r},({coordinates}),{operation!r},{e.guard},{wanted})"
    )
    scalar: ScalarType = np.float32 if parts[-2] == "f32" else np.uint32
    for component_number, target in enumerate(targets if wanted else ()):
        e.write(i, target, f"{found}[{component_number}].view({scalar.__name__})", scalar)


def _surface(e: Emitter, i: Instruction, position: int) -> tuple[str, str, str, int, str]:
    """Handle, geometry, coordinates, bytes of a lane, and how the boundary is treated."""
    parts = i.parts
    shape = next((part for part in parts if part in _SURFACES), None)
    boundary = next((part for part in parts if part in _BOUNDARIES), "trap")
    kind = next((part for part in parts if re.fullmatch(r"b(8|16|32|64)", part)), None)
    if shape is None or kind is None or "b" not in parts:
        raise i.error("only plain bytes of surfaces are read and written")
    width = int(kind[1:]) // 8 * next((n for part, n in _VECTORS.items() if part in parts), 1)
    if kind == "b64" or (width > 4 and kind != "b32"):
        raise i.error("only words of 32 bits, and single bytes and half words, of surfaces are read and written")
    handle, texts = _object(e, i, position)
    if shape.startswith("a"):  # the layer comes first here, and last in machine code
        texts = [*texts[1 : 2 if shape == "a1d" else 3], texts[0]]
    texts = texts[: 3 if shape in ("3d", "a2d") else 2 if shape in ("2d", "a1d") else 1]
    return handle, _SURFACES[shape], _words(e, i, texts, "u32"), width, boundary


def _held(width: int) -> ScalarType:
    return np.uint16 if width < 4 else np.uint32


def emit_surface_load(e: Emitter, i: Instruction) -> None:
    """``suld.b``."""
    targets = vector(i.operand(0))
    handle, geometry, coordinates, width, boundary = _surface(e, i, 1)
    wanted = e.wanted(targets)
    sites = _sites(e, i, Space.SURFACE, Action.LOAD, Action.SURFACE_READ, Action.SURFACE_READ)
    found = e.temporary(
        f"surface_access(C,{sites},{e.instruction_index},{handle},{geometry!r},({coordinates}),{width},{boundary!r},None,"
        f"{e.guard},{wanted})"
    )
    held = _held(width)
    for position, target in enumerate(targets if wanted else ()):
        e.write(i, target, f"{found}[{position}].astype({held.__name__})", held)


def emit_surface_store(e: Emitter, i: Instruction) -> None:
    """``sust.b``."""
    handle, geometry, coordinates, width, boundary = _surface(e, i, 0)
    moves = e.pool.moves(Space.GLOBAL)
    held = _held(width)
    read = [e.read(i, text, e.type_of(text) if e.is_register(text) else held) for text in vector(i.operand(1))]
    values = "".join(f"{text}.view(uint{8 * held().itemsize}).astype(uint32)," for text in read) if moves else ""
    sites = _sites(e, i, Space.SURFACE, Action.STORE, Action.SURFACE_WRITE, Action.SURFACE_WRITE)
    e.line(
        f"surface_access(C,{sites},{e.instruction_index},{handle},{geometry!r},({coordinates}),{width},{boundary!r},({values}),"
        f"{e.guard},{moves})"
    )


EMITTERS = {
    "tex": emit_texture,
    "tld4": emit_texture,
    "suld": emit_surface_load,
    "sust": emit_surface_store,
}
