"""Machine code whose registers are chosen, and what was measured with it beside the model of one SM."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from campaigns.micro.register_banks import _SOURCE, PATTERNS, further_instructions, patched
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.disassembly import disassembly
from perfmodel.machine_code.program import read_machine_code

EVEN, ODD = 0, 1


@pytest.mark.parametrize("pattern", ["e*Od e*Ed", "efe opo", "eof L:oep"])
def test_every_ffma_of_the_loop_reads_the_banks_of_the_pattern(pattern: str) -> None:
    assert pattern in PATTERNS
    compiled = compile_kernel(CompileRequest(source=_SOURCE, kernel="banks", file_name="banks.cu"), "sm_90")
    cubin, count = patched(compiled, further_instructions("sm_90"), pattern)
    (printed,) = disassembly(cubin).values()
    (before,) = disassembly(compiled.cubin).values()
    changed = [one for one, other in zip(printed, before, strict=True) if one != other]
    assert count == 192
    assert {one.opcode.split(".")[0] for one in changed} == {"FFMA", "LOP3"} if ":" in pattern else {"FFMA"}
    targets = []
    for one in changed:
        target, *sources = one.operands.split(",")[:4]
        banks = [int(name.strip("R").removesuffix(".reuse")) % 2 for name in sources]
        kept = sources[0].endswith(".reuse")
        targets.append(int(target[1:]) % 2)
        own = targets[-1]
        wanted = {
            "e*Od e*Ed": [([EVEN, ODD, own], True), ([EVEN, EVEN, own], True)],
            "efe opo": [([EVEN] * 3, False), ([ODD] * 3, False)],
            "eof L:oep": [([EVEN, ODD, EVEN], False), ([ODD, EVEN, ODD], False)],
        }
        assert (banks, kept) in wanted[pattern]
    assert all(one != other for one, other in pairwise(targets))


def test_branches_of_a_pattern_lead_to_the_next_instruction() -> None:
    compiled = compile_kernel(CompileRequest(source=_SOURCE, kernel="banks", file_name="banks.cu"), "sm_90")
    cubin, count = patched(compiled, {}, "BRA eoe eoe eoe")
    code = read_machine_code(replace(compiled, cubin=cubin))
    to_the_next = [one for one in code.instructions if one.name == "BRA" and one.target == one.address + 16]
    assert len(to_the_next) == count / 4


def test_products_and_reads_of_a_pattern_stand_among_its_multiply_adds() -> None:
    assert "MMA LDS eoe eoe" in PATTERNS
    compiled = compile_kernel(CompileRequest(source=_SOURCE, kernel="banks", file_name="banks.cu"), "sm_90")
    cubin, count = patched(compiled, further_instructions("sm_90"), "MMA LDS eoe eoe")
    code = read_machine_code(replace(compiled, cubin=cubin))
    names = [one.name for one in code.instructions]
    first = names.index("HMMA")
    assert names[first : first + 8] == ["HMMA", "LDS", "FFMA", "FFMA"] * 2
    assert names.count("HMMA") == count / 4
