"""Opcodes of memory, warps, barriers and copies on drawn operands: what they do is what PTX defines, bit for bit."""

from __future__ import annotations

import pytest

from .drawn_memory import ARCHITECTURES, GROUPS, check

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize(
    ("architecture", "group"),
    [(name, group) for name, number in ARCHITECTURES.items() for group in GROUPS if GROUPS[group].since <= number],
)
def test_memory_and_warps_are_what_ptx_defines(architecture: str, group: str) -> None:
    for seed in (1, 2):
        check(group, architecture, seed)
