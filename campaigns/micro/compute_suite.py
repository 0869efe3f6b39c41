"""Micro-benchmarks of what is not memory: arithmetic, shuffles, barriers, code, and the launch itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch

from .benchmark import CYCLES, Clock, MicroBenchmark, MicroCall, exactly

ADDED, FLIPPED = np.uint32(0x9E3779B9), np.uint32(0x55AA55AA)
"""Operands of the integer chains; any odd-looking numbers do."""
INTEGER_INSTRUCTIONS_PER_LINK = 2
CHAIN_MIXES = ((8, 0), (0, 4), (4, 2), (8, 2))
"""Float and integer chains of a thread, for throughput; with two integer instructions a link the mixes are 1:0, 0:1, 1:1, 2:1."""
LONE_WARP_CHAINS = (1, 2, 4, 8)
BARRIER_WARPS = (1, 2, 4, 8, 16, 32)
EXITING_BLOCK_WARPS, WAITING_WARPS = 16, (2, 16)
EMPTY_BLOCK_WARPS = (1, 4, 8, 32)
CODE_BODIES = (512, 1024, 2048, 4096, 6144, 8192, 10240, 12288, 16384)
"""Instructions of the straight-line code, 16 bytes each from compute capability 7.0 on: 8 to 256 KiB."""
CODE_WARPS = (1, 8, 16, 32)
"""Warps that walk through the same code beside the one on each sub-partition: whether they share what is fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeSizes:
    """How long the compute micro-benchmarks run."""

    warps: int = 32
    steps: int = 2048
    code_steps: int = 32
    code_bodies: tuple[int, ...] = CODE_BODIES
    shared_code_bodies: tuple[int, ...] = (1024, 2048, 6144, 12288)
    empty_blocks: int = 131_072
    waiting_cycles: int = 200_000


def compute_suite(gpu: Gpu, sizes: ComputeSizes) -> tuple[MicroBenchmark, ...]:
    """All micro-benchmarks of computing and launching for a GPU."""
    return (
        *(arithmetic(gpu, sizes, floats, integers, sizes.warps) for floats, integers in CHAIN_MIXES),
        *(arithmetic(gpu, sizes, chains, 0, 1) for chains in LONE_WARP_CHAINS),
        arithmetic(gpu, sizes, 0, 1, 1),
        shuffle(gpu, sizes),
        *(barrier(gpu, sizes, warps) for warps in BARRIER_WARPS),
        *(code_walk(gpu, sizes, body) for body in sizes.code_bodies),
        *(code_walk(gpu, sizes, body, warps) for body in sizes.shared_code_bodies for warps in CODE_WARPS),
        divergent_walk(gpu, sizes),
        empty(gpu),
        *(empty_grid(sizes, warps) for warps in EMPTY_BLOCK_WARPS),
        *(early_exit(gpu, sizes, waiting) for waiting in WAITING_WARPS),
    )


def arithmetic(gpu: Gpu, sizes: ComputeSizes, floats: int, integers: int, warps: int) -> MicroBenchmark:
    """Chains of fused multiply-adds and of integer pairs side by side; the amount is warp instructions of a block."""
    threads, steps = 32 * warps, sizes.steps

    def make_call(rng: np.random.Generator) -> MicroCall:
        thread = np.arange(threads)
        float_sums = floats * (thread + steps) + sum(range(floats))  # factor 1, addend 1: exact in fp32
        integer_sums = np.zeros(threads, np.uint32)
        for chain in range(integers):
            value = (thread + chain).astype(np.uint32)
            for _ in range(steps):
                value = (value + ADDED) ^ FLIPPED
            integer_sums += value
        blocks = gpu.sm_count
        parameters = (
            Buffer(name="floats", array=np.full(threads * blocks, np.nan, np.float32), output=True),
            Buffer(name="integers", array=np.full(threads * blocks, 0xFFFFFFFF, np.uint32), output=True),
            Buffer(name=CYCLES, array=np.full(blocks, -1, np.int64), output=True),
            np.float32(1.0),
            np.float32(1.0),
            ADDED,
            FLIPPED,
            np.int32(steps),
        )
        expected = exactly(floats=np.tile(float_sums, blocks), integers=np.tile(integer_sums, blocks))
        return MicroCall(call=KernelCall(parameters=parameters), expected=expected)

    return MicroBenchmark(
        kernel="arithmetic",
        defines=(("FLOAT_CHAINS", floats), ("INTEGER_CHAINS", integers)),
        setting={"float_chains": floats, "integer_chains": integers, "warps": warps},
        launch=Launch(grid_x=gpu.sm_count, block_x=threads),
        clock=Clock.KERNEL,
        amount=float(warps * steps * (floats + INTEGER_INSTRUCTIONS_PER_LINK * integers)),
        make_call=make_call,
    )


def shuffle(gpu: Gpu, sizes: ComputeSizes, chains: int = 4) -> MicroBenchmark:
    """Exchanges with the neighbouring lane; the amount is warp instructions of a block."""
    threads, steps = 32 * sizes.warps, sizes.steps

    def make_call(rng: np.random.Generator) -> MicroCall:
        values = chains * np.arange(threads) + sum(range(chains))  # an even number of exchanges restores them
        parameters = (
            Buffer(name="values", array=np.full(threads * gpu.sm_count, -1, np.int32), output=True),
            Buffer(name=CYCLES, array=np.full(gpu.sm_count, -1, np.int64), output=True),
            np.int32(steps),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(values=np.tile(values, gpu.sm_count)))

    return MicroBenchmark(
        kernel="shuffle",
        defines=(("CHAINS", chains),),
        setting={"chains": chains, "warps": sizes.warps},
        launch=Launch(grid_x=gpu.sm_count, block_x=threads),
        clock=Clock.KERNEL,
        amount=float(sizes.warps * steps * chains),
        make_call=make_call,
    )


