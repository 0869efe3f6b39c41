"""Instructions that copy in the background and those that wait for copies: ``mbarrier``, bulk copies, TMA, clusters."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ...core.constants import SECTOR_BYTES
from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Operand, Register, Word
from ..access import Action
from ..transfer import UNCOUNTED
from .emitter import REDUCTIONS, Emitter
from .mbarrier import rereads_objects
from .moves import emit_nothing, following
from .registers import RETURN_PLACE

_HALVES = {"Rpc.LO": RETURN_PLACE, "Rpc.HI": RETURN_PLACE + 1}
_ARRIVAL = re.compile(r"A([01R])T([0RX1])")
_TYPES = {
    "F32": "float32",
    "F64": "float64",
    "F16": "float16",
    "S32": "int32",
    "U32": "uint32",
    "S64": "int64",
    "U64": "uint64",
    "64": "uint64",
}


def waits_for_phase(i: MachineInstruction) -> bool:
    """Whether lanes wait before it until the phase of an ``mbarrier`` is over (``mbarrier.try_wait``).

    The hardware tries for some time and then lets the program try again; here it tries until the phase is over.
    """
    return i.name == "SYNCS" and i.has("PHASECHK") and i.has("TRYWAIT") and not i.never


def _memory_operands(i: MachineInstruction) -> list[Address]:
    return [o for o in i.operands if isinstance(o, Address)]


def _last(i: MachineInstruction) -> Operand:
    return i.operands[-1]


def _root(e: Emitter, i: MachineInstruction, operand: Operand) -> str:
    """A value that decides what is done to memory."""
    e.root = True
    text = e.read(i, operand)
    e.root = False
    return text


def _uniform(i: MachineInstruction, operand: Address) -> Register:
    """The first of the uniform registers that describe a bulk copy."""
    if operand.uniform is None or operand.offset or operand.base is not None:
        raise i.error("the operands of a bulk copy are not understood")
    return operand.uniform


def _place(e: Emitter, i: MachineInstruction) -> str:
    """Index, address and offset of an ``mbarrier``."""
    found = _memory_operands(i)
    if not found:
        raise i.error("the operands of an mbarrier are not understood")
    base, offset = e.address(i, found[0], False)
    return f"C,{e.index},{base},{offset}"


def emit_syncs(e: Emitter, i: MachineInstruction) -> None:
    """``SYNCS``: what is done to an ``mbarrier``."""
    if i.has("PHASECHK"):
        e.acts()
        token = _root(e, i, _last(i))
        e.write_predicate(i, i.operand(0), f"try_phase({_place(e, i)},{token},{e.guard})")
        return
    e.acts()
    if i.has("CCTL"):
        if _memory_operands(i):
            e.line(f"exchange_barrier({_place(e, i)},{e.constant(0, 'u64')},{e.guard})")
        elif rereads_objects(i):
            e.reads_memory(Space.SHARED)
        return
    if i.has("EXCH"):
        e.root = True
        value = e.pair(i, _last(i))
        e.root = False
        before = e.temporary(f"exchange_barrier({_place(e, i)},{value},{e.guard})")
        e.write_pair(i, i.operand(0), before)
        return
    if not i.has("ARRIVE"):
        raise i.error("this operation on an mbarrier is not executed")
    _emit_arrival(e, i)


def _emit_arrival(e: Emitter, i: MachineInstruction) -> None:
    match = next((m for m in map(_ARRIVAL.fullmatch, i.parts) if m), None)
    arrivals, owed = ("1", "R") if match is None else (match[1], match[2])
    value = _root(e, i, _last(i))
    count = value if arrivals == "R" else e.constant(int(arrivals))
    debt = {"R": value, "X": f"({e.constant(0)}-{value})"}.get(owed) or e.constant(int(owed))
    drops = i.has("OPTOUT")
    if i.has("TMASK"):
        call = f"arrive_together({_place(e, i)},{count},{drops},{e.guard})"
    else:
        call = f"arrive_barrier({_place(e, i)},{count},{debt},{drops},{e.guard})"
    target = i.operand(0)
    if i.has("RED") or not isinstance(target, Register) or target.index is None:
        e.line(call)
        return
    found = e.temporary(call)
    e.write(i, target, f"{found}[0]")
    e.write(i, following(target, 1), f"{found}[1]")


def emit_arrives(e: Emitter, i: MachineInstruction) -> None:
    """``ARRIVES.LDGSTSBAR``: an arrival when the lane's asynchronous copies are done, which they are at once."""
    if not i.has("LDGSTSBAR"):
        raise i.error("this arrival is not executed")
    e.acts()
    if i.has("TRANSCNT"):
        e.line(f"arrive_barrier({_place(e, i)},{e.constant(0)},{e.constant(-1)},False,{e.guard})")
    elif i.has("ARVCNT"):
        e.line(f"arrive_barrier({_place(e, i)},{e.constant(1)},{e.constant(0)},False,{e.guard})")
    else:
        place = _place(e, i)
        e.writes_memory(Space.SHARED)
        if e.pool.moves(Space.SHARED):
            e.line(f"arrive_in_shared({place},{e.guard})")


