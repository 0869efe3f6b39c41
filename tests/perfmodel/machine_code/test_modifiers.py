"""Modifiers of machine instructions: what is not known is refused, with its name."""

from __future__ import annotations

import pytest

from perfmodel.errors import SimulationError
from perfmodel.machine_code.instruction import MachineInstruction
from perfmodel.machine_code.operands import Register
from perfmodel.simulator.sass.emitter import Effects, Emitter
from perfmodel.simulator.sass.modifiers import KNOWN_OPCODES, require_known_modifiers
from perfmodel.simulator.sass.program import EXECUTED, emit_instruction
from perfmodel.simulator.sass.registers import members, number_of
from perfmodel.simulator.translate.emitter import Pool


def instruction(text: str) -> MachineInstruction:
    opcode, _, operands = text.partition(" ")
    return MachineInstruction(
        address=0x40, opcode=opcode, operand_text=operands, guard=None, word=0, high=0, class_name="integer"
    )


def test_every_opcode_that_is_executed_says_its_modifiers() -> None:
    assert KNOWN_OPCODES == EXECUTED


@pytest.mark.parametrize(
    "text",
    [
        "FFMA.FTZ.RM R0,R1,R2,R3",
        "LDG.E.EL.128.STRONG.GPU R4,desc[UR4][R2.64+0x10]",
        "HADD2 R0,R1.H0_H0,-R2.H1_H1",
        "WARPGROUP.DEPBAR.LE gsb0,0x0",
        "HGMMA.64x128x16.F32.BF16 R24,gdesc[UR8].tnspB,R24,gsb0",
        "MUFU.TANH.F16 R0,R1.H1",
        "SYNCS.ARRIVE.TRANS64.A1T0 RZ,[UR4],RZ",
    ],
)
def test_known_ones_pass(text: str) -> None:
    require_known_modifiers(instruction(text))


@pytest.mark.parametrize(
    ("text", "modifier"),
    [
        ("FFMA.FMZ R0,R1,R2,R3", "FMZ"),  # zero times anything is zero
        ("P2R.B1 R0,PR,R0,0x7f", "B1"),
        ("LDC.IL R0,c[0x0][R4]", "IL"),
        ("ATOMG.E.ADD.SAFEADD PT,R0,[R2.64],R4", "SAFEADD"),
        ("HFMA2.OOB R0,R1,R2,R3", "OOB"),
        ("HFMA2 R0,R1.H0_NH1,R2,R3", "H0_NH1"),
        ("FADD2 R0,R2.F32x2.LO_HI,R4.F32x2.HI_LO", "LO_HI"),
        ("IADD3 R0,R1.H1,R2,R3", "H1"),
        ("SHFL.NEW PT,R0,R1,R2,R3", "NEW"),
    ],
)
def test_an_unknown_one_is_named(text: str, modifier: str) -> None:
    name = text.partition(" ")[0].partition(".")[0]
    with pytest.raises(SimulationError, match=rf"0x0040: {name}.*: modifier \.{modifier} of {name} is not executed: "):
        require_known_modifiers(instruction(text))


@pytest.mark.parametrize(
    ("text", "read", "written"), [("P2R R8,PR,R9,0x4", "P", "R"), ("UP2UR UR8,UPR,URZ,0x4", "UP", "UR")]
)
def test_predicates_are_kept_in_a_register_of_their_kind(text: str, read: str, written: str) -> None:
    """Bit 2 of the mask is the third predicate."""
    effects = Effects()
    emitter = Emitter(Pool(trace=False), masked=True, recorded=effects)
    emitter.begin(0, instruction(text), 0)
    emit_instruction(emitter, instruction(text))
    predicates = {number_of(Register(file=file, index=k)) for file in ("P", "UP") for k in range(7)}
    assert predicates & set(members(effects.values)) == {number_of(Register(file=read, index=2))}
    assert list(members(effects.writes)) == [number_of(Register(file=written, index=8))]
