"""Every opcode of arithmetic on drawn operands: what it computes is what PTX defines, bit for bit; and which have none."""

from __future__ import annotations

import pytest

from perfmodel.simulator.sass.program import EMITTERS, EXECUTED

from . import drawn_cases, drawn_memory
from .differential import EXECUTED_ARCHITECTURES, compiled
from .drawn import VARIANTS, check, source
from .operations import GROUPS
from .tensor_cases import products_of, products_source

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("architecture", VARIANTS)
@pytest.mark.parametrize("group", GROUPS)
def test_arithmetic_is_what_ptx_defines(group: str, architecture: str) -> None:
    check(group, architecture, 2, **VARIANTS[architecture])


@pytest.mark.parametrize("architecture", ["sm_75", "sm_100"])
@pytest.mark.parametrize("group", GROUPS)
def test_arithmetic_executed_as_ptx_is_so_too(group: str, architecture: str) -> None:
    check(group, architecture, 3, ptx=True)


NOT_DRAWN = {
    "BPT": "a trap ends the launch: test_execution and test_undetermined",
    "KILL": "ends a lane, without an operand",
    "JMP": "a branch to a fixed place, which compilers write as BRA",
    "JMX": "a jump through a register, which compilers write as BRX",
    "USETMAXREG": "gives registers back: it changes no result",
}
"""Opcodes without drawn operands, and why."""
NEVER_EMITTED = frozenset({"DMNMX", "FSWZADD"})
"""Opcodes that no compiler at hand makes of a kernel."""


def test_every_other_opcode_is_among_those_with_drawn_operands() -> None:
    programs = [
        (source(group, architecture, **variant)[1], architecture)
        for architecture, variant in VARIANTS.items()
        for group in GROUPS
    ]
    programs += [
        (group.source(number), architecture)
        for architecture, number in drawn_memory.ARCHITECTURES.items()
        for group in drawn_memory.GROUPS.values()
        if group.since <= number
    ]
    programs += [
        (products_source(products_of(architecture)), architecture) for architecture in EXECUTED_ARCHITECTURES[1:]
    ]
    programs += [
        (group.case(seed, architecture)[0].source, architecture)
        for group in drawn_cases.GROUPS.values()
        for architecture in group.architectures
        for seed in (1, 2)
    ]
    names = {i.name for text, architecture in programs for i in compiled(text, architecture)[2].instructions}
    # forms for uniform registers have the translation of those for vectors
    translations = {EMITTERS[name] for name in names & set(EMITTERS)}
    missing = {name for name in EXECUTED - names if EMITTERS.get(name) not in translations}
    assert names <= EXECUTED
    assert missing - NEVER_EMITTED == set(NOT_DRAWN)
