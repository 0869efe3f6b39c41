"""Every opcode of arithmetic on drawn operands: what it computes is what PTX defines, bit for bit."""

from __future__ import annotations

import pytest

from perfmodel.simulator.sass.program import EMITTERS, EXECUTED

from .differential import compiled
from .drawn import VARIANTS, check, source
from .operations import GROUPS

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("architecture", VARIANTS)
@pytest.mark.parametrize("group", GROUPS)
def test_arithmetic_is_what_ptx_defines(group: str, architecture: str) -> None:
    check(group, architecture, 2, **VARIANTS[architecture])


NOT_ARITHMETIC = frozenset(
    """
    ATOM ATOMG ATOMS LD LDL LDS QSPC RED REDG ST STL STS LDGSTS LDSM STSM STAS
    B2R BAR BPT BRX CREDUX ELECT JMP JMX KILL LEPC MATCH R2UR REDUX RPCMOV SHFL VOTE VOTEU
    BMMA DMMA HGMMA HMMA IGMMA IMMA MOVM QGMMA QMMA
    ARRIVES SYNCS UBLKCP UBLKPF UBLKRED USETMAXREG UTMALDG UTMAPF UTMAREDG UTMASTG
    TEX TLD TLD4 TXD SULD SUST
    ACQBULK CCTL CCTLL CCTLT CGAERRBAR DEPBAR ENDCOLLECTIVE ERRBAR FENCE LDGDEPBAR MEMBAR NANOSLEEP PMTRIG PREEXIT
    UCGABAR_ARV UCGABAR_WAIT UTMACCTL UTMACMDFLUSH WARPGROUP YIELD
    """.split()  # noqa: SIM905
)
"""Memory, warps and control flow, tensor cores, asynchronous copies, and hints: `test_warps`, `test_tensor` and others."""
NEVER_EMITTED = frozenset({"DMNMX", "FSWZADD"})
"""Opcodes that no compiler at hand makes of a kernel."""


def test_every_opcode_of_arithmetic_is_among_them() -> None:
    names = {
        i.name
        for architecture, variant in VARIANTS.items()
        for group in GROUPS
        for i in compiled(source(group, architecture, **variant)[1], architecture)[2].instructions
    }
    # forms for uniform registers have the translation of those for vectors
    translations = {EMITTERS[name] for name in names & set(EMITTERS)}
    missing = {name for name in EXECUTED - names if EMITTERS.get(name) not in translations}
    assert names <= EXECUTED
    assert missing - NEVER_EMITTED <= NOT_ARITHMETIC
