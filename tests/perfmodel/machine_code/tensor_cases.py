"""Kernels of tensor cores, bulk copies, mbarriers and clusters with inputs and what NumPy says that they give.

The same cases run in the simulator (`test_tensor`, `test_asynchronous`) and have been run on an H200.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perfmodel.launch.launch import Buffer, Launch, Parameter, TensorMap
from perfmodel.launch.tensor_map import TensorTiling, tensor_tiling
from perfmodel.simulator.sass.matrices import eight_bit_floats

KERNELS = Path(__file__).parent / "kernels"
Array = NDArray[Any]
HOPPER = ("sm_90", "sm_100", "sm_120")


@dataclass(frozen=True, kw_only=True)
class Case:
    """One launch: arguments by name in the kernel's order (arrays, tensor maps, scalars) and the outputs expected of it."""

    name: str
    source: str
    kernel: str = "k"
    launch: Launch
    arguments: Mapping[str, Any]
    expected: Mapping[str, Array]
    tolerance: float = 0.0
    architectures: Sequence[str] = HOPPER
    defines: tuple[tuple[str, str | int], ...] = field(default=())

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The arguments as a call takes them; what is expected of an array makes it an output."""

        def parameter(name: str, value: Any) -> Parameter:
            output = name in self.expected
            if isinstance(value, tuple):
                array, tiling = value
                return TensorMap(buffer=Buffer(name=name, array=array, output=output), tiling=tiling)
            return Buffer(name=name, array=value, output=output) if isinstance(value, np.ndarray) else value

        return tuple(parameter(name, value) for name, value in self.arguments.items())


# ---- numbers of the tensor cores


def bfloat16(values: Array) -> NDArray[np.uint16]:
    """Small whole numbers as bfloat16."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def encoded(values: Array, kind: str) -> Array:
    """Small whole numbers as the elements of a matrix, in memory's type; four bits as one byte for each."""
    if kind == "bf16":
        return bfloat16(values)
    if kind in ("e4m3", "e5m2"):
        table = eight_bit_floats(kind)
        return np.array([[np.flatnonzero(table == v)[0] for v in row] for row in values], np.uint8)
    if kind in ("s4", "u4"):
        return (values.astype(np.int64) & 15).astype(np.uint8)
    types = {"f16": "f2", "tf32": "f4", "f32": "f4", "f64": "f8", "s8": "i1", "u8": "u1", "b1": "u1", "s32": "i4"}
    return values.astype(types[kind])


BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1, "f64": 64}
BITS |= {"f32": 32, "s32": 32}


