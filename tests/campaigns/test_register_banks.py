"""Machine code whose registers are chosen, and what was measured with it beside the model of one SM."""

from __future__ import annotations

from itertools import pairwise

import pytest

from campaigns.micro.register_banks import _SOURCE, PATTERNS, patched
from perfmodel.compiler.compiled import compile_kernel
from perfmodel.compiler.request import CompileRequest
from perfmodel.machine_code.disassembly import disassembly

EVEN, ODD = 0, 1


@pytest.mark.parametrize("pattern", ["e*Od e*Ed", "efe opo"])
def test_every_ffma_of_the_loop_reads_the_banks_of_the_pattern(pattern: str) -> None:
    assert pattern in PATTERNS
    compiled = compile_kernel(CompileRequest(source=_SOURCE, kernel="banks", file_name="banks.cu"), "sm_90")
    cubin, count = patched(compiled, pattern)
    (printed,) = disassembly(cubin).values()
    (before,) = disassembly(compiled.cubin).values()
    changed = [one for one, other in zip(printed, before, strict=True) if one != other]
    assert count == 192
    assert {one.opcode for one in changed} == {"FFMA"}
    targets = []
    for one in changed:
        target, *sources = one.operands.split(",")
        banks = [int(name.strip("R").removesuffix(".reuse")) % 2 for name in sources]
        kept = sources[0].endswith(".reuse")
        targets.append(int(target[1:]) % 2)
        own = targets[-1]
        wanted = {
            "e*Od e*Ed": [([EVEN, ODD, own], True), ([EVEN, EVEN, own], True)],
            "efe opo": [([EVEN] * 3, False), ([ODD] * 3, False)],
        }
        assert (banks, kept) in wanted[pattern]
    assert all(one != other for one, other in pairwise(targets))
