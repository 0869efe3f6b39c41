"""Several cubins of one architecture as one file: the disassembler takes 0.3 s to start, and little more for the code."""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
"""ELF header, section header and symbol of 64 bits (ELF-64 Object File Format, version 1.5)."""
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PROGRAM_BITS, _SYMBOL_TABLE, _STRING_TABLE = 1, 2, 3
_GLOBAL_FUNCTION = 1 << 4 | 2
_ENTRY = 0x10
"""What marks a symbol as a kernel."""
_INFO_BESIDE_SYMBOL = 0xFF00_0000
_CODE_ALIGNMENT = 128
_SHARED_MEMORY = (".nv.shared.", "__nv_reservedSMEM_")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoneFunction:
    """The only function of a cubin; ``header`` is the file's, ``info`` what its section says beside the symbol's index."""

    name: str
    code: bytes
    header: bytes
    flags: int
    info: int


def lone_function(cubin: bytes) -> LoneFunction | None:
    """The function of a cubin that has one, whose code names nothing outside of it; None of any other cubin."""
    elf: Any = ELFFile(io.BytesIO(cubin))
    code = [section for section in elf.iter_sections() if section.name.startswith(".text.")]
    symbols = [s for s in elf.get_section_by_name(".symtab").iter_symbols() if s["st_info"]["type"] == "STT_FUNC"]
    if (
        len(code) != 1
        or len(symbols) != 1
        or symbols[0]["st_value"] != 0
        or _names_functions_or_variables(elf, code[0])
    ):
        return None
    return LoneFunction(
        name=symbols[0].name,
        code=code[0].data(),
        header=cubin[: _HEADER.size],
        flags=code[0]["sh_flags"],
        info=code[0]["sh_info"] & _INFO_BESIDE_SYMBOL,
    )


def _names_functions_or_variables(elf: Any, code: Any) -> bool:
    """Whether code refers to anything but shared memory, whose addresses are numbers in it."""
    symbols = elf.get_section_by_name(".symtab")
    tables = [elf.get_section_by_name(f"{kind}{code.name}") for kind in (".rel", ".rela")]
    named = {
        symbols.get_symbol(one["r_info_sym"]).name for table in tables if table for one in table.iter_relocations()
    }
    return any(not name.startswith(_SHARED_MEMORY) for name in named)


def joined_cubin(functions: Sequence[LoneFunction]) -> bytes:
    """A cubin of functions of one architecture: its k-th function has the name ``str(k)``."""
    names = [str(k) for k in range(len(functions))]
    sections = [".shstrtab", ".strtab", ".symtab", *(f".text.{name}" for name in names)]
    body, heads = bytearray(), [bytes(_SECTION.size)]

    def add(kind: int, content: bytes, *, flags: int = 0, link: int = 0, info: int = 0, align: int = 1) -> None:
        body.extend(bytes(-(_HEADER.size + len(body)) % align))
        name, begin = _place(sections, len(heads) - 1), _HEADER.size + len(body)
        entry = _SYMBOL.size if kind == _SYMBOL_TABLE else 0
        heads.append(_SECTION.pack(name, kind, flags, 0, begin, len(content), link, info, align, entry))
        body.extend(content)

    first = len(sections) - len(functions) + 1
    symbols = [bytes(_SYMBOL.size)] + [
        _SYMBOL.pack(_place(names, k), _GLOBAL_FUNCTION, _ENTRY, first + k, 0, len(function.code))
        for k, function in enumerate(functions)
    ]
    add(_STRING_TABLE, _strings(sections))
    add(_STRING_TABLE, _strings(names))
    add(_SYMBOL_TABLE, b"".join(symbols), link=2, info=1, align=8)
    for k, function in enumerate(functions):
        info = function.info | k + 1
        add(_PROGRAM_BITS, function.code, flags=function.flags, link=3, info=info, align=_CODE_ALIGNMENT)
    body.extend(bytes(-len(body) % 8))
    identity, kind, machine, version, _, _, _, flags, size, *_ = _HEADER.unpack(functions[0].header)
    after, count = _HEADER.size + len(body), len(heads)
    header = (identity, kind, machine, version, 0, 0, after, flags, size, 0, 0, _SECTION.size, count, 1)
    return _HEADER.pack(*header) + bytes(body) + b"".join(heads)


def _strings(names: Sequence[str]) -> bytes:
    return b"\0" + b"".join(name.encode() + b"\0" for name in names)


def _place(names: Sequence[str], index: int) -> int:
    """Where a name begins in the table of strings."""
    return 1 + sum(len(name) + 1 for name in names[:index])
