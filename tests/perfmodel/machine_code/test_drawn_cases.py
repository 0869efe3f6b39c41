"""Copies, barriers, matrices of warpgroups, textures and jumps on drawn operands: what they give is what NumPy does."""

from __future__ import annotations

import pytest

from .drawn_cases import GROUPS, check

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize(
    ("name", "architecture"), [(name, architecture) for name in GROUPS for architecture in GROUPS[name].architectures]
)
def test_what_kernels_give_is_what_numpy_does(name: str, architecture: str) -> None:
    for seed in (1, 2):
        check(name, architecture, seed)
