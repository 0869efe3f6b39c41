"""Operands as nvdisasm prints them."""

from __future__ import annotations

import pytest

from perfmodel.errors import SimulationError
from perfmodel.machine_code.operands import Address, Constant, Immediate, Register, Word, parse_operand, split_operands


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("R7", Register(file="R", index=7)),
        ("RZ", Register(file="R", index=None)),
        ("R12.reuse", Register(file="R", index=12)),
        ("-R3", Register(file="R", index=3, negated=True)),
        ("-|R3|.reuse", Register(file="R", index=3, negated=True, absolute=True)),
        ("~UR5", Register(file="UR", index=5, inverted=True)),
        ("!UPT", Register(file="UP", index=None, inverted=True)),
        ("R2.H1_H1", Register(file="R", index=2, modifiers=("H1_H1",))),
        ("B0", Register(file="B", index=0)),
        ("-0x10", Immediate(text="-0x10", value=-16)),
        ("1.4426950216293334961", Immediate(text="1.4426950216293334961", value=None)),
        ("+INF ", Immediate(text="+INF", value=None)),
        ("-QNAN", Immediate(text="-QNAN", value=None)),
        ("c[0x0][0x160]", Constant(bank=0, base=None, offset=0x160)),
        ("-c[0x0][0x160]", Constant(bank=0, base=None, offset=0x160, negated=True)),
        ("c[0x3][R4+0x10]", Constant(bank=3, base=Register(file="R", index=4), offset=16)),
        ("SR_TID.X", Word(text="SR_TID.X")),
    ],
)
def test_an_operand(text: str, expected: object) -> None:
    assert parse_operand(text) == expected


@pytest.mark.parametrize(
    ("text", "base", "uniform", "offset", "wide", "scale"),
    [
        ("[R3]", 3, None, 0, False, 1),
        ("[R2.X4+0x10]", 2, None, 16, False, 4),
        ("[R3+UR4+-0x8]", 3, 4, -8, False, 1),
        ("[UR6+0x4]", None, 6, 4, False, 1),
        ("[0x20]", None, None, 32, False, 1),
        ("desc[UR8][R4.64+0x40]", 4, None, 64, True, 1),
        ("[R4.64+UR6]", 4, 6, 0, True, 1),
    ],
)
def test_an_address(text: str, base: int | None, uniform: int | None, offset: int, wide: bool, scale: int) -> None:
    address = parse_operand(text)
    assert isinstance(address, Address)
    assert (address.base.index if address.base else None) == base
    assert (address.uniform.index if address.uniform else None) == uniform
    assert (address.offset, address.wide, address.scale) == (offset, wide, scale)


def test_commas_within_brackets_do_not_separate() -> None:
    assert split_operands("SB0,{5,4,0},[R2][R4.64]") == ("SB0", "{5,4,0}", "[R2][R4.64]")
    assert split_operands("[R2][R4.64],!PT") == ("[R2]", "[R4.64]", "!PT")


def test_an_unknown_address_is_refused() -> None:
    with pytest.raises(SimulationError, match="not understood"):
        parse_operand("[R2+SR_TID]")
