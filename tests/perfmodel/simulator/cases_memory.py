"""Corpus cases about memory: vectors, strides, tiles, constants, asynchronous copies, local and generic addresses."""

from __future__ import annotations

import numpy as np

from perfmodel.launch.launch import Launch

from .corpus_case import Case, blank, given, random, written


def saxpy() -> Case:
    n = 1000
    x, y = random(1).random((2, n), dtype=np.float32)
    return Case(
        source="saxpy",
        launch=Launch(grid_x=11, block_x=96),
        parameters=(written("y", y), given("x", x), np.float32(1.5), np.int32(n)),
        expected={"y": (1.5 * x.astype(np.float64) + y).astype(np.float32)},
        tolerance=1e-6,
        counts={
            "global_load_requests": 2 * 32,  # 1000 / 32 warps, rounded up, two arrays
            "global_load_sectors": 2 * 125,  # 4000 bytes / 32
            "global_store_requests": 32,
            "global_store_sectors": 125,
            "fp32_fma": 32,
        },
    )


def vector_copy() -> Case:
    r = random(2)
    wide = r.random((256, 4), dtype=np.float32)
    pairs = r.random((256, 2))
    small = r.integers(-9, 9, (256, 4), dtype=np.int16)
    return Case(
        source="vector_copy",
        launch=Launch(grid_x=4, block_x=64),
        parameters=(
            blank("wide", wide.shape, np.float32),
            given("in", wide),
            blank("pairs", pairs.shape, np.float64),
            given("in_pairs", pairs),
            blank("small", small.shape, np.int16),
            given("in_small", small),
        ),
        expected={"wide": wide, "pairs": pairs, "small": small},
        counts={
            "global_load_requests": 3 * 8,  # 8 warps
            "global_load_sectors": 8 * (16 + 16 + 8),  # 512, 512 and 256 bytes a warp
            "global_load_lines": 8 * (4 + 4 + 2),
            "global_store_sectors": 8 * (16 + 16 + 8),
        },
    )


def strided_gather() -> Case:
    stride, n = 12, 128
    values = random(3).random(stride * n, dtype=np.float32)
    index = (np.arange(n) * 8 % 1024).astype(np.int32)  # 8 floats apart: every lane a sector
    return Case(
        source="strided_gather",
        launch=Launch(grid_x=2, block_x=64),
        parameters=(blank("out", n, np.float32), given("in", values), given("index", index), np.int32(stride)),
        expected={"out": values[np.arange(n) * stride] + values[index]},
        counts={
            "global_load_requests": 3 * 4,
            "global_load_sectors": 4 * (32 + 32 + 4),  # 48 bytes apart, 32 bytes apart, contiguous
            "global_load_lines": 4 * (12 + 8 + 1),  # 31 * 48 + 4 bytes touch 12 lines, 32 * 32 bytes 8
        },
    )


def transpose(row: int) -> Case:
    n = 64
    matrix = random(4).random((n, n), dtype=np.float32)
    conflicts = 31 if row == 32 else 0
    loads = 4 * 8 * 4  # blocks * warps * steps
    return Case(
        source="transpose",
        defines=(("ROW", row),),
        launch=Launch(grid_x=2, grid_y=2, block_x=32, block_y=8),
        parameters=(blank("out", (n, n), np.float32), given("in", matrix), np.int32(n)),
        expected={"out": matrix.T},
        counts={
            "shared_load_requests": loads,
            "shared_load_wavefronts": loads * (1 + conflicts),
            "shared_store_wavefronts": loads,
            "shared_bank_conflicts": loads * conflicts,
            "global_load_sectors": loads * 4,
            "barriers": 4 * 8,
        },
    )


def sgemm() -> Case:
    n = 64
    a, b = random(5).random((2, n, n), dtype=np.float32)
    warps, steps = 4 * 8, n // 32
    return Case(
        source="sgemm",
        launch=Launch(grid_x=2, grid_y=2, block_x=8, block_y=32),
        parameters=(blank("c", (n, n), np.float32), given("a", a), given("b", b), np.int32(n)),
        expected={"c": (a.astype(np.float64) @ b).astype(np.float32)},
        tolerance=1e-5,
        counts={
            "global_load_requests": warps * steps * 2,
            "global_load_sectors": warps * steps * 2 * 16,  # four rows of 128 bytes
            "shared_store_wavefronts": warps * steps * 2 * 4,  # 512 bytes in four phases
            "fp32_fma": warps * steps * 32 * 4,
        },
    )


def stencil_3d() -> Case:
    nx, ny, nz = 23, 11, 9
    field = random(6).random((nz, ny, nx), dtype=np.float32)
    padded = np.pad(field.astype(np.float64), 1)
    inner = slice(1, -1)
    result = -6.0 * field
    for axis in range(3):
        for side in (slice(0, -2), slice(2, None)):
            place = [inner] * 3
            place[axis] = side
            result = result + padded[tuple(place)]
    return Case(
        source="stencil_3d",
        launch=Launch(grid_x=5, grid_y=4, grid_z=2, block_x=5, block_y=3, block_z=7),
        parameters=(
            blank("out", field.shape, np.float32),
            given("in", field),
            np.int32(nx),
            np.int32(ny),
            np.int32(nz),
        ),
        expected={"out": result.astype(np.float32)},
        tolerance=1e-5,
    )


