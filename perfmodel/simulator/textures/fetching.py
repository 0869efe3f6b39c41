"""Texture and surface instructions on the lanes of a batch: objects by their handles, texels from memory, sectors to observers.

A warp's instruction passes the texture pipe in groups of lanes: four, where texels of more than 32 bits or of three axes are
filtered two, of integer fetches and surfaces eight. Each group asks for each of its sectors once (counted on an H200,
`docs/notes/2026-11-textures.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...core.constants import SECTOR_BYTES, WARP_SIZE
from ...core.distinct_values import distinct
from ...ir.types import ScalarType
from ...launch.texture import BoundTexture, Extent, Texture
from ..block_classes.classes import NotFollowedError
from ..faults import FaultKind
from ..machine import Lanes
from ..plan import Mask, Plan, both
from .filtering import COMPONENTS, components, gathered_component
from .texels import Texels, byte_offsets, fetched, gathered, texels_of

TEXTURE_INSTRUCTIONS = frozenset({"TEX", "TLD", "TLD4", "TXD", "SULD", "SUST", "tex", "tld4", "suld", "sust"})
"""First words of the instructions that read or write texture and surface objects, of machine code and of PTX."""
Values = NDArray[Any]
Numbers = NDArray[np.int64]
Words = NDArray[np.uint32]
_OBJECT = "texture or surface object"
_HOW = "give the argument as texture=f32[512,512] or surface=f32[512,512]"
_TURN_SHIFT = 43
"""Bits of the number of a sector: addresses have 48."""
_SECTORS = (1 << _TURN_SHIFT) - 1
_QUAD = 4
_PAIR = 2
_FETCH_LANES = 8
_FETCH_LANES_OF_WIDE = 4
_SURFACE_LANES = 8
"""Lanes that pass the texture pipe together, by what they read."""
_SIMPLE = ("sample", "fetch")
_ZEROS = (0.0,) * COMPONENTS
_UNSIGNED: dict[int, ScalarType] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_SHAPES: dict[str, tuple[Extent, ...]] = {
    "1D": (Extent.LINEAR, Extent.LINE),
    "2D": (Extent.PLANE, Extent.LINE, Extent.LINEAR),
    "3D": (Extent.SPACE,),
    "ARRAY_1D": (Extent.LAYERED_LINE,),
    "ARRAY_2D": (Extent.LAYERED_PLANE,),
    "CUBE": (Extent.CUBE,),
    "ARRAY_CUBE": (Extent.LAYERED_CUBE,),
}
"""Arrays that an instruction of each geometry may see; lines are read as planes of one row."""
_SURFACES: dict[str, tuple[Extent, ...]] = {
    "1D": (Extent.LINE,),
    "2D": (Extent.PLANE,),
    "3D": (Extent.SPACE,),
    "1D_ARRAY": (Extent.LAYERED_LINE,),
    "2D_ARRAY": (Extent.LAYERED_PLANE, Extent.CUBE, Extent.LAYERED_CUBE),
}


class Sites(NamedTuple):
    """Sites of one instruction: the request of a warp, its passes, and those that pass two at once."""

    request: int
    passes: int
    halves: int


class _Asked(NamedTuple):
    """What lanes ask of one object: sectors of shape ``(n, k)``, and which of them are read."""

    lanes: Numbers
    sector: Numbers
    is_read: NDArray[np.bool_]
    group: int
    """Lanes that pass together."""
    halved: bool = False
    """Whether each group passes twice, for half of each texel."""

    def of_passes(self) -> tuple[Numbers, Numbers, Numbers]:
        """Warp, number of the pass within it and sector, of everything that is read."""
        lane, texel = np.nonzero(np.broadcast_to(self.is_read, self.sector.shape))
        thread = self.lanes[lane]
        return thread // WARP_SIZE, thread % WARP_SIZE // self.group, self.sector[lane, texel]


def _here(lanes: Lanes, instruction: int, guard: Mask | None) -> Numbers:
    """The active lanes, numbered over all blocks of the batch.

    Raises:
        NotFollowedError: other blocks are followed; each of them is executed then.
    """
    if lanes.batch.classes is not None:
        raise NotFollowedError(f"texture coordinates ({lanes.environment.instructions[instruction].text})")
    effective = both(lanes.active, guard)
    if effective is None:
        return np.arange(lanes.rows * lanes.threads)
    return np.flatnonzero(np.broadcast_to(effective, lanes.shape))


def _flat(lanes: Lanes, values: Values, which: Numbers) -> Values:
    taken: Values = np.broadcast_to(values, lanes.shape).reshape(-1)[which]
    return taken


def _objects(
    lanes: Lanes,
    instruction: int,
    handle: Values,
    coordinates: tuple[Values, ...],
    guard: Mask | None,
    known: tuple[Extent, ...],
    geometry: str,
) -> Iterator[tuple[Numbers, BoundTexture, list[Values]]]:
    """Each object that some of the lanes name, with these lanes and their coordinates."""
    here = _here(lanes, instruction, guard)
    handles = _flat(lanes, handle, here)
    of_memory = lanes.environment.memory.textures
    for number in np.unique(handles).tolist():
        bound = of_memory.get(number)
        own = here[handles == number]
        if bound is None:
            _fault(lanes, instruction, own[:1], f"{number:#x} is no {_OBJECT}: {_HOW}")
        elif bound.texture.extent not in known:
            seen = bound.texture.extent.name.lower().replace("_", " ")
            detail = f"an array of geometry {geometry} is read, and its object sees a {seen}"
            _fault(lanes, instruction, own[:1], detail + (" (:array makes it an array)" if seen == "linear" else ""))
        else:
            yield own, bound, [_flat(lanes, c, own) for c in coordinates]


def _fault(lanes: Lanes, instruction: int, wrong: Numbers, detail: str) -> None:
    mask = np.zeros(lanes.rows * lanes.threads, np.bool_)
    mask[wrong] = True
    lanes.fault(FaultKind.OUT_OF_BOUNDS, instruction, mask.reshape(lanes.shape), detail)


def texture_read(
    lanes: Lanes,
    sites: Sites,
    instruction: int,
    handle: Values,
    geometry: str,
    coordinates: tuple[Values, ...],
    operation: str,
    guard: Mask | None,
    wanted: bool,
) -> list[Words]:
    """``tex``, integer fetches and ``tld4``: four components for each lane, zero in lanes that are not active.

    Args:
        lanes: who is here.
        sites: of its accesses.
        instruction: its index.
        handle: the lower half of texture objects.
        geometry: as machine code names it: ``1D``, ``2D``, ``3D``, ``CUBE``, ``ARRAY_1D``, …
        coordinates: registers, the layer first where there are layers.
        operation: ``sample``, ``fetch``, or of ``tld4`` the component's number.
        guard: lanes that execute it.
        wanted: whether the components are.
    """
    result = [np.zeros(lanes.shape, np.uint32) for _ in range(COMPONENTS)] if wanted else []
    asked = []
    for own, bound, taken in _objects(lanes, instruction, handle, coordinates, guard, _SHAPES[geometry], geometry):
        layer = taken.pop(0) & np.uint32(0xFFFF) if geometry.startswith("ARRAY") else None
        texture, texels = bound.texture, _sampled(bound.texture, taken, layer, operation)
        offset = byte_offsets(texture, texels.column * texture.texel_bytes, texels.row)
        sector = (bound.address + offset) // SECTOR_BYTES
        asked.append(_Asked(own, sector, texels.is_read, *_passing(texture, operation)))
        if not wanted:
            continue
        raw = _loaded(lanes, instruction, own, bound, texels)
        if operation in _SIMPLE:
            border = _ZEROS if operation == "fetch" else texture.border
            bits = components(texture, texels, raw, border)
        else:
            bits = gathered_component(texture, texels, raw, texture.border, int(operation))
        for whole, part in zip(result, bits, strict=True):
            whole.reshape(-1)[own] = part
    _observe(lanes, sites, asked)
    return result


def _sampled(texture: Texture, taken: list[Values], layer: Values | None, operation: str) -> Texels:
    if operation == "fetch" or texture.extent is Extent.LINEAR:
        return fetched(texture, taken)
    floats = [np.ascontiguousarray(c).view(np.float32) for c in taken]
    return texels_of(texture, floats, layer) if operation == "sample" else gathered(texture, floats)


def _passing(texture: Texture, operation: str) -> tuple[int, bool]:
    """How many lanes pass together, and whether they do so twice."""
    if operation == "fetch":
        return (_FETCH_LANES if texture.texel_bytes <= 8 else _FETCH_LANES_OF_WIDE), False
    if operation != "sample" or not texture.linear:
        return _QUAD, False
    wide = texture.texel_bytes > 4 or texture.extent is Extent.SPACE
    return (_PAIR if wide else _QUAD), texture.texel_bytes > 8


def _loaded(lanes: Lanes, instruction: int, own: Numbers, bound: BoundTexture, texels: Texels) -> Values:
    """The channels of texels as memory holds them, shape ``(n, k, channels)``."""
    texture = bound.texture
    width = texture.channel_bits // 8
    address = bound.address + texels.row * texture.row_bytes + texels.column * texture.texel_bytes
    memory = lanes.environment.memory
    if not memory.holds(int(address.min()), int(address.max()) + texture.texel_bytes):
        _fault(lanes, instruction, own[:1], "a texture object whose array has been freed")
    known = address.reshape(-1).astype(np.uint64)
    memory.touch(int(known.min()), int(known.max()) + texture.texel_bytes, lambda: known)
    cells = memory.view(_UNSIGNED[width])
    index = (address - memory.base) // width
    channels = [cells.take(index + k) for k in range(texture.channels)]
    return np.stack(channels, axis=2).view(texture.channel_dtype)


# ---- surfaces


def surface_access(
    lanes: Lanes,
    sites: Sites,
    instruction: int,
    handle: Values,
    geometry: str,
    coordinates: tuple[Values, ...],
    width: int,
    boundary: str,
    stored: tuple[Values, ...] | None,
    guard: Mask | None,
    wanted: bool,
) -> list[Words]:
    """``suld.b`` and ``sust.b``: bytes of a surface, x in bytes.

    Args:
        lanes: who is here.
        sites: of its accesses.
        instruction: its index.
        handle: the lower half of surface objects.
        geometry: ``1D``, ``2D``, ``3D``, ``1D_ARRAY`` or ``2D_ARRAY``.
        coordinates: x in bytes, then rows, slices, the layer.
        width: bytes of a lane.
        boundary: ``zero``, ``clamp`` or ``trap``, for what lies outside.
        stored: words to write; None for a load.
        guard: lanes that execute it.
        wanted: whether what is loaded, or stored, is.
    """
    result = [np.zeros(lanes.shape, np.uint32) for _ in range(max(width // 4, 1))] if wanted and stored is None else []
    asked = []
    for own, bound, words in _objects(lanes, instruction, handle, coordinates, guard, _SURFACES[geometry], geometry):
        taken = [word.view(np.int32).astype(np.int64) for word in words]
        if geometry.endswith("ARRAY"):
            taken[-1] &= 0xFFFF_FFFF  # layers have no sign
        texture = bound.texture
        sizes = _surface_sizes(texture, geometry, width)
        inside = np.ones(len(own), np.bool_)
        for place, (size, step) in zip(taken, sizes, strict=True):
            inside &= (place >= 0) & (place + step <= size)
        if boundary == "trap" and not inside.all():
            where = [int(place[~inside][0]) for place in taken]
            _fault(lanes, instruction, own[~inside], f"surface coordinates {tuple(where)}, x in bytes")
        taken = [np.clip(place, 0, size - step) for place, (size, step) in zip(taken, sizes, strict=True)]
        used = own if boundary == "clamp" else own[inside]
        if boundary != "clamp":
            taken = [place[inside] for place in taken]
        row = _surface_row(texture, taken)
        sector = (bound.address + byte_offsets(texture, taken[0], row)) // SECTOR_BYTES
        asked.append(_Asked(used, sector[:, None], np.ones((1, 1), np.bool_), _SURFACE_LANES))
        if wanted and len(used):
            address = bound.address + row * texture.row_bytes + taken[0]
            _move_surface(lanes, instruction, used, address, width, stored, result)
    _observe(lanes, sites, asked)
    return result


def _surface_sizes(texture: Texture, geometry: str, width: int) -> list[tuple[int, int]]:
    """Extent of each coordinate and what one access takes of it; x in bytes."""
    sizes = [(texture.width * texture.texel_bytes, width)]
    if geometry in ("2D", "3D", "2D_ARRAY"):
        sizes.append((texture.height, 1))
    if geometry == "3D":
        sizes.append((texture.depth, 1))
    if geometry.endswith("ARRAY"):
        sizes.append((texture.layers, 1))
    return sizes


def _surface_row(texture: Texture, taken: list[Numbers]) -> Numbers:
    """The number of the row among all rows of all slices and layers."""
    outer = taken[1:]
    if not outer:
        return np.zeros(len(taken[0]), np.int64)
    if len(outer) == 1:
        return outer[0]
    return outer[1] * texture.height + outer[0]


def _move_surface(
    lanes: Lanes,
    instruction: int,
    used: Numbers,
    address: Numbers,
    width: int,
    stored: tuple[Values, ...] | None,
    result: list[Words],
) -> None:
    memory = lanes.environment.memory
    low, end = int(address.min()), int(address.max()) + width
    if not memory.holds(low, end):
        _fault(lanes, instruction, used[:1], "a surface object whose array has been freed")
    known = address.astype(np.uint64)
    memory.touch(low, end, lambda: known, written=stored is not None)
    unit = min(width, 4)
    cells = memory.view(_UNSIGNED[unit])
    index = (address - memory.base) // unit
    for k in range(width // unit):
        if stored is None:
            result[k].reshape(-1)[used] = cells.take(index + k).astype(np.uint32)
        else:
            cells[index + k] = _flat(lanes, stored[k], used).astype(_UNSIGNED[unit])


# ---- what observers are given


def _observe(lanes: Lanes, sites: Sites, asked: list[_Asked]) -> None:
    """Give the observers a warp's request, with its first sectors, and each pass with the sectors of its lanes."""
    if not lanes.environment.observers:
        return
    keys = [(one.halved, _distinct(one.of_passes())) for one in asked]
    passes = np.concatenate([key for _, key in keys] or [np.zeros(0, np.int64)])
    if not len(passes):
        return
    warps = (passes >> _TURN_SHIFT) // WARP_SIZE
    _observe_sectors(lanes, sites.request, distinct(warps << _TURN_SHIFT | passes & _SECTORS))
    for halved, site in ((False, sites.passes), (True, sites.halves)):
        own = [key for of_halves, key in keys if of_halves is halved]
        of_kind = own[0] if len(own) == 1 else distinct(np.concatenate(own or [np.zeros(0, np.int64)]))
        turns = (of_kind >> _TURN_SHIFT) % WARP_SIZE
        warps = (of_kind >> _TURN_SHIFT) // WARP_SIZE << _TURN_SHIFT | of_kind & _SECTORS
        for number in distinct(turns).tolist() * (2 if halved else 1):
            _observe_sectors(lanes, site, warps[turns == number])


