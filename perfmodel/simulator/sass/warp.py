"""Exchanges within a warp, barriers, and what ends a basic block."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.constants import INSTRUCTION_BYTES
from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Immediate, Operand, Register
from ...machine_code.program import CodeBlock, Transfer
from ..access import Action
from .emitter import Emitter
from .outside import FIRST_ARGUMENT
from .registers import BARRIER_PREDICATE, is_false, is_true, number_of

BARRIERS = 16
COUNT_SHIFT, MAX_COUNT = 16, 0xFFF
"""Where a register with the number of a barrier holds the threads that it waits for."""
_SHUFFLES = {"UP": "up", "DOWN": "down", "BFLY": "bfly", "IDX": "idx"}
_REDUCTIONS = {"SUM": "add", "MIN": "min", "MAX": "max", "AND": "and", "OR": "or", "XOR": "xor"}


def _registers(i: MachineInstruction) -> list[Operand]:
    return [o for o in i.operands if not (isinstance(o, Register) and o.is_predicate)]


def _site(e: Emitter, i: MachineInstruction, action: Action) -> int:
    return e.site(i, action, Space.GENERIC, 4)


def _only_counted(e: Emitter, i: MachineInstruction, action: Action, *targets: Operand) -> bool:
    """Count an exchange whose result nothing reads; whether it is one."""
    e.acts()
    if e.live(*targets):
        return False
    e.line(f"exchange(C,{_site(e, i, action)},{e.guard})")
    return True


def emit_shfl(e: Emitter, i: MachineInstruction) -> None:
    """``SHFL``: values of other lanes of the warp."""
    mode = next((name for part, name in _SHUFFLES.items() if i.has(part)), None)
    if mode is None:
        raise i.error("the mode of the shuffle is not supported")
    predicate, target = i.operand(0), i.operand(1)
    e.acts()
    e.root = True
    b, c = (e.read(i, operand) for operand in i.operands[3:5])
    e.root = False
    site = _site(e, i, Action.SHUFFLE)
    if not e.live(predicate, target):
        e.line(f"shuffle_source(C,{site},{e.index},{mode!r},{b},{c},None,{e.guard})")
        return
    a = e.read(i, i.operands[2])
    result = e.temporary(f"shuffle(C,{site},{e.index},{mode!r},{a},{b},{c},None,{e.guard})")
    e.write(i, target, f"{result}[0]")
    e.write_predicate(i, predicate, f"{result}[1]")
    e.line(f"del {result}")


def emit_vote(e: Emitter, i: MachineInstruction) -> None:
    """``VOTE`` and ``VOTEU``: predicates of the warp's lanes joined, as bits and as one predicate."""
    mode = next((m.lower() for m in ("ALL", "ANY", "EQ") if i.has(m)), None)
    if mode is None:
        raise i.error("the mode of the vote is not supported")
    predicates = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    targets = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate]
    joined = predicates[0] if len(predicates) > 1 else None
    ballot = targets[0] if targets else None
    if _only_counted(e, i, Action.VOTE, *(o for o in (ballot, joined) if o is not None)):
        return
    site = _site(e, i, Action.VOTE)
    source = e.predicate(i, predicates[-1])
    guard = e.guard
    uniform = i.name == "VOTEU"
    values = []
    if ballot is not None and ballot.index is not None:
        values.append((ballot, e.temporary(f"vote(C,{site},'ballot',{source},None,{guard})")))
    if joined is not None and joined.index is not None:
        name = "uni" if mode == "eq" else mode
        values.append((joined, e.temporary(f"vote(C,{site},{name!r},{source},None,{guard})")))
    if uniform:
        e.guard = "None"
    for target, value in values:
        if target.is_predicate:
            e.write_predicate(i, target, value)
        else:
            e.write(i, target, value)


def emit_match(e: Emitter, i: MachineInstruction) -> None:
    """``MATCH``: which lanes hold the same value."""
    mode = "all" if i.has("ALL") else "any"
    predicates = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    registers = _registers(i)
    if _only_counted(e, i, Action.VOTE, registers[0], *predicates):
        return
    value = e.pair(i, registers[1]) if i.has("U64", "64") else e.read(i, registers[1])
    everyone = e.constant(2**32 - 1)
    result = e.temporary(f"match(C,{_site(e, i, Action.VOTE)},{mode!r},{value},{everyone},{e.guard})")
    e.write(i, registers[0], f"{result}[0]")
    if predicates:
        e.write_predicate(i, predicates[0], f"{result}[1]")


