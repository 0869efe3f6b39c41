"""Micro-benchmarks of the memory hierarchy: bandwidth of DRAM, L2, L1 and shared memory, and latency of each level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch

from .benchmark import CYCLES, Clock, MicroBenchmark, MicroCall, exactly, float_noise, follow, single_cycle

WORD_BYTES = 16
LINK_BYTES = 8
SHARED_READS_PER_STEP = 16
CONFLICT_DEGREES = (1, 2, 4, 8, 16, 32)
VECTOR_WIDTHS = (2, 4)
COMMON_SHARES = (66, 33, 16, 8, 4, 2, 1)
"""Of the SMs of the GPU, one in so many runs a block of `common_read`, all of which read one buffer."""
COMMON_BUFFERS = ((2, 1), (4, 1), (8, 1), (16, 1), (2, 66), (8, 16), (16, 8), (33, 4), (66, 2))
"""Buffers read by blocks on all SMs, and how many blocks with consecutive numbers read the same one."""
SUM_TOLERANCE = 1e-3
"""Of a thread's fp32 sum of many positive numbers, relative."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySizes:
    """How much the memory micro-benchmarks move."""

    dram_bytes: int = 1 << 29
    l2_bytes: int = 20_000_000
    l2_passes: int = 100
    l1_threads: int = 1024
    l1_passes: int = 4096
    shared_warps: int = 32
    shared_steps: int = 1024
    common_bytes: int = 64 * 1024
    chase_steps: int = 8192
    chase_l1_bytes: int = 16 * 1024
    chase_l2_bytes: int = 4 << 20
    chase_dram_bytes: int = 1 << 30
    blocks_per_sm: int = 2
    threads: int = 1024


