"""What is interpolated between compiled members, against members that no table has and that were drawn from random problems."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmodel.core.constants import WARP_SIZE
from perfmodel.errors import InputError
from perfmodel.families.base import Batch
from perfmodel.families.compiled_members import MemberTable, member_table
from perfmodel.families.profiling import configuration_profile
from perfmodel.families.registry import family
from perfmodel.gpus.catalogue import load_gpu
from tables.drawn_members import Member, member_values
from tables.drawn_problems import drawn_problem

HELD_OUT = Path(__file__).with_name("held_out_members")
FAMILIES = ("conv1d", "direct_conv2d", "pointwise_conv2d", "ssim", "tiled_conv2d")
DESIGNS = sorted({design for name in FAMILIES for design in family(name).designs})
BOUNDS = {
    "blocked_convolution": {
        "registers_per_thread": (0.20, 0.30),
        "code_bytes": (0.10, 0.30),
        "longest_warp_instructions": (0.10, 0.30),
        "warp_cycles": (0.20, 0.50),
    },
    "conv1d": {
        "registers_per_thread": (0.10, 0.25),
        "code_bytes": (0.15, 0.25),
        "longest_warp_instructions": (0.10, 0.25),
        "warp_cycles": (0.15, 0.50),
    },
    "direct_conv2d": {
        "registers_per_thread": (0.15, 0.40),
        "code_bytes": (0.10, 0.20),
        "longest_warp_instructions": (0.10, 0.20),
        "warp_cycles": (0.15, 0.45),
        "global_round_trips": (0.15, 0.50),
    },
    "plane_conv2d": {
        "registers_per_thread": (0.15, 0.35),
        "code_bytes": (0.10, 0.25),
        "longest_warp_instructions": (0.10, 0.25),
        "warp_cycles": (0.20, 0.45),
    },
    "pointwise_product": {
        "registers_per_thread": (0.10, 0.25),
        "code_bytes": (0.10, 0.30),
        "longest_warp_instructions": (0.10, 0.20),
        "warp_cycles": (0.15, 0.30),
    },
    "pointwise_tensor": {
        "registers_per_thread": (0.05, 0.15),
        "code_bytes": (0.10, 0.25),
        "longest_warp_instructions": (0.15, 0.50),
        "warp_cycles": (0.20, 0.50),
    },
    "pointwise_conv2d": {
        "registers_per_thread": (0.10, 0.30),
        "code_bytes": (0.10, 0.20),
        "longest_warp_instructions": (0.05, 0.15),
        "warp_cycles": (0.10, 0.25),
    },
    "ssim": {
        "registers_per_thread": (0.05, 0.55),
        "code_bytes": (0.05, 0.10),
        "longest_warp_instructions": (0.05, 0.10),
        "warp_cycles": (0.10, 0.35),
    },
    "tensor_convolution": {
        "registers_per_thread": (0.10, 0.15),
        "code_bytes": (0.10, 0.30),
        "longest_warp_instructions": (0.15, 0.30),
        "warp_cycles": (0.10, 0.20),
    },
    "tiled_conv2d": {"registers_per_thread": (0.20, 0.50), "code_bytes": (0.10, 0.50)},
}
"""Median and 90 % quantile of the relative error, as docs/accuracy.md states them."""


def held_out(design: str) -> MemberTable:
    return MemberTable.from_bytes(design, (HELD_OUT / f"{design}.npz").read_bytes())


def relative_errors(design: str) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    """|predicted / compiled − 1| of every held-out member, by number."""
    table, others = member_table(design), held_out(design)
    logs = table.interpolation().at(np.clip(others.points, table.points.min(axis=0), table.points.max(axis=0)))
    errors = {}
    for name, column in zip(table.numbers, logs.T, strict=True):
        errors[name] = np.abs(np.expm1(column - others.values[:, others.numbers.index(name)]))
    return errors


@pytest.mark.parametrize("design", DESIGNS)
def test_members_that_no_table_has_are_within_the_stated_bounds(design: str) -> None:
    errors = relative_errors(design)
    for name, (median, most) in BOUNDS[design].items():
        assert np.median(errors[name]) <= median, name
        assert np.quantile(errors[name], 0.9) <= most, name


@pytest.mark.parametrize("design", DESIGNS)
def test_tables_were_made_from_the_traits_that_their_members_have_now(design: str) -> None:
    table = member_table(design)
    for index in range(0, len(table.members), max(1, len(table.members) // 10)):
        found, points, _ = member_values(Member.from_json(table.members[index]))
        assert found == design
        np.testing.assert_allclose(list(points.values()), table.points[index], rtol=1e-5, atol=1e-5)


@pytest.mark.compiler
@pytest.mark.parametrize(
    "design", ["blocked_convolution", "conv1d", "direct_conv2d", "plane_conv2d", "pointwise_conv2d"]
)
def test_the_compiler_still_makes_of_a_member_what_the_table_says(design: str) -> None:
    """The member with the least code, compiled and executed anew."""
    table = member_table(design)
    on_h200 = [i for i, line in enumerate(table.members) if '"gpu": "h200"' in line]
    index = min(on_h200, key=lambda i: table.values[i, table.numbers.index("registers_per_thread")])
    member = Member.from_json(table.members[index])
    _, _, values = member_values(member, configuration_profile(*member.profile_arguments))
    for name, stored in zip(table.numbers, table.values[index], strict=True):
        assert values[name] == pytest.approx(stored, abs=1e-4), name


@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), gpu_id=st.sampled_from(["h200", "rtx-2080-ti", "rtx-4090", "p100-pcie-12gb"]))
def test_random_problems_get_numbers_that_can_be(name: str, seed: int, gpu_id: str) -> None:
    own, gpu, rng = family(name), load_gpu(gpu_id), np.random.default_rng(seed)
    try:
        problem = drawn_problem(name, rng)
    except InputError:
        return
    space = own.space(problem, gpu)
    product = space.products[int(rng.integers(len(space.products)))]
    chosen = np.sort(rng.choice(len(product), size=min(3, len(product)), replace=False))
    batch = Batch.joined([product.batch(int(i), int(i) + 1) for i in chosen])
    profile = own.profile(problem, batch, gpu)
    threads = np.ceil(np.broadcast_to(profile.launch.threads_per_block, len(batch)) / WARP_SIZE) * WARP_SIZE
    possible = np.maximum(gpu.registers_per_block // threads, 8)
    assert np.all((profile.registers >= 1) & (profile.registers <= np.minimum(possible, gpu.max_registers_per_thread)))
    for count_name in ("integer", "control", "warp_instructions", "local_load_sectors"):
        count = np.asarray(getattr(profile.counts, count_name))
        assert np.all(np.isfinite(count) & (count >= 0)), count_name
    alone = own.profile(problem, batch.take([0]), gpu)
    assert alone.registers[0] == profile.registers[0]
    assert alone.at(0).counts.warp_instructions == profile.at(0).counts.warp_instructions
