"""Loads, stores, atomics and asynchronous copies of machine code."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from ...ir.instruction import Space
from ...machine_code.instruction import MachineInstruction
from ...machine_code.operands import Address, Operand, Register
from ..access import Action
from ..transfer import UNCOUNTED
from .asynchronous import emit_old_arrival
from .emitter import REDUCTIONS, Emitter
from .moves import following, write_words
from .registers import is_true

_SPACES = {
    "LDG": Space.GLOBAL,
    "STG": Space.GLOBAL,
    "ATOMG": Space.GLOBAL,
    "REDG": Space.GLOBAL,
    "LDS": Space.SHARED,
    "STS": Space.SHARED,
    "ATOMS": Space.SHARED,
    "LDL": Space.LOCAL,
    "STL": Space.LOCAL,
    "LD": Space.GENERIC,
    "ST": Space.GENERIC,
    "ATOM": Space.GENERIC,
    "RED": Space.GLOBAL,
}
"""Before sm_90, ``RED`` names reductions on global memory; nvdisasm prints ``REDG`` since."""
_VECTOR = re.compile(r"(F32|F16|BF16)x([248])(?<!16x2)")
_NARROW = {"U8": (1, "uint8"), "S8": (1, "int8"), "U16": (2, "uint16"), "S16": (2, "int16")}
_OPERATIONS = REDUCTIONS | {"EXCH": "exch", "CAS": "cas", "CAST": "cas"}


def space_of(i: MachineInstruction) -> Space:
    """State space of an access."""
    if i.name == "RED" and not i.has("E"):
        return Space.GENERIC
    return _SPACES[i.name]


def _shape(i: MachineInstruction) -> tuple[int, str, int, str | None]:
    """Bytes, NumPy type and number of the elements, and the name of a narrow type."""
    for name, (width, scalar) in _NARROW.items():
        if i.has(name):
            return width, scalar, 1, name
    return 4, "uint32", 4 if i.has("128") else 2 if i.has("64") else 1, None


def _is_wide(space: Space) -> bool:
    return space in (Space.GLOBAL, Space.GENERIC)


def _sites(e: Emitter, i: MachineInstruction, action: Action, space: Space, width: int) -> str:
    """Site number of an access, or the four of a generic one."""
    if space is Space.GENERIC:
        each = (Space.GLOBAL, Space.SHARED, Space.LOCAL)
        return str((*(e.site(i, action, s, width) for s in each), UNCOUNTED))
    return str(e.site(i, action, space, width))


def _arguments(
    e: Emitter, i: MachineInstruction, operand: Operand, action: Action, space: Space, width: int
) -> tuple[str, str]:
    """Suffix of the function, and its arguments up to the offset."""
    sites = _sites(e, i, action, space, width)
    base, offset = e.address(i, operand, _is_wide(space))
    if space is Space.GENERIC:
        return "_generic", f"C,{sites},{e.index},{base},{offset}"
    return "", f"C,{sites},{e.index},Space.{space.name},{base},{offset}"


def _place(i: MachineInstruction) -> int:
    """Position of the memory operand."""
    return next((k for k, operand in enumerate(i.operands) if isinstance(operand, Address)), -1)


def emit_load(e: Emitter, i: MachineInstruction) -> None:
    """``LDG``, ``LDS``, ``LDL`` and ``LD``."""
    space = space_of(i)
    width, scalar, count, narrow = _shape(i)
    place = _place(i)
    targets = [o for o in i.operands[:place] if isinstance(o, Register) and not o.is_predicate]
    if place < 1 or len(targets) != 1:
        raise i.error("the operands of a load are not understood")
    e.acts()
    e.reads_memory(space)
    suffix, arguments = _arguments(e, i, i.operands[place], Action.LOAD, space, width * count)
    if not e.live_registers(targets[0], count):
        e.line(f"touch{suffix}({arguments},{width * count},{e.guard})")
        return
    loaded = e.temporary(f"load{suffix}({arguments},{scalar},{count},{e.guard})")
    write_words(e, i, targets[0], loaded, count, narrow)
    e.line(f"del {loaded}")


def emit_store(e: Emitter, i: MachineInstruction) -> None:
    """``STG``, ``STS``, ``STL`` and ``ST``."""
    space = space_of(i)
    width, scalar, count, _ = _shape(i)
    place = _place(i)
    e.acts()
    suffix, arguments = _arguments(e, i, i.operands[place], Action.STORE, space, width * count)
    source = next((o for o in i.operands[place + 1 :] if isinstance(o, Register) and not o.is_predicate), None)
    if source is None:
        raise i.error("the operands of a store are not understood")
    values = e.stored(i, [(source, count)], space)
    if not (e.pool.moves(space) or e.stores_slot):
        e.line(f"touch{suffix}({arguments},{width * count},{e.guard})")
        return
    if width < 4:
        values = [f"{value}.astype(uint{8 * width}).view({scalar})" for value in values]
    e.line(f"store{suffix}({arguments},{scalar},({','.join(values)},),{e.guard})")


def _atomic_type(i: MachineInstruction, operation: str) -> tuple[str, str, int]:
    """NumPy type, operation with its kind of packed halves, and registers of a value."""
    for modifier, kind in (("F16x2", "f16x2"), ("BF16x2", "bf16x2"), ("F16", "f16"), ("BF16_V2", "bf16x2")):
        if i.has(modifier):
            return "uint32", f"{operation}.{kind}", 1
    if i.has("F64"):
        return "float64", operation, 2
    if i.has("F32"):
        return "float32", operation, 1
    if i.has("64", "U64", "S64"):
        return ("int64" if i.has("S64") else "uint64"), operation, 2
    return ("int32" if i.has("S32") else "uint32"), operation, 1


def emit_atomic(e: Emitter, i: MachineInstruction) -> None:
    """``ATOMG``, ``ATOMS``, ``ATOM``, ``REDG`` and ``RED``: lanes one after the other in the order block, warp, lane."""
    space = space_of(i)
    place = _place(i)
    counts_lanes = i.has("POPC")
    name = next((part for part in i.parts[1:] if part in _OPERATIONS), None)
    if counts_lanes:
        name = "ADD"
    if i.has("ARRIVE"):
        emit_old_arrival(e, i)
        return
    if name is None:
        raise i.error("the atomic operation is not supported")
    if i.has("128") or any(_VECTOR.fullmatch(part) for part in i.parts):
        _emit_wide_atomic(e, i, _OPERATIONS[name])
        return
    scalar, operation, words = _atomic_type(i, _OPERATIONS[name])
    targets = [o for o in i.operands[:place] if isinstance(o, Register) and not o.is_predicate]
    sources = [o for o in i.operands[place + 1 :] if not (isinstance(o, Register) and o.is_predicate)]
    e.acts()
    e.reads_memory(space)
    suffix, arguments = _arguments(e, i, i.operands[place], Action.REDUCTION, space, 4 * words)
    needed = 2 if operation == "cas" else 1
    if counts_lanes:
        values = [e.array(np.ones((1, 1), np.uint32))]
        e.stored(i, [], space)
    else:
        if len(sources) < needed:
            raise i.error("the operands of an atomic operation are not understood")
        plain = e.stored(i, [(source, words) for source in sources[:needed]], space)
        values = [_value(plain[k * words : (k + 1) * words], scalar) for k in range(needed)]
    succeeds = next((o for o in i.operands[:place] if isinstance(o, Register) and o.is_predicate), None)
    if space is Space.GENERIC and succeeds is not None and succeeds.index is not None:
        # of these, those on shared memory are left to a loop of the program; the predicate says which are done
        base, offset = e.address(i, i.operands[place], True)
        done = e.temporary(f"is_in_space({base}+{e.constant(offset, 'u64')},'global')")
        e.write_predicate(i, succeeds, done)
        e.guard = e.temporary(done if e.guard == "None" else f"{e.guard}&{done}")
    compared = succeeds if i.has("CAST") and space is Space.SHARED else None  # from sm_100 on a predicate says it
    live = (bool(targets) and e.live_registers(targets[0], words)) or (compared is not None and e.live(compared))
    if not e.pool.moves(space) and not live:
        e.line(f"touch{suffix}({arguments},{4 * words},{e.guard})")
        return
    values = [e.temporary(value) for value in values]
    returns = live
    call = f"atomic{suffix}({arguments},{operation!r},{scalar},({','.join(values)},),{returns},{e.guard})"
    if not live:
        e.line(call)
        return
    before = e.temporary(call)
    if compared is not None:
        e.write_predicate(i, compared, f"({before}=={values[0]})")
    elif i.has("CAST") and words == 2:
        e.write_pair(i, targets[0], f"succeeded({before},{values[0]}).astype(uint64)")
    elif i.has("CAST"):
        e.write(i, targets[0], f"succeeded({before},{values[0]})")
    elif words == 2:
        e.write_pair(i, targets[0], f"{before}.view(uint64)")
    else:
        e.write(i, targets[0], f"{before}.view(uint32)")


def _emit_wide_atomic(e: Emitter, i: MachineInstruction, operation: str) -> None:
    """Atomics of 16 bytes, and on vectors, whose elements are atomic each on its own."""
    space, place = space_of(i), _place(i)
    vector = next((m for m in map(_VECTOR.fullmatch, i.parts) if m), None)
    words = 4 if vector is None else int(vector[2]) // (1 if vector[1] == "F32" else 2)
    targets = [o for o in i.operands[:place] if isinstance(o, Register) and not o.is_predicate]
    sources = [o for o in i.operands[place + 1 :] if not (isinstance(o, Register) and o.is_predicate)]
    needed = 2 if operation == "cas" else 1
    if len(sources) < needed or (vector is None and operation not in ("cas", "exch")):
        raise i.error("the atomic operation is not supported")
    e.acts()
    e.reads_memory(space)
    suffix, arguments = _arguments(e, i, i.operands[place], Action.REDUCTION, space, 4 * words)
    values = e.stored(i, [(source, words) for source in sources[:needed]], space)
    live = bool(targets) and e.live_registers(targets[0], words)
    e.line(f"touch{suffix}({arguments},{4 * words},{e.guard})")
    if not e.pool.moves(space) and not live:
        return
    base, offset = e.address(i, i.operands[place], _is_wide(space))
    if vector is None:
        call = f"exchange_wide(C,{e.index},Space.{space.name},{base},{offset},({','.join(values)},),{e.guard})"
        before = e.temporary(call)
        found = [f"{before}[{k}]" for k in range(words)] if live else []
    else:
        scalar = "float32" if vector[1] == "F32" else "uint32"
        kind = operation if vector[1] == "F32" else f"{operation}.{vector[1].lower()}x2"
        uncounted = str((UNCOUNTED,) * 4) if space is Space.GENERIC else f"{UNCOUNTED}"
        found = []
        for k, value in enumerate(values):
            at = f"C,{uncounted},{e.index}" + ("" if space is Space.GENERIC else f",Space.{space.name}")
            operand = f"({value}).view({scalar})"
            call = f"atomic{suffix}({at},{base},{offset + 4 * k},{kind!r},{scalar},({operand},),{live},{e.guard})"
            if live:
                found.append(f"{e.temporary(call)}.view(uint32)")
            else:
                e.line(call)
    for k, text in enumerate(found):
        e.write(i, following(targets[0], k), text)


def emit_space_query(e: Emitter, i: MachineInstruction) -> None:
    """``QSPC``: whether a generic address leads to shared memory of the block (``.S``), of its cluster (``.D``) or elsewhere."""
    place = _place(i)
    base, offset = e.address(i, i.operands[place], True)
    name = next((part for part in i.parts if part in ("S", "D", "L", "G", "C")), None)
    if name is None:
        raise i.error("the space that is asked for is not known")
    e.write_predicate(i, i.operand(0), f"leads_to(C,{base}+{e.constant(offset, 'u64')},{name!r})")


def _value(words: list[str], scalar: str) -> str:
    text = f"join_halves({words[0]},{words[1]})" if len(words) == 2 else words[0]
    return text if scalar in ("uint32", "uint64") else f"({text}).view({scalar})"


def emit_copy(e: Emitter, i: MachineInstruction) -> None:
    """``LDGSTS``: copies that count as done at once, which is one of the orders that waiting allows.

    The bytes are zero, and nothing is read, where the predicate at the end does not hold. With ``.ZFILL`` the low bits of the
    source address say how many bytes at the end are zero instead of read.
    """
    size = 16 if i.has("128") else 8 if i.has("64") else 4
    addresses = [o for o in i.operands if isinstance(o, Address)]
    if len(addresses) != 2:
        raise i.error("the operands of a copy are not understood")
    e.acts()
    reads = e.site(i, Action.ASYNC_COPY, Space.GLOBAL, size)
    writes = e.site(i, Action.ASYNC_COPY, Space.SHARED, size)
    target, target_offset = e.address(i, addresses[0], False)
    source, source_offset = e.address(i, addresses[1], True)
    predicates = [o for o in i.operands if isinstance(o, Register) and o.is_predicate]
    source_size = "None"
    if i.has("ZFILL"):
        place = e.temporary(f"{source}+{e.constant(source_offset, 'u64')}")
        source, source_offset = e.temporary(f"{place}&{e.constant(-size, 'u64')}"), 0
        source_size = e.temporary(f"{e.constant(size)}-({place}&{e.constant(size - 1, 'u64')}).astype(uint32)")
    if predicates and not is_true(predicates[-1]):
        holds = e.root_predicate(i, predicates[-1])
        whole = e.constant(size) if source_size == "None" else source_size
        source_size = f"where({holds},{whole},{e.constant(0)})"
    e.note_copy()
    moves = e.pool.moves(Space.SHARED)
    e.line(
        f"copy_async(C,{reads},{writes},{e.index},{target},{target_offset},{source},{source_offset},"
        f"{size},{source_size},{e.guard},{moves})"
    )


def emit_matrix_load(e: Emitter, i: MachineInstruction) -> None:
    """``LDSM``: 8 x 8 matrices of 16-bit elements; eight lanes for each give the addresses of its rows."""
    count = _matrices(i)
    target = i.operand(0)
    if not isinstance(target, Register):
        raise i.error("the operands of a load are not understood")
    e.acts()
    e.reads_memory(Space.SHARED)
    base, offset = e.address(i, i.operands[_place(i)], False)
    site = e.site(i, Action.LOAD, Space.SHARED, 16)
    lanes = e.temporary(_first_lanes(e, 8 * count))
    arguments = f"C,{site},{e.index},Space.SHARED,{base},{offset}"
    if not e.live_registers(target, count):
        e.line(f"touch({arguments},16,{lanes})")
        return
    loaded = e.temporary(f"load({arguments},uint32,4,{lanes})")
    spread = e.temporary(f"matrix_fragments(C,{loaded},{count},{i.has('MT88')})")
    for k in range(count):
        e.write(i, following(target, k), f"{spread}[{k}]")
    e.line(f"del {loaded},{spread}")


def emit_matrix_store(e: Emitter, i: MachineInstruction) -> None:
    """``STSM``: 8 x 8 matrices of 16-bit elements; eight lanes for each give the addresses of its rows."""
    count = _matrices(i)
    place = _place(i)
    source = i.operand(place + 1)
    e.acts()
    base, offset = e.address(i, i.operands[place], False)
    site = e.site(i, Action.STORE, Space.SHARED, 16)
    lanes = e.temporary(_first_lanes(e, 8 * count))
    values = e.stored(i, [(source, count)], Space.SHARED)
    arguments = f"C,{site},{e.index},Space.SHARED,{base},{offset}"
    if not e.pool.moves(Space.SHARED):
        e.line(f"touch({arguments},16,{lanes})")
        return
    spread = e.temporary(f"matrix_rows(C,({','.join(values)},),{i.has('MT88')})")
    e.line(f"store({arguments},uint32,{spread},{lanes})")


def emit_matrix_move(e: Emitter, i: MachineInstruction) -> None:
    """``MOVM``: an 8 x 8 matrix of 16-bit elements transposed within a warp."""
    if not i.has("MT88") or not i.has("16"):
        raise i.error("only 8 x 8 matrices of 16-bit elements are transposed")
    e.write(i, i.operand(0), f"transposed_matrix(C,{e.read(i, i.operand(1))})")


def _matrices(i: MachineInstruction) -> int:
    """How many matrices an instruction moves."""
    if not i.has("M88", "MT88"):
        raise i.error("only 8 x 8 matrices of 16-bit elements are loaded and stored")
    return int(i.parts[-1]) if i.parts[-1] in ("2", "4") else 1


def _first_lanes(e: Emitter, count: int) -> str:
    """The lanes whose addresses are those of rows, under the guard."""
    return f"C.special['%laneid']<{e.constant(count)}" + ("" if e.guard == "None" else f"&{e.guard}")


EMITTERS: dict[str, Callable[[Emitter, MachineInstruction], None]] = {
    **dict.fromkeys(("LDG", "LDS", "LDL", "LD"), emit_load),
    **dict.fromkeys(("STG", "STS", "STL", "ST"), emit_store),
    **dict.fromkeys(("ATOMG", "ATOMS", "ATOM", "REDG", "RED"), emit_atomic),
    "LDGSTS": emit_copy,
    "LDSM": emit_matrix_load,
    "STSM": emit_matrix_store,
    "MOVM": emit_matrix_move,
    "QSPC": emit_space_query,
}
