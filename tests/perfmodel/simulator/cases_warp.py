"""Corpus cases about warps and blocks: reductions, scans, shuffles, votes, barriers, atomics."""

from __future__ import annotations

import numpy as np

from perfmodel.launch.launch import Launch

from .corpus_case import Case, blank, given, random, written


def reduce_tree() -> Case:
    values = random(20).integers(0, 9, (3, 128)).astype(np.float32)
    return Case(
        source="reduce_tree",
        launch=Launch(grid_x=3, block_x=128, dynamic_shared_bytes=512),
        parameters=(blank("sums", 3, np.float32), given("in", values)),
        expected={"sums": values.sum(axis=1)},
        counts={
            "barriers": 3 * 4 * (1 + 7),  # one after loading, one for each of 7 halvings
            "shared_load_requests": 3
            * (2 * (2 + 1 * 6) + 1),  # warps with a lane below 64, 32, 16 … 1; the last reads the sum
            "shared_store_requests": 3 * (4 + 2 + 1 * 6),
            "shared_bank_conflicts": 0,
        },
    )


def reduce_shuffle() -> Case:
    values = random(21).integers(0, 9, (2, 256)).astype(np.float32)
    return Case(
        source="reduce_shuffle",
        launch=Launch(grid_x=2, block_x=256),
        parameters=(blank("sums", 2, np.float32), given("in", values)),
        expected={"sums": values.sum(axis=1)},
        counts={"shuffles": 2 * (8 + 1) * 5, "shared_store_requests": 2 * 8, "shared_load_requests": 2},
    )


def scan() -> Case:
    values = random(22).integers(-50, 50, (3, 128), dtype=np.int32)
    return Case(
        source="scan",
        launch=Launch(grid_x=3, block_x=128),
        parameters=(blank("out", values.shape, np.int32), given("in", values)),
        expected={"out": values.cumsum(axis=1)},
        counts={"barriers": 3 * 4 * 8, "shared_bank_conflicts": 0},
    )


def scan_warp() -> Case:
    values = random(23).integers(-50, 50, 192, dtype=np.int32)
    return Case(
        source="scan_warp",
        defines=(("WIDTH", 16),),
        launch=Launch(grid_x=2, block_x=96),
        parameters=(blank("out", 192, np.int32), given("in", values)),
        expected={"out": values.reshape(-1, 16).cumsum(axis=1).reshape(-1)},
        counts={"shuffles": 6 * 4},
    )


def histogram() -> Case:
    n = 3000
    data = (random(24).normal(128, 30, n).clip(0, 255)).astype(np.uint8)
    return Case(
        source="histogram",
        launch=Launch(grid_x=3, block_x=128),
        parameters=(written("bins", np.zeros(256, np.uint32)), given("data", data), np.int32(n)),
        expected={"bins": np.bincount(data, minlength=256)},
        counts={
            "global_reduction_requests": 3 * 8,
            "shared_store_requests": 3 * 8,
            "global_load_requests": 94,  # ceil(3000 / 32)
        },
    )


def bitonic_sort() -> Case:
    values = random(25).integers(-1000, 1000, (2, 256), dtype=np.int32)
    return Case(
        source="bitonic_sort",
        launch=Launch(grid_x=2, block_x=256),
        parameters=(written("data", values),),
        expected={"data": np.sort(values, axis=1)},
        counts={"barriers": 2 * 8 * (1 + 36)},  # 1 + 2 + … + 8 steps
    )


def shuffles() -> Case:
    n = 64
    values = random(26).integers(0, 1000, n, dtype=np.int32)
    lane = np.arange(n) % 32
    base = np.arange(n) - lane
    group = lane - lane % 8
    inside = lane % 8
    below = np.where(inside >= 2, lane - 2, lane)
    above = np.where(inside + 3 < 8, lane + 3, lane)
    wide = base + np.where(lane < 31, lane + 1, lane)
    columns = [
        values[base + group + 3],
        values[base + below],
        values[base + above],
        values[base + (lane ^ 5)],
        values[base + np.arange(n) * 7 % 32],
        np.where(lane < 16, values[base + (lane ^ 1)], -1),
        values[wide] ^ wide,
    ]
    return Case(
        source="shuffles",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(blank("out", (7, n), np.int32), given("in", values), np.int32(n)),
        expected={"out": np.stack(columns)},
        counts={"shuffles": 2 * 8},  # the 64-bit value takes two
    )


