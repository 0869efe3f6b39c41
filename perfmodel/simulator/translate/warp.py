"""Exchanges within a warp, barriers, and what ends a basic block (PTX ISA 9.7.9.5, 9.7.12, 9.7.13)."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import Instruction, Space
from ...ir.types import VALUE_TYPES, width_bytes
from ...ptx.operands import integer, names
from ..access import Action
from .basic import value_type
from .emitter import Emitter

_SHUFFLES = ("up", "down", "bfly", "idx")


def _site(e: Emitter, i: Instruction, action: Action) -> int:
    return e.pool.site(e.instruction_index, i, action, Space.GENERIC, 4)


def _only_counted(e: Emitter, i: Instruction, action: Action) -> bool:
    """Count an exchange whose result the mode does not compute; whether it is one."""
    if e.wanted(names(i.operand(0))):
        return False
    e.line(f"exchange(C,{_site(e, i, action)},{e.guard})")
    return True


def emit_shfl(e: Emitter, i: Instruction) -> None:
    """``shfl``: values of other lanes of the warp."""
    parts = i.parts
    synchronised = "sync" in parts
    mode = parts[2 if synchronised else 1] if len(parts) > 2 else ""
    if mode not in _SHUFFLES:
        raise i.error(f"mode .{mode} is not supported")
    if _only_counted(e, i, Action.SHUFFLE):
        return
    target, _, predicate = i.operand(0).partition("|")
    a, b, c = (e.read(i, i.operand(k), np.uint32) for k in (1, 2, 3))
    mask = e.read(i, i.operand(4), np.uint32) if synchronised else "None"
    site = _site(e, i, Action.SHUFFLE)
    call = f"shuffle(C,{site},{e.instruction_index},{mode!r},{a},{b},{c},{mask},{e.guard})"
    result = e.temporary(call)
    e.write(i, target, f"{result}[0]", np.uint32)
    if predicate:
        e.write(i, predicate, f"{result}[1]", np.bool_)


def emit_vote(e: Emitter, i: Instruction) -> None:
    """``vote``: predicates of the warp's lanes joined."""
    parts = i.parts
    mode = parts[2 if "sync" in parts else 1] if len(parts) > 2 else ""
    if mode not in ("all", "any", "uni", "ballot"):
        raise i.error(f"mode .{mode} is not supported")
    if _only_counted(e, i, Action.VOTE):
        return
    mask = e.read(i, i.operand(2), np.uint32) if "sync" in parts else "None"
    call = f"vote(C,{_site(e, i, Action.VOTE)},{mode!r},{e.predicate(i, i.operand(1))},{mask},{e.guard})"
    e.write(i, i.operand(0), call, np.uint32 if mode == "ballot" else np.bool_)


def emit_match(e: Emitter, i: Instruction) -> None:
    """``match``: which lanes hold the same value."""
    parts = i.parts
    scalar_type = value_type(i)
    if "sync" not in parts or not {"any", "all"} & set(parts) or width_bytes(scalar_type) < 4:
        raise i.error("needs .sync and .any or .all on 32 or 64 bits")
    mode = "any" if "any" in parts else "all"
    if _only_counted(e, i, Action.VOTE):
        return
    target, _, predicate = i.operand(0).partition("|")
    value, mask = e.read(i, i.operand(1), scalar_type), e.read(i, i.operand(2), np.uint32)
    result = e.temporary(f"match(C,{_site(e, i, Action.VOTE)},{mode!r},{value},{mask},{e.guard})")
    e.write(i, target, f"{result}[0]", np.uint32)
    if predicate:
        e.write(i, predicate, f"{result}[1]", np.bool_)


def emit_redux(e: Emitter, i: Instruction) -> None:
    """``redux``: one value reduced over the warp."""
    parts = i.parts
    operation = next((part for part in parts if part in ("add", "min", "max", "and", "or", "xor")), None)
    if "sync" not in parts or operation is None or parts[-1] not in VALUE_TYPES:
        raise i.error("reduction is not supported")
    scalar_type = VALUE_TYPES[parts[-1]]
    if parts[-1] not in ("u32", "s32", "b32"):
        raise i.error("reduction is not supported")
    if _only_counted(e, i, Action.VOTE):
        return
    value, mask = e.read(i, i.operand(1), scalar_type), e.read(i, i.operand(2), np.uint32)
    call = f"reduce_warp(C,{_site(e, i, Action.VOTE)},{operation!r},{value},{mask},{e.guard})"
    e.write(i, i.operand(0), call, scalar_type)


def emit_activemask(e: Emitter, i: Instruction) -> None:
    """``activemask``: the lanes that run together here."""
    e.write(i, i.operand(0), "active_mask(C)", np.uint32)


def emit_barrier(e: Emitter, i: Instruction) -> None:
    """``bar`` and ``barrier``; waiting itself is the scheduler's."""
    parts = i.parts
    if "cluster" in parts:
        raise i.error("cluster barriers are not executed")
    if i.guard and "arrive" not in parts:
        raise i.error("guarded barriers are not supported")
    if "warp" in parts:
        e.line(f"warp_barrier(C,{e.guard})")
    elif "red" in parts:
        _emit_barrier_reduction(e, i)
    elif "arrive" in parts:
        barrier_identifier(i)
        e.line(f"C.arrive({e.read(i, i.operand(0), np.uint32)},{e.read(i, i.operand(1), np.uint32)},{e.guard})")
    elif "sync" in parts:
        _complete(e, i)
    else:
        raise i.error("barrier is not supported")


def _complete(e: Emitter, i: Instruction) -> None:
    """Where all lanes run together the barrier is complete here; otherwise the scheduler completes it."""
    if not e.masked:
        e.line(f"block_barrier(C,{barrier_identifier(i)})")


def _emit_barrier_reduction(e: Emitter, i: Instruction) -> None:
    parts = i.parts
    mode = next((part for part in parts if part in ("popc", "and", "or")), None)
    if mode is None:
        raise i.error("reduction is not supported")
    predicate = e.predicate(i, i.operand(len(i.operands) - 1))
    _complete(e, i)
    e.write(i, i.operand(0), f"reduce_block(C,{mode!r},{predicate})", np.uint32 if mode == "popc" else np.bool_)


def emit_trap(e: Emitter, i: Instruction) -> None:
    """``trap`` and ``brkpt`` end the simulation where a lane reaches them."""
    e.line(f"trap(C,{e.instruction_index},{e.guard})")


def branch_value(e: Emitter, i: Instruction) -> str | None:
    """Expression that the block's last instruction branches on: predicate, index of a jump table, or nothing."""
    if i.name == "brx":
        if i.guard:
            raise i.error("guarded jump tables are not supported")
        return e.read(i, i.operand(0), np.uint32)
    if not i.guard:
        return None
    value = e.predicate(i, i.guard)
    return f"~{value}" if i.negated else value


def barrier_identifier(i: Instruction) -> int:
    """Number of a barrier, which must be a literal."""
    position = 1 if "red" in i.parts else 0
    value = integer(i.operand(position))
    if value is None or not 0 <= value < 16:
        raise i.error("barrier number must be a literal from 0 to 15")
    return value


EMITTERS = {
    "shfl": emit_shfl,
    "vote": emit_vote,
    "match": emit_match,
    "redux": emit_redux,
    "activemask": emit_activemask,
    **dict.fromkeys(("bar", "barrier"), emit_barrier),
    "brkpt": emit_trap,
}
