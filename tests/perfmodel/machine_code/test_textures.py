"""Textures and surfaces: what an H200 gave, bit for bit, its counters, and the CUDA guide's formulas in NumPy."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, Launch, TextureObject
from perfmodel.launch.texture import AddressMode, Extent, TexelKind, Texture
from perfmodel.profiles.totals import CountedRun
from perfmodel.simulator.faults import FaultError

from .differential import run_machine_code, run_ptx

pytestmark = pytest.mark.compiler
DATA = Path(__file__).parents[3] / "validation" / "data"
RECORDED = json.loads((DATA / "h200-textures.json").read_text(encoding="utf-8"))
PUT = """
__device__ void put(float *o, int i, int n, float v) { o[i] = v; }
__device__ void put(float *o, int i, int n, short v) { o[i] = __int_as_float(int(v)); }
__device__ void put(float *o, int i, int n, float4 v) { o[i] = v.x; o[n + i] = v.y; o[2 * n + i] = v.z; o[3 * n + i] = v.w; }
__device__ void put(float *o, int i, int n, uchar4 v)
{
    put(o, i, n, make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w)));
}
"""
CASES: dict[str, str] = {  # what the recorded kernels call
    "1d_f32_linear_texels_border": "tex1D<float>(t, x)",
    "1d_f32_linear_normalized_mirror": "tex1D<float>(t, x)",
    "2d_f32_point_normalized_wrap": "tex2D<float>(t, x, y)",
    "2d_f32_linear_texels_clamp": "tex2D<float>(t, x, y)",
    "2d_f32_linear_normalized_border": "tex2D<float>(t, x, y)",
    "2d_f32_linear_normalized_mirror": "tex2D<float>(t, x, y)",
    "3d_f32_linear_texels_clamp": "tex3D<float>(t, x, y, z)",
    "3d_f32_linear_normalized_mirror": "tex3D<float>(t, x, y, z)",
    "2d_layered_f32_linear": "tex2DLayered<float>(t, y, z, __float_as_int(x))",
    "1d_layered_f32_linear": "tex1DLayered<float>(t, y, __float_as_int(x))",
    "2d_u8_normalized_float_linear": "tex2D<float>(t, x, y)",
    "2d_u16_normalized_float_linear": "tex2D<float>(t, x, y)",
    "2d_i16_normalized_float_linear": "tex2D<float>(t, x, y)",
    "2d_u8x4_normalized_float_linear": "tex2D<float4>(t, x, y)",
    "2d_f16_linear": "tex2D<float>(t, x, y)",
    "2d_f32x4_linear": "tex2D<float4>(t, x, y)",
    "gather_f32x4_2": "tex2Dgather<float4>(t, x, y, 2)",
    "cube_linear": "texCubemap<float>(t, x, y, z)",
    "cube_layered_point": "texCubemapLayered<float>(t, y, z, w, __float_as_int(x))",
    "fetch_1d_u8x4": "tex1Dfetch<uchar4>(t, __float_as_int(x))",
    "fetch_1d_i16": "tex1Dfetch<short>(t, __float_as_int(x))",
}
ROUNDED_OTHERWISE = {"2d_f16_linear": 1}
"""Words of a record that differ in their last place."""


@cache
def recorded() -> Any:
    return np.load(DATA / "h200-textures.npz")


def texture_of(case: str) -> Texture:
    fields = dict(RECORDED["textures"][case])
    for name, kind in (("extent", Extent), ("kind", TexelKind)):
        fields[name] = kind[fields[name]]
    modes = tuple(AddressMode[name] for name in fields["address_modes"])
    return Texture(**{**fields, "address_modes": modes, "border": tuple(fields["border"])})


def read_source(call: str) -> str:
    return f"""{PUT}
