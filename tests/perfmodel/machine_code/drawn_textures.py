"""Textures and surfaces on drawn arrays, formats, address modes and coordinates: the CUDA guide's formulas in NumPy.

Coordinates are multiples of 1/64 of a texel, so that the weights of filters are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, Launch, TextureObject
from perfmodel.launch.texture import AddressMode, Extent, TexelKind, Texture

from .tensor_cases import Case

Array = NDArray[Any]
LANES = 64
CALLS = {
    "line": "tex1D<T>(t, x)",
    "plane": "tex2D<T>(t, x, y)",
    "space": "tex3D<T>(t, x, y, z)",
    "layers": "tex2DLayered<T>(t, x, y, n)",
    "gradients": "tex2DGrad<T>(t, x, y, make_float2(0, 0), make_float2(0, 0))",
    "gather": "tex2Dgather<T>(t, x, y, COMPONENT)",
    "linear": "tex1Dfetch<T>(t, n)",
}
"""Reads of textures, by the kind of the array."""
_EXTENTS = {
    "line": Extent.LINE,
    "plane": Extent.PLANE,
    "space": Extent.SPACE,
    "layers": Extent.LAYERED_PLANE,
    "gradients": Extent.PLANE,
    "gather": Extent.PLANE,
    "linear": Extent.LINEAR,
}
_AXES = {"line": 1, "plane": 2, "space": 3, "layers": 2, "gradients": 2, "gather": 2, "linear": 1}
_GATHERED = ((0, 1), (1, 1), (1, 0), (0, 0))
"""Column and row of the four texels that a gather gives (PTX ISA, ``tld4``)."""


def source(kind: str, gives: str, component: int) -> str:
    """A kernel whose threads read a texture once; four words of each."""
    call = CALLS[kind].replace("<T>", f"<{gives}>").replace("COMPONENT", str(component))
    return f"""
extern "C" __global__ void k(unsigned *out, cudaTextureObject_t t, const float *at, const int *layer)
{{
    const int i = threadIdx.x, n = layer[i];
    const float x = at[i], y = at[{LANES} + i], z = at[{2 * LANES} + i];
    const {gives} v = {call};
    ((uint4 *)out)[i] = *(const uint4 *)&v;
}}"""


def _index(mode: AddressMode, index: Array, size: int) -> tuple[Array, Array]:
    """Where indices read (CUDA guide, texture fetching), and whether that is inside."""
    inside = (index >= 0) & (index < size)
    if mode is AddressMode.WRAP:
        return index - np.floor_divide(index, size) * size, np.ones_like(inside)
    if mode is AddressMode.MIRROR:
        turn = np.floor_divide(index, size)
        place = index - turn * size
        return np.where(turn % 2 == 0, place, size - 1 - place), np.ones_like(inside)
    return np.minimum(np.maximum(index, 0), size - 1), inside | (mode is AddressMode.CLAMP)


def _read(texels: Array, texture: Texture, index: list[Array], layer: Array | None) -> Array:
    """Texels at indices, x first, shape ``(lanes, channels)``; outside the border's colour."""
    sizes = (texture.width, texture.height, texture.depth)
    found = [_index(m, i, s) for m, i, s in zip(texture.address_modes, index, sizes, strict=False)]
    places, inside = [place for place, _ in found], np.all([inside for _, inside in found], axis=0)
    key = (*([] if layer is None else [layer]), *places[::-1])
    return np.where(inside[:, None], texels[key], np.array(texture.border)[: texture.channels])


def _number(texels: Array, texture: Texture) -> Array:
    if not texture.as_float:
        return texels.astype(np.float64)
    return np.maximum(texels / float(np.iinfo(texels.dtype).max), -1.0)


