"""What joins on its way to L2, against an H200: a micro-benchmark of stores to the same lines."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

import perfmodel.validation
from perfmodel.gpus.catalogue import load_gpu
from perfmodel.memory.store_queue import Stores, left_share

DATA = Path(perfmodel.validation.__file__).parent / "data"
RUNS = json.loads(gzip.decompress((DATA / "h200-store-queue.json.gz").read_bytes()))["runs"]
TIMES = json.loads(gzip.decompress((DATA / "h200-store-times.json.gz").read_bytes()))["runs"]
H200 = load_gpu("h200")


def stores_of(groups: list[list[np.ndarray]], warps: int, *, held: bool, width: int = 4) -> Stores:
    """Steps of some warps, each of which stores bytes at the addresses of a step, moved by its number and the warp's."""
    entries = []
    for warp in range(warps):
        for step, group in enumerate(groups):
            for number, addresses in enumerate(group):
                place = addresses // 128 + (warp * len(groups) + step << 20), addresses % 128 // 32
                line, sector = np.unique(np.stack(place), axis=1)
                for one in np.unique(line).tolist():
                    mask = int((1 << sector[line == one]).sum())
                    request = step * len(group) + number
                    entries.append(
                        (0, warp, request, step, step * held, step * held - held, number, number, width, one, mask)
                    )
    return Stores(**dict(zip(Stores.__dataclass_fields__, np.array(entries, np.int64).T, strict=True)))


def fields(stride: int, number: int, apart: int, width: int) -> list[np.ndarray]:
    """Bytes that a warp stores in each of some stores: a lane has ``stride`` words of its own."""
    lanes = np.arange(32) * stride * 4
    if not width:
        return [lanes + k for k in range(number)]
    return [(lanes[:, None] + 4 * (k * apart + np.arange(width))).reshape(-1) for k in range(number)]


def test_groups_of_stores_join_as_counted() -> None:
    ratios = []
    for launch, stored, left, _, cycles in RUNS:
        name, *numbers = launch.split()
        if name != "fields":
            continue
        stride, number, apart, width, blocks, threads, steps, gap, held = map(int, numbers)
        if not apart or (stride, gap) == (32, 0) or blocks > 132:
            continue  # stores that the compiler leaves out; lines that are too many anyway; two blocks an SM
        warps = threads // 32
        stores = stores_of([fields(stride, number, apart, width)] * 3, warps, held=bool(held))
        share = left_share(stores, H200, busy_cycles=cycles * 3 / steps, issued=warps * 3 * number, warps=warps)
        ratios.append(share / (left / stored))
    assert len(ratios) > 150
    assert np.median(np.abs(np.log(ratios))) < 0.05
    assert np.mean(np.abs(np.log(ratios))) < 0.35
    assert np.mean(np.abs(np.log(ratios)) < 0.25) > 0.65


@pytest.mark.parametrize(("stride", "most"), [(2, 1), (8, 2)])
def test_a_line_waits_for_so_many_other_stores(stride: int, most: int) -> None:
    counted = {}
    for launch, stored, left, *_ in RUNS:
        name, *numbers = launch.split()
        if name == "between" and int(numbers[0]) == stride:
            counted[int(numbers[1])] = left / stored
    assert {between for between, left in counted.items() if left < 1.0} == set(range(most + 1))
    for between, left in counted.items():
        group = [fields(stride, 1, 1, 1)[0] + 4 * 32 * stride * k for k in range(between + 1)]
        stores = stores_of([[*group, group[0] + 4]] * 4, 1, held=False)
        assert left_share(stores, H200, busy_cycles=4e4, issued=100.0, warps=1) == pytest.approx(left), between


@pytest.mark.parametrize("width", [4, 8, 16])
def test_the_next_store_of_a_warp_joins_as_counted(width: int) -> None:
    counted = {}
    for launch, stored, left, _ in TIMES:
        name, *numbers = launch.split()
        size, work, number, lanes, lines, row, *_ = map(int, numbers)
        if (name, size, work, number, row) == ("solo", width, 0, 2, 0) and lines <= 2:
            counted[lanes] = left / stored
    for lanes, left in counted.items():
        first = (np.arange(lanes)[:, None] * 128 + np.arange(width)).reshape(-1)
        stores = stores_of([[first, first + width]] * 4, 1, held=False, width=width)
        assert left_share(stores, H200, busy_cycles=4e4, issued=100.0, warps=1) == left, lanes


def test_warps_come_apart_after_a_barrier_as_counted() -> None:
    ratios = []
    for launch, stored, left, cycles in TIMES:
        name, *numbers = launch.split()
        if name != "drift":
            continue
        kind, rounds, lines, apart, blocks, threads, steps, *_ = map(int, numbers)
        warps, on_sm = threads // 32, blocks // 132 * threads // 32
        if lines > 2 or on_sm <= H200.schedulers_per_sm:
            continue
        instructions = 12 + rounds * (1.75 if kind == 3 else 1.12)
        entries = [
            (block, warp, step, 0, step + 1, 0, 0, 0, 4, ((block * 4 + step) * warps + pair) * lines + line, 1)
            for block in range(blocks // 132)
            for warp in range(warps)
            for step in range(4)
            for line in range(lines)
            for pair in [warp // (2 * apart) * apart + warp % apart]
        ]
        stores = Stores(**dict(zip(Stores.__dataclass_fields__, np.array(entries, np.int64).T, strict=True)))
        issued = on_sm * 4 * instructions
        share = left_share(stores, H200, busy_cycles=4 * cycles / steps, issued=issued, warps=on_sm)
        ratios.append(share / (left / stored))
    assert len(ratios) > 80
    assert np.median(np.abs(np.log(ratios))) < 0.05
    assert np.mean(np.abs(np.log(ratios)) < 0.15) > 0.8
