"""Micro-benchmarks of requests that are scattered over rows: a part of each row's sector at a time, read or written.

What L2 is measured with else is whole lines. A narrow block of an image filter stores two words to each of 16 rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perfmodel.core.constants import FLOAT_BYTES, WARP_SIZE
from perfmodel.gpus.gpu import Gpu
from perfmodel.launch.launch import Buffer, KernelCall, Launch
from perfmodel.memory.async_copy import SECTOR_WORDS

from .benchmark import Clock, MicroBenchmark, MicroCall, exactly, float_noise
from .memory_suite import SUM_TOLERANCE

PARTS = (1, 2, 4, 8, 32)
"""Words of a row that one request reads or writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SectorSizes:
    """How much is read or written: less than L2 holds, several times over; and a stream larger than L2, once."""

    row_bytes: int = 4096
    held_bytes: int = 20 << 20
    held_passes: int = 20
    stream_bytes: int = 1 << 29
    blocks_per_sm: int = 2
    threads: int = 1024


def sector_suite(gpu: Gpu, sizes: SectorSizes) -> tuple[MicroBenchmark, ...]:
    """Stores and loads of what L2 holds and of a stream, each by every number of words."""
    return tuple(
        sector_parts(gpu, sizes, words, size, passes, store=store)
        for size, passes in ((sizes.held_bytes, sizes.held_passes), (sizes.stream_bytes, 1))
        for store in (True, False)
        for words in PARTS
    )


def sector_parts(
    gpu: Gpu, sizes: SectorSizes, words: int, size_bytes: int, passes: int, *, store: bool
) -> MicroBenchmark:
    """Requests for ``words`` words of each of ``32 / words`` rows; the amount is sectors of all requests."""
    launch = Launch(grid_x=sizes.blocks_per_sm * gpu.sm_count, block_x=sizes.threads)
    threads = int(launch.blocks) * sizes.threads
    rows, run = WARP_SIZE // words, max(words, SECTOR_WORDS)
    pitch = sizes.row_bytes // FLOAT_BYTES
    groups, runs = size_bytes // sizes.row_bytes // rows, pitch // run
    shape = (groups, rows, runs, run // words, words)

    def make_call(rng: np.random.Generator) -> MicroCall:
        count = groups * rows * pitch
        data = np.full(count, np.nan, np.float32) if store else float_noise(count, rng)
        sums = np.zeros(threads)
        if not store:
            lanes = data.reshape(shape).sum(axis=3, dtype=np.float64)  # of all parts: group, row, run, word
            of_run = lanes.transpose(0, 2, 1, 3).reshape(groups * runs, WARP_SIZE)
            warp = np.arange(groups * runs) % (threads // WARP_SIZE)
            np.add.at(sums.reshape(-1, WARP_SIZE), warp, passes * of_run)
        expected = {"sums": sums} | ({"words": np.full(count, float(passes))} if store else {})
        parameters = (
            Buffer(name="sums", array=np.full(threads, np.nan, np.float32), output=True),
            Buffer(name="words", array=data, output=store),
            np.int32(groups),
            np.int32(runs),
            np.int32(passes),
        )
        return MicroCall(call=KernelCall(parameters=parameters), expected=exactly(**expected))

    requests = groups * runs * (run // words) * passes
    return MicroBenchmark(
        kernel="sector_parts",
        defines=(("WORDS", words), ("STORE", int(store))),
        setting={"words": words, "store": store, "bytes": size_bytes, "passes": passes},
        launch=launch,
        clock=Clock.EVENTS,
        amount=float(requests * rows * max(words // SECTOR_WORDS, 1)),
        make_call=make_call,
        tolerance=SUM_TOLERANCE,
    )