def memory_suite(gpu: Gpu, sizes: MemorySizes) -> tuple[MicroBenchmark, ...]:
    """All micro-benchmarks of memory for a GPU."""
    return (
        global_read(gpu, sizes, sizes.dram_bytes, 1),
        global_read(gpu, sizes, sizes.l2_bytes, sizes.l2_passes),
        global_write(gpu, sizes),
        global_copy(gpu, sizes),
        l1_read(gpu, sizes),
        *(shared_read(gpu, sizes, stride, 1) for stride in CONFLICT_DEGREES),
        *(shared_read(gpu, sizes, 1, width) for width in VECTOR_WIDTHS),
        *(
            common_read(gpu, sizes, blocks)
            for blocks in dict.fromkeys(max(gpu.sm_count // n, 1) for n in COMMON_SHARES)
        ),
        *(common_read(gpu, sizes, gpu.sm_count, buffers, apart) for buffers, apart in COMMON_BUFFERS),
        chase_shared(sizes),
        chase_global(sizes, sizes.chase_l1_bytes, past_l1=False),
        chase_global(sizes, sizes.chase_l2_bytes, past_l1=True),
        chase_global(sizes, sizes.chase_dram_bytes, past_l1=True),
    )


def _whole_gpu(gpu: Gpu, sizes: MemorySizes) -> Launch:
    return Launch(grid_x=sizes.blocks_per_sm * gpu.sm_count, block_x=sizes.threads)


def global_read(gpu: Gpu, sizes: MemorySizes, size_bytes: int, passes: int) -> MicroBenchmark:
    """Reads a buffer several times past L1: DRAM where it is larger than L2, L2 where it fits."""
    launch = _whole_gpu(gpu, sizes)
    words, threads = size_bytes // WORD_BYTES, int(launch.blocks) * sizes.threads

    def make_call(rng: np.random.Generator) -> MicroCall:
        data = float_noise(4 * words, rng)
        per_word = data.reshape(-1, 4).sum(axis=1, dtype=np.float64)
        sums = np.resize(np.append(per_word, np.zeros(-words % threads)), (-(-words // threads), threads)).sum(axis=0)
        parameters = (
            Buffer(name="sums", array=np.full(threads, np.nan, np.float32), output=True),
            Buffer(name="input", array=data),
            np.int32(words),
            np.int32(passes),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=passes * sums))

    return MicroBenchmark(
        kernel="global_read",
        setting={"bytes": size_bytes, "passes": passes},
        launch=launch,
        clock=Clock.EVENTS,
        amount=float(words * WORD_BYTES * passes),
        make_call=make_call,
        tolerance=SUM_TOLERANCE,
    )


def global_write(gpu: Gpu, sizes: MemorySizes) -> MicroBenchmark:
    """Writes a buffer larger than L2."""
    words = sizes.dram_bytes // WORD_BYTES

    def make_call(rng: np.random.Generator) -> MicroCall:
        value = np.float32(rng.random())
        output = Buffer(name="output", array=np.full(4 * words, np.nan, np.float32), output=True)
        return MicroCall(
            call=KernelCall(parameters=(output, value, np.int32(words))),
            expected=exactly(output=np.full(4 * words, value)),
        )

    return MicroBenchmark(
        kernel="global_write",
        setting={"bytes": sizes.dram_bytes},
        launch=_whole_gpu(gpu, sizes),
        clock=Clock.EVENTS,
        amount=float(words * WORD_BYTES),
        make_call=make_call,
    )


def global_copy(gpu: Gpu, sizes: MemorySizes) -> MicroBenchmark:
    """Copies a buffer larger than L2; the amount is bytes read plus bytes written."""
    words = sizes.dram_bytes // WORD_BYTES

    def make_call(rng: np.random.Generator) -> MicroCall:
        data = float_noise(4 * words, rng)
        parameters = (
            Buffer(name="output", array=np.full(4 * words, np.nan, np.float32), output=True),
            Buffer(name="input", array=data),
            np.int32(words),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(output=data))

    return MicroBenchmark(
        kernel="global_copy",
        setting={"bytes": sizes.dram_bytes},
        launch=_whole_gpu(gpu, sizes),
        clock=Clock.EVENTS,
        amount=2.0 * words * WORD_BYTES,
        make_call=make_call,
    )


def l1_read(gpu: Gpu, sizes: MemorySizes) -> MicroBenchmark:
    """One block on each SM reads the same few kilobytes again and again."""
    threads, passes = sizes.l1_threads, sizes.l1_passes

    def make_call(rng: np.random.Generator) -> MicroCall:
        data = float_noise(4 * threads, rng)
        word_sums = data.reshape(-1, 4).sum(axis=1, dtype=np.float64)
        shifts = [np.roll(word_sums, -32 * shift) for shift in range(threads // 32)]
        rounds, rest = divmod(passes, len(shifts))
        sums = data[::4] + rounds * np.sum(shifts, axis=0) + np.sum(shifts[:rest], axis=0)
        parameters = (
            Buffer(name="sums", array=np.full(threads * gpu.sm_count, np.nan, np.float32), output=True),
            Buffer(name=CYCLES, array=np.full(gpu.sm_count, -1, np.int64), output=True),
            Buffer(name="input", array=data),
            np.int32(passes),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=np.tile(sums, gpu.sm_count)))

    return MicroBenchmark(
        kernel="l1_read",
        setting={"bytes": threads * WORD_BYTES, "passes": passes},
        launch=Launch(grid_x=gpu.sm_count, block_x=threads),
        clock=Clock.KERNEL,
        amount=float(threads * WORD_BYTES * passes),
        make_call=make_call,
        tolerance=SUM_TOLERANCE,
    )


def common_read(gpu: Gpu, sizes: MemorySizes, blocks: int, buffers: int = 1, apart: int = 1) -> MicroBenchmark:
    """Blocks on as many SMs that read few buffers, each of which fits L1; the amount is bytes of one block."""
    words, threads = sizes.common_bytes // WORD_BYTES, sizes.threads

    def make_call(rng: np.random.Generator) -> MicroCall:
        data = float_noise(4 * words * buffers, rng)
        per_word = data.reshape(buffers, words, 4).sum(axis=2, dtype=np.float64)
        padded = np.pad(per_word, ((0, 0), (0, -words % threads)))
        sums = padded.reshape(buffers, -1, threads).sum(axis=1)[np.arange(blocks) // apart % buffers]
        parameters = (
            Buffer(name="sums", array=np.full(threads * blocks, np.nan, np.float32), output=True),
            Buffer(name="input", array=data),
            np.int32(words),
            np.int32(buffers),
            np.int32(apart),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(sums=sums.reshape(-1)))

    return MicroBenchmark(
        kernel="common_read",
        setting={"bytes": sizes.common_bytes, "blocks": blocks, "buffers": buffers, "apart": apart},
        launch=Launch(grid_x=blocks, block_x=threads),
        clock=Clock.EVENTS,
        amount=float(words * WORD_BYTES),
        make_call=make_call,
        tolerance=SUM_TOLERANCE,
    )


def shared_read(gpu: Gpu, sizes: MemorySizes, stride: int, width: int) -> MicroBenchmark:
    """Shared loads whose lanes lie ``stride`` words of ``width`` floats apart; the amount is warp instructions."""
    threads, steps = 32 * sizes.shared_warps, sizes.shared_steps

    def make_call(rng: np.random.Generator) -> MicroCall:
        parameters = (
            Buffer(name="sums", array=np.full(threads * gpu.sm_count, np.nan, np.float32), output=True),
            Buffer(name=CYCLES, array=np.full(gpu.sm_count, -1, np.int64), output=True),
            np.int32(steps),
            np.int32(0),
        )
        total = float(steps * SHARED_READS_PER_STEP * width)  # every word holds 1
        return MicroCall(
            call=KernelCall(parameters=parameters), expected=exactly(sums=np.full(threads * gpu.sm_count, total))
        )

    return MicroBenchmark(
        kernel="shared_read",
        defines=(("STRIDE", stride), ("WIDTH", width)),
        setting={"stride": stride, "width": width, "warps": sizes.shared_warps},
        launch=Launch(grid_x=gpu.sm_count, block_x=threads),
        clock=Clock.KERNEL,
        amount=float(sizes.shared_warps * steps * SHARED_READS_PER_STEP),
        make_call=make_call,
    )


def chase_shared(sizes: MemorySizes, length: int = 1024) -> MicroBenchmark:
    """Latency of a shared load; the amount is loads of one thread."""

    def make_call(rng: np.random.Generator) -> MicroCall:
        successor = single_cycle(length, rng)
        parameters = (
            Buffer(name="last", array=np.full(1, -1, np.int32), output=True),
            Buffer(name=CYCLES, array=np.full(1, -1, np.int64), output=True),
            Buffer(name="next", array=successor),
            np.int32(sizes.chase_steps),
        )
        last = follow(successor, sizes.chase_steps)
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(last=[last]))

    return MicroBenchmark(
        kernel="chase_shared",
        defines=(("LENGTH", length),),
        setting={"bytes": 4 * length},
        launch=Launch(grid_x=1, block_x=256),
        clock=Clock.KERNEL,
        amount=float(sizes.chase_steps),
        make_call=make_call,
    )


def chase_global(sizes: MemorySizes, size_bytes: int, *, past_l1: bool) -> MicroBenchmark:
    """Latency of a global load from the level that a chain of this size fits; the amount is loads of one thread.

    Links of large chains lie several lines apart, so that no prefetch of a neighbour helps.
    """
    stride = 16 if size_bytes <= 16 << 20 else 256
    length = size_bytes // (LINK_BYTES * stride)
    warm_up = length if size_bytes <= 16 << 20 else 0

    def make_call(rng: np.random.Generator) -> MicroCall:
        successor = single_cycle(length, rng)
        parameters = (
            Buffer(name="last", array=np.full(1, -1, np.int32), output=True),
            Buffer(name=CYCLES, array=np.full(1, -1, np.int64), output=True),
            Buffer(name="chain", array=np.zeros(length * stride, np.uint64)),
            Buffer(name="next", array=successor),
            np.int32(length),
            np.int32(warm_up),
            np.int32(sizes.chase_steps),
        )
        last = follow(successor, warm_up + sizes.chase_steps)
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(last=[last]))

    return MicroBenchmark(
        kernel="chase_global",
        defines=(("STRIDE", stride), ("PAST_L1", int(past_l1))),
        setting={"bytes": size_bytes, "past_l1": past_l1},
        launch=Launch(grid_x=1, block_x=1024),
        clock=Clock.KERNEL,
        amount=float(sizes.chase_steps),
        make_call=make_call,
    )
