"""Every opcode of arithmetic on drawn operands: what it computes is what PTX defines, bit for bit; and which have none."""

from __future__ import annotations

import pytest

from perfmodel.simulator.sass.program import EMITTERS, EXECUTED

from . import drawn_memory
from .differential import compiled
from .drawn import VARIANTS, check, source
from .operations import GROUPS

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("architecture", VARIANTS)
@pytest.mark.parametrize("group", GROUPS)
def test_arithmetic_is_what_ptx_defines(group: str, architecture: str) -> None:
    check(group, architecture, 2, **VARIANTS[architecture])


@pytest.mark.parametrize("architecture", ["sm_75", "sm_100"])
@pytest.mark.parametrize("group", GROUPS)
def test_arithmetic_executed_as_ptx_is_so_too(group: str, architecture: str) -> None:
    check(group, architecture, 3, ptx=True)


NOT_DRAWN = frozenset(
    """
    BPT BRX ELECT JMP JMX KILL LEPC R2UR RPCMOV
    BMMA DMMA HGMMA HMMA IGMMA IMMA LDSM MOVM QGMMA QMMA STSM
    ARRIVES STAS SYNCS UBLKCP UBLKPF UBLKRED USETMAXREG UTMALDG UTMAPF UTMAREDG UTMASTG
    TEX TLD TLD4 TXD SULD SUST
    """.split()  # noqa: SIM905
)
"""Control flow, tensor cores, bulk copies and textures: `test_execution`, `test_tensor`, `test_asynchronous` and others."""
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
    names = {i.name for text, architecture in programs for i in compiled(text, architecture)[2].instructions}
    # forms for uniform registers have the translation of those for vectors
    translations = {EMITTERS[name] for name in names & set(EMITTERS)}
    missing = {name for name in EXECUTED - names if EMITTERS.get(name) not in translations}
    assert names <= EXECUTED
    assert missing - NEVER_EMITTED == NOT_DRAWN
