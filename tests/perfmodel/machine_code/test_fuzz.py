"""Mutated machine code gives a result or one line of error."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from perfmodel.compiler.resources import read_resources
from perfmodel.errors import InputError, SimulationError
from perfmodel.machine_code import disassembly
from perfmodel.simulator.sass.program import MachineProgram

from .fuzz import cubins, fuzz, fuzz_cubins, sources

pytestmark = [pytest.mark.compiler, pytest.mark.filterwarnings("ignore")]


def test_two_hundred_mutants() -> None:
    outcomes = fuzz(200, 3, sources())
    assert sum(outcomes.values()) == 200
    assert outcomes["result"] < 160  # many changes must be noticed, or the mutants test nothing


def test_twelve_cubins_with_changed_bytes(tmp_path: Path) -> None:
    assert sum(fuzz_cubins(12, 2, tmp_path).values()) == 12


def test_a_jump_out_of_the_code_is_one_line() -> None:
    (_, code), *_ = sources()
    changed = tuple(replace(i, target=2**40) if i.name == "BRA" else i for i in code.instructions)
    with pytest.raises(SimulationError, match="its target is not in the function"):
        MachineProgram(replace(code, instructions=changed), trace=True)


def test_a_symbol_table_of_another_type_is_one_line() -> None:
    _, cubin = cubins()[0]
    elf = ELFFile(io.BytesIO(cubin))
    kind = elf["e_shoff"] + elf.get_section_index(".symtab") * elf["e_shentsize"] + 4  # sh_type
    with pytest.raises(InputError, match="names no register count for kernel 'k'"):
        read_resources(cubin[:kind] + b"\x01" + cubin[kind + 1 :], "k", "sm_75", "")


def test_what_the_disassembler_prints_may_be_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "[]", '[{}, [{"function-name": "k"}]]', '[{}, {"k": 1}]'):
        monkeypatch.setattr(disassembly, "_text", lambda _, text=text: text)
        with pytest.raises(InputError, match="is the cubin whole"):
            disassembly.disassembly(cubins()[0][1])
