"""The variables of a whole module: what a driver places in memory when it loads a cubin."""

from __future__ import annotations

import io
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from .cubin import ModuleVariable, variables_of

_USERS_BANK = 3
"""The constant bank of ``__constant__`` variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """Eight bytes of a variable that hold the address of another one, plus ``addend``."""

    variable: str
    offset: int
    symbol: str
    addend: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleVariables:
    """Variables that all kernels of a module share, and the pointers among their initial contents."""

    variables: tuple[ModuleVariable, ...]
    pointers: tuple[Pointer, ...]


def module_variables(cubin: bytes) -> ModuleVariables:
    """What a cubin declares in global memory and in the constant bank of the user's constants."""
    elf = ELFFile(io.BytesIO(cubin))
    variables = variables_of(elf, "")
    symbols = elf.get_section_by_name(".symtab")
    pointers = []
    for section in elf.iter_sections():
        target = section.name.removeprefix(".rela").removeprefix(".rel")
        is_constant = target == f".nv.constant{_USERS_BANK}"
        if not section.name.startswith(".rel") or not (is_constant or target.startswith(".nv.global")):
            continue
        bank = _USERS_BANK if is_constant else None
        for relocation in section.iter_relocations():
            place = relocation["r_offset"]
            holding = [
                v
                for v in variables
                if v.bank == bank and v.contents is not None and v.offset <= place < v.offset + v.size_bytes
            ]
            if holding:
                symbol = symbols.get_symbol(relocation["r_info_sym"])
                addend = relocation["r_addend"] if relocation.is_RELA() else 0
                offset = place - holding[0].offset
                pointers.append(Pointer(variable=holding[0].name, offset=offset, symbol=symbol.name, addend=addend))
    return ModuleVariables(variables=variables, pointers=tuple(pointers))