def fragment(values: Array, kind: str, which: str) -> NDArray[np.uint32]:
    """Registers of the lanes of a warp, shape ``(registers, 32)``, by the tables of PTX ISA 9.7.14.5 (``mma``).

    B is given transposed, n x k, so that its columns lie as the rows of A.
    """
    rows, depth = values.shape
    per_register = 2 if which == "c" else max(1, 32 // BITS[kind])
    words = max(1, BITS[kind] * per_register // 32)
    found = []
    for start in range(0, depth, 4 * per_register):
        for below in range(0, rows, 8):
            row = below + np.arange(32) // 4
            column = start + np.arange(32) % 4 * per_register
            pieces = np.stack([values[row, column + e] for e in range(per_register)], axis=1)
            if BITS[kind] < 8:
                shifts = np.arange(per_register, dtype=np.uint32) * np.uint32(BITS[kind])
                pieces = (pieces.astype(np.uint32) << shifts).sum(axis=1, dtype=np.uint32)[:, None]
            found.append(np.ascontiguousarray(pieces).view(np.uint32).reshape(32, words))
    return np.concatenate(found, axis=1).T


@dataclass(frozen=True, kw_only=True)
class Product:
    """One ``mma`` instruction: its shape and types, and the oldest architecture that has it."""

    shape: tuple[int, int, int]
    a: str
    b: str
    sums: str
    since: int
    tail: str = ""
    until: int = 120


PRODUCTS = (
    Product(shape=(16, 8, 8), a="f16", b="f16", sums="f32", since=75),
    Product(shape=(16, 8, 8), a="f16", b="f16", sums="f16", since=75),
    Product(shape=(8, 8, 16), a="s8", b="s8", sums="s32", since=75),
    Product(shape=(8, 8, 16), a="u8", b="s8", sums="s32", since=75, tail=".satfinite"),
    Product(shape=(8, 8, 32), a="s4", b="s4", sums="s32", since=75, until=90),
    Product(shape=(8, 8, 32), a="u4", b="u4", sums="s32", since=75, until=90),
    Product(shape=(16, 8, 16), a="f16", b="f16", sums="f32", since=80),
    Product(shape=(16, 8, 16), a="f16", b="f16", sums="f16", since=80),
    Product(shape=(16, 8, 16), a="bf16", b="bf16", sums="f32", since=80),
    Product(shape=(16, 8, 8), a="bf16", b="bf16", sums="f32", since=80),
    Product(shape=(16, 8, 4), a="tf32", b="tf32", sums="f32", since=80),
    Product(shape=(16, 8, 8), a="tf32", b="tf32", sums="f32", since=80),
    Product(shape=(16, 8, 32), a="s8", b="u8", sums="s32", since=80),
    Product(shape=(16, 8, 16), a="s8", b="s8", sums="s32", since=80),
    Product(shape=(16, 8, 64), a="s4", b="s4", sums="s32", since=80, until=90),
    Product(shape=(16, 8, 32), a="u4", b="s4", sums="s32", since=80, until=90),
    Product(shape=(16, 8, 256), a="b1", b="b1", sums="s32", since=80, tail=".and.popc", until=90),
    Product(shape=(16, 8, 128), a="b1", b="b1", sums="s32", since=80, tail=".xor.popc", until=90),
    Product(shape=(8, 8, 4), a="f64", b="f64", sums="f64", since=80),
    Product(shape=(16, 8, 32), a="e4m3", b="e5m2", sums="f32", since=89),
    Product(shape=(16, 8, 4), a="f64", b="f64", sums="f64", since=90),
    Product(shape=(16, 8, 8), a="f64", b="f64", sums="f64", since=90),
    Product(shape=(16, 8, 16), a="f64", b="f64", sums="f64", since=90),
)
_RANGES = {"u8": (0, 200), "s8": (-100, 100), "u4": (0, 16), "s4": (-8, 8), "b1": (0, 2)}


def drawn(random: np.random.Generator, shape: tuple[int, int], kind: str) -> Array:
    """Whole numbers that a type holds, small enough that sums of products are exact in half precision."""
    low, high = _RANGES.get(kind, (-4, 5))
    return random.integers(low, high, shape)


def products_of(architecture: str) -> tuple[Product, ...]:
    """The instructions that an architecture has."""
    return tuple(p for p in PRODUCTS if p.since <= int(architecture.removeprefix("sm_")) <= p.until)


def products_source(products: Sequence[Product]) -> str:
    """A kernel of one warp with one product after another; registers lie in rows of 32 in two buffers."""
    lines = ['extern "C" __global__ void k(const unsigned *in, unsigned *out) {', "const int l = threadIdx.x;"]
    read = written = 0
    for p in products:
        (m, n, k), wide = p.shape, p.sums == "f64"
        counts = [m * k * BITS[p.a] // 1024, k * n * BITS[p.b] // 1024, m * n * BITS[p.sums] // 1024]
        lines.append(
            f"{{ unsigned r[{sum(counts)}]; for (int i = 0; i < {sum(counts)}; ++i) r[i] = in[({read} + i) * 32 + l];"
        )
        read += sum(counts)
        width = 2 if wide else 1
        kind = "d" if wide else "f" if p.sums == "f32" else "r"
        scalar = {"d": "double", "f": "float", "r": "unsigned"}[kind]
        names, operands, first = [], [], 0
        for part, count in zip("abc", counts, strict=True):
            of = scalar if part == "c" else "double" if wide else "unsigned"
            lines.append(f"{of} {part}[{count // width}]; memcpy({part}, r + {first}, {4 * count});")
            names.append(["%" + str(len(operands) + i) for i in range(count // width)])
            constraint = f'"+{kind}"' if part == "c" else f'"{"d" if wide else "r"}"'
            operands += [f"{constraint}({part}[{i}])" for i in range(count // width)]
            first += count
        outs, ins = operands[-len(names[2]) :], operands[: -len(names[2])]
        order = {old: f"%{i}" for i, old in enumerate([*names[2], *names[0], *names[1]])}
        a, b, c = ("{" + ", ".join(order[name] for name in part) + "}" for part in names)
        saturates, popc = (p.tail, "") if p.tail == ".satfinite" else ("", p.tail)
        types = f"{p.sums}.{p.a}.{p.b}.{p.sums}"
        text = f"mma.sync.aligned.m{m}n{n}k{k}.row.col{saturates}.{types}{popc} {c}, {a}, {b}, {c};"
        lines.append(f'asm volatile("{text}" : {", ".join(outs)} : {", ".join(ins)});')
        lines.append(
            f"memcpy(r, c, {4 * counts[2]}); for (int i = 0; i < {counts[2]}; ++i) out[({written} + i) * 32 + l] = r[i]; }}"
        )
        written += counts[2]
    return "\n".join([*lines, "}"])


def products_data(products: Sequence[Product], seed: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Inputs of `products_source`, and what it must give."""
    random = np.random.default_rng(seed)
    given, expected = [], []
    for p in products:
        m, n, k = p.shape
        a, b, c = drawn(random, (m, k), p.a), drawn(random, (n, k), p.b), drawn(random, (m, n), p.sums)
        product = (a[:, None, :] != b[None, :, :]).sum(axis=2) if ".xor" in p.tail else a @ b.T
        given += [fragment(encoded(a, p.a), p.a, "a"), fragment(encoded(b, p.b), p.b, "b")]
        given.append(fragment(encoded(c, p.sums), p.sums, "c"))
        expected.append(fragment(encoded(product + c, p.sums), p.sums, "c"))
    return np.concatenate(given), np.concatenate(expected)


# ---- products of warpgroups


def _swizzle(address: int, width: int) -> int:
    """Address of a byte in the pattern that rows of a width are swizzled by (PTX ISA, swizzling modes)."""
    row, piece = address // 128 % 8, address // 16 % 8
    if width == 128:
        piece ^= row
    elif width == 64:
        piece ^= row & 3
    elif width == 32:
        piece ^= row & 1
    return address // 128 * 128 + piece * 16 + address % 16


def placed(
    values: Array, kind: str, width: int, transposed: bool, random: np.random.Generator | None = None
) -> tuple[NDArray[np.uint8], int]:
    """A matrix (m x k or n x k) as it lies in shared memory, and its descriptor but for the begin of that memory.

    Layouts are those of PTX ISA 9.7.15.5 (canonical layouts): blocks of 8 rows (or 8 of the depth, where transposed) of a
    width; without swizzling, blocks of 8 times 16 bytes. Gaps between blocks, and where a row begins, are drawn if there is
    a generator.
    """
    data = encoded(values, kind)
    size = data.itemsize
    extent, depth = data.shape
    run = max(width, 16)
    columns = run // size
    across, along = (depth, extent) if transposed else (extent, depth)
    memory = np.zeros(65536, np.uint8)
    blocks_along = -(-along // columns)
    block_bytes = 8 * run
    # block (p, q): p-th group of 8 across, q-th run along; groups of 8 follow one another, then runs
    step_across, step_along = block_bytes, block_bytes * (across // 8)
    start = 0
    if random is not None:
        gap = block_bytes if width else 16
        roomy = blocks_along * (block_bytes + gap) * (across // 8 + 1) <= 16384
        step_across += gap * int(random.integers(0, 2)) * roomy
        step_along = step_across * (across // 8) + gap * int(random.integers(0, 2)) * roomy
        if width and not transposed:
            start = 32 * int(random.integers(0, width // 32))  # a step along the depth
    for i in range(extent):
        for k in range(depth):
            x, y = (k, i) if transposed else (i, k)
            at = x // 8 * step_across + y // columns * step_along + x % 8 * run + y % columns * size
            at = _swizzle(at + start, width)
            memory[at : at + size] = np.frombuffer(data[i, k].tobytes(), np.uint8)
    used = blocks_along * step_along
    if width:
        leading, stride = (step_along, step_across) if transposed else (16, step_across)
    else:
        # without swizzling the leading offset goes along the depth, the stride along rows or columns
        leading, stride = (step_across, step_along) if transposed else (step_along, step_across)
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[width]
    return memory[: -(-used // 1024) * 1024], start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62


@dataclass(frozen=True, kw_only=True)
class Wgmma:
    """One ``wgmma`` instruction and how its factors lie in shared memory."""

    columns: int
    depth: int
    a: str
    b: str
    sums: str
    width_a: int | None = 128
    """Bytes of a swizzled row of A, 0 for none, None where A is in registers."""
    width_b: int = 128
    transposed_a: bool = False
    transposed_b: bool = False
    sign: tuple[int, int] = (1, 1)
    adds: int = 1


WGMMAS = (
    Wgmma(columns=8, depth=16, a="f16", b="f16", sums="f32"),
    Wgmma(columns=24, depth=16, a="f16", b="f16", sums="f32", width_a=64, width_b=32, adds=0),
    Wgmma(columns=16, depth=16, a="f16", b="f16", sums="f16", width_a=0, width_b=0, sign=(-1, 1)),
    Wgmma(columns=64, depth=16, a="bf16", b="bf16", sums="f32", transposed_a=True, transposed_b=True),
    Wgmma(
        columns=32, depth=16, a="f16", b="f16", sums="f32", width_a=64, width_b=64, transposed_a=True, transposed_b=True
    ),
    Wgmma(
        columns=32, depth=16, a="f16", b="f16", sums="f32", width_a=32, width_b=32, transposed_a=True, transposed_b=True
    ),
    Wgmma(
        columns=16, depth=16, a="f16", b="f16", sums="f32", width_a=0, width_b=0, transposed_a=True, transposed_b=True
    ),
    Wgmma(columns=128, depth=16, a="f16", b="f16", sums="f32", width_a=None, transposed_b=True, width_b=128),
    Wgmma(columns=8, depth=8, a="tf32", b="tf32", sums="f32"),
    Wgmma(columns=8, depth=8, a="tf32", b="tf32", sums="f32", width_a=None, width_b=32),
    Wgmma(columns=16, depth=32, a="s8", b="u8", sums="s32", width_a=32, width_b=0),
    Wgmma(columns=8, depth=32, a="u8", b="u8", sums="s32", width_a=None, width_b=64),
    Wgmma(columns=8, depth=32, a="e4m3", b="e5m2", sums="f32"),
    Wgmma(columns=16, depth=32, a="e5m2", b="e4m3", sums="f16", width_a=None),
)


def drawn_wgmma(seed: int) -> Case:
    """One of the products on drawn numbers, swizzles, strides and begins of its factors, sums added or not."""
    random = np.random.default_rng(seed)
    number = int(random.integers(len(WGMMAS)))
    w = WGMMAS[number]

    def width(transposed: bool, extent: int) -> int:
        widths = (0, 32, 64, 128)
        return int(random.choice([n for n in widths if not transposed or n <= 2 * extent]))

    w = replace(
        w,
        width_a=None if w.width_a is None else width(w.transposed_a, 64),
        width_b=width(w.transposed_b, w.columns),
        adds=int(random.integers(2)),
    )
    return wgmma_case(w, number, random)


def wgmma_case(w: Wgmma, number: int, layout: np.random.Generator | None = None) -> Case:
    """The launch of one product; A lies at the begin of shared memory, B behind 16 KiB."""
    random = layout or np.random.default_rng(number)
    a, b = drawn(random, (64, w.depth), w.a), drawn(random, (w.columns, w.depth), w.b)
    c = drawn(random, (64, w.columns), w.sums)
    shared = np.zeros(32768, np.uint8)
    at_a, at_b = 0, 1 << 10
    if w.width_a is not None:
        memory, form = placed(a, w.a, w.width_a, w.transposed_a, layout)
        shared[: len(memory)] = memory
        at_a |= form
    memory, form = placed(b, w.b, w.width_b, w.transposed_b, layout)
    shared[16384 : 16384 + len(memory)] = memory
    at_b |= form

    def by_lanes(values: Array, kind: str, which: str) -> NDArray[np.uint32]:
        return np.concatenate([fragment(encoded(values[16 * i : 16 * i + 16], kind), kind, which).T for i in range(4)])

    total = a @ b.T * w.sign[0] * w.sign[1] + (c if w.adds else 0)
    count = w.columns * BITS[w.sums] // 64
    scalar = {"f32": "float", "s32": "int", "f16": "unsigned"}[w.sums]
    registers = 4 if w.width_a is None else 0
    sums = ", ".join(f"%{i}" for i in range(count))
    first = "{" + ", ".join(f"%{count + i}" for i in range(4)) + "}" if registers else f"%{count}"
    after = count + (registers or 1)
    integers, eights = w.sums == "s32", w.a in ("e4m3", "e5m2", "tf32")
    tail = "p" if integers else f"p, {w.sign[0]}, {w.sign[1]}"
    if not integers and not eights:
        tail += "" if registers else f", {int(w.transposed_a)}"
        tail += f", {int(w.transposed_b)}"
    name = f"wgmma.mma_async.sync.aligned.m64n{w.columns}k{w.depth}.{w.sums}.{w.a}.{w.b}"
    constraint = "+f" if w.sums == "f32" else "+r"
    outs = ", ".join(f'"{constraint}"(s[{i}])' for i in range(count))
    ins = ", ".join(f'"r"(r[{i}])' for i in range(4)) if registers else '"l"(a + base)'
    text = (
        f'asm volatile("{{ .reg .pred p; setp.ne.s32 p, %{after + 1}, 0; {name} {{{sums}}}, {first}, %{after}, {tail}; }}" '
        f': {outs} : {ins}, "l"(b + base), "r"(adds) : "memory");'
    )
    source = (KERNELS / "wgmma.cu").read_text(encoding="utf-8")
    source = source.replace("PRODUCT", text).replace("SUM_TYPE", scalar).replace("SUMS", str(count))
    fragments = by_lanes(a, w.a, "a") if registers else np.zeros((128, 4), np.uint32)
    return Case(
        name=f"wgmma_{number}",
        source=source,
        launch=Launch(grid_x=1, block_x=128),
        arguments={
            "sums": by_lanes(c, w.sums, "c"),
            "shared": shared,
            "fragments": fragments,
            "a": np.uint64(at_a),
            "b": np.uint64(at_b),
            "adds": np.int32(w.adds),
        },
        expected={"sums": by_lanes(total, w.sums, "c")},
        architectures=("sm_90",),
    )


# ---- bulk copies


def swizzled_box(array: Array, tiling: TensorTiling, coordinates: Sequence[int]) -> tuple[NDArray[np.uint8], list[Any]]:
    """A box as it lies in shared memory, and for each element inside the tensor its index and its place there."""
    columns, size = tiling.copied[-1], tiling.element_bytes
    pitch = tiling.swizzle_bytes or columns * size
    data = np.full(tiling.box_bytes // (columns * size) * pitch, 0x5A, np.uint8)
    found = []
    for number, place in enumerate(np.ndindex(tiling.copied)):
        index = tuple(c + p * s for c, p, s in zip(coordinates, place, tiling.element_strides, strict=True))
        at = _swizzle(number // columns * pitch + number % columns * size, tiling.swizzle_bytes)
        data[at : at + size] = 0
        if all(0 <= i < extent for i, extent in zip(index, tiling.shape, strict=True)):
            data[at : at + size] = np.frombuffer(array[index].tobytes(), np.uint8)
            found.append((index, at))
    return data, found


def tensor_case(name: str, tiling: TensorTiling, column: int, row: int) -> Case:
    """Boxes of a plane and of a volume copied in, the first one out again, and added to a tensor."""
    random = np.random.default_rng(5)
    kind = tiling.element_dtype
    plane = random.integers(-50 if kind.kind != "u" else 0, 50, tiling.shape).astype(kind)
    volume_tiling = tensor_tiling("i32", (5, 6, 8), box=(2, 3, 8))
    volume = random.integers(-1000, 1000, (5, 6, 8)).astype(np.int32)
    total = random.integers(0, 50, tiling.shape).astype(kind)
    box, inside = swizzled_box(plane, tiling, (row, column))
    volume_box, _ = swizzled_box(volume, volume_tiling, (-1, 2, 4))
    boxes = np.full(12288, 0x5A, np.uint8)
    boxes[: len(box)] = box
    boxes[8192 : 8192 + len(volume_box)] = volume_box
    copied, added = np.zeros_like(plane), total.copy()
    for index, _ in inside:
        copied[index] = plane[index]
        added[index] = total[index] + plane[index]
    return Case(
        name=f"tensors_{name}",
        source=(KERNELS / "bulk_copies.cu").read_text(encoding="utf-8"),
        kernel="tensors",
        launch=Launch(grid_x=1, block_x=64),
        arguments={
            "plane": (plane, tiling),
            "volume": (volume, volume_tiling),
            "copy": (np.zeros_like(plane), tiling),
            "total": (total, tiling),
            "boxes": np.zeros(3072, np.uint32),
            "column": np.int32(column),
            "row": np.int32(row),
        },
        expected={"boxes": boxes.view(np.uint32), "copy": copied, "total": added},
        defines=(("PLANE_BYTES", tiling.box_bytes), ("VOLUME_BYTES", volume_tiling.box_bytes)),
    )


TENSORS: tuple[Callable[[], Case], ...] = (
    lambda: tensor_case("f32_128", tensor_tiling("f32", (50, 40), box=(32, 32), swizzle_bytes=128), 20, 30),
    lambda: tensor_case("f16_64", tensor_tiling("f16", (64, 96), box=(64, 32), swizzle_bytes=64), 80, 40),
    lambda: tensor_case("u32_32", tensor_tiling("u32", (40, 16), box=(16, 8), swizzle_bytes=32), 4, 7),
    lambda: tensor_case("f32_plain", tensor_tiling("f32", (40, 60), box=(16, 48)), 16, 33),
    lambda: tensor_case("f16_narrow", tensor_tiling("f16", (40, 64), box=(16, 16), swizzle_bytes=128), 8, 4),
    lambda: tensor_case("f32_strided", tensor_tiling("f32", (40, 60), box=(16, 48), element_strides=(2, 1)), 4, 3),
)


def plain_case() -> Case:
    """Plain bytes there and back."""
    x = np.random.default_rng(6).integers(-8, 8, (5, 64)).astype(np.float32)
    return Case(
        name="bulk_plain",
        source=(KERNELS / "bulk_copies.cu").read_text(encoding="utf-8"),
        kernel="plain",
        launch=Launch(grid_x=5, block_x=64),
        arguments={"in": x, "out": np.zeros_like(x), "sum": np.ones(64, np.float32)},
        expected={"out": 2 * x, "sum": 1 + 2 * x.sum(axis=0)},
        defines=(("PLANE_BYTES", 16), ("VOLUME_BYTES", 16)),
    )


# ---- clusters and mbarriers


def exchange_case() -> Case:
    """Blocks that read, write and count in one another's shared memory."""
    columns, rows, distance = 6, 4, 1
    blocks = columns * rows
    x = np.arange(blocks * 256, dtype=np.float32).reshape(blocks, 256)
    bx, by = np.arange(blocks) % columns, np.arange(blocks) // columns
    rank = bx % 2 + by % 2 * 2
    other = (rank + distance) % 4
    there = bx // 2 * 2 + other % 2 + (by // 2 * 2 + other // 2) * columns
    expected = np.zeros_like(x)
    expected[there] = x[there][:, np.arange(256) ^ 1] + 1
    expected[:, :8] += 32  # 256 threads on 8 places
    counted = np.ascontiguousarray(expected[:, 8:16]).view(np.int32) + 32
    expected[:, 8:16] = counted.view(np.float32)
    four = np.full(blocks, 4)
    identities = np.stack([rank, four, bx // 2, by // 2, bx % 2, by % 2, four * 0 + columns // 2, other], axis=1)
    return Case(
        name="cluster_exchange",
        source=(KERNELS / "clusters.cu").read_text(encoding="utf-8"),
        kernel="exchange",
        launch=Launch(grid_x=columns, grid_y=rows, block_x=256, cluster_x=2, cluster_y=2),
        arguments={
            "out": np.zeros_like(x),
            "in": x,
            "identities": np.zeros((blocks, 8), np.uint32),
            "distance": np.int32(distance),
        },
        expected={"out": expected, "identities": identities.astype(np.uint32)},
    )


def share_case() -> Case:
    """A box for both blocks of a cluster, a word and bytes passed on."""
    blocks = 4
    x = np.random.default_rng(8).integers(0, 2**31, (4 * blocks, 32)).astype(np.uint32)
    out = np.zeros((blocks, 160), np.uint32)
    for block in range(blocks):
        box = x[block // 2 * 8 : block // 2 * 8 + 4].reshape(-1)
        other = block % 2 ^ 1
        out[block, :128] = box
        out[block, 128:144] = box[32 * other : 32 * other + 16]
        out[block, 144] = box[5] + other
    return Case(
        name="cluster_share",
        source=(KERNELS / "clusters.cu").read_text(encoding="utf-8"),
        kernel="share",
        launch=Launch(grid_x=blocks, block_x=128, cluster_x=2),
        arguments={"map": (x, tensor_tiling("u32", x.shape, box=(4, 32))), "out": np.zeros_like(out)},
        expected={"out": out},
        architectures=("sm_90", "sm_100"),
    )


def copies_case() -> Case:
    """Asynchronous copies of ``cuda::barrier``."""
    x = np.random.default_rng(9).random((3, 4, 128, 4)).astype(np.float32)
    return Case(
        name="barrier_copies",
        source=(KERNELS / "barrier_copies.cu").read_text(encoding="utf-8"),
        kernel="copies",
        launch=Launch(grid_x=4, block_x=128),
        arguments={"in": x, "out": np.zeros_like(x)},
        expected={"out": x[:, :, np.arange(128) ^ 1]},
        architectures=("sm_80", "sm_86", *HOPPER),
    )


def operations_case(architecture: str) -> Case:
    """192 arrivals: of each of 64 threads one for its copy, one at once and one that drops out of the next phase.

    128 arrivals are done when the first warp drops out, so that 64 are pending for it and 32 for the second
    (before sm_90 lanes arrive one by one). Then 128 arrivals a phase
    remain, of which 64 come: the second phase is not over.
    """
    x = np.arange(64, dtype=np.uint32) * 3
    out = np.zeros(192, np.uint32)
    out[:64] = x
    out[128:] = np.repeat([64, 32], 32) if architecture in HOPPER else np.arange(64, 0, -1)
    return Case(
        name="barrier_operations",
        source=(KERNELS / "barrier_operations.cu").read_text(encoding="utf-8"),
        kernel="operations",
        launch=Launch(grid_x=1, block_x=64),
        arguments={"out": np.zeros_like(out), "in": x},
        expected={"out": out},
        architectures=("sm_80", "sm_89", *HOPPER),
    )


# ---- matrices, conversions, atomics, calls


def matrices_case(architecture: str, seed: int = 10) -> Case:
    """``ldmatrix``, ``movmatrix`` and ``stmatrix``; each lane names a drawn row of 16 bytes."""
    random = np.random.default_rng(seed)
    x = random.integers(0, 2**32, 256, dtype=np.uint64).astype(np.uint32)
    places = random.permutation(32)
    rows = x.view(np.uint16).reshape(-1, 8)[places].reshape(4, 8, 8)

    def words(matrices: Array) -> Array:
        return np.ascontiguousarray(matrices).view(np.uint32).reshape(len(matrices), 32)

    turned = rows.transpose(0, 2, 1)
    pieces = [words(rows[:1]), words(turned[:2]), words(rows), words(turned), words(rows[:1])]
    out = np.zeros(640, np.uint32)
    out[:384] = np.concatenate(pieces).reshape(-1)
    if architecture in HOPPER:
        shared = x.view(np.uint16).reshape(-1, 8).copy()
        shared[places] = turned.reshape(32, 8)
        out[384:512] = shared.view(np.uint32).reshape(-1)[:128]
        shared[places[:16]] = rows[2:].reshape(16, 8)
        shared[places[:8]] = rows[1]
        out[512:640] = shared.view(np.uint32).reshape(-1)[:128]
    return Case(
        name="matrices",
        source=(KERNELS / "matrices.cu").read_text(encoding="utf-8"),
        launch=Launch(grid_x=1, block_x=32),
        arguments={"in": x, "places": places.astype(np.uint32), "out": np.zeros_like(out)},
        expected={"out": out},
        architectures=("sm_75", "sm_80", "sm_86", "sm_89", *HOPPER),
    )


def rounded_to(values: Array, table: Array) -> Array:
    """Codes of the entries nearest to some numbers, the even one of two, the largest for what is beyond; NaN is code 127."""
    size = np.where(np.isfinite(values), np.abs(values), 2 * table[-1])[:, None]
    distance = np.abs(size - table)
    nearest = distance == distance.min(axis=1, keepdims=True)
    codes = np.array([min(np.flatnonzero(row), key=lambda code: code % 2) for row in nearest])
    codes = np.where(size[:, 0] > table[-1], len(table) - 1, codes)
    return np.where(np.isnan(values), 127, codes | np.signbit(values).astype(int) << 7).astype(np.uint32)


def eight_bits_case(architecture: str) -> Case:
    """8-bit floats and back, and ``tf32``."""
    random = np.random.default_rng(11)
    n = 128
    x = (random.standard_normal((n, 2)) * 10.0 ** random.integers(-6, 6, (n, 2))).astype(np.float32)
    x[:6] = [[0.0, -0.0], [448.0, 464.0], [np.inf, -np.inf], [1.0, np.nan], [2.0**-9, 2.0**-10], [57344.0, 61440.0]]
    packed = random.integers(0, 2**32, n, dtype=np.uint64).astype(np.uint32)
    tables = {kind: eight_bit_floats(kind)[: 127 if kind == "e4m3" else 124] for kind in ("e4m3", "e5m2")}

    def pair(low: Array, high: Array, kind: str) -> Array:
        return rounded_to(low, tables[kind]) | rounded_to(high, tables[kind]) << np.uint32(8)

    def halves(word: Array, kind: str) -> Array:
        both = eight_bit_floats(kind)[np.stack([word & 255, word >> 8 & 255], axis=1)]
        bits = np.where(np.isnan(both), 0x7FFF, both.astype(np.float16).view(np.uint16)).astype(np.uint16)
        return np.ascontiguousarray(bits).view(np.uint32)[:, 0]

    low, high = x[:, 0].astype(np.float64), x[:, 1].astype(np.float64)
    of_halves = packed.view(np.float16).reshape(n, 2).astype(np.float64)
    bits = x[:, 0].view(np.uint32).astype(np.uint64)
    to_even = ((bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000).astype(np.uint32)
    away = ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32)
    nan = np.isnan(x[:, 0])
    relu = [np.where(np.isnan(v), v, np.maximum(v, 0)) for v in (low, high)]
    out = np.stack(
        [
            pair(low, high, "e4m3"),
            pair(low, high, "e5m2"),
            pair(*relu, "e4m3"),
            halves(packed & 0xFFFF, "e4m3"),
            halves(packed >> 16, "e5m2"),
            pair(of_halves[:, 0], of_halves[:, 1], "e5m2"),
            np.where(nan, 0x7FFFFFFF, to_even) if architecture in HOPPER else np.zeros(n, np.uint32),
            np.where(nan, 0x7FFFFFFF, away),
        ]
    ).astype(np.uint32)
    return Case(
        name="eight_bits",
        source=(KERNELS / "eight_bits.cu").read_text(encoding="utf-8"),
        launch=Launch(grid_x=2, block_x=64),
        arguments={"in": x, "packed": packed, "out": np.zeros_like(out)},
        expected={"out": out},
        architectures=("sm_89", *HOPPER),
    )


def atomics_case() -> Case:
    """Atomics on vectors and on 16 bytes."""
    n = 64
    vectors = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
    thread = np.arange(n, dtype=np.float32)
    added = vectors + np.stack([0 * thread + 1, 0 * thread + 2, thread, 0 * thread + 0.5], axis=1)
    halves = np.zeros(12, np.uint32)
    summed = np.zeros(12, np.uint32)
    summed[:8] = np.array([16.0, 32.0], np.float16).view(np.uint32)[0]  # 32 threads on each: halves of 0.5 and 1
    summed[8:12] = max((t << 23 & 0xFFFFFFFF | 0x3F80) >> 16 for t in range(n)) << 16 | 0x3F80
    summed[10:] = 0
    wide = np.arange(4 * n, dtype=np.uint64).reshape(n, 4)
    after = wide.copy()
    after[:, 2:] = wide[:, :2]
    after[:, :2] = 7
    return Case(
        name="wide_atomics",
        source=(KERNELS / "wide_atomics.cu").read_text(encoding="utf-8"),
        launch=Launch(grid_x=1, block_x=n),
        arguments={
            "vectors": vectors,
            "pairs": np.zeros((4, 2), np.float32),
            "halves": halves,
            "wide": wide,
            "found": np.zeros_like(vectors),
        },
        expected={
            "vectors": added,
            "pairs": np.tile(np.array([16.0, 4.0], np.float32), (4, 1)),
            "halves": summed,
            "wide": after,
            "found": vectors,
        },
    )


def calls_case() -> Case:
    """Calls through pointers."""
    thread = np.arange(64)
    odd = (thread + 3) & 1
    out = np.concatenate([np.where(odd, thread + 7, thread * 3), np.where(odd, thread * 5, thread - 9)])
    return Case(
        name="calls",
        source=(KERNELS / "calls.cu").read_text(encoding="utf-8"),
        launch=Launch(grid_x=1, block_x=64),
        arguments={"out": np.zeros(128, np.int32), "offset": np.int32(3)},
        expected={"out": out.astype(np.int32)},
        architectures=("sm_75", "sm_80", "sm_86", "sm_89", *HOPPER),
    )


def cases(architecture: str) -> list[Case]:
    """All cases of an architecture but the products of single warps."""
    found = [wgmma_case(w, number) for number, w in enumerate(WGMMAS)]
    found += [make() for make in (*TENSORS, plain_case, exchange_case, share_case, copies_case)]
    found += [
        operations_case(architecture),
        matrices_case(architecture),
        eight_bits_case(architecture),
        atomics_case(),
        calls_case(),
    ]
    return [case for case in found if architecture in case.architectures]
