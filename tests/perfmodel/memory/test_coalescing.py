"""Sectors, lines and wavefronts of random accesses equal a count lane by lane in plain Python."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from perfmodel.memory.access_counts import patterns_of
from perfmodel.memory.bank_conflicts import (
    atomic_wavefronts,
    comparison_wavefronts,
    load_wavefronts,
    store_wavefronts,
)
from perfmodel.memory.coalescing import WarpPatterns
from perfmodel.simulator.plan import Plan

Lanes = list[tuple[int, bool]]
WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


def distinct(lanes: Lanes, unit_bytes: int) -> int:
    return len({address // unit_bytes for address, active in lanes if active})


def wavefronts(lanes: Lanes, width: int) -> tuple[int, int]:
    """Whole warps up to 4 bytes, half warps for 8, quarter warps for 16; twice as many lanes at once where they are paired."""
    phases = max(1, width // 4)
    total, used = served(lanes, width, phases)
    if phases == 1 or not any(
        all(mine[0] == other[0] for mine, other in partners(lanes, d) if mine[1] and other[1]) for d in (1, 2)
    ):
        return total, used
    together, fewest = served(lanes, width, phases // 2)
    return together, together - min(total - used, together - fewest)


def partners(lanes: Lanes, distance: int) -> list[tuple[tuple[int, bool], tuple[int, bool]]]:
    return [(lanes[i], lanes[i ^ distance]) for i in range(32)]


def served(lanes: Lanes, width: int, phases: int) -> tuple[int, int]:
    """Wavefronts, and phases with an active lane."""
    total = used = 0
    for phase in range(phases):
        words: dict[int, set[int]] = {}
        for address, active in lanes[phase * 32 // phases : (phase + 1) * 32 // phases]:
            for word in range(max(1, width // 4)) if active else ():
                words.setdefault((address // 4 + word) % 32, set()).add(address // 4 + word)
        total += max((len(found) for found in words.values()), default=0)
        used += bool(words)
    return total, used


def interleaved(lanes: Lanes, width: int, unit_bytes: int) -> int:
    """Local memory: word w of lane l lies at byte (w * 32 + l) * 4."""
    places = {
        ((address // 4 + word) * 32 + lane) * 4 // unit_bytes
        for lane, (address, active) in enumerate(lanes)
        if active
        for word in range(max(1, width // 4))
    }
    return len(places)


def follow_one_another(row: Lanes, width: int) -> tuple[int, int]:
    """Wavefronts of an atomic: in each phase the most lanes on one bank, or pair of banks, whatever words they name."""
    phases = max(1, width // 4)
    total = ideal = 0
    for phase in range(phases):
        lanes = [a for a, on in row[phase * 32 // phases : (phase + 1) * 32 // phases] if on]
        banks = Counter(a // max(width, 4) % (32 // phases) for a in lanes)
        total += max(banks.values(), default=0)
        ideal += bool(lanes)
    return total, ideal


def operations(row: Lanes) -> int:
    """Operations of an atomic on sectors: in each the most lanes on one address."""
    lanes = Counter(a for a, on in row if on)
    most: dict[int, int] = {}
    for address, number in lanes.items():
        most[address // 32] = max(most.get(address // 32, 0), number)
    return sum(most.values())


def rows_of(addresses: np.ndarray, active: np.ndarray) -> list[Lanes]:
    return [[(int(a), bool(m)) for a, m in zip(*row, strict=True)] for row in zip(addresses, active, strict=True)]


@st.composite
def accesses(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Addresses of some warps that repeat patterns, a mask with a lane in each, a width and an offset."""
    width = draw(WIDTHS)
    warps = draw(st.integers(1, 6))
    span = draw(st.sampled_from([2, 16, 64, 1000]))
    pattern = draw(hnp.arrays(np.uint64, (2, 32), elements=st.integers(0, span)))
    same = np.arange(32) & ~draw(st.sampled_from([0, 0, 1, 2, 3, 4]))  # these bits of a lane's number say nothing
    pattern = pattern[:, same]
    chosen = draw(hnp.arrays(np.intp, warps, elements=st.integers(0, 1)))
    first = draw(hnp.arrays(np.uint64, warps, elements=st.integers(0, 300)))
    addresses = (pattern[chosen] + first[:, None] + np.uint64(2**20)) * np.uint64(width)
    masks = draw(hnp.arrays(np.bool_, (2, 32))) if draw(st.booleans()) else np.ones((2, 32), np.bool_)
    active = masks[chosen]
    active[:, draw(st.integers(0, 31))] = True
    return addresses, active, width, draw(st.integers(-20, 40)) * width