def emit_old_arrival(e: Emitter, i: MachineInstruction) -> None:
    """``ATOMS.ARRIVE.64``: an arrival at an ``mbarrier`` in shared memory, before sm_90."""
    e.acts()
    e.reads_memory(Space.SHARED)
    e.writes_memory(Space.SHARED)
    site = e.site(i, Action.REDUCTION, Space.SHARED, 8)
    base, offset = e.address(i, _memory_operands(i)[0], False)
    e.line(f"touch(C,{site},{e.index},Space.SHARED,{base},{offset},8,{e.guard})")
    target = i.operand(0)
    if not e.pool.moves(Space.SHARED) and not e.live_registers(target, 2):
        return
    found = e.temporary(f"arrive_in_shared(C,{e.index},{base},{offset},{e.guard})")
    if isinstance(target, Register) and target.index is not None:
        e.write(i, target, f"{found}[0]")
        e.write(i, following(target, 1), f"{found}[1]")


# ---- bulk copies


def _bulk_site(e: Emitter, i: MachineInstruction, reads: bool) -> int:
    return e.site(i, Action.BULK_READ if reads else Action.BULK_WRITE, Space.GLOBAL, SECTOR_BYTES)


def emit_bulk(e: Emitter, i: MachineInstruction) -> None:
    """``UBLKCP``, ``UBLKRED`` and ``UBLKPF``: contiguous bytes, in pieces of 16."""
    e.acts()
    found = _memory_operands(i)
    if i.name == "UBLKPF":
        return
    direction = i.bulk_direction
    if direction is None or len(found) != 2 or i.has("MULTICAST"):
        raise i.error("this bulk copy is not executed")
    to, by = (_uniform(i, operand) for operand in found)
    e.root = True
    target = e.read(i, to) if direction[0] == "S" else e.pair(i, to)
    source = e.read(i, by) if direction[2] == "S" else e.pair(i, by)
    pieces = e.read(i, i.operands[2])
    barrier = e.read(i, following(to, 1)) if direction[0] == "S" else "None"
    e.root = False
    if direction == "S.S":
        e.reads_memory(Space.SHARED)
        e.writes_memory(Space.SHARED)
        moves = e.pool.moves(Space.SHARED)
    else:
        reads, writes = (Space.GLOBAL, Space.SHARED) if direction == "S.G" else (Space.SHARED, Space.GLOBAL)
        e.reads_memory(reads)
        e.writes_memory(writes)
        moves = e.pool.moves(writes)
    reduction = "None"
    if i.name == "UBLKRED":
        operation = next((name for part, name in REDUCTIONS.items() if i.has(part)), None)
        kind = next((name for part, name in _TYPES.items() if i.has(part)), "uint32")
        if operation is None or i.has("BF16"):
            raise i.error("this reduction of a bulk copy is not executed")
        reduction = f"({operation!r},{kind})"
    site = _bulk_site(e, i, direction == "S.G")
    e.line(
        f"bulk_copy(C,{site},{e.index},{direction!r},{target},{source},{pieces},{barrier},{reduction},{e.guard},{moves})"
    )