extern "C" __global__ void k(cudaTextureObject_t t, const float *c, float *o, int n)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float x = c[i], y = c[n + i], z = c[2 * n + i], w = c[3 * n + i];
    put(o, i, n, {call});
}}
"""


def seen(array: NDArray[Any], texture: Texture) -> TextureObject:
    return TextureObject(buffer=Buffer(name="texels", array=array), texture=texture)


@pytest.mark.parametrize("case", CASES)
def test_outputs_are_those_of_an_h200(case: str) -> None:
    file = recorded()
    words, given = file[f"{case}.words"], file[f"{case}.coordinates"]
    coordinates = np.zeros((4, given.shape[1]), np.uint32)
    coordinates[: len(given)] = given
    parameters = (
        seen(file[f"{case}.texels"], texture_of(case)),
        Buffer(name="c", array=coordinates.view(np.float32)),
        Buffer(name="o", array=np.zeros(words.shape, np.float32), output=True),
        np.int32(words.shape[1]),
    )
    launch = Launch(grid_x=words.shape[1] // 128, block_x=128)
    found = run_machine_code(read_source(CASES[case]), "sm_90", launch, parameters).outputs["o"]
    if "cube" in case:  # a direction is divided by its longest part, which the hardware approximates
        np.testing.assert_allclose(found.view(np.float32).reshape(words.shape), words.view(np.float32), atol=1e-6)
    else:
        assert (found.view(np.uint32).reshape(words.shape) != words).sum() == ROUNDED_OTHERWISE.get(case, 0)


@pytest.mark.parametrize("architecture", ["sm_75", "sm_86", "sm_100", "sm_120"])
def test_machine_code_of_each_generation_reads_what_ptx_does(architecture: str) -> None:
    """Objects by lane, of several geometries, stores to surfaces with each boundary."""
    source = """
