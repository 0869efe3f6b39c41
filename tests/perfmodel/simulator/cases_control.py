"""Corpus cases about control flow, functions, special registers and libraries."""

from __future__ import annotations

import numpy as np

from perfmodel.launch.launch import Launch

from .corpus_case import Case, blank, given, random, written


def template_recursion() -> Case:
    i = np.arange(64, dtype=np.uint32)
    a, b = i, i + 1
    for _ in range(7):
        a, b = b, a + b
    return Case(
        source="template_recursion",
        kernel="template_recursion<7, unsigned>",
        launch=Launch(grid_x=2, block_x=32),
        parameters=(blank("out", 64, np.uint32),),
        expected={"out": a},
    )


def collatz() -> Case:
    n = 200
    steps = []
    for value in range(1, n + 1):
        count = 0
        while value != 1:
            value = 3 * value + 1 if value % 2 else value // 2
            count += 1
        steps.append(count)
    return Case(
        source="collatz",
        launch=Launch(grid_x=2, block_x=128),
        parameters=(blank("steps", n, np.int32), np.int32(n)),
        expected={"steps": np.array(steps)},
    )


def nested_divergence() -> Case:
    limits = random(50).integers(0, 20, 96, dtype=np.int32)
    result = []
    for i, limit in enumerate(limits):
        total = 0
        for j in range(limit):
            if (j + i) % 3 == 0:
                continue
            for k in range(j):
                if k * i > 40:
                    break
                total += k ^ i
            if total > 500:
                break
        result.append(total)
    return Case(
        source="nested_divergence",
        launch=Launch(grid_x=3, block_x=32),
        parameters=(blank("out", 96, np.int32), given("in", limits)),
        expected={"out": np.array(result)},
    )


def jump_table() -> Case:
    n = 96
    choice = random(51).integers(0, 11, n, dtype=np.int32)
    data = random(52).integers(-1000, 1000, n + 3, dtype=np.int32)
    result = []
    for i in range(n):
        value = int(data[i])
        match int(choice[i]):
            case 0:
                value += int(data[i + 1])
            case 1:
                value = value * 3 - int(data[i + 2])
            case 2:
                value -= int(data[i])
            case 3:
                value ^= 0x55
            case 4 | 5 as which:
                value, at = (-value, i + 1) if which == 4 else (value, i)
                value = int(value / 7) + int(data[at])
            case 6:
                value <<= 3
            case 7:
                value = 1
            case 8:
                value |= 0xFF00
            case _:
                value = 0
        result.append(value)
    return Case(
        source="jump_table",
        launch=Launch(grid_x=3, block_x=32),
        parameters=(blank("out", n, np.int32), given("in", choice), given("data", data)),
        expected={"out": np.array(result)},
    )


def device_functions() -> Case:
    n = 64
    values = random(53).random(n, dtype=np.float32)
    body = np.array([(2.5, (1.0, -3.0, 0.25), 7)], dtype=[("mass", "f4"), ("position", "f4", 3), ("kind", "i4")])
    result = []
    for i in range(n):
        pair = [float(values[i]), 0.25]
        if i % 2:
            pair.reverse()
        energy = (2.5 * pair[0] - 3.0) * 0.5 ** (i % 4)
        result.append(energy if i % 3 else pair[0] - pair[1] + 7)
    return Case(
        source="device_functions",
        launch=Launch(grid_x=1, block_x=n),
        parameters=(blank("out", n, np.float32), given("in", values), body[0], np.int32(2)),
        expected={"out": np.array(result, np.float32)},
        tolerance=1e-6,
    )


def special_registers() -> Case:
    block, grid = (5, 3, 2), (2, 1, 3)
    threads, blocks = 30, 6
    lane = np.tile(np.arange(threads), blocks)
    below, equal = (1 << lane) - 1, 1 << lane
    columns = [lane, below ^ equal, (2**32 - 1) & ~below, np.ones_like(lane)]
    return Case(
        source="special_registers",
        launch=Launch(grid_x=2, grid_y=1, grid_z=3, block_x=block[0], block_y=block[1], block_z=block[2]),
        parameters=(blank("out", (4, threads * blocks), np.uint32), np.int32(threads * blocks)),
        expected={"out": np.stack(columns).astype(np.uint32)},
        counts={"global_store_requests": 4 * int(np.prod(grid))},
    )


def last_block() -> Case:
    values = random(54).integers(0, 10, (5, 64)).astype(np.float32)
    return Case(
        source="last_block",
        launch=Launch(grid_x=5, block_x=64),
        parameters=(written("total", np.zeros(1, np.float32)), blank("partial", 5, np.float32), given("in", values)),
        expected={"total": values.sum(keepdims=True)[0], "partial": values.sum(axis=1)},
        counts={"global_reduction_requests": 5},
    )


def spin_lock() -> Case:
    threads = np.arange(40)
    return Case(
        source="spin_lock",
        launch=Launch(grid_x=3, block_x=40),
        parameters=(written("lock", np.zeros(1, np.int32)), written("counter", np.zeros(1, np.int32))),
        expected={"lock": np.zeros(1), "counter": np.array([3 * (threads % 7 + 1).sum()])},
    )


def matrix_vector() -> Case:
    n = 128
    matrix, vector = random(55).random((n, n), dtype=np.float32), random(56).random(n, dtype=np.float32)
    return Case(
        source="matrix_product_double_buffer",
        launch=Launch(grid_x=n, block_x=32),
        parameters=(blank("out", n, np.float32), given("matrix", matrix), given("vector", vector), np.int32(n)),
        expected={"out": (matrix.astype(np.float64) @ vector).astype(np.float32)},
        tolerance=1e-5,
        counts={"global_load_requests": n * (4 + 4), "shuffles": n * 5},  # 128 columns in four steps of a warp
    )


def tiles() -> Case:
    n = 128
    values = random(57).integers(0, 100, n, dtype=np.int32)
    groups = values.reshape(-1, 8)
    rank = np.arange(n) % 64 // 8
    leaders = np.full((n // 32) + 1, -1, np.int32)
    odd = (values.reshape(-1, 32) % 2).sum(axis=1)
    after = leaders.copy()
    after[: n // 32] = np.where(odd > 0, odd, -1)
    return Case(
        source="tiles",
        launch=Launch(grid_x=2, block_x=64),
        parameters=(blank("out", n, np.int32), written("leaders", leaders), given("in", values)),
        expected={
            "out": np.repeat(groups.sum(axis=1) + groups[:, 3] * 1000, 8) + rank * 100000,
            "leaders": after,
        },
    )


def block_primitives() -> Case:
    values = random(58).integers(0, 1000, (2, 128), dtype=np.int32)
    unsigned = values.astype(np.uint32)
    keys = np.concatenate([unsigned, unsigned * np.uint32(2654435761)], axis=1)
    return Case(
        source="block_primitives",
        launch=Launch(grid_x=2, block_x=128),
        parameters=(
            blank("sums", 2, np.int32),
            blank("scanned", (2, 128), np.int32),
            blank("sorted", (2, 256), np.uint32),
            given("in", values),
        ),
        expected={
            "sums": values.sum(axis=1),
            "scanned": values.cumsum(axis=1) - values,
            "sorted": np.sort(keys, axis=1),
        },
    )


CASES = [
    template_recursion,
    collatz,
    nested_divergence,
    jump_table,
    device_functions,
    special_registers,
    last_block,
    spin_lock,
    matrix_vector,
    tiles,
    block_primitives,
]