def case(seed: int, kind: str) -> tuple[Case, float]:
    """A drawn array and how it is read, and how far results may be from NumPy's."""
    random = np.random.default_rng((seed, list(CALLS).index(kind)))
    axes, fetch = _AXES[kind], kind == "linear"
    sizes = [int(n) for n in random.integers(1, 20, axes)]
    layers = int(random.integers(1, 4)) if kind == "layers" else 1
    texel, bits = [
        (TexelKind.FLOAT, 32),
        (TexelKind.FLOAT, 16),
        (TexelKind.UNSIGNED, 8),
        (TexelKind.SIGNED, 8),
        (TexelKind.UNSIGNED, 16),
        (TexelKind.SIGNED, 16),
        (TexelKind.SIGNED, 32),
    ][int(random.integers(7))]
    as_float = texel is not TexelKind.FLOAT and bits < 32 and bool(random.integers(2))
    floats = as_float or texel is TexelKind.FLOAT
    linear = floats and not fetch and kind != "gather" and bool(random.integers(2))
    normalized = not fetch and bool(random.integers(2))
    modes = list(AddressMode) if normalized else [AddressMode.CLAMP, AddressMode.BORDER]
    chosen = [modes[int(random.integers(len(modes)))] for _ in range(3)]
    if fetch:
        chosen = [AddressMode.BORDER] * 3  # what lies outside is zero
    if normalized:  # a power of two, so that coordinates are exact
        sizes = [1 << int(n) for n in random.integers(0, 5, axes)]
    sizes += [1] * (3 - axes)
    channels = int(random.choice([1, 2, 4]))
    texture = Texture(
        extent=_EXTENTS[kind],
        width=sizes[0],
        height=sizes[1],
        depth=sizes[2],
        layers=layers,
        kind=texel,
        channel_bits=bits,
        channels=channels,
        linear=linear,
        address_modes=(chosen[0], chosen[1], chosen[2]),
        normalized=normalized,
        as_float=as_float,
    )
    shape = (*((layers,) if kind == "layers" else ()), *sizes[:axes][::-1], channels)
    dtype = texture.channel_dtype
    if dtype.kind == "f":
        texels = random.integers(-64, 65, shape).astype(dtype)
    else:
        texels = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    # no coordinate lies on the border of two texels, or, of a gather, halfway between: rounding decides there
    steps = np.stack([random.integers(-2 * 64 * n, 3 * 64 * n, LANES) for n in sizes]) | 1
    at = steps / 64.0
    layer = random.integers(0, layers, LANES) if kind == "layers" else random.integers(-8, sizes[0] + 8, LANES)
    given = np.where(np.full((3, 1), normalized), at / np.array(sizes)[:, None], at).astype(np.float32)
    numbers, of_layer = _number(texels, texture), layer if kind == "layers" else None
    component = int(random.integers(channels)) if kind == "gather" else 0
    if fetch:
        values = _read(numbers, texture, [layer], None)
    elif kind == "gather":
        first = np.floor(at - 0.5).astype(int)
        values = np.stack(
            [_read(numbers, texture, [first[0] + i, first[1] + j], None)[:, component] for i, j in _GATHERED], axis=1
        )
    elif not linear:
        values = _read(numbers, texture, list(np.floor(at[:axes]).astype(int)), of_layer)
    else:
        first = np.floor(at - 0.5).astype(int)
        part = at - 0.5 - first
        values = np.zeros((LANES, channels))
        for corner in np.ndindex(*(2,) * axes):
            weight = np.prod([part[k] if far else 1 - part[k] for k, far in enumerate(corner)], axis=0)
            index = [first[k] + far for k, far in enumerate(corner)]
            values += weight[:, None] * _read(numbers, texture, index, of_layer)
        if kind == "line" and chosen[1] is AddressMode.BORDER:
            values /= 2  # an H200 reads a plane of one row at its edge: half of the border's colour, which is 0
    out = np.zeros((LANES, 4))
    out[:, 3] = 1  # components that there are not
    out[:, : values.shape[1]] = values
    gives = "float4" if floats else "int4" if texel is TexelKind.SIGNED else "uint4"
    # products of weights are rounded to 8 bits: halves of 2 ** -8 for each of the corners
    scale = 1.0 if as_float else 64.0
    tolerance = scale * 2**axes * 2**-9 if linear else 1e-6 if as_float else 0.0
    found = Case(
        name=f"{kind}: {texture}",
        source=source(kind, gives, component),
        launch=Launch(grid_x=1, block_x=LANES),
        arguments={
            "out": np.zeros((LANES, 4), np.float32 if floats else np.int32 if gives == "int4" else np.uint32),
            "t": TextureObject(buffer=Buffer(name="texels", array=texels), texture=texture),
            "at": given,
            "layer": layer.astype(np.int32),
        },
        expected={"out": out},
    )
    return found, tolerance