extern "C" __global__ void k(cudaTextureObject_t a, cudaTextureObject_t b, cudaTextureObject_t line, cudaSurfaceObject_t s,
                             cudaSurfaceObject_t stack, float *o)
{
    int i = threadIdx.x;
    float x = 0.37f * i - 2, y = 9 - 0.21f * i;
    o[i] = tex2D<float>(i % 3 ? a : b, x, y) + tex2DLod<float>(a, x, y, 0) + tex1Dfetch<float>(line, i - 4);
    float4 four = tex2Dgather<float4>(a, x, y);
    o[64 + i] = four.x + 2 * four.y + 3 * four.z + 4 * four.w;
    surf2Dwrite(x, s, (i - 2) * 4, i / 8, cudaBoundaryModeZero);
    surf2Dwrite((unsigned char)(65 + i), s, 4 * 40 + i % 8, 7, cudaBoundaryModeClamp);
    surf2DLayeredwrite(make_float2(i, -i), stack, 8 * (i % 16), i / 32, i / 16 % 2);
    __syncthreads();
    o[128 + i] = surf2Dread<float>(s, (i - 2) * 4, i / 8, cudaBoundaryModeClamp) + surf2DLayeredread<float2>(stack, 64, 0, 0).y;
    o[192 + i] = surf2Dread<unsigned char>(s, 160 + i % 8, 7, cudaBoundaryModeZero);
}
"""
    texels = np.random.default_rng(5).random((8, 64), np.float32)
    plane = Texture(extent=Extent.PLANE, width=64, height=8)
    layers = Texture(extent=Extent.LAYERED_PLANE, width=16, height=2, layers=2, channels=2)
    smooth = Texture(extent=Extent.PLANE, width=64, height=8, linear=True, address_modes=(AddressMode.BORDER,) * 3)
    parameters = (
        seen(texels, plane),
        seen(texels, smooth),
        seen(texels, Texture(extent=Extent.LINEAR, width=512)),
        seen(texels, plane),
        seen(np.zeros(128, np.float32), layers),
        Buffer(name="o", array=np.zeros(256, np.float32), output=True),
    )
    launch = Launch(grid_x=1, block_x=64)
    done = run_machine_code(source, architecture, launch, parameters)
    by_ptx = run_ptx(source, architecture, launch, parameters)
    assert done.outputs["o"].tolist() == by_ptx.outputs["o"].tolist()
    assert np.count_nonzero(done.outputs["o"]) > 200
    # of two warps; from sm_90 on an instruction reads one object, and those that lanes choose are read one after the other
    chosen = 1 if architecture in ("sm_75", "sm_86") else 2
    assert (done.counts.texture_requests, done.counts.surface_store_requests) == (2 * (chosen + 1 + 1 + 1), 2 * 3)
    assert done.counts.texture_sectors == by_ptx.counts.texture_sectors  # type: ignore[attr-defined]


def test_filtering_follows_the_formula_of_the_guide() -> None:
    texels = np.random.default_rng(6).random((21, 37), np.float32)
    x, y = np.random.default_rng(7).uniform(-3, 40, (2, 128)).astype(np.float32)
    source = read_source("tex2D<float>(t, x, y)")
    coordinates = np.zeros((4, 128), np.float32)
    coordinates[:2] = x, y
    texture = Texture(extent=Extent.PLANE, width=37, height=21, linear=True)
    buffers = (
        Buffer(name="c", array=coordinates),
        Buffer(name="o", array=np.zeros(128, np.float32), output=True),
        np.int32(128),
    )
    launch = Launch(grid_x=1, block_x=128)
    found = run_machine_code(source, "sm_90", launch, (seen(texels, texture), *buffers)).outputs["o"]

    def at(row: NDArray[Any], column: NDArray[Any]) -> NDArray[Any]:
        return texels[np.clip(row, 0, 20), np.clip(column, 0, 36)].astype(np.float64)

    i, j = np.floor(x - 0.5).astype(int), np.floor(y - 0.5).astype(int)
    alpha, beta = x - 0.5 - i, y - 0.5 - j
    upper = (1 - alpha) * at(j, i) + alpha * at(j, i + 1)
    lower = (1 - alpha) * at(j + 1, i) + alpha * at(j + 1, i + 1)
    # each of the weights alpha and beta has 8 bits behind the point, and so have their products
    np.testing.assert_allclose(found, (1 - beta) * upper + beta * lower, atol=4 * 2**-9)


# ---- counters of an H200

_KERNELS = {
    "p_fetch": "o[i] = tex1Dfetch<float>(t, i * (int)a);",
    "p_fetch4": "float4 v = tex1Dfetch<float4>(t, i * (int)a); o[i] = v.x + v.y + v.z + v.w;",
    "p_plane": "int w = d, x = i % w, y = i / w; o[i] = tex2D<float>(t, (x + c) * a, (y + c) * b);",
    "p_plane4": "int w = b, x = i % w, y = i / w; float4 v = tex2D<float4>(t, x + a, y + a); o[i] = v.x + v.y + v.z + v.w;",
    "p_space": "int w = b, x = i % w, y = i / w % w, z = i / w / w; o[i] = tex3D<float>(t, x + a, y + a, z + a);",
    "p_surface_load": "int w = a, x = i % w, y = i / w; o[i] = surf2Dread<float>(t, x * 4, y);",
    "p_surface_load4": "int w = a, x = i % w, y = i / w; float4 v = surf2Dread<float4>(t, x * 16, y); o[i] = v.x + v.w;",
    "p_surface_store": "int w = a, x = i % w, y = i / w; surf2Dwrite(float(x), t, x * 4, y); o[i] = x;",
    "p_surface_store4": "int w = a, x = i % w, y = i / w; surf2Dwrite(make_float4(x, y, 0, 1), t, x * 16, y); o[i] = x;",
}
_PLANE = Texture(extent=Extent.PLANE, width=256, height=256)
_PLANE4 = Texture(extent=Extent.PLANE, width=256, height=256, channels=4)
_BYTES = Texture(
    extent=Extent.PLANE, width=256, height=256, kind=TexelKind.UNSIGNED, channel_bits=8, linear=False, as_float=True
)
_ARRAYS = {
    "line": Texture(extent=Extent.LINEAR, width=65_536),
    "line4": Texture(extent=Extent.LINEAR, width=65_536, channels=4),
    "plane": _PLANE,
    "smooth_plane": Texture(extent=Extent.PLANE, width=256, height=256, linear=True),
    "plane4": _PLANE4,
    "smooth_plane4": Texture(extent=Extent.PLANE, width=256, height=256, channels=4, linear=True),
    "bytes": _BYTES,
    "pitched": Texture(extent=Extent.PLANE, width=256, height=256, pitch_bytes=1024),
    "space": Texture(extent=Extent.SPACE, width=64, height=64, depth=64),
    "smooth_space": Texture(extent=Extent.SPACE, width=64, height=64, depth=64, linear=True),
    "surface": _PLANE,
    "surface4": _PLANE4,
}


def counted(pattern: dict[str, Any]) -> CountedRun:
    kernel, texture = pattern["kernel"], _ARRAYS[pattern["array"]]
    source = f"""extern "C" __global__ void k(unsigned long long t, float *o, float a, float b, float c, float d)
{{ int i = threadIdx.x; {_KERNELS[kernel]} }}"""
    numbers = [np.float32(value) for value in (*pattern["arguments"], 0, 0, 0, 0)][:4]
    parameters = (
        seen(np.zeros(1, np.uint8), texture),
        Buffer(name="o", array=np.zeros(32, np.float32), output=True),
        *numbers,
    )
    return run_machine_code(source, "sm_90", Launch(grid_x=1, block_x=32), parameters)


def test_requests_and_sectors_are_those_that_an_h200_counted() -> None:
    wrong = []
    for pattern in RECORDED["patterns"]:
        counts, measured = counted(pattern).counts, pattern["counters"]
        requests = counts.texture_requests + counts.surface_load_requests + counts.surface_store_requests
        sectors = counts.texture_sectors + counts.surface_load_sectors + counts.surface_store_sectors
        if [requests, sectors] != list(measured.values())[:2]:
            wrong.append((pattern, requests, sectors))
    assert not wrong
    assert len(RECORDED["patterns"]) == 53


def test_passes_are_the_time_that_an_h200_took() -> None:
    """32 lanes in quads of 4: 8 passes; texels of more than 4 bytes that are filtered, in pairs: 16."""
    patterns = {(p["kernel"], p["array"], *p["arguments"]): p for p in RECORDED["patterns"]}
    cycles = {name: times[-1] / 32 for name, times in RECORDED["rates"]["cycles"].items()}
    for key, rate in (
        (("p_plane", "plane", 1, 1, 0.5, 32), "point f32, lanes in rows of 32"),
        (("p_plane", "smooth_plane", 1, 1, 0.75, 32), "linear f32, lanes in rows of 32"),
        (("p_plane4", "plane4", 0.5, 32), "point f32x4, lanes in rows of 32"),
        (("p_plane4", "smooth_plane4", 0.75, 32), "linear f32x4, lanes in rows of 32"),
    ):
        assert counted(patterns[key]).counts.texture_pipe_passes == pytest.approx(cycles[rate], rel=0.03)


def test_what_is_no_object_and_what_lies_outside_of_a_surface_is_named() -> None:
    source = (
        'extern "C" __global__ void k(cudaSurfaceObject_t s, float *o) { surf2Dwrite(1.0f, s, 4 * threadIdx.x, 3); }'
    )
    output = Buffer(name="o", array=np.zeros(32, np.float32), output=True)
    launch = Launch(grid_x=1, block_x=32)
    with pytest.raises(FaultError, match=r"0x9 is no texture or surface object: give the argument as texture=f32"):
        run_machine_code(source, "sm_90", launch, (np.uint64(9), output))
    small = Texture(extent=Extent.PLANE, width=16, height=4)
    with pytest.raises(FaultError, match=r"thread \(16, 0, 0\).*surface coordinates \(64, 3\), x in bytes"):
        run_machine_code(source, "sm_90", launch, (seen(np.zeros(64, np.float32), small), output))