def votes() -> Case:
    n = 64
    values = random(27).integers(0, 12, n, dtype=np.int32)
    values[32:] += 100
    rows = values.reshape(2, 32)
    bits = 1 << np.arange(32, dtype=np.uint64)

    def ballot(mask: np.ndarray) -> np.ndarray:
        return np.repeat((mask * bits).sum(axis=1), 32)

    same = (rows[:, :, None] == rows[:, None, :]) * bits
    every = np.repeat((rows // 100 == rows[:, :1] // 100).all(axis=1), 32)
    columns = [
        ballot(rows % 2 == 1),
        np.repeat((rows == 5).any(axis=1) + 2 * (rows >= 0).all(axis=1), 32),
        same.sum(axis=2).reshape(-1),
        (every * (2**32 - 1) + every) % 2**32,
        np.where(values % 2 == 1, ballot((rows % 2 == 1) & (rows > 3)), 0),
    ]
    return Case(
        source="votes",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(blank("out", (5, n), np.uint32), given("in", values), np.int32(n)),
        expected={"out": np.stack([np.asarray(c, np.uint64).astype(np.uint32) for c in columns])},
    )


def warp_reductions() -> Case:
    n = 96
    values = random(28).integers(-1000, 1000, n, dtype=np.int32)
    rows = values.reshape(3, 32)
    unsigned = rows.view(np.uint32)
    columns = [
        rows.sum(axis=1),
        rows.min(axis=1),
        unsigned.max(axis=1),
        np.bitwise_and.reduce(unsigned, axis=1),
        np.bitwise_xor.reduce(unsigned, axis=1) ^ np.bitwise_or.reduce(unsigned, axis=1),
    ]
    return Case(
        source="warp_reductions",
        architecture="compute_80",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(blank("out", (5, n), np.int32), given("in", values), np.int32(n)),
        expected={
            "out": np.stack([np.repeat(c.astype(np.int64).astype(np.uint32).view(np.int32), 32) for c in columns])
        },
        counts={"votes": 3 * 6},
    )


def named_barriers() -> Case:
    rounds = 5
    values = random(29).integers(0, 100, (rounds, 64), dtype=np.int32)
    return Case(
        source="named_barriers",
        launch=Launch(grid_x=1, block_x=128),
        parameters=(blank("out", 64, np.int32), given("in", values), np.int32(rounds)),
        expected={"out": (values * 2).sum(axis=0)[::-1]},
        counts={"barriers": 2 * rounds * 4},
    )


def alternating_barriers() -> Case:
    rounds = 4
    values = random(31).integers(0, 100, (rounds, 64), dtype=np.int32)
    total = values.sum(axis=0)[::-1]
    return Case(
        source="alternating_barriers",
        launch=Launch(grid_x=1, block_x=128),
        parameters=(blank("out", 128, np.int32), given("in", values), np.int32(rounds)),
        expected={"out": np.concatenate([3 * total, -total])},
        counts={"barriers": 2 * rounds * 4 + 3},  # each warp twice a round; three of four at the counted one
    )


def barrier_reductions() -> Case:
    values = random(30).integers(0, 100, (4, 96), dtype=np.int32)
    values[1] %= 50
    values[2, 5] = -200
    count = (values > 10).sum(axis=1, keepdims=True)
    every = (values > -100).all(axis=1, keepdims=True)
    some = (values > 95).any(axis=1, keepdims=True)
    return Case(
        source="barrier_reductions",
        launch=Launch(grid_x=4, block_x=96),
        parameters=(blank("out", values.shape, np.int32), given("in", values)),
        expected={"out": np.broadcast_to(count * 4 + every * 2 + some, values.shape)},
        counts={"barriers": 4 * 3 * 3},
    )


def aggregated_atomics() -> Case:
    n = 500
    values = random(31).integers(0, 1000, n, dtype=np.int32)
    kept = values[values % 3 == 0]
    out = np.full(n, -1, np.int32)
    out[: len(kept)] = kept  # atomics act in the order block, warp, lane
    warps_with_any = sum((values[k : k + 32] % 3 == 0).any() for k in range(0, n, 32))
    return Case(
        source="aggregated_atomics",
        launch=Launch(grid_x=4, block_x=128),
        parameters=(
            written("out", np.full(n, -1, np.int32)),
            written("count", np.zeros(1, np.int32)),
            given("in", values),
            np.int32(n),
        ),
        expected={"out": out, "count": np.array([len(kept)])},
        counts={"global_reduction_requests": warps_with_any},
    )


def atomics() -> Case:
    n = 64
    t = np.arange(n)
    words = np.zeros(16, np.int32)
    words[4], words[9] = -1, 3
    expected = words.copy()
    expected[0], expected[1], expected[2], expected[3] = t.sum(), -t.sum(), -(n - 1), n - 1
    expected[4], expected[5] = 0, -1
    expected[6] = np.bitwise_xor.reduce(t)
    expected[7] = n - 1
    inc, dec = 0, 3
    for _ in range(n):
        inc = 0 if inc >= 10 else inc + 1
        dec = 10 if dec == 0 or dec > 10 else dec - 1
    expected[8], expected[9] = inc, dec
    expected[10] = n  # thread 0 finds 0 and stores 1, which thread 1 finds …
    for k in range(4):
        expected[11 + k] = t[t % 4 == k].sum()
    return Case(
        source="atomics",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(
            written("words", words),
            written("wide", np.zeros(2, np.uint64)),
            written("real", np.zeros(1, np.float32)),
            written("exact", np.ones(1, np.float64)),
            blank("old", n, np.int32),
        ),
        expected={
            "words": expected,
            "wide": np.array([int(t.sum()) << 33, (n - 1) ** 2], np.uint64),
            "real": np.array([0.5 * n], np.float32),
            "exact": np.array([1.0 + t.sum()]),
            "old": np.concatenate(([0], t[:-1])),
        },
    )


def odd_block() -> Case:
    values = random(32).integers(0, 50, 77, dtype=np.int32)
    t = np.arange(77)
    active = np.where(t < 64, 32, 13)
    above = np.where((t % 32 < 31) & (t < 76), t + 1, 0)
    return Case(
        source="odd_block",
        launch=Launch(grid_x=1, block_x=77),
        parameters=(blank("out", 77, np.int32), given("in", values)),
        expected={"out": values.sum() + 100000 * above + active},
        counts={
            "shuffles": 3,
            "global_load_requests": 3,
            "global_load_sectors": 4 + 4 + 2,
        },  # the last warp has 13 lanes
        clean=False,  # lane 12 of the last warp asks the idle lane 13
    )


CASES = [
    reduce_tree,
    reduce_shuffle,
    scan,
    scan_warp,
    histogram,
    bitonic_sort,
    shuffles,
    votes,
    warp_reductions,
    named_barriers,
    alternating_barriers,
    barrier_reductions,
    aggregated_atomics,
    atomics,
    odd_block,
]