def barrier(gpu: Gpu, sizes: ComputeSizes, warps: int) -> MicroBenchmark:
    """A block that waits for itself; the amount is barriers of one block."""

    def make_call(rng: np.random.Generator) -> MicroCall:
        cycles = Buffer(name=CYCLES, array=np.full(gpu.sm_count, -1, np.int64), output=True)
        return MicroCall(call=KernelCall(parameters=(cycles, np.int32(sizes.steps))), expected={})

    return MicroBenchmark(
        kernel="barrier",
        setting={"warps": warps},
        launch=Launch(grid_x=gpu.sm_count, block_x=32 * warps),
        clock=Clock.KERNEL,
        amount=float(sizes.steps),
        make_call=make_call,
    )


def code_walk(gpu: Gpu, sizes: ComputeSizes, body: int, warps: int | None = None) -> MicroBenchmark:
    """Straight-line code walked by the warps of a block, by default one on each sub-partition.

    The amount is instructions of one warp.
    """
    threads, steps = 32 * (warps or gpu.sub_partitions_per_sm), sizes.code_steps

    def make_call(rng: np.random.Generator) -> MicroCall:
        starts = 4 * np.arange(threads) + sum(range(4))  # four accumulators, which begin at thread + 0 … thread + 3
        sums = starts + body * (steps + 1)  # each grows by 1 in body / 4 of the steps of a walk, all exact
        parameters = (
            Buffer(name="floats", array=np.full(threads * gpu.sm_count, np.nan, np.float32), output=True),
            Buffer(name=CYCLES, array=np.full(gpu.sm_count, -1, np.int64), output=True),
            np.float32(1.0),
            np.float32(1.0),
            np.int32(steps),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(floats=np.tile(sums, gpu.sm_count)))

    return MicroBenchmark(
        kernel="code_walk",
        defines=(("BODY", body),),
        setting={"body": body} if warps is None else {"body": body, "warps": warps},
        launch=Launch(grid_x=gpu.sm_count, block_x=threads),
        clock=Clock.KERNEL,
        amount=float(body * steps),
        make_call=make_call,
    )


def divergent_walk(gpu: Gpu, sizes: ComputeSizes, longest: int = 24, elements: int = 4096) -> MicroBenchmark:
    """Loops and branches that only some lanes take; the amount is steps of all threads."""
    blocks, threads = gpu.sm_count, 128
    lengths = np.random.default_rng(blocks).integers(1, longest + 1, blocks * threads).astype(np.int32)

    def make_call(rng: np.random.Generator) -> MicroCall:
        values = rng.integers(0, 64, elements).astype(np.int32)
        position, sums = np.arange(blocks * threads) % elements, np.zeros(blocks * threads)
        for step in range(longest):
            value = values[position]
            added = value + np.where(value & 1, values[(position + value) % elements], 0)
            sums += np.where(step < lengths, added, 0)
            position = (position + 32) % elements
        parameters = (
            Buffer(name="sums", array=np.full(blocks * threads, np.nan, np.float32), output=True),
            Buffer(name="input", array=values),
            Buffer(name="lengths", array=lengths),
            np.int32(elements),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=sums))

    return MicroBenchmark(
        kernel="divergent_walk",
        setting={"longest": longest, "elements": elements},
        launch=Launch(grid_x=blocks, block_x=threads),
        clock=Clock.EVENTS,
        amount=float(lengths.sum()),
        make_call=make_call,
    )


def empty(gpu: Gpu) -> MicroBenchmark:
    """A launch that does nothing."""
    return MicroBenchmark(
        kernel="empty",
        setting={},
        launch=Launch(grid_x=gpu.sm_count, block_x=128),
        clock=Clock.ALL_METHODS,
        amount=1.0,
        make_call=lambda rng: MicroCall(call=KernelCall(parameters=()), expected={}),
    )


def empty_grid(sizes: ComputeSizes, warps: int) -> MicroBenchmark:
    """Many blocks that do nothing: how fast the GPU starts blocks; the amount is blocks."""
    blocks = sizes.empty_blocks
    return MicroBenchmark(
        kernel="empty",
        setting={"blocks": blocks, "warps": warps},
        launch=Launch(grid_x=blocks, block_x=32 * warps),
        clock=Clock.EVENTS,
        amount=float(blocks),
        make_call=lambda rng: MicroCall(call=KernelCall(parameters=()), expected={}),
    )


def early_exit(gpu: Gpu, sizes: ComputeSizes, waiting: int) -> MicroBenchmark:
    """Blocks of which some warps wait and the others end at once, as many as could wait together; the amount is 1 wait."""
    blocks, cycles = gpu.sm_count * gpu.max_warps_per_sm // EXITING_BLOCK_WARPS * 4, sizes.waiting_cycles

    def make_call(rng: np.random.Generator) -> MicroCall:
        done = Buffer(name="done", array=np.full(blocks * 32 * waiting, np.nan, np.float32), output=True)
        call = KernelCall(parameters=(done, np.int32(cycles)))
        return MicroCall(call=call, expected=exactly(done=np.ones(blocks * 32 * waiting)))

    return MicroBenchmark(
        kernel="early_exit",
        defines=(("WAITING", waiting),),
        setting={"warps": EXITING_BLOCK_WARPS, "waiting": waiting},
        launch=Launch(grid_x=blocks, block_x=32 * EXITING_BLOCK_WARPS),
        clock=Clock.EVENTS,
        amount=float(cycles),
        make_call=make_call,
    )
