"""What the manual says is executed and refused is what the code executes and refuses."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import perfmodel
from perfmodel.errors import SimulationError
from perfmodel.simulator.sass.program import EXECUTED as OPCODES
from perfmodel.simulator.simulation import Mode
from perfmodel.simulator.translate.tensor import REFUSED
from perfmodel.simulator.translate.translation import EXECUTED

from .handwritten import run

PAGE = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## What is executed, and what is refused") :]
TABLE = re.findall(r"^\| (.*?) \| (.*?) \| (.*?) \|$", SECTION, re.MULTILINE)[1:]
ROWS = [(example, reason) for _, example, reason in TABLE]
WITH_FUNCTIONS = {
    "a function that calls itself": ("call again;", ".func again() { call again; ret; }"),
    "`call.uni (r), malloc, (n);`": (
        "{ .param .b64 n; .param .b64 r; st.param.b64 [n], 8; call.uni (r), malloc, (n); }",
        ".extern .func (.param .b64 r) malloc (.param .b64 n);",
    ),
    "`@%p1 brx.idx %r1, targets;`": ("targets: .branchtargets a, b; @%p1 brx.idx %r1, targets; a: b:", ""),
}
"""Examples that need more around them than a table has room for."""
PASSED_OVER_WHEN_TRACED = ("mma.", "cvt.", "fma.", "min.", "mov.", "isspacep.")
MALFORMED = {
    "64-bit operands have no wide product",
    "address … is not supported",
    "arguments do not fit …",
    "barrier is not supported",
    "comparison .… is not supported",
    "comparison is missing",
    "copies 4, 8 or 16 bytes",
    "destination … and the instruction's type do not fit",
    "destination … is no register",
    "destination … of … bytes does not hold … bytes",
    "function … is not in the module",
    "guard … is no register",
    "label … is missing or stands twice",
    "logic needs bits",
    "member mask is not supported",
    "mode .… is not supported",
    "needs .l or .r and .wrap or .clamp",
    "needs .lo, .hi or .wide",
    "needs .sync and .any or .all on 32 or 64 bits",
    "needs an integer type",
    "needs more than … operands",
    "needs the signs of both operands",
    "needs … destinations",
    "needs … values",
    "operand … must be a literal",
    "parameter access is not supported",
    "predicates are not in memory",
    "predicates are not packed",
    "register … and the instruction's type do not fit",
    "register … of … bytes is read as … bytes",
    "shifts need integers",
    "test .… is not supported",
    "the list of branch targets is missing",
    "the space cannot be written",
    "the thread count of a barrier must be the same for all threads",
    "type .… is not supported",
    "… bytes are not packed from … elements",
}
"""Reasons that only PTX gets which the ISA does not allow; … stands for what the message names."""
IN_THE_TEXT = {
    "calls expand to more than … instructions",
    "threads wait in a loop for what no thread that is executed with them writes",
}
OF_FAULTS = {"… by thread … of block …: …"}


def reasons() -> set[str]:
    """Every reason that the simulator gives when it refuses an instruction."""
    found = set()
    package = Path(str(perfmodel.__file__)).parent
    for path in (path for folder in ("ir", "ptx", "simulator") for path in (package / folder).rglob("*.py")):
        if "sass" in path.parts:  # messages of machine code name the instruction and what it needs
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "error":
                (text,) = node.args
                parts = text.values if isinstance(text, ast.JoinedStr) else [text]
                found.add("".join(str(p.value) if isinstance(p, ast.Constant) else "…" for p in parts))
    return found


def documented(reason: str) -> bool:
    pattern = re.compile(".+".join(re.escape(part) for part in reason.split("…")))
    return any(pattern.fullmatch(said) for _, said in ROWS)


def test_the_executed_instructions_of_the_manual_are_those_of_the_code() -> None:
    (listed,) = re.findall(r"\n\n((?:`\w+`\s)+)\n", SECTION)
    assert re.findall(r"`(\w+)`", listed) == sorted(EXECUTED)


def test_the_opcodes_of_the_manual_are_those_of_the_code() -> None:
    section = PAGE[PAGE.index("## Machine code\n") : PAGE.index("## What is executed")]
    (listed,) = re.findall(r"\n\n((?:`\w+`\s)+)\n", section)
    assert re.findall(r"`(\w+)`", listed) == sorted(OPCODES)


def test_the_instructions_without_execution_of_the_manual_are_those_of_the_code() -> None:
    (named,) = [what for what, example, _ in TABLE if "mbarrier.init" in example]
    assert tuple(re.findall(r"`(\w+)`", named.partition(":")[0])) == tuple(sorted(REFUSED))


@pytest.mark.parametrize(("example", "reason"), ROWS)
def test_what_the_manual_says_is_refused_is_refused(example: str, reason: str) -> None:
    code, before = WITH_FUNCTIONS.get(example, (example.strip("`"), ""))
    with pytest.raises(SimulationError, match=f": {re.escape(reason)}$"):
        run(code, before=before)
    if not code.startswith(PASSED_OVER_WHEN_TRACED):
        with pytest.raises(SimulationError, match=f": {re.escape(reason)}$"):
            run(code, before=before, mode=Mode.TRACE)


def test_every_reason_is_in_the_manual_or_is_one_for_malformed_code() -> None:
    others = MALFORMED | IN_THE_TEXT | OF_FAULTS
    assert {reason for reason in reasons() if not documented(reason)} == others
