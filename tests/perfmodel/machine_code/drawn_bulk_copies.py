"""Bulk copies, bulk tensor copies and stores that report to an ``mbarrier`` on drawn operands: what NumPy says that they give.

Sizes, places, reductions, shapes, strides, boxes partly outside of the tensor, swizzles, element types and steps are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Launch
from perfmodel.launch.tensor_map import SWIZZLES_BYTES, TensorTiling, tensor_tiling

from .tensor_cases import HOPPER, Case, swizzled_box

Array = NDArray[Any]
_POISON = 0x5A
_PIECE = 16
_LARGEST = 512
"""Bytes of one bulk copy."""
_PRELUDE = """
struct alignas(64) CUtensorMap { unsigned char bytes[128]; };
__device__ unsigned shared_address(const void *pointer) { return (unsigned)__cvta_generic_to_shared(pointer); }
__device__ unsigned there(unsigned address, unsigned rank)
{
    unsigned found;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(found) : "r"(address), "r"(rank));
    return found;
}
__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(barrier) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(barrier), "r"(bytes) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void wait(unsigned barrier)
{
    asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }"
                 :: "r"(barrier) : "memory");
}
__device__ void finish() { asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory"); }
"""

OPERATIONS: Mapping[str, Callable[[Array, Array], Array]] = {
    "add": lambda old, new: old + new,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "inc": lambda old, new: np.where(old >= new, 0, old + 1).astype(old.dtype),
    "dec": lambda old, new: np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype),
}
"""Reductions, by what was there and what comes (PTX ISA, ``red``)."""
_BITS = ("and.b32", "or.b32", "xor.b32")
_WORDS = (
    *(f"{name}.{kind}" for name in ("add", "min", "max") for kind in ("u32", "s32")),
    "inc.u32",
    "dec.u32",
    *_BITS,
)
TO_GLOBAL = (
    *_WORDS,
    *("add.u64", "min.u64", "max.u64", "min.s64", "max.s64", "and.b64", "or.b64", "xor.b64"),
    *("add.noftz.f16", "add.f32", "add.f64", "min.f16", "max.f16"),
)
TO_SHARED = (*_WORDS, "add.u64")
_FLOATS = ("f16", "f32", "f64")
_STORED = ("b32", "b64", "v4.b32")
"""Types of ``st.async``."""


def _dtype(name: str) -> np.dtype[Any]:
    kind = name.rsplit(".", 1)[1]
    return np.dtype(f"{'i' if kind[0] == 's' else 'f' if kind[0] == 'f' else 'u'}{int(kind[1:]) // 8}")


def _reduced(name: str, old: Array, new: Array) -> Array:
    """Bytes after a reduction by one operation of PTX."""
    kind = _dtype(name)
    return OPERATIONS[name.split(".")[0]](old.view(kind), new.view(kind)).view(np.uint8)


# ---- contiguous bytes, between the two blocks of a cluster and global memory

_AT_PASSED, _AT_REDUCED, _AT_STORED = 1024, 2048, 2048 + 64 * len(TO_SHARED)
_SHARED = _AT_STORED + len(_STORED) * 32 * 16


def bytes_source() -> str:
    """The kernel of `bytes_case`."""
    lines = [
        _PRELUDE,
        'extern "C" __global__ void k(unsigned char *out, unsigned char *stored, unsigned char *reduced,',
        "    const unsigned char *in, const uint4 *floats, const unsigned *numbers, const unsigned *places)",
        "{",
        f"    __shared__ alignas(128) unsigned char s[{_SHARED}];",
        f"    __shared__ alignas(128) uint4 parts[{3 * _LARGEST // 16}];",
        "    __shared__ alignas(8) unsigned long long barriers[2];",
        "    const unsigned t = threadIdx.x, b = blockIdx.x, full = shared_address(barriers), done = full + 8;",
        "    const unsigned *n = numbers + 8 * b;",
        "    const unsigned at = shared_address(s);",
        "    const unsigned from = n[0], to = n[1], size = n[2], by = n[3], passed = n[4], target = n[5];",
        f"    for (unsigned i = t; i < sizeof s; i += 32) s[i] = {_POISON};",
        f"    for (unsigned i = t; i < {3 * _LARGEST // 16}; i += 32) parts[i] = floats[i];",
        "    if (t == 0) { expect(full, size); expect(done, n[6]); }",
        "    meet();",
        "    if (t == 0) {",
        '        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(in + from), "r"(size) : "memory");',
        '        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"',
        '                     :: "r"(at + to), "l"(in + from), "r"(size), "r"(full) : "memory");',
        "    }",
        "    wait(full);",
        "    if (t == 0) {",
        '        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"',
        '                     :: "l"(stored + 2048 * b + by), "r"(at + to), "r"(size) : "memory");',
    ]
    for k, name in enumerate(TO_GLOBAL):
        kind = name.rsplit(".", 1)[1]
        source = f"shared_address(parts) + {_LARGEST * _FLOATS.index(kind)}" if kind in _FLOATS else "at + to"
        lines += [
            f'        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.{name} [%0], [%1], %2;"',
            f'                     :: "l"(reduced + (b * {len(TO_GLOBAL)} + {k}) * {_LARGEST}),'
            f' "r"({source}), "r"(size) : "memory");',
        ]
    lines += [
        "        finish();",
        "    }",
        "    meet();",
        "    const unsigned far = there(at, b ^ 1), signal = there(done, b ^ 1);",
        "    if (t == 0) {",
        '        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"',
        '                     :: "r"(far + target), "r"(at + to), "r"(passed), "r"(signal) : "memory");',
    ]
    for k, name in enumerate(TO_SHARED):
        lines += [
            '        asm volatile("cp.reduce.async.bulk.shared::cluster.shared::cta"',
            f'                     ".mbarrier::complete_tx::bytes.{name} [%0], [%1], 16, [%2];"',
            f'                     :: "r"(far + {_AT_REDUCED + 64 * k} + n[7]), "r"(at + to), "r"(signal) : "memory");',
        ]
    lines += ["    }", "    const unsigned place = places[32 * b + t], x = 77 * t + b;", "    if (place < 32) {"]
    for k, name in enumerate(_STORED):
        value = {"b32": "%1", "b64": "%1", "v4.b32": "{%1, %1, %1, %1}"}[name]
        operand = '"l"(0x100000001ull * x)' if name == "b64" else '"r"(x)'
        lines += [
            f'        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.{name} [%0], {value}, [%2];"',
            f'                     :: "r"(far + {_AT_STORED + 512 * k} + 16 * place), {operand}, "r"(signal) : "memory");',
        ]
    lines += [
        "    }",
        "    wait(done);",
        "    meet();",
        f"    for (unsigned i = t; i < sizeof s; i += 32) out[{_SHARED} * b + i] = s[i];",
        "}",
    ]
    return "\n".join(lines)


def bytes_case(seed: int) -> Case:
    """Copies of drawn sizes from and to drawn places, and every reduction of plain bytes."""
    random = np.random.default_rng(seed)
    given = random.integers(0, 256, 4096, dtype=np.uint8)
    numbers, places = np.zeros((2, 8), np.uint32), np.full((2, 32), 99, np.uint32)
    floats = [random.integers(-9, 10, _LARGEST // width).astype(f"f{width}").view(np.uint8) for width in (2, 4, 8)]
    reduced = random.integers(0, 256, (2, len(TO_GLOBAL), _LARGEST), dtype=np.uint8)
    few = random.integers(0, 256, _LARGEST // 4, dtype=np.uint32).view(np.uint8)
    for k, name in enumerate(TO_GLOBAL):
        if _dtype(name).kind == "f":
            reduced[:, k] = (
                random.integers(-9, 10, _LARGEST // _dtype(name).itemsize).astype(_dtype(name)).view(np.uint8)
            )
        elif name[:3] in ("inc", "dec"):
            reduced[:, k] = few
    stored, expected_reduced = np.zeros((2, 2048), np.uint8), reduced.copy()
    shared = np.full((2, _SHARED), _POISON, np.uint8)
    for b in range(2):
        size = _PIECE * int(random.integers(1, _LARGEST // _PIECE + 1))
        start, to = (_PIECE * int(random.integers(0, (room - size) // _PIECE + 1)) for room in (4096, 1024))
        by = _PIECE * int(random.integers(0, (2048 - size) // _PIECE + 1))
        passed = _PIECE * int(random.integers(1, size // _PIECE + 1))
        target = _AT_PASSED + _PIECE * int(random.integers(0, (1024 - passed) // _PIECE + 1))
        numbers[b] = start, to, size, by, passed, target, 0, _PIECE * int(random.integers(0, 4))
        chosen = np.flatnonzero(random.random(32) < 0.7)
        places[b, chosen] = random.permutation(32)[: len(chosen)]
        piece = given[start : start + size]
        shared[b, to : to + size] = piece
        stored[b, by : by + size] = piece
        for k, name in enumerate(TO_GLOBAL):
            own = _dtype(name)
            new = floats[_FLOATS.index(name.rsplit(".", 1)[1])][:size] if own.kind == "f" else piece
            expected_reduced[b, k, :size] = _reduced(name, reduced[b, k, :size], new)
    for b in range(2):
        _, to, _, _, passed, target, _, shift = numbers[b].tolist()
        far, piece = shared[b ^ 1], shared[b, to : to + passed]
        far[target : target + passed] = piece
        for k, name in enumerate(TO_SHARED):
            at = _AT_REDUCED + 64 * k + shift
            far[at : at + _PIECE] = _reduced(name, far[at : at + _PIECE], piece[:_PIECE])
        threads = np.flatnonzero(places[b] < 32)
        for k, words in enumerate((1, 2, 4)):
            for t in threads.tolist():
                at = _AT_STORED + 512 * k + 16 * int(places[b, t])
                far[at : at + 4 * words] = np.full(words, 77 * t + b, np.uint32).view(np.uint8)
        numbers[b ^ 1, 6] = passed + _PIECE * len(TO_SHARED) + 28 * len(threads)
    return Case(
        name="bytes",
        source=bytes_source(),
        launch=Launch(grid_x=2, block_x=32, cluster_x=2),
        arguments={
            "out": np.zeros_like(shared),
            "stored": np.zeros_like(stored),
            "reduced": reduced,
            "in": given,
            "floats": np.concatenate(floats),
            "numbers": numbers,
            "places": places,
        },
        expected={"out": shared, "stored": stored, "reduced": expected_reduced},
        architectures=HOPPER[:2],
    )


# ---- boxes of tensors

_ROOM = 32768
RANKS = (1, 2, 3, 4, 5)
_ELEMENTS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64")


def tensors_source(rank: int) -> str:
    """A box of a tensor prefetched, read, stored again and combined with another tensor by one of the reductions."""
    coordinates = "{" + ", ".join(f"%{2 + k}" for k in range(rank)) + "}"

    def numbers(name: str) -> str:
        return ", ".join(f'"r"({name}[{k}])' for k in range(rank))

    lines = [
        _PRELUDE,
        'extern "C" __global__ void k(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to,',
        "    const __grid_constant__ CUtensorMap sum, unsigned *out, const int *at, const int *by,",
        "    unsigned bytes, int operation)",
        "{",
        f"    __shared__ alignas(1024) unsigned box[{_ROOM // 4}];",
        "    __shared__ alignas(8) unsigned long long barrier;",
        "    const unsigned t = threadIdx.x, here = shared_address(box), full = shared_address(&barrier);",
        f"    for (unsigned i = t; i < {_ROOM // 4}; i += 64) box[i] = 0x5A5A5A5A;",
        "    if (t == 0) expect(full, bytes);",
        "    __syncthreads();",
        "    if (t == 0) {",
        f'        asm volatile("cp.async.bulk.prefetch.tensor.{rank}d.L2.global [%1, {coordinates}];"',
        f'                     :: "r"(here), "l"(&from), {numbers("at")} : "memory");',
        f'        asm volatile("cp.async.bulk.tensor.{rank}d.shared::cluster.global.mbarrier::complete_tx::bytes "',
        f'                     "[%0], [%1, {coordinates}], [%{2 + rank}];"',
        f'                     :: "r"(here), "l"(&from), {numbers("at")}, "r"(full) : "memory");',
        "    }",
        "    wait(full);",
        f"    for (unsigned i = t; i < {_ROOM // 4}; i += 64) out[i] = box[i];",
        "    __syncthreads();",
        "    if (t == 0) {",
        f'        asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.bulk_group [%0, {coordinates}], [%1];"',
        f'                     :: "l"(&to), "r"(here), {numbers("by")} : "memory");',
    ]
    for k, name in enumerate(OPERATIONS):
        lines += [
            f"        if (operation == {k})",
            f'            asm volatile("cp.reduce.async.bulk.tensor.{rank}d.global.shared::cta.{name}.bulk_group "',
            f'                         "[%0, {coordinates}], [%1];"',
            f'                         :: "l"(&sum), "r"(here), {numbers("by")} : "memory");',
        ]
    return "\n".join([*lines, "        finish();", "    }", "}"])


def _drawn_tiling(random: np.random.Generator, rank: int) -> TensorTiling:
    """A tiling that the driver accepts, whose box fits in the kernel's shared memory."""
    element = str(random.choice(_ELEMENTS))
    size = int("".join(c for c in element if c.isdigit())) // 8
    swizzle = int(random.choice(SWIZZLES_BYTES))
    row_bytes = _PIECE * int(random.integers(1, (swizzle or 128) // _PIECE + 1))
    inner_step = int(random.choice([1, 1, 1, 2])) if rank > 1 and row_bytes // size * 2 <= 256 else 1
    box, room = [row_bytes // size * inner_step], _ROOM // (swizzle or row_bytes)
    steps = [inner_step]
    for _ in range(rank - 1):
        extent = int(random.integers(1, max(2, min(9, room) + 1)))
        step = int(random.choice([1, 1, 2, 3]))
        box.insert(0, extent)
        steps.insert(0, step)
        room = max(1, room // -(-extent // step))
    shape = [int(random.integers(1, 2 * extent + 4)) for extent in box]
    strides: list[int] = []
    for extent in shape[:0:-1]:
        dense = strides[0] * extent if strides else -(-extent * size // _PIECE) * _PIECE
        strides.insert(0, dense + _PIECE * int(random.integers(0, 3)))
    return tensor_tiling(
        element,
        tuple(shape),
        box=tuple(box),
        strides_bytes=tuple(strides),
        element_strides=tuple(steps),
        swizzle_bytes=swizzle,
    )


def _seen(tiling: TensorTiling, data: Array) -> Array:
    """The tensor's elements as they lie in its bytes."""
    return np.ndarray(
        tiling.shape, tiling.element_dtype, buffer=data, strides=(*tiling.strides_bytes, tiling.element_bytes)
    )


def _filled(random: np.random.Generator, tiling: TensorTiling, span: int) -> Array:
    kind = tiling.element_dtype
    if kind.kind == "f":
        return random.integers(-9, 10, span // kind.itemsize).astype(kind).view(np.uint8)
    return random.integers(0, 256, span, dtype=np.uint8)


def _place(random: np.random.Generator, tiling: TensorTiling, lowest: int) -> list[int]:
    """Where a box begins: at, before, in or behind the tensor; at a multiple of 16 bytes along the innermost axis."""
    unit = max(1, _PIECE // tiling.element_bytes)
    found = [int(random.integers(lowest * b, n + 2)) for b, n in zip(tiling.box, tiling.shape, strict=True)]
    found[-1] = found[-1] // unit * unit
    return found


def tensors_case(seed: int, rank: int) -> Case:
    """A drawn tensor and box."""
    random = np.random.default_rng((seed, rank))
    tiling = _drawn_tiling(random, rank)
    outer = tiling.strides_bytes[0] * tiling.shape[0] if rank > 1 else tiling.shape[0] * tiling.element_bytes
    span = -(-outer // _PIECE) * _PIECE
    at, by = _place(random, tiling, -1), _place(random, tiling, 0)
    source, total, copy = _filled(random, tiling, span), _filled(random, tiling, span), np.zeros(span, np.uint8)
    kind = tiling.element_dtype
    allowed = list(OPERATIONS) if tiling.element == "u32" else list(OPERATIONS)[:6] if kind.itemsize >= 4 else []
    if kind.kind == "f":
        allowed = ["add", "min", "max"] if tiling.element == "f16" else ["add"]
    elif tiling.element == "i64":
        allowed = ["min", "max", "and", "or", "xor"]
    name = str(random.choice(allowed)) if allowed else None
    box, _ = swizzled_box(_seen(tiling, source), tiling, at)
    out = np.full(_ROOM, _POISON, np.uint8)
    out[: len(box)] = box
    stored, combined = copy.copy(), total.copy()
    for index, place in swizzled_box(_seen(tiling, source), tiling, by)[1]:
        value = np.frombuffer(box[place : place + tiling.element_bytes].tobytes(), kind)
        _seen(tiling, stored)[index] = value[0]
        if name:
            view = _seen(tiling, combined)
            view[index] = OPERATIONS[name](view[index].reshape(1), value)[0]
    return Case(
        name=f"tensors {tiling} at {at} and {by}, {name}",
        source=tensors_source(rank),
        launch=Launch(grid_x=1, block_x=64),
        arguments={
            "from": (source, tiling),
            "to": (copy, tiling),
            "sum": (total, tiling),
            "out": np.zeros(_ROOM // 4, np.uint32),
            "at": np.array(at[::-1], np.int32),
            "by": np.array(by[::-1], np.int32),
            "bytes": np.uint32(tiling.box_bytes),
            "operation": np.int32(list(OPERATIONS).index(name) if name else -1),
        },
        expected={"out": out.view(np.uint32), "to": stored, "sum": combined},
    )