@given(accesses())
@settings(max_examples=60, deadline=None)
def test_patterns_equal_a_count_lane_by_lane(case: tuple[np.ndarray, np.ndarray, int, int]) -> None:
    addresses, active, width, offset = case
    patterns = WarpPatterns(addresses, active)
    rows = rows_of(addresses.astype(np.int64) + offset, active)
    footprint = patterns.footprint(offset)
    assert footprint.sectors.tolist() == [distinct(row, 32) for row in rows]
    assert footprint.lines.tolist() == [distinct(row, 128) for row in rows]
    total, ideal = patterns.wavefronts(width, offset)
    assert list(zip(total.tolist(), ideal.tolist(), strict=True)) == [wavefronts(row, width) for row in rows]
    total, ideal = patterns.wavefronts(width, offset, store_wavefronts)
    phases = max(1, width // 4)
    assert list(zip(total.tolist(), ideal.tolist(), strict=True)) == [served(row, width, phases) for row in rows]
    total, ideal = patterns.wavefronts(width, offset, comparison_wavefronts)
    assert total.tolist() == [2 * served(row, width, phases)[0] for row in rows]
    total, ideal = patterns.wavefronts(width, offset, atomic_wavefronts)
    assert list(zip(total.tolist(), ideal.tolist(), strict=True)) == [follow_one_another(row, width) for row in rows]
    assert patterns.atomic_operations(offset).tolist() == [operations(row) for row in rows]
    local = patterns.local_footprint(width, offset)
    assert local.sectors.tolist() == [interleaved(row, width, 32) for row in rows]
    assert local.lines.tolist() == [interleaved(row, width, 128) for row in rows]


@given(accesses())
@settings(max_examples=20, deadline=None)
def test_one_function_gives_the_same_wavefronts(case: tuple[np.ndarray, np.ndarray, int, int]) -> None:
    addresses, active, width, _ = case
    total, ideal = load_wavefronts(addresses, active, width)
    assert list(zip(total.tolist(), ideal.tolist(), strict=True)) == [
        wavefronts(r, width) for r in rows_of(addresses, active)
    ]


LANE = np.arange(32, dtype=np.uint64)


@pytest.mark.parametrize(
    ("words", "width", "expected"),
    [
        (LANE // 16 * 2, 8, (1, 1)),  # both halves at once: 2 words in 4 banks
        (LANE // 2, 8, (1, 1)),  # 16 words in 32 banks
        (LANE // 2 * 4, 8, (4, 2)),  # 16 words on 4 banks; a half alone has 8 on 4 banks, one conflict
        (LANE // 8 * 4, 16, (2, 2)),
        (LANE // 32, 16, (2, 2)),  # never fewer than a half warp each
        (LANE // 4 * 4, 16, (4, 4)),  # words 0 4 8 12 are on two sets of banks: no faster, and no conflict either
        (LANE // 4 * 2 + LANE % 2, 16, (2, 2)),  # every lane like the next but one
        (LANE % 4, 16, (4, 4)),  # every lane like the fourth next
        (np.where(LANE < 16, LANE // 2, LANE), 16, (4, 4)),  # in one half only
    ],
)
def test_lanes_in_pairs_are_served_at_half_the_cost(words: np.ndarray, width: int, expected: tuple[int, int]) -> None:
    """As an H200 counts them."""
    addresses, everyone = words[None, :] * np.uint64(width), np.ones((1, 32), bool)
    total, ideal = load_wavefronts(addresses, everyone, width)
    assert (int(total[0]), int(ideal[0])) == expected


@pytest.mark.parametrize("width", [8, 16])
def test_a_lane_alone_is_a_pair_of_a_load_and_stores_know_no_pairs(width: int) -> None:
    """As an H200 counts them: even lanes read words 0, 1, 2 …; all lanes store one word."""
    even, everyone = np.arange(32)[None, :] % 2 == 0, np.ones((1, 32), bool)
    words = LANE[None, :] // 2 * np.uint64(width)
    phases = width // 4
    assert int(load_wavefronts(words, even, width)[0][0]) == phases // 2
    assert int(store_wavefronts(words * np.uint64(0), everyone, width)[0][0]) == phases


@pytest.mark.parametrize(
    ("stride_words", "width", "expected"),
    [
        (1, 4, 1),
        (2, 4, 2),
        (32, 4, 32),
        (33, 4, 1),
        (0, 4, 1),  # broadcast
        (2, 8, 2),  # two half warps of 128 bytes
        (4, 8, 4),
        (4, 16, 4),  # four quarter warps of 128 bytes
        (8, 16, 8),
    ],
)
def test_strides(stride_words: int, width: int, expected: int) -> None:
    addresses = np.arange(32, dtype=np.uint64)[None, :] * np.uint64(4 * stride_words)
    for count in (load_wavefronts, store_wavefronts):
        total, _ = count(addresses, np.ones((1, 32), bool), width)
        assert int(total[0]) == expected


SHAPES = [(1, 1), (1, 64), (3, 1), (3, 64)]


@given(
    base_shape=st.sampled_from(SHAPES),
    mask_shape=st.sampled_from([None, *SHAPES]),
    seed=st.integers(0, 10_000),
    density=st.sampled_from([0.05, 0.5, 0.95]),
)
@settings(max_examples=80, deadline=None)
def test_a_plan_of_any_shape_counts_like_the_full_one(
    base_shape: tuple[int, int], mask_shape: tuple[int, int] | None, seed: int, density: float
) -> None:
    random = np.random.default_rng(seed)
    base = random.integers(0, 60, base_shape).astype(np.uint64) * np.uint64(4) + np.uint64(4096)
    mask = None if mask_shape is None else random.random(mask_shape) < density
    plan = Plan(base, mask, 3, 64)
    full = np.broadcast_to(base, (3, 64))
    active = np.ones((3, 64), bool) if mask is None else np.broadcast_to(mask, (3, 64))
    assert plan.empty == (not active.any())
    if plan.empty:
        return
    assert (plan.low, plan.high) == (int(full[active].min()), int(full[active].max()))
    assert np.array_equal(plan.chosen(full), full[active])
    readable = np.broadcast_to(plan.read_base, (3, 64))
    assert np.array_equal(readable[active], full[active])
    assert np.isin(readable, full[active]).all()
    sectors = patterns_of(plan).footprint(8).sectors[:, None]
    expected = [
        sum(
            distinct(list(zip((full[row, w : w + 32] + 8).tolist(), active[row, w : w + 32], strict=True)), 32)
            for w in (0, 32)
        )
        for row in range(3)
    ]
    assert plan.per_row(sectors)[:, 0].tolist() == expected
    assert int(plan.total(sectors)[0]) == sum(expected)
