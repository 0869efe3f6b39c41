"""Launches of this package's micro-benchmarks that show one mechanism each, by its size, as launches of public kernels are given.

Contended atomics, L1 that is too small for its warps, buffers that stay in L2, written lines that leave it, blocks of unequal
length, grids smaller than the GPU, chains of dependent instructions, constants read by index and in order, words of many lines,
fences, clusters, drawn lines and sectors, stores to the same places, asynchronous copies, code walked through once, first loads.
Local memory stands by itself (`stack_launches`), and so do jumps in the code and lines that all SMs read (`place_launches`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files

from perfmodel.gpus.gpu import Gpu

from .record import OWN_REPOSITORY, PublicLaunch

MIB = 2**20
ATOMIC_STEPS = 16
CONSTANT_READS, FENCES, JUMPS = 4096, 256, 1024
WORD_TYPES = {"int": "i32", "float": "f32", "double": "f64", "unsigned long long": "u64"}
OPERATIONS = (
    ("fp32", 0, "float", "f32", 4096),
    ("integer", 1, "int", "i32", 4096),
    ("fp64", 2, "double", "f64", 2048),
    ("rsqrt", 3, "float", "f32", 1024),
    ("shared_load", 4, "int", "i32", 2048),
    ("shuffle", 5, "float", "f32", 2048),
    ("division", 6, "float", "f32", 512),
    ("sine", 7, "float", "f32", 512),
)
"""Name, number in the kernel, type, type of an argument, steps."""


def mechanism_launches(gpu: Gpu) -> tuple[PublicLaunch, ...]:
    """All of them for a GPU; the first is the kernel that empties L2."""
    return (
        *_l2_resident(gpu),
        *_written_back(gpu),
        *_small_grids(gpu),
        *_global_atomics(gpu),
        *_shared_atomics(gpu),
        *_l1_rows(gpu),
        *_uneven(gpu),
        *_chains(gpu),
        *_constants(gpu),
        *_constant_walks(gpu),
        *_fences(gpu),
        *_clusters(gpu),
        *_lines(gpu),
        *_gathers(gpu),
        *_scatters(gpu),
        *_rewritten(gpu),
        *_copies(gpu),
        *_first_walks(gpu),
        *_first_loads(gpu),
    )


def _launch(
    mechanism: str,
    name: str,
    kernel: str,
    grid: int,
    block: int,
    args: str,
    defines: Mapping[str, str | int] | None = None,
    shared: int | None = None,
) -> PublicLaunch:
    path = f"kernels/micro/{kernel}.cu"
    source = files("perfmodel").joinpath(path).read_bytes()
    return PublicLaunch(
        id=f"{mechanism} {name}".replace(" ", "_"),
        program=f"micro {mechanism}",
        repository=OWN_REPOSITORY,
        commit="",
        path=path,
        sha256=hashlib.sha256(source).hexdigest(),
        kernel=kernel,
        grid=(grid, 1, 1),
        block=(block, 1, 1),
        args=tuple(args.split()),
        defines=defines or {},
        shared=shared,
    )


def _l2_resident(gpu: Gpu) -> Iterator[PublicLaunch]:
    """One buffer read eight times past L1: up to the L2's size it stays there."""
    grid = 2 * gpu.sm_count
    for mib in (4, 16, 24, 32, 40, 48, 64, 96, 256):
        words = mib * MIB // 16
        yield _launch("l2", f"{mib} MiB", "global_read", grid, 1024, f"f32[{grid * 1024}] f32[{4 * words}] {words} 8")