def emit_redux(e: Emitter, i: MachineInstruction) -> None:
    """``REDUX`` and ``CREDUX``: one value reduced over the warp."""
    operation = next((name for part, name in _REDUCTIONS.items() if i.has(part)), "or")
    if i.has("F32"):
        raise i.error("reductions of floats are not supported")
    if i.name == "REDUX" and not any(i.has(part) for part in _REDUCTIONS):
        operation = "and"
    target, source = _registers(i)[:2]
    if _only_counted(e, i, Action.VOTE, target):
        return
    value = e.read(i, source, "s32" if i.has("S32") else "u32")
    everyone = e.constant(2**32 - 1)
    guard, e.guard = e.guard, "None"
    call = f"reduce_warp(C,{_site(e, i, Action.VOTE)},{operation!r},{value},{everyone},{guard})"
    e.write(i, target, f"{call}.view(uint32)")


def emit_elect(e: Emitter, i: MachineInstruction) -> None:
    """``ELECT``: one lane of those that are active, and its number to a uniform register."""
    chosen = e.temporary(f"first_active_lane(C,{e.guard})")
    number = f"of_first_active(C,C.special['%laneid'],{e.guard})"
    target = i.operand(1)
    if isinstance(target, Register) and not target.is_predicate:
        e.write(i, target, number)
    e.write_predicate(i, i.operand(0), chosen)


# ---- convergence


def emit_bssy(e: Emitter, i: MachineInstruction) -> None:
    """``BSSY``: the lanes that are here take part in a convergence barrier.

    Where all lanes run together it is enough to name all: who has ended is not waited for.
    """
    barrier = i.operand(0)
    if not isinstance(barrier, Register) or barrier.index is None:
        raise i.error("the convergence barrier is not understood")
    text = "active_mask(C)" if e.masked else e.constant(2**32 - 1)
    e.write_register(number_of(barrier), text, "u32")


def emit_break(e: Emitter, i: MachineInstruction) -> None:
    """``BREAK``: lanes leave a convergence barrier."""
    barrier = next((o for o in i.operands if isinstance(o, Register) and o.file == "B"), None)
    if barrier is None:
        raise i.error("the convergence barrier is not understood")
    number = number_of(barrier)
    own = [o for o in i.operands if isinstance(o, Register) and o.is_predicate and not is_true(o)]
    guard = e.guard
    for predicate in own:
        text = e.predicate(i, predicate)
        guard = e.temporary(text if guard == "None" else f"{guard}&{text}")
    e.guard = "None"
    members = e.read(i, barrier)
    e.write_register(number, f"without_lanes(C,{members},{guard})", "u32")
    e.warp_wide.add(number)


def emit_bmov(e: Emitter, i: MachineInstruction) -> None:
    """``BMOV``: a convergence barrier to a register or back, or (sm_87) lanes to a barrier; ``.CLEAR`` empties it."""
    target, source = i.operand(0), i.operand(1)
    if not isinstance(target, Register) or not isinstance(source, Register | Immediate):
        raise i.error("this form is not supported")
    value = e.read(i, source)
    if target.index is not None:
        value = e.temporary(value)
        e.write_register(number_of(target), value, "u32")
    if i.has("CLEAR") and isinstance(source, Register) and source.file == "B" and source.index is not None:
        e.write_register(number_of(source), e.constant(0), "u32")


def emit_bsync(e: Emitter, i: MachineInstruction) -> None:
    """``BSYNC``: waiting itself is the scheduler's."""
    if not isinstance(i.operand(0), Register):
        raise i.error("the convergence barrier is not understood")


def emit_warpsync(e: Emitter, i: MachineInstruction) -> None:
    """``WARPSYNC``: waiting itself is the scheduler's; it orders what the warp's lanes do to memory.

    A ``NOP`` is what is left of it where the lanes are known to run together.
    """
    e.acts()
    e.line(f"warp_barrier(C,{e.guard})")


# ---- barriers of the block