def constant_taps() -> Case:
    n, width = 100, 6
    values = random(7).random(n + width, dtype=np.float32)
    taps = np.zeros(9, np.float32)
    taps[:4] = 0.5, -1.0, 2.0, 0.25
    total = sum(taps[k] * values[k : k + n].astype(np.float64) for k in range(width))
    offsets = np.array([3, -1, 7, 100])[np.arange(n) % 4]
    return Case(
        source="constant_taps",
        launch=Launch(grid_x=2, block_x=64),
        parameters=(blank("out", n, np.float32), given("in", values), np.int32(width), np.int32(n)),
        expected={"out": (total * 2.5 + offsets).astype(np.float32)},
        tolerance=1e-5,
        counts={"constant_load_requests": 4 * width},
    )


def constant_taps_given() -> Case:
    case = constant_taps()
    taps = np.arange(9, dtype=np.float32)
    values = case.parameters[1].array  # type: ignore[union-attr]
    total = sum(taps[k] * values[k : k + 100].astype(np.float64) for k in range(6))
    offsets = np.array([3, -1, 7, 100])[np.arange(100) % 4]
    return Case(
        source="constant_taps",
        launch=case.launch,
        parameters=case.parameters,
        constants=(given("taps", taps),),
        expected={"out": (total * 2.5 + offsets).astype(np.float32)},
        tolerance=1e-5,
    )


def async_pipeline() -> Case:
    n = 128 * 3 - 17
    values = random(8).random(n, dtype=np.float32)
    tiles = np.zeros((3, 128))
    tiles.reshape(-1)[:n] = values
    return Case(
        source="async_pipeline",
        architecture="compute_80",
        launch=Launch(grid_x=1, block_x=128),
        parameters=(blank("out", 128, np.float32), given("in", values), np.int32(n)),
        expected={"out": (tiles + np.roll(tiles, -1, axis=1)).sum(axis=0).astype(np.float32)},
        tolerance=1e-5,
        counts={
            "async_copy_requests": 3 * 4 + 1
        },  # the header branches on the fill, so the warp at the end of the input copies twice
    )


def async_vector() -> Case:
    values = random(9).random((128, 4), dtype=np.float32)
    sums = values.astype(np.float64).sum(axis=1).reshape(2, 64)[:, ::-1]
    return Case(
        source="async_vector",
        architecture="compute_80",
        launch=Launch(grid_x=2, block_x=64),
        parameters=(blank("out", 128, np.float32), given("in", values)),
        expected={"out": sums.reshape(-1).astype(np.float32)},
        tolerance=1e-6,
        counts={"async_copy_requests": 4, "async_copy_wavefronts": 16},  # 512 bytes of each warp in four phases
    )


def local_array() -> Case:
    n = 64
    values = random(10).random(n, dtype=np.float32)
    order = random(11).permutation(12).astype(np.int32)
    result = np.empty(n, np.float64)
    for i in range(n):
        held = values[i] + np.arange(12, dtype=np.float64)
        total = 0.0
        for k in range(12):
            total += held[order[(i + k) % 12]] * k
            held[order[(i + k) % 12]] = total
        result[i] = total
    return Case(
        source="local_array",
        launch=Launch(grid_x=2, block_x=32),
        parameters=(blank("out", n, np.float32), given("in", values), given("order", order)),
        expected={"out": result.astype(np.float32)},
        tolerance=1e-5,
    )


def generic_pointers() -> Case:
    n, choice = 64, 5
    t = np.arange(n)
    memory = np.arange(100, 100 + n, dtype=np.int32)
    shared = 1000 + t
    held = 2000 + 10 * t[:, None] + np.arange(4)
    memory_after = memory.copy()
    memory_after[t[t % 3 == 1]] += choice
    for i in t[t % 3 == 0]:
        shared[i ^ 1] += choice
    for i in t[t % 3 == 2]:
        held[i, (i + choice) % 4] += choice
    shared[0] += 32
    memory_after[0] += 32
    source = np.where(t % 3 == 0, shared[t ^ 1], np.where(t % 3 == 1, memory_after, held[t, (t + choice) % 4]))
    return Case(
        source="generic_pointers",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(blank("out", n, np.int32), written("global", memory), np.int32(choice)),
        expected={"out": (source + held[t, t % 4] + shared).astype(np.int32), "global": memory_after},
        clean=False,  # the atomic on shared[0] meets a plain addition of the same interval
    )


def cache_operators() -> Case:
    values = random(12).random(68, dtype=np.float32)
    return Case(
        source="cache_operators",
        launch=Launch(grid_x=1, block_x=64),
        parameters=(blank("out", 64, np.float32), given("in", values)),
        expected={"out": sum(values[k : k + 64].astype(np.float64) for k in range(5)).astype(np.float32)},
        tolerance=1e-6,
        counts={
            "global_load_requests": 2 * 5,
            "global_load_sectors": 2 * (4 + 4 * 5),  # an offset of 4 … 16 bytes touches a fifth sector
            "global_store_sectors": 2 * 4,
        },
    )


CASES = [
    saxpy,
    vector_copy,
    strided_gather,
    lambda: transpose(32),
    lambda: transpose(33),
    sgemm,
    stencil_3d,
    constant_taps,
    constant_taps_given,
    async_pipeline,
    async_vector,
    local_array,
    generic_pointers,
    cache_operators,
]