def _written_back(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Buffers written or copied once: what L2 can hold need not have reached DRAM when the launch ends."""
    grid = 2 * gpu.sm_count
    for mib in (4, 16, 32, 64, 256):
        words = mib * MIB // 16
        yield _launch("write", f"{mib} MiB", "global_write", grid, 1024, f"f32[{4 * words}] 1.0 {words}")
    for mib in (4, 16, 32, 128):
        words = mib * MIB // 16
        yield _launch("copy", f"{mib} MiB", "global_copy", grid, 1024, f"f32[{4 * words}] f32[{4 * words}] {words}")
    for blocks, mib in ((1, 1), (8, 8), (33, 16), (66, 32)):
        words = mib * MIB // 16
        yield _launch("write", f"{mib} MiB by {blocks}", "global_write", blocks, 1024, f"f32[{4 * words}] 1.0 {words}")


def _small_grids(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Reading with few SMs and few warps: what one SM can have under way."""
    for blocks, threads, kib in (
        (1, 32, 64),
        (1, 256, 256),
        (1, 1024, 1024),
        (8, 256, 2048),
        (33, 256, 8192),
        (66, 1024, 32768),
        (gpu.sm_count, 32, 16384),
        (gpu.sm_count, 128, 32768),
        (gpu.sm_count, 256, 65536),
    ):
        words = kib * 1024 // 16
        args = f"f32[{blocks * threads}] f32[{4 * words}] {words} 1"
        yield _launch("grid", f"{blocks} x {threads}", "global_read", blocks, threads, args)


def _global_atomics(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Additions of all SMs, and of one, to few and many addresses, that return or do not."""
    grid = 2 * gpu.sm_count
    cases = [("int", 0, k, 1, 1, grid) for k in (1, 2, 4, 8, 16, 32, 64, 256, 1024, 16384, 2**20)]
    cases += [("int", 0, k, stride, 1, grid) for stride in (8, 32) for k in (4, 32, 1024)]
    cases += [("int", 0, k, 1, 32, grid) for k in (1024, 65536)]
    cases += [("int", 1, k, 1, 1, grid) for k in (1, 4, 32, 1024, 2**20)]
    cases += [("float", 0, k, 1, 1, grid) for k in (1, 4, 32, 1024, 2**20)]
    cases += [("float", 1, k, 1, 1, grid) for k in (1, 1024)]
    cases += [("float", 0, 1024, 1, 32, grid)]
    cases += [("double", 0, k, 1, 1, grid) for k in (1, 32, 1024)]
    cases += [("unsigned long long", 0, k, 1, 1, grid) for k in (1, 1024)]
    cases += [("int", returns, k, 1, 1, blocks) for blocks in (1, 16) for returns in (0, 1) for k in (1, 1024)]
    for kind, returns, addresses, stride, group, blocks in cases:
        element = WORD_TYPES[kind]
        name = f"{element} {'returned' if returns else 'red'} {addresses} stride {stride} group {group} blocks {blocks}"
        args = (
            f"{element}[{addresses * stride}]=0 {element}[{blocks * 256}]=0 {addresses} {stride} {group} {ATOMIC_STEPS}"
        )
        yield _launch(
            "atomics", f"global {name}", "atomic_global", blocks, 256, args, {"TYPE": kind, "RETURNS": returns}
        )


def _shared_atomics(gpu: Gpu) -> Iterator[PublicLaunch]:
    grid = 2 * gpu.sm_count
    cases = [("int", 0, k, 1) for k in (1, 2, 4, 8, 16, 32, 256, 1024)]
    cases += [("int", 1, k, 1) for k in (1, 32, 1024)] + [("int", 0, 256, 32)]
    cases += [("float", 0, k, 1) for k in (1, 2, 8, 32, 1024)] + [("double", 0, 32, 1), ("double", 0, 1, 1)]
    for kind, returns, addresses, group in cases:
        element = WORD_TYPES[kind]
        args = f"{element}[{grid * addresses}]=0 {element}[{grid * 256}]=0 {addresses} {group} 64"
        name = f"{element} {'returned' if returns else 'red'} {addresses} group {group}"
        yield _launch("atomics", f"shared {name}", "atomic_shared", grid, 256, args, {"TYPE": kind, "RETURNS": returns})


def _l1_rows(gpu: Gpu) -> Iterator[PublicLaunch]:
    """A row for each thread, read word by word, with few and many threads on an SM."""
    for unroll, threads, blocks_per_sm in (
        (1, 32, 1), (1, 128, 1), (1, 512, 1), (1, 1024, 1), (1, 1024, 2),
        (8, 32, 1), (8, 128, 1), (8, 512, 1), (8, 1024, 1), (8, 1024, 2), (8, 256, 4),
    ):  # fmt: skip
        grid = blocks_per_sm * gpu.sm_count
        args = f"f32[{grid * threads}] f32[{grid * threads}*256] 256 256 1"
        name = f"rows {threads} x {blocks_per_sm} unrolled {unroll}"
        yield _launch("l1", name, "l1_rows", grid, threads, args, {"UNROLL": unroll})
    for threads in (256, 512, 1024):
        args = f"f32[{gpu.sm_count * threads}] f32[{gpu.sm_count * threads}*64] 64 64 16"
        yield _launch("l1", f"again {threads}", "l1_rows", gpu.sm_count, threads, args, {"UNROLL": 8})


def _uneven(gpu: Gpu) -> Iterator[PublicLaunch]:
    for name, grid, args in (
        ("even", 8 * gpu.sm_count, "2000 0 1 0"),
        ("one long", 8 * gpu.sm_count, f"2000 20000 {8 * gpu.sm_count} 0"),
        ("every 8th long", 32 * gpu.sm_count, "500 8000 8 0"),
        ("rising", 16 * gpu.sm_count, "0 0 1 2"),
        ("rising few", gpu.sm_count, "0 0 1 64"),
        ("one block more", 8 * gpu.sm_count + 1, "4000 0 1 0"),
        ("half wave", 4 * gpu.sm_count + gpu.sm_count // 2, "4000 0 1 0"),
    ):
        yield _launch("uneven", name, "uneven_blocks", grid, 256, f"f32[{grid * 256}] {args}")


def _chains(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Dependent instructions of each kind, with one warp, one a scheduler, and many."""
    for name, operation, kind, element, steps in OPERATIONS:
        for warps, chains in ((1, 1), (4, 1), (16, 1), (32, 1), (4, 4)):
            threads = 32 * warps
            seed = "3" if element == "i32" else "1.25"
            args = f"{element}[{gpu.sm_count * threads}] {seed} {steps}"
            defines: dict[str, str | int] = {"OPERATION": operation, "TYPE": kind, "CHAINS": chains}
            label = f"{name} warps {warps} chains {chains}"
            yield _launch("chain", label, "dependent_chain", gpu.sm_count, threads, args, defines)


def _constants(gpu: Gpu) -> Iterator[PublicLaunch]:
    """One word of constant memory for a warp, and several that lie a word to a line apart."""
    for stride, group in (
        (1, 32),
        (1, 16),
        (1, 8),
        (1, 4),
        (1, 1),
        (2, 1),
        (4, 1),
        (16, 16),
        (16, 8),
        (16, 4),
        (16, 1),
    ):
        for warps, chains in ((1, 1), (32, 4)):
            name = f"stride {stride} group {group} warps {warps}"
            args = f"i32[{gpu.sm_count * 32 * warps}] {stride} {group} 256"
            yield _launch("constants", name, "constant_read", gpu.sm_count, 32 * warps, args, {"CHAINS": chains})


def _constant_walks(gpu: Gpu) -> Iterator[PublicLaunch]:
    """More and more constant memory, read one word or one line after the other: what the caches of constants hold and give."""
    cases = [(0, words, 16, 1, 0) for words in (1024, 2048, 4096, 8192, 16384)]
    cases += [(0, words, 1, 1, 0) for words in (512, 2048, 16384)]
    cases += [(1, words, 1, warps, 0) for words in (256, 512, 1024, 4096, 16384) for warps in (1, 8, 32)]
    cases += [(1, words, 16, warps, 0) for words in (4096, 16384) for warps in (1, 8, 32)]
    cases += [(1, words, 1, 32, words // 32) for words in (1024, 4096, 16384)]
    cases += [(1, words, 16, 32, words // 32) for words in (4096, 16384)]
    cases += [(2, words, 1, warps, 0) for words in (256, 512, 1024, 2048) for warps in (1, 4, 16)]
    for way, words, step, warps, shift in cases:
        passes = max(2, CONSTANT_READS * step // words)
        name = f"{4 * words} B step {step} way {way} warps {warps}" + (f" shift {shift}" if shift else "")
        args = f"i32[{gpu.sm_count * 32 * warps}] 0 {shift} {passes}"
        defines: dict[str, str | int] = {"WORDS": words, "STEP": step, "WAY": way}
        yield _launch("constants", f"walk {name}", "constant_walk", gpu.sm_count, 32 * warps, args, defines)


def _fences(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Stores that a warp waits for."""
    for stores in (0, 1, 4):
        for threads in (32, 256):
            args = f"i32[{gpu.sm_count * (stores + 1) * threads}] {FENCES}"
            yield _launch("fence", f"{stores} x {threads}", "fence", gpu.sm_count, threads, args, {"STORES": stores})


def _clusters(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Clusters that do nothing, wait for themselves, and read each other's shared memory."""
    if not gpu.architecture.has_clusters:
        return
    grid = gpu.sm_count // 16 * 16 - 8
    cases = [(size, 0, 0, 128, 0) for size in (1, 2, 4, 8)]
    cases += [(size, work, 1, threads, 512) for size in (2, 4, 8) for work in (1, 2) for threads in (32, 256, 1024)]
    cases += [(size, 3, hop, 32, 1024) for size in (2, 8) for hop in (0, 1)]
    cases += [(size, 4, hop, threads, 512) for size in (2, 4, 8) for hop in (0, 1) for threads in (128, 512)]
    for size, work, hop, threads, steps in cases:
        name = f"{size} work {work} hop {hop} threads {threads}"
        args = f"i32[{grid * threads}] {hop} {steps}"
        yield _launch("cluster", name, "cluster", grid, threads, args, {"CLUSTER": size, "WORK": work})


def _lines(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Words of 1 to 32 lines in one bank or in many, which L1 has."""
    for stride in (1, 2, 4, 8, 9, 16, 17, 32, 33, 34, 36, 40, 64, 65, 127, 257):
        for warps, chains in ((1, 1), (32, 4)):
            name = f"stride {stride} warps {warps}"
            args = f"i32[{gpu.sm_count * 32 * warps}] i32[{32 * stride}]=0 {stride} 256"
            yield _launch("lines", name, "line_read", gpu.sm_count, 32 * warps, args, {"CHAINS": chains})


def _gathers(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Drawn lines and sectors of what L2 holds and of what it does not hold, by few and by many warps."""
    for mib in (16, 1024):
        cases = [(32, 32, warps, 1) for warps in (1, 8, 16, 32, 64)] + [(32, 32, 64, 4)]
        cases += [(8, 8, warps, 1) for warps in (8, 32, 64)] + [(8, 32, 32, 1), (8, 32, 64, 1)]
        cases += [(1, 8, warps, 1) for warps in (1, 8, 32, 64)] + [(1, 32, 32, 1)]
        for group, stride, warps, chains in cases:
            places, threads = mib * MIB // 4 // stride, 32 * min(warps, 32)
            grid = gpu.sm_count * max(1, warps // 32)
            args = f"u32[{grid * threads}] u32[{places * stride}]=0 {places} {512 // warps // chains + 16}"
            name = f"{mib} MiB group {group} stride {stride} warps {warps} chains {chains}"
            defines: dict[str, str | int] = {"GROUP": group, "STRIDE": stride, "CHAINS": chains}
            yield _launch("gather", name, "gather", grid, threads, args, defines)


def _scatters(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Stores and additions of words, sectors and lines at drawn places, by one SM, by some and by all."""
    shapes = [(1, 8), (16, 8), (gpu.sm_count, 8), (2 * gpu.sm_count, 32)]
    cases = [(0, "float", 16, 1, 8, *shape) for shape in shapes]
    cases += [(0, "float", 16, 32, 32, *shape) for shape in shapes]
    cases += [(0, "float", 1024, 1, 8, gpu.sm_count, 8), (0, "float", 1024, 1, 8, 2 * gpu.sm_count, 32)]
    cases += [(0, "float", 1024, 8, 8, 2 * gpu.sm_count, 32), (0, "float", 1024, 32, 32, 2 * gpu.sm_count, 32)]
    cases += [
        (1, "float", 16, group, stride, *shape) for group, stride in ((1, 8), (1, 32), (32, 32)) for shape in shapes
    ]
    cases += [(1, "int", 16, group, stride, *shapes[-1]) for group, stride in ((1, 8), (8, 8), (32, 32))]
    cases += [(1, "double", 16, group, 32, *shapes[-1]) for group in (1, 32)]
    cases += [(1, "float", 1024, group, stride, *shapes[-1]) for group, stride in ((1, 8), (32, 32))]
    cases += [(2, "int", 16, group, stride, *shape) for group, stride in ((1, 8), (32, 32)) for shape in shapes]
    for work, kind, mib, group, stride, blocks, warps in cases:
        element, threads = WORD_TYPES[kind], 32 * warps
        places = mib * MIB // 4 // stride // (2 if kind == "double" else 1)
        steps = 256 if blocks * warps <= 8 * gpu.sm_count else 64
        args = f"{element}[{places * stride}]=0 {element}[{blocks * threads}]=0 {places} {steps}"
        way = ("stores", "red", "returned")[work]
        name = f"{element} {way} {mib} MiB group {group} stride {stride} blocks {blocks} warps {warps}"
        defines: dict[str, str | int] = {"TYPE": kind, "GROUP": group, "STRIDE": stride, "WORK": work}
        yield _launch("scatter", name, "scatter", blocks, threads, args, defines)


def _rewritten(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Stores of words of each width to places that stay in L2."""
    for width, blocks in ((1, 8), (2, 8), (4, 8), (1, 1), (4, 1)):
        grid = blocks * gpu.sm_count
        args = f"f32[{grid * 256 * width}] 1.0 128"
        yield _launch("rewrite", f"{4 * width} B blocks {blocks}", "line_write", grid, 256, args, {"WIDTH": width})


def stack_launches(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Local memory stored and loaded in words and in parts of words, of threads whose stacks L1 can hold and of others."""
    word, byte = ("unsigned", 4), ("unsigned char", 1)
    cases = [(word, word, size, 256, 1, (1, 1, 8)) for size in (64, 256, 768, 2048)]
    cases += [(word, word, 256, 256, 1, loops) for loops in ((1, 0, 1), (8, 0, 1), (1, 8, 1))]
    cases += [(byte, byte, 256, 256, 1, loops) for loops in ((1, 1, 1), (1, 1, 8), (8, 0, 1), (1, 8, 1))]
    cases += [(byte, word, 256, 256, 1, (1, 1, 8)), (word, byte, 256, 256, 1, (1, 1, 8))]
    cases += [
        (word, word, 256, 32, 1, (1, 1, 8)),
        (byte, byte, 256, 32, 1, (1, 1, 2)),
        (word, word, 256, 256, 8, (1, 1, 8)),
    ]
    for stored, loaded, size, threads, blocks, (stores, loads, rounds) in cases:
        grid = blocks * gpu.sm_count
        defines: dict[str, str | int] = {"BYTES": size, "STORED": stored[0], "LOADED": loaded[0]}
        defines |= {"STORE_STEP": stored[1], "LOAD_STEP": loaded[1]}
        name = f"{size} B by {stored[1]} and {loaded[1]} threads {threads} x {blocks} {stores} {loads} {rounds}"
        args = f"u32[{grid * threads}] {stores} {loads} {rounds}"
        yield _launch("stack", name, "stack_walk", grid, threads, args, defines)


def _copies(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Asynchronous copies of 4, 8 and 16 bytes a lane of what L2 holds, few and many of them under way."""
    words = 4 * MIB
    for size, copies, warps in ((4, 1, 4), (4, 4, 4), (4, 4, 32), (8, 4, 32), (16, 1, 4), (16, 4, 4), (16, 4, 32)):
        threads = 32 * warps
        args = f"f32[{gpu.sm_count * threads}] f32[{words}] {words} 32"
        name = f"{size} B copies {copies} warps {warps}"
        yield _launch(
            "async",
            name,
            "copy_steps",
            gpu.sm_count,
            threads,
            args,
            {"BYTES": size, "COPIES": copies},
            threads * copies * size,
        )


def _first_walks(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Straight code that is walked through once, by one block and by one on each SM."""
    for blocks in (1, gpu.sm_count):
        for body in (64, 512, 2048, 8192):
            args = f"f32[{blocks * 32}] i64[{blocks}] 1.5 0.5 0"
            yield _launch("code", f"{body} by {blocks}", "code_walk", blocks, 32, args, {"BODY": body})


def _first_loads(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Launches of no load to four, one after the other, from parts of a table that are a megabyte apart or sixteen."""
    for blocks, mib in ((1, 1), (gpu.sm_count, 1), (8 * gpu.sm_count, 1), (gpu.sm_count, 16)):
        for loads in (0, 1, 2, 4):
            stride, threads = mib * MIB // 4, 128
            args = f"i32[{blocks * threads}] i32[{loads * stride + blocks * threads}]=0 {stride}"
            name = f"{loads} by {blocks}, {mib} MiB apart"
            yield _launch("first", name, "first_loads", blocks, threads, args, {"LOADS": loads})
    for blocks in (2 * gpu.sm_count, 16 * gpu.sm_count):
        for loads in (0, 1):
            args = f"i32[{blocks * 1024}] i32[{(loads + 1) * blocks * 1024}]=0 {blocks * 1024}"
            yield _launch("first", f"{loads} by {blocks} x 1024", "first_loads", blocks, 1024, args, {"LOADS": loads})


def place_launches(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Warps that jump about in code of many sizes, and warps of all SMs that read the same few lines of L2."""
    yield from _code_jumps(gpu)
    yield from _hot_lines(gpu)


def _code_jumps(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Jumps from place to place in code of 5 to 300 KB, by one warp and by many, on one SM and on all; loops at many places."""
    alone = (1, 0, gpu.sm_count)
    cases = [(places, 32, 5, 1, *alone) for places in (8, 16, 32, 64, 128, 256, 512)]
    cases += [(places, 32, 5, 1, 1, 0, 1) for places in (64, 128, 512)]
    cases += [(places, 8, 5, 1, *alone) for places in (64, 256)]
    cases += [
        (places, 32, 5, 1, warps, apart, gpu.sm_count)
        for places in (16, 64, 128, 256)
        for warps, apart in ((4, 0), (16, 0), (4, 5), (16, 5), (32, 5))
    ]
    cases += [(64, 32, 1, 0, warps, 1, gpu.sm_count) for warps in (4, 16, 32)]
    cases += [(64, 128, 1, 0, warps, 1, gpu.sm_count) for warps in (4, 16, 32)]
    for places, body, times, plus, warps, apart, blocks in cases:
        name = f"{places} of {body} times {times} warps {warps} apart {apart} by {blocks}"
        args = f"f32[{blocks * 32 * warps}] 0.5 {JUMPS // warps + 64} {times} {plus} {apart}"
        defines: dict[str, str | int] = {"PLACES": places, "BODY": body}
        yield _launch("jumps", name, "code_jumps", blocks, 32 * warps, args, defines)


def _hot_lines(gpu: Gpu) -> Iterator[PublicLaunch]:
    """Drawn sectors and lines among few that all SMs read past L1, which lie side by side or far apart."""
    for group, stride, places in (
        (8, 8, 1), (8, 8, 4), (8, 8, 16), (8, 8, 64), (8, 8, 256), (8, 8, 2048), (8, 8, 32768),
        (8, 32, 16), (8, 32, 256), (8, 1024, 16), (8, 1024, 256),
        (32, 32, 1), (32, 32, 4), (32, 32, 16), (32, 32, 64), (32, 32, 256), (32, 32, 32768),
    ):  # fmt: skip
        args = f"u32[{gpu.sm_count * 1024}] u32[{places * stride}]=0 {places} {stride} 16"
        name = f"{places} group {group} stride {stride}"
        yield _launch("hot", name, "hot_lines", gpu.sm_count, 1024, args, {"GROUP": group})
