"""Values that are followed from block to block are those that each block computes by itself; who differs has left its class."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from perfmodel.simulator.block_classes.classes import BlockClasses
from perfmodel.simulator.block_classes.values import FollowedValue, of_blocks, permuted
from perfmodel.simulator.translate.translation import chosen, settled

THREADS = 8
BLOCKS = 60
GUARD = np.arange(THREADS)[None] % 3 == 1
"""Lanes of guarded operations."""


class Lanes:
    """The lanes that run."""

    def __init__(self, active: NDArray[np.bool_] | None) -> None:
        self.active = active
        self.guard: NDArray[np.bool_] | None = None


class Both:
    """A value as it is followed, and as each block computes it: shape ``(BLOCKS, 1 | THREADS)``."""

    def __init__(self, followed: Any, direct: NDArray[Any]) -> None:
        self.followed = followed
        self.direct = direct


def binary(function: Callable[[Any, Any], Any]) -> Callable[[Both, Both], Both]:
    return lambda a, b: Both(function(a.followed, b.followed), function(a.direct, b.direct))


def wide_product(a: Any, b: Any) -> Any:
    """The upper half of a 64-bit product, as a division by a constant begins."""
    return ((a.astype(np.uint64) * b.astype(np.uint64)) >> np.uint64(32)).astype(np.uint32)


def sign_extended(a: Any, b: Any) -> Any:
    return ((a.view(np.int32).astype(np.int64) + b.view(np.int32).astype(np.int64)) >> np.int64(3)).astype(np.uint32)


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "left": lambda a, b: a << np.uint32(5),
    "right": lambda a, b: a >> np.uint32(3),
    "right of signed": lambda a, b: (a.view(np.int32) >> np.int32(2)).view(np.uint32),
    "negate": lambda a, b: -a,
    "invert": lambda a, b: ~a,
    "minimum": lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    "maximum": lambda a, b: np.maximum(a, b),
    "absolute": lambda a, b: abs(a.view(np.int32)).view(np.uint32),
    "less": lambda a, b: (a < b).astype(np.uint32),
    "greater of signed": lambda a, b: (a.view(np.int32) >= b.view(np.int32)).astype(np.uint32),
    "equal": lambda a, b: (a == b).astype(np.uint32),
    "where": lambda a, b: np.where(np.arange(THREADS)[None] % 3 == 0, a, b),
    "where less": lambda a, b: np.where(a < b, a, b + np.uint32(7)),
    "quotient": wide_product,
    "sign extended": sign_extended,
    "remainder": lambda a, b: a % np.uint32(7),
    "bits of a float": lambda a, b: (a.view(np.float32) < np.float32(1.0)).astype(np.uint32) + a,
    "float": lambda a, b: (a.astype(np.float32) * np.float32(0.5)).astype(np.uint32),
    "reversed lanes": lambda a, b: (
        permuted(a, lambda v: np.broadcast_to(v, (v.shape[0], THREADS))[:, ::-1])
        if isinstance(a, FollowedValue)
        else np.broadcast_to(a, (a.shape[0], THREADS))[:, ::-1]
    ),
}
PLAIN = [
    np.arange(THREADS, dtype=np.uint32)[None],
    np.full((1, 1), 5, np.uint32),
    np.full((1, 1), 0x0FF0, np.uint32),
    np.full((1, 1), 2**32 - 8, np.uint32),
    np.full((1, 1), 133, np.uint32),
    np.full((1, 1), 0x4EC4EC4F, np.uint32),
    (np.arange(THREADS, dtype=np.uint32)[None] * np.uint32(37)) % np.uint32(16),
]


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(sorted(OPERATIONS)), st.integers(0, 30), st.integers(0, 30), st.booleans()),
        min_size=1,
        max_size=9,
    ),
    index=st.sampled_from(["one after the other", "rows of seven", "near the top", "scattered"]),
    groups=st.integers(1, 3),
    idle=st.booleans(),
)
def test_followed_values_are_those_of_each_block(
    steps: list[tuple[str, int, int, bool]], index: str, groups: int, idle: bool
) -> None:
    blocks = np.arange(BLOCKS)
    of_index = {
        "one after the other": blocks,
        "rows of seven": blocks // 7 * 1000 + blocks % 7,
        "near the top": blocks + 2**31 - 30,
        "scattered": blocks * 2654435761 % 2**32,
    }[index].astype(np.uint32)
    group = blocks % groups
    classes = BlockClasses(blocks, group, np.array([group.tolist().index(g) + groups * 7 for g in range(groups)]))
    active = np.arange(THREADS)[None] < (THREADS - 3 if idle else THREADS)
    classes.running = Lanes(active if idle else None)
    values = [Both(plain, plain) for plain in PLAIN]
    values.append(Both(of_blocks(classes, of_index), of_index[:, None]))
    values.append(binary(OPERATIONS["add"])(binary(OPERATIONS["multiply"])(values[-1], values[1]), values[0]))
    with np.errstate(all="ignore"):
        for name, first, second, guarded in steps:
            if (idle or guarded) and name == "reversed lanes":
                continue  # it takes values of lanes that do not run, which nobody follows
            # the latest values first, so that what depends on the block goes on
            a, b = values[-1 - first % len(values)], values[-1 - second % len(values)]
            classes.running.guard = GUARD if guarded else None
            found = binary(OPERATIONS[name])(a, b)
            if guarded:
                new = settled(found.followed)
                classes.running.guard = None
                found = Both(chosen(GUARD, new, a.followed), np.where(GUARD, found.direct, a.direct))
            values.append(found)
        for value in values:
            check(value, classes, active)


def check(value: Both, classes: BlockClasses, active: NDArray[np.bool_]) -> None:
    """Every member of a class has the executed block's value and its shift, in the lanes that run."""
    followed = value.followed.resolved() if isinstance(value.followed, FollowedValue) else value.followed
    lanes, steps = (followed.lanes, followed.steps) if isinstance(followed, FollowedValue) else (followed, {})
    shape = (classes.count, THREADS)
    direct = np.broadcast_to(value.direct, (BLOCKS, THREADS))
    for member, row in zip(classes.members.tolist(), classes.rows.tolist(), strict=True):
        shift = sum(
            int(f.differences[member]) * np.broadcast_to(c, shape)[row].astype(object) for f, c in steps.items()
        )
        expected = (np.broadcast_to(lanes, shape)[row].astype(object) + shift) % 2**32
        assert (expected == direct[member])[active[0]].all()
    assert set(classes.executed.tolist()) <= set(classes.members.tolist())


