"""Instructions that only serve others: divisions of integers, counting of loops, addresses; and FP64 that FP32 would do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from ..core.constants import INSTRUCTION_BYTES
from ..ir.instruction import SourceLine
from ..machine_code.instruction import MachineInstruction
from ..machine_code.issue_table import Pipe, Wait
from ..machine_code.operands import Constant, Immediate, Operand, Register
from ..machine_code.program import Transfer, is_conditional, transfer_of
from ..machine_code.schedule import NO_BARRIER
from .changed_profiles import with_added, with_fewer_instructions
from .subject import AdviceKind, Candidate, Subject, places_of

Integers = NDArray[np.int64]

_LEAST_SHARE = 0.03
"""Part of the launch's instructions that would go, below which they are not worth a look."""
_UNROLLED = 4
"""Passes of a loop that are then one."""
_MOST_LOOP_INSTRUCTIONS = 256
"""Loops of more instructions are left as they are: unrolled they would not fit into the instruction caches."""
_ADDITIONS = frozenset({"IADD3", "VIADD", "UIADD3", "IADD", "IMAD"})
_DIVIDING = frozenset({"integer", "conversion", "special_function"})
_CONVERSIONS = ("F2F.F64.F32", "F2F.F32.F64")


def integer_work(subject: Subject) -> Iterator[Candidate]:
    """Candidates without integer divisions, with loops that are unrolled, with addresses of 32 bits."""
    for shares, finding, change in (
        (
            _divisions(subject),
            "integer division or remainder, {part} of the instructions",
            "a divisor that the compiler knows (a constant or template argument), shifts and masks for powers of two, or "
            "the quotient counted along",
        ),
        (
            _loop_counting(subject),
            "counting and branching of a loop, {part} of the instructions",
            f"#pragma unroll {_UNROLLED}, so that {_UNROLLED} passes share them",
        ),
        (
            _upper_halves(subject),
            "upper halves of 64-bit indices, {part} of the instructions",
            "indices of 32 bits (int or unsigned), one 64-bit pointer",
        ),
    ):
        gone = {index: subject.executions[index] * (1.0 - share) for index, share in shares.items()}
        part = sum(gone.values()) / max(sum(subject.executions), 1.0)
        if part > _LEAST_SHARE:
            yield Candidate(
                kind=AdviceKind.INTEGER,
                places=places_of(subject, gone),
                finding=finding.format(part=f"{part:.0%}"),
                change=change,
                profile=with_fewer_instructions(subject, subject.profile, shares),
            )


def _destinations(one: MachineInstruction) -> set[tuple[str, int]]:
    """Registers that an arithmetic instruction writes: its first operand, and predicates right behind it."""
    found = set()
    for place, operand in enumerate(one.operands[:2]):
        if isinstance(operand, Register) and operand.index is not None and (place == 0 or operand.is_predicate):
            found.add((operand.file, operand.index))
    return found


def _sources(one: MachineInstruction) -> set[tuple[str, int]]:
    """Registers that an arithmetic instruction reads, its guard among them."""
    read: list[Operand | None] = [*one.operands[1:], one.guard]
    return {(o.file, o.index) for o in read if isinstance(o, Register) and o.index is not None}


def _divisions(subject: Subject) -> Mapping[int, float]:
    """Instructions that work out quotients and remainders and that known divisors do without.

    A division begins with the divisor as a floating-point number, rounded up; what of its source line depends on that belongs
    to it. Products stay: a known divisor takes them, too.
    """
    found: dict[int, float] = {}
    reached: dict[SourceLine | None, set[tuple[str, int]]] = {}
    for index, one in enumerate(subject.code):
        if transfer_of(one) is not Transfer.NEXT:
            reached = {}
            continue
        if one.name == "I2F" and one.has("RP"):
            reached.setdefault(one.source, set()).update(_destinations(one))
            found[index] = 0.0
            continue
        own = reached.get(one.source)
        if own and one.class_name in _DIVIDING and _sources(one) & own:
            own |= _destinations(one)
            if not (one.name == "IMAD" and not one.has("MOV", "IADD")):
                found[index] = 0.0
        else:
            for registers in reached.values():
                registers -= _destinations(one)
    return found