def _distinct(passes: tuple[Numbers, Numbers, Numbers]) -> Numbers:
    """Warp, pass and sector as one number, each once and in order."""
    warp, turn, sector = passes
    return distinct((warp * WARP_SIZE + turn) << _TURN_SHIFT | sector)


def _observe_sectors(lanes: Lanes, site: int, keys: Numbers) -> None:
    """One access: each warp with up to 32 sectors, a lane for each; ``keys`` are warps and sectors, in order."""
    if not len(keys):
        return
    warp, sector = keys >> _TURN_SHIFT, keys & _SECTORS
    first = np.flatnonzero(np.append(True, warp[1:] != warp[:-1]))
    place = np.arange(len(warp)) - np.repeat(first, np.diff(np.append(first, len(warp))))
    kept = place < WARP_SIZE
    base = np.zeros(lanes.rows * lanes.threads, np.uint64)
    mask = np.zeros(lanes.rows * lanes.threads, np.bool_)
    at = warp[kept] * WARP_SIZE + place[kept]
    base[at], mask[at] = (sector[kept] * SECTOR_BYTES).astype(np.uint64), True
    plan = Plan(base.reshape(lanes.shape), mask.reshape(lanes.shape), lanes.rows, lanes.threads)
    lanes.observe(site, plan, 0)