def barrier_operands(i: MachineInstruction) -> tuple[int | Register, int | Register | None]:
    """Number of a barrier and the threads it waits for, None for all; a register where they are computed.

    A register that holds the number holds a computed count, too: from bit `COUNT_SHIFT` on, and zero for all threads.
    """
    values = _registers(i)
    number, count = values[0] if values else Immediate(text="0x0", value=0), values[1] if len(values) > 1 else None
    if isinstance(number, Immediate) and number.value is not None and 0 <= number.value < BARRIERS:
        found: int | Register = number.value
    elif isinstance(number, Register) and number.index is not None:
        found = number
    else:
        raise i.error("barrier number must be one from 0 to 15")
    if count is None or (isinstance(count, Register) and count.index is not None):
        return found, count
    if not isinstance(count, Immediate) or count.value is None:
        raise i.error("the thread count of a barrier is not understood")
    return found, count.value


def counts_threads(i: MachineInstruction) -> bool:
    """Whether lanes of a block need not all pass a barrier together: it counts threads, or has a computed number."""
    if i.name != "BAR" or i.never or not i.has("ARV", "SYNC", "RED"):
        return False
    number, count = barrier_operands(i)
    return i.has("ARV") or count is not None or isinstance(number, Register)


def waits_for_block(i: MachineInstruction) -> bool:
    """Whether it is a barrier at which threads wait."""
    return i.name == "BAR" and i.has("SYNC", "RED") and not i.never


def emit_bar(e: Emitter, i: MachineInstruction) -> None:
    """``BAR``: where all lanes run together the barrier is complete here; otherwise the scheduler completes it."""
    e.acts()
    if not i.has("ARV", "SYNC", "RED"):
        raise i.error("the barrier is not supported")
    number, count = barrier_operands(i)
    e.root = True
    shown = e.constant(number) if isinstance(number, int) else f"({e.read(i, number)}&{e.constant(BARRIERS - 1)})"
    threads = "" if count is None else e.constant(count) if isinstance(count, int) else e.read(i, count)
    e.root = False
    if isinstance(number, Register) and isinstance(count, Register):
        threads = f"(({threads}>>{e.constant(COUNT_SHIFT)})&{e.constant(MAX_COUNT)})"
    if i.has("ARV"):
        e.line(f"C.arrive({shown},{threads},{e.guard})")
        return
    if i.has("RED"):
        predicate = next((o for o in reversed(i.operands) if isinstance(o, Register) and o.is_predicate), None)
        text = e.array(np.ones((1, 1), np.bool_)) if predicate is None else e.predicate(i, predicate)
        e.write_register(BARRIER_PREDICATE, text, "bool")
    if e.guard != "None" and not counts_threads(i):
        e.line(f"guarded_barrier(C,{e.index},{e.guard})")
    if not e.masked and isinstance(number, int):
        # a guard is the same for all threads of a block, or the others would wait for ever
        condition = "" if e.guard == "None" else f"if {e.guard}.any(): "
        e.line(f"{condition}block_barrier(C,{number})")


def emit_b2r(e: Emitter, i: MachineInstruction) -> None:
    """``B2R.RESULT``: the result of a reducing barrier."""
    mode = e.reduction
    if not i.has("RESULT") or mode is None:
        raise i.error("no reducing barrier stands before it")
    held = e.barrier_predicate()
    registers = [o for o in i.operands if isinstance(o, Register) and not o.is_predicate]
    predicates = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    if registers and registers[0].index is not None:
        text = f"reduce_block(C,{mode!r},{held})"
        e.write(i, registers[0], text if mode == "popc" else f"{text}.astype(uint32)")
    if predicates and predicates[0].index is not None:
        if mode == "popc":
            raise i.error("a count is no predicate")
        e.write_predicate(i, predicates[0], f"reduce_block(C,{mode!r},{held})")


def reduction_of(i: MachineInstruction) -> str | None:
    """What a barrier reduces its predicates to."""
    if i.name != "BAR" or not i.has("RED"):
        return None
    return next((m.lower() for m in ("POPC", "AND", "OR") if i.has(m)), None)


def emit_trap(e: Emitter, i: MachineInstruction) -> None:
    """``BPT.TRAP`` ends the simulation where a lane reaches it."""
    e.acts()
    e.line(f"trap(C,{e.index},{e.guard})")