def _loop_counting(subject: Subject) -> Mapping[int, float]:
    """Of innermost loops the additions of constants to a register itself, the comparison and the branch back."""
    found: dict[int, float] = {}
    code = subject.code
    for last, branch in enumerate(code):
        if transfer_of(branch) is not Transfer.BRANCH or not is_conditional(branch) or branch.target is None:
            continue
        first = branch.target // INSTRUCTION_BYTES
        inner = code[first : last + 1]
        if first > last or len(inner) > _MOST_LOOP_INSTRUCTIONS:
            continue
        if any(_goes_back(one) for one in inner[:-1]):
            continue
        deciding = _sources(branch)
        for index in range(first, last + 1):
            one = code[index]
            compares = one.name in ("ISETP", "UISETP") and bool(_destinations(one) & deciding)
            if index == last or compares or _counts(one):
                found[index] = 1.0 / _UNROLLED
    return found


def _counts(one: MachineInstruction) -> bool:
    """Whether an instruction adds to a register what is the same in each pass."""
    if one.name not in _ADDITIONS or not isinstance(one.operands[0], Register) or one.operands[0].index is None:
        return False
    own = (one.operands[0].file, one.operands[0].index)
    others = [o for o in one.operands[1:] if not (isinstance(o, Register) and (o.index is None or o.is_predicate))]
    added = [o for o in others if not (isinstance(o, Register) and (o.file, o.index) == own)]
    return len(added) < len(others) and all(
        isinstance(o, Immediate | Constant) or (isinstance(o, Register) and o.file == "UR") for o in added
    )


def _goes_back(one: MachineInstruction) -> bool:
    return transfer_of(one) is Transfer.BRANCH and one.target is not None and one.target <= one.address


def _upper_halves(subject: Subject) -> Mapping[int, float]:
    """Instructions that extend the sign of an index, or carry into the upper half of an address."""
    return {index: 0.0 for index, one in enumerate(subject.code) if subject.executions[index] and _is_upper_half(one)}


def _is_upper_half(one: MachineInstruction) -> bool:
    carries = one.name in ("IADD3", "LEA", "UIADD3", "ULEA") and one.has("X")
    return carries or (one.name in ("SHF", "USHF") and one.has("S32") and one.has("HI"))


def double_precision(subject: Subject) -> Iterator[Candidate]:
    """A candidate without FP64 where single-precision values are converted to it and back.

    What a conversion waits for, such as a load, the next instruction waits for. Single registers lie in both banks, pairs begin
    in the first.
    """
    code, executions, profile = subject.code, subject.executions, subject.profile
    converted = {
        index: 0.0 for index, one in enumerate(code) if executions[index] and one.opcode.startswith(_CONVERSIONS)
    }
    in_fp64 = [index for index, one in enumerate(code) if executions[index] and one.class_name == "fp64"]
    if not converted or not in_fp64 or profile.traces is None:
        return
    amount = sum(executions[index] for index in in_fp64)
    profile = with_added(with_fewer_instructions(subject, profile, converted), fp64=-amount, fp32_fma=amount)
    table = profile.traces.table
    single = np.zeros(len(table), np.bool_)
    single[in_fp64] = True
    words = table.bank_reads.sum(axis=1)
    changed = replace(
        table,
        bank_reads=np.where(single[:, None], np.stack((words - words // 2, words // 2), axis=1), table.bank_reads),
        wait_mask=_passed_on(table.wait_mask, converted),
        pipe=np.where(single, int(Pipe.FMA), table.pipe),
        wait=np.where(single, int(Wait.FIXED), table.wait),
        stall_cycles=np.where(single, subject.gpu.fp32_latency_cycles, table.stall_cycles),
        write_barrier=np.where(single, NO_BARRIER, table.write_barrier),
    )
    yield Candidate(
        kind=AdviceKind.DOUBLE_PRECISION,
        places=places_of(subject, {index: executions[index] for index in in_fp64}),
        finding=f"{amount / sum(executions):.0%} of the instructions are FP64 between conversions from FP32 and back",
        change="single-precision literals and functions (0.5f, sqrtf), where FP32 is exact enough",
        profile=replace(profile, traces=structs.replace(profile.traces, table=changed)),
    )


def _passed_on(waits: Integers, gone: Iterable[int]) -> Integers:
    """The scoreboards that instructions wait for, where those of some that go are waited for by the next that stays.

    >>> _passed_on(np.array([1, 2, 0, 4]), [0, 1]).tolist()
    [1, 3, 3, 4]
    """
    passed = waits.copy()
    for index in sorted(gone):
        if index + 1 < len(passed):
            passed[index + 1] |= passed[index]
    return passed