SURFACES = {
    "line": ("surf1Dread<T>(s, x, M)", "surf1Dwrite(v, s, x, M)"),
    "plane": ("surf2Dread<T>(s, x, y, M)", "surf2Dwrite(v, s, x, y, M)"),
    "space": ("surf3Dread<T>(s, x, y, z, M)", "surf3Dwrite(v, s, x, y, z, M)"),
    "layers": ("surf2DLayeredread<T>(s, x, y, z, M)", "surf2DLayeredwrite(v, s, x, y, z, M)"),
}
"""Reads and writes of surfaces."""
_TYPES = {"unsigned char": 1, "short": 2, "unsigned": 4, "uint2": 8, "uint4": 16}


def surface_case(seed: int, kind: str) -> Case:
    """Bytes read from and written to a surface, what lies outside clamped or left out."""
    random = np.random.default_rng((seed, list(SURFACES).index(kind)))
    gives = str(random.choice(list(_TYPES)))
    width, clamps = _TYPES[gives], bool(random.integers(2))
    row_bytes = 16 * int(random.integers(1, 9))
    axes = {"line": 1, "plane": 2, "space": 3, "layers": 3}[kind]
    sizes = [row_bytes // width, *(int(n) for n in random.integers(1, 9, axes - 1))] + [1] * (3 - axes)
    extents = {"height": sizes[1], "layers" if kind == "layers" else "depth": sizes[2]}
    extent = _EXTENTS[kind]
    texture = Texture(extent=extent, width=row_bytes // 4, kind=TexelKind.UNSIGNED, **extents)
    bytes_ = random.integers(0, 256, (sizes[2], sizes[1], row_bytes), dtype=np.uint8)
    values = random.integers(0, 256, (LANES, 16), dtype=np.uint8)
    at = np.stack([random.integers(-3, n + 3, LANES) for n in sizes])
    if kind == "layers":
        at[2] %= sizes[2]
    # each place is written by one thread at most
    inside = np.array([(row >= 0) & (row < n) for row, n in zip(at[:axes], sizes, strict=False)]).all(axis=0)
    place = np.array([np.clip(row, 0, n - 1) for row, n in zip(at, sizes, strict=True)])
    _, first = np.unique(place[:axes], axis=1, return_index=True)
    here = np.zeros(LANES, np.int32)
    here[first] = 1
    after, read = bytes_.copy(), np.zeros((LANES, 16), np.uint8)
    for t in range(LANES):
        x, y, z = place[:, t].tolist()
        if clamps or inside[t]:
            own = slice(x * width, (x + 1) * width)
            read[t, :width] = bytes_[z, y if axes > 1 else 0, own]
            if here[t]:
                after[z, y if axes > 1 else 0, own] = values[t, :width]
    mode = "cudaBoundaryModeClamp" if clamps else "cudaBoundaryModeZero"
    reads, writes = (text.replace("<T>", f"<{gives}>").replace("M)", f"{mode})") for text in SURFACES[kind])
    text = f"""
extern "C" __global__ void k(unsigned char *out, cudaSurfaceObject_t s, const unsigned char *values, const int *at,
                             const int *here)
{{
    const int i = threadIdx.x, x = at[i] * {width}, y = at[{LANES} + i], z = at[{2 * LANES} + i];
    const {gives} v = *(const {gives} *)(values + 16 * i);
    *({gives} *)(out + 16 * i) = {reads};
    __syncthreads();
    if (here[i]) {writes};
}}"""
    return Case(
        name=f"{kind}: {gives} of {texture}",
        source=text,
        launch=Launch(grid_x=1, block_x=LANES),
        arguments={
            "out": np.zeros_like(read),
            "s": TextureObject(buffer=Buffer(name="texels", array=bytes_, output=True), texture=texture),
            "values": values,
            "at": at.astype(np.int32),
            "here": here,
        },
        expected={"out": read, "texels": after},
    )