def emit_tensor(e: Emitter, i: MachineInstruction) -> None:
    """``UTMALDG``, ``UTMASTG``, ``UTMAREDG`` and ``UTMAPF``: a box of a tensor."""
    e.acts()
    rank = next((int(part[0]) for part in i.parts if re.fullmatch(r"[1-5]D", part)), 0)
    found = _memory_operands(i)
    if not rank or len(found) != 2 or i.has("IM2COL", "GATHER4", "SCATTER4", "W", "W128") or i.has("TWO_CTA", "2CTA"):
        raise i.error("only boxes of tiled tensors are copied: no im2col, gather or scatter")
    first, tensor = (_uniform(i, operand) for operand in found)
    action = {"UTMALDG": "load", "UTMAPF": "prefetch"}.get(i.name, "store")
    before = {"load": 2, "store": 1, "prefetch": 0}[action]
    e.root = True
    address = e.pair(i, tensor)
    shared = e.read(i, first) if before else "None"
    barrier = e.read(i, following(first, 1)) if before == 2 else "None"
    coordinates = ",".join(e.read(i, following(first, before + k)) for k in range(rank))
    # the upper half names the blocks of the cluster
    multicast = f"({e.read(i, i.operands[2])}>>{e.constant(16)})" if i.has("MULTICAST") else "None"
    e.root = False
    moves = False
    if action != "prefetch":
        reads, writes = (Space.GLOBAL, Space.SHARED) if action == "load" else (Space.SHARED, Space.GLOBAL)
        e.reads_memory(reads)
        e.writes_memory(writes)
        moves = e.pool.moves(writes)
    reduction = None
    if i.name == "UTMAREDG":
        reduction = next((name for part, name in REDUCTIONS.items() if i.has(part)), None)
        if reduction is None:
            raise i.error("this reduction of a bulk copy is not executed")
    site = _bulk_site(e, i, action != "store")
    e.line(
        f"tensor_copy(C,{site},{e.index},{action!r},{address},{shared},({coordinates},),{barrier},{multicast},"
        f"{reduction!r},{e.guard},{moves})"
    )


def emit_remote_store(e: Emitter, i: MachineInstruction) -> None:
    """``STAS``: a store to shared memory of the cluster that reports its bytes to an ``mbarrier`` there (``st.async``)."""
    e.acts()
    place = next((k for k, o in enumerate(i.operands) if isinstance(o, Address)), 0)
    address = i.operands[place]
    if not isinstance(address, Address) or address.base is None or address.offset:
        raise i.error("the operands of an asynchronous store are not understood")
    words = 4 if i.has("128") else 2 if i.has("64") else 1
    e.root = True
    barrier = e.read(i, following(address.base, 1))
    base = f"{e.read(i, address.base)}.astype(uint64)"
    e.root = False
    values = e.stored(i, [(i.operands[place + 1], words)], Space.SHARED)
    base = e.temporary(base)
    arguments = f"C,{UNCOUNTED},{e.index},Space.SHARED,{base},0"
    if e.pool.moves(Space.SHARED):
        e.line(f"store({arguments},uint32,({','.join(values)},),{e.guard})")
    else:
        e.line(f"touch({arguments},{4 * words},{e.guard})")
    e.line(
        f"arrive_barrier(C,{e.index},{barrier}.astype(uint64),0,{e.constant(0)},{e.constant(-4 * words)},False,{e.guard})"
    )


def emit_register_limit(e: Emitter, i: MachineInstruction) -> None:
    """``USETMAXREG``: registers are there at once."""
    predicate = i.operand(0)
    if isinstance(predicate, Register) and predicate.is_predicate:
        e.write_predicate(i, predicate, e.array(np.ones((1, 1), np.bool_)))


def emit_return_place(e: Emitter, i: MachineInstruction) -> None:
    """``RPCMOV``: a half of the register that holds a return address, used as one more register."""
    target, source = i.operand(0), i.operand(1)
    value = e.read_register(_HALVES[source.text], "u32") if isinstance(source, Word) else e.read(i, source)
    if isinstance(target, Word):
        e.write_register(_HALVES[target.text], value, "u32")
    else:
        e.write(i, target, value)


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    "SYNCS": emit_syncs,
    "ARRIVES": emit_arrives,
    **dict.fromkeys(("UBLKCP", "UBLKRED", "UBLKPF"), emit_bulk),
    **dict.fromkeys(("UTMALDG", "UTMASTG", "UTMAREDG", "UTMAPF"), emit_tensor),
    "STAS": emit_remote_store,
    "USETMAXREG": emit_register_limit,
    "RPCMOV": emit_return_place,
    "WARPGROUP": emit_nothing,
    "UTMACMDFLUSH": emit_nothing,
    "UTMACCTL": emit_nothing,
}
