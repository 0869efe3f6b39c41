"""Mutated PTX gives a result or a SimulationError."""

from __future__ import annotations

import pytest

from perfmodel.errors import SimulationError
from perfmodel.ptx.parse import parse_module

from .fuzz import fuzz, sources

pytestmark = pytest.mark.compiler


def test_five_hundred_mutations() -> None:
    outcomes = fuzz(500, 7, sources())
    assert sum(outcomes.values()) == 500
    assert outcomes["result"] < 450  # most changes must be noticed, or the mutations test nothing


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "}",
        ".entry k() {",
        ".entry k(.param .u32) { ret; }",
        ".global .u8 x[99999999999];",
        ".const .f16x2 y",
        "/* never closed",
        ".entry k() { .reg .b32 %r<99999999999>; }",
        ".entry k() { ld.global.u32 }",
        ".section .debug",
        "\x00",
    ],
)
def test_malformed_modules_are_refused_in_one_line(text: str) -> None:
    with pytest.raises(SimulationError, match=r"^PTX line \d+: [^\n]+$"):
        parse_module(text)
