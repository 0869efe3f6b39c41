"""Loads, stores, atomics and asynchronous copies (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

import numpy as np

from ...ir.instruction import Instruction, Space
from ...ir.types import VALUE_TYPES, ScalarType, width_bytes
from ...ptx.operands import integer, parse_address, vector
from ..access import Action
from ..transfer import UNCOUNTED
from .basic import value_type
from .emitter import Emitter

_SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "local": Space.LOCAL,
    "const": Space.CONSTANT,
    "param": Space.PARAMETER,
    "param::entry": Space.PARAMETER,
}
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}
_ATOMIC = frozenset({"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"})


def space_of(instruction: Instruction) -> Space:
    """State space of an access; generic where none is given."""
    parts = instruction.opcode.replace("::", ":;").split(".")
    for part in parts:
        name = part.replace(":;", "::")
        if name in _SPACES:
            return _SPACES[name]
    if "shared::cluster" in instruction.opcode:
        raise instruction.error("cluster shared memory is not supported")
    return Space.GENERIC


def _shape(i: Instruction) -> tuple[ScalarType, int]:
    """Element type and number of elements of a load or store."""
    scalar_type = value_type(i)
    if scalar_type is np.bool_:
        raise i.error("predicates are not in memory")
    return scalar_type, next((count for part, count in _VECTORS.items() if part in i.parts), 1)


def _sites(e: Emitter, i: Instruction, action: Action, space: Space, width: int) -> str:
    """Site number of an access, or the three of a generic one."""
    index = e.instruction_index
    if space is Space.GENERIC:
        each = (Space.GLOBAL, Space.SHARED, Space.LOCAL)
        return str((*(e.pool.site(index, i, action, s, width) for s in each), UNCOUNTED))
    if space is Space.PARAMETER:
        return str(UNCOUNTED)
    if space is Space.CONSTANT and not e.is_register(parse_address(i, 1).base):
        return str(UNCOUNTED)
    return str(e.pool.site(index, i, action, space, width))


def _arguments(e: Emitter, i: Instruction, position: int, sites: str, space: Space) -> tuple[str, str]:
    """Suffix of the function, and its arguments up to the offset."""
    base, offset = e.address(i, position)
    if space is Space.GENERIC:
        return "_generic", f"C,{sites},{e.instruction_index},{base},{offset}"
    return "", f"C,{sites},{e.instruction_index},Space.{space.name},{base},{offset}"


def emit_ld(e: Emitter, i: Instruction) -> None:
    """``ld`` and ``ldu``."""
    space = space_of(i)
    scalar_type, count = _shape(i)
    targets = vector(i.operand(0))
    if len(targets) != count:
        raise i.error(f"needs {count} destinations")
    sites = _sites(e, i, Action.LOAD, space, width_bytes(scalar_type) * count)
    suffix, arguments = _arguments(e, i, 1, sites, space)
    if not e.wanted(targets):
        if sites != str(UNCOUNTED):
            e.line(f"touch{suffix}({arguments},{width_bytes(scalar_type) * count},{e.guard})")
        return
    loaded = e.temporary(f"load{suffix}({arguments},{scalar_type.__name__},{count},{e.guard})")
    for position, target in enumerate(targets):
        e.write(i, target, f"{loaded}[{position}]", scalar_type)


def emit_st(e: Emitter, i: Instruction) -> None:
    """``st``."""
    space = space_of(i)
    if space in (Space.CONSTANT, Space.PARAMETER):
        raise i.error("the space cannot be written")
    scalar_type, count = _shape(i)
    sources = vector(i.operand(1))
    if len(sources) != count:
        raise i.error(f"needs {count} values")
    sites = _sites(e, i, Action.STORE, space, width_bytes(scalar_type) * count)
    suffix, arguments = _arguments(e, i, 0, sites, space)
    if not e.pool.moves(space):
        e.line(f"touch{suffix}({arguments},{width_bytes(scalar_type) * count},{e.guard})")
        return
    values = ",".join(e.read(i, source, scalar_type) for source in sources)
    e.line(f"store{suffix}({arguments},{scalar_type.__name__},({values},),{e.guard})")


def emit_atom(e: Emitter, i: Instruction) -> None:
    """``atom`` and ``red``: lanes one after the other in the order block, warp, lane."""
    space = space_of(i)
    operation = next((part for part in i.parts[1:] if part in _ATOMIC), None)
    kind = i.parts[-1]
    if operation is None or kind not in VALUE_TYPES or space in (Space.CONSTANT, Space.PARAMETER, Space.LOCAL):
        raise i.error("atomic operation is not supported")
    if any(part in _VECTORS for part in i.parts):
        raise i.error("vector atomics are not supported")
    scalar_type = VALUE_TYPES[kind]
    if kind in ("f16", "bf16", "f16x2", "bf16x2"):
        scalar_type = np.uint16 if kind in ("f16", "bf16") else np.uint32
        operation = f"{operation}.{kind}"
    returns = i.name == "atom"
    first = 1 if returns else 0
    sites = _sites(e, i, Action.REDUCTION, space, width_bytes(scalar_type))
    suffix, arguments = _arguments(e, i, first, sites, space)
    if not e.pool.moves(space) and not (returns and e.wanted((i.operand(0),))):
        e.line(f"touch{suffix}({arguments},{width_bytes(scalar_type)},{e.guard})")
        return
    count = 2 if operation == "cas" else 1
    values = ",".join(e.read(i, i.operand(first + 1 + k), scalar_type) for k in range(count))
    call = f"atomic{suffix}({arguments},{operation!r},{scalar_type.__name__},({values},),{returns},{e.guard})"
    if returns:
        e.write(i, i.operand(0), call, scalar_type)
    else:
        e.line(call)


def emit_cp(e: Emitter, i: Instruction) -> None:
    """``cp.async``: copies that count as done at once, which is one of the orders that waiting allows."""
    parts = i.parts
    if parts[1:2] != ["async"] or "bulk" in parts or "mbarrier" in parts:
        raise i.error("bulk copies and mbarriers are not executed")
    if parts[2:3] and parts[2] in ("commit_group", "wait_group", "wait_all"):
        return
    size = integer(i.operand(2))
    if size not in (4, 8, 16):
        raise i.error("copies 4, 8 or 16 bytes")
    source_size = "None"
    if len(i.operands) > 3:
        text = i.operand(3)
        if e.is_register(text) and e.type_of(text) is np.bool_:
            raise i.error("ignore-source is not supported")
        source_size = e.read(i, text, np.uint32)
    index = e.instruction_index
    reads = e.pool.site(index, i, Action.ASYNC_COPY, Space.GLOBAL, size)
    writes = e.pool.site(index, i, Action.ASYNC_COPY, Space.SHARED, size)
    (target, target_offset), (source, source_offset) = e.address(i, 0), e.address(i, 1)
    moves = e.pool.moves(Space.SHARED)
    e.line(
        f"copy_async(C,{reads},{writes},{index},{target},{target_offset},{source},{source_offset},"
        f"{size},{source_size},{e.guard},{moves})"
    )


EMITTERS = {
    **dict.fromkeys(("ld", "ldu"), emit_ld),
    "st": emit_st,
    **dict.fromkeys(("atom", "red"), emit_atom),
    "cp": emit_cp,
}