def test_blocks_that_leave_carry_how_they_would_have_decided() -> None:
    blocks = np.arange(100)
    classes = BlockClasses(blocks, np.zeros(100, np.int64), np.array([50]))
    index = of_blocks(classes, blocks.astype(np.uint32)) * np.uint32(8) + np.arange(8, dtype=np.uint32)[None]
    assert (index < np.uint32(780)).all()
    # 97 whole blocks stay; of the others one has four lanes below the bound and two have none
    assert classes.left.sum() == 3
    assert classes.keys[98] == classes.keys[99] != classes.keys[97]


def test_sums_and_products_keep_every_block() -> None:
    blocks = np.arange(1000)
    classes = BlockClasses(blocks, np.zeros(1000, np.int64), np.array([500]))
    index = of_blocks(classes, blocks.astype(np.uint32)) * np.uint32(256) + np.arange(256, dtype=np.uint32)[None]
    row = (index.astype(np.uint64) * np.uint64(2**32 // 1024 + 1)) >> np.uint64(32)  # the quotient by 1024
    column = index - row.astype(np.uint32) * np.uint32(1024)
    assert isinstance(column, FollowedValue)
    assert column.settled().shape == (1, 256)
    assert np.flatnonzero(~classes.left).tolist() == list(range(0, 1000, 4))  # four blocks to a row


@pytest.mark.parametrize("bound", range(95, 125))
def test_a_bound_parts_blocks_exactly_where_a_lane_decides_otherwise(bound: int) -> None:
    blocks = np.arange(40)
    direct = blocks[:, None] * 5 + np.arange(8)
    classes = BlockClasses(blocks, np.zeros(40, np.int64), np.array([20]))
    index = of_blocks(classes, blocks.astype(np.uint32)) * np.uint32(5) + np.arange(8, dtype=np.uint32)[None]
    assert ((index < np.uint32(bound)) == (direct[20] < bound)).all()
    alike = ((direct < bound) == (direct[20] < bound)).all(axis=1)
    assert classes.members.tolist() == np.flatnonzero(alike).tolist()


@pytest.mark.parametrize(
    "function", [np.sort, np.unique, lambda v: v.sum(), lambda v: v[0, 0], lambda v: bool(v[:, 0])]
)
def test_what_is_not_known_takes_other_blocks_out(function: Callable[[Any], Any]) -> None:
    blocks = np.arange(100)
    classes = BlockClasses(blocks, np.zeros(100, np.int64), np.array([7]))
    value = of_blocks(classes, (blocks // 10).astype(np.uint32)) + np.uint32(1)
    function(value)
    assert classes.members.tolist() == list(range(10))


def test_integers_read_as_floating_point_numbers_keep_their_bits() -> None:
    blocks = np.arange(100)
    classes = BlockClasses(blocks, np.zeros(100, np.int64), np.array([7]))
    bits = of_blocks(classes, np.where(blocks < 50, np.float32(1.5).view(np.uint32), np.uint32(3)))
    assert bits.view(np.float32).tolist() == [[1.5]]
    assert classes.members.tolist() == list(range(50))


def test_lanes_outside_of_a_guard_keep_what_they_had() -> None:
    """Of a guarded value no other lane matters; the quotient that these keep is still open, and carries in them alone."""
    blocks = np.arange(BLOCKS, dtype=np.uint32)
    classes = BlockClasses(np.arange(BLOCKS), np.zeros(BLOCKS, np.int64), np.array([0]))
    classes.running = Lanes(None)
    of_block, lanes = of_blocks(classes, blocks), np.where(GUARD, 0, 3).astype(np.uint32)
    before = (of_block + lanes) >> np.uint32(2)
    classes.running.guard = GUARD
    new = settled(np.where(GUARD, of_block * np.uint32(4), of_block + lanes) >> np.uint32(2))
    classes.running.guard = None
    assert len(classes.members) == BLOCKS
    direct = np.where(GUARD, blocks[:, None], (blocks[:, None] + lanes) >> np.uint32(2))
    check(Both(chosen(GUARD, new, before), direct), classes, lanes < THREADS)
    assert classes.members.tolist() == [block for block in range(BLOCKS) if block % 4 == 0]