def emit_lepc(e: Emitter, i: MachineInstruction) -> None:
    """``LEPC``: an address of the code."""
    value = i.operands[-1] if len(i.operands) > 1 else None
    address = value.value if isinstance(value, Immediate) and value.value is not None else i.address
    e.write_pair(i, i.operand(0), e.constant(address, "u64"))


# ---- ends of basic blocks


def branch_value(e: Emitter, i: MachineInstruction, block: CodeBlock) -> str | None:
    """Expression that a block's last instruction branches on: a predicate, an address in the code, or nothing."""
    if block.transfer is Transfer.NEXT:
        return None
    e.acts()
    e.root = True
    text = _branch_value(e, i, block)
    e.root = False
    return text


def _branch_value(e: Emitter, i: MachineInstruction, block: CodeBlock) -> str | None:
    guard = None if i.guard is None or i.guard.index is None else e.predicate(i, i.guard)
    if block.transfer in (Transfer.RETURN, Transfer.INDIRECT, Transfer.CALL_THROUGH_POINTER):
        address = _address(e, i, block.transfer)
        return address if guard is None else f"where({guard},{address},{e.constant(i.address + INSTRUCTION_BYTES)})"
    if block.transfer is Transfer.CALL_OUTSIDE:
        registers = [o for o in i.operands if isinstance(o, Register)]
        if not registers:
            raise i.error("the function that is called is not in the cubin")
        target = e.pair(i, registers[0])
        first, second = (e.read_pair(FIRST_ARGUMENT + number) for number in (0, 2))
        result = e.temporary(f"call_outside(C,{e.index},{target},{guard},FUNCTIONS,{first},{second})")
        for number, half in enumerate(("lower_half", "upper_half")):
            e.write_register(FIRST_ARGUMENT + number, f"{half}({result})", "u32")
        return None
    if i.has("DIV"):
        members = next((o for o in i.operands if isinstance(o, Register) and o.index is not None), None)
        named = e.constant(2**32 - 1) if members is None else e.read(i, members)
        # a lane whose guard does not hold names other lanes than the first: the warp goes the way of parted lanes then, too
        text = f"parted(C,{named})"
        return text if guard is None else f"(any_of_warp(C,~{guard})|{text})"
    if i.has("CONV"):
        text = f"(~parted(C,{e.constant(2**32 - 1)}))"
        return text if guard is None else f"(~any_of_warp(C,~{guard})&{text})"
    terms = [] if guard is None else [guard]
    for operand in i.operands[:-1]:
        if isinstance(operand, Register) and operand.is_predicate and not is_true(operand):
            if is_false(operand):
                terms.append(e.array(np.zeros((1, 1), np.bool_)))
            else:
                terms.append(e.predicate(i, operand))
    if not terms:
        return None
    text = "&".join(terms)
    if i.has("ANY"):
        return f"any_of_warp(C,{text})"
    # a uniform branch is taken where all lanes of the warp agree; otherwise none takes it
    return f"(~any_of_warp(C,~({text})))" if i.has("U") else f"({text})"


def _address(e: Emitter, i: MachineInstruction, transfer: Transfer) -> str:
    """Where an indirect jump, a return or a call through a pointer goes."""
    registers = [o for o in i.operands if isinstance(o, Register)]
    base = e.read(i, registers[0]) if registers else e.constant(0)
    if transfer is Transfer.RETURN:
        return base
    if transfer is Transfer.CALL_THROUGH_POINTER:
        return f"({base}+{e.constant(i.target or 0)})"
    offset = next((o.value for o in i.operands if isinstance(o, Immediate)), 0) or 0
    start = i.address + INSTRUCTION_BYTES if i.name in ("BRX", "BRXU") else 0
    return f"({base}+{e.constant(start + offset)})"


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "NOP": emit_warpsync,
    "SHFL": emit_shfl,
    "VOTE": emit_vote,
    "VOTEU": emit_vote,
    "MATCH": emit_match,
    "REDUX": emit_redux,
    "CREDUX": emit_redux,
    "ELECT": emit_elect,
    "BSSY": emit_bssy,
    "BSYNC": emit_bsync,
    "BREAK": emit_break,
    "BMOV": emit_bmov,
    "WARPSYNC": emit_warpsync,
    "BAR": emit_bar,
    "B2R": emit_b2r,
    "BPT": emit_trap,
    "LEPC": emit_lepc,
}
