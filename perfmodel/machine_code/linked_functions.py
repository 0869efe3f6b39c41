"""A kernel of a linked program with the functions that it calls: nvlink leaves each in a section of its own."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

_SECTION_OFFSET, _SECTION_SIZE = 24, 32
"""Where a section header of 64 bits has the place and the size of its contents (ELF-64 Object File Format, version 1.5)."""
_SYMBOL_SECTION, _SYMBOL_VALUE = 6, 8
"""Where a symbol has its section and its value."""
_ATTRIBUTE = struct.Struct("<BBH")
"""Head of a record of ``.nv.info``: its form, what it says, and the size of what follows, or a number."""
_WITH_PAYLOAD = 4
_RELOCATION = struct.Struct("<QQq")
_RELOCATION_BITS = 32
_HALVES_OF_ADDRESS = {0x38: 0, 0x39: 32}
"""Relocations of a ``MOV`` whose immediate is the lower or the upper half of an address, by the bits to shift it."""
_IMMEDIATE = slice(4, 8)
"""Bytes of an instruction that hold its immediate of 32 bits."""


@dataclass(frozen=True, slots=True)
class _Relocation:
    """What the linker was to fill in: at an offset of a section, the address of a symbol and a number."""

    offset: int
    kind: int
    symbol: int
    addend: int


def with_called_functions(cubin: bytes, kernel: str) -> bytes:
    """The cubin with the code of all functions that a kernel calls, or that these call, behind that of the kernel.

    Return addresses are put in place, and the functions' symbols point to the copies. A cubin in which the kernel's section has
    all of its code, as without ``-rdc=true``, comes back as it is; so does one in which a function has constants of its own.

    >>> with_called_functions(b"no cubin", "k")
    b'no cubin'
    """
    if not cubin.startswith(b"\x7fELF"):
        return cubin
    elf: Any = ELFFile(io.BytesIO(cubin))
    places = _places(elf, kernel)
    if len(places) < 2 or _have_constants(elf, [elf.get_section(index).name for index in list(places)[1:]]):
        return cubin
    symbols = elf.get_section_by_name(".symtab")
    own = next(iter(places))
    moved = {
        number: places[symbol["st_shndx"]] + symbol["st_value"]
        for number, symbol in enumerate(symbols.iter_symbols())
        if symbol["st_shndx"] in places and symbol["st_info"]["type"] == "STT_FUNC"
    }
    code, kept = bytearray(), bytearray()
    for index, place in places.items():
        code += elf.get_section(index).data()
        for one in _relocations(elf, index):
            at = place + one.offset
            if one.kind in _HALVES_OF_ADDRESS and one.symbol in moved:
                half = (moved[one.symbol] + one.addend) >> _HALVES_OF_ADDRESS[one.kind]
                code[at + _IMMEDIATE.start : at + _IMMEDIATE.stop] = (half % 2**32).to_bytes(4, "little")
            else:
                kept += _RELOCATION.pack(at, one.symbol << _RELOCATION_BITS | one.kind, one.addend)
    file = bytearray(cubin)
    for number, value in moved.items():
        entry = symbols["sh_offset"] + number * symbols["sh_entsize"]
        struct.pack_into("<H", file, entry + _SYMBOL_SECTION, own)
        struct.pack_into("<Q", file, entry + _SYMBOL_VALUE, value)
    _replace(file, elf, own, code)
    _leave_out_attributes(file, elf, {number for number in moved if symbols.get_symbol(number)["st_shndx"] != own})
    for index in _tables(elf, own):
        with_addends = elf.get_section(index)["sh_type"] == "SHT_RELA"
        _replace(file, elf, index, kept if with_addends else bytearray())
    return bytes(file)


def _places(elf: Any, kernel: str) -> dict[int, int]:
    """Sections of a kernel and of the functions that it calls, the kernel's first, and where they begin behind one another."""
    first = elf.get_section_index(f".text.{kernel}")
    if first is None:
        return {}
    symbols = elf.get_section_by_name(".symtab")
    places, waiting, end = {first: 0}, [first], elf.get_section(first)["sh_size"]
    while waiting:
        for one in _relocations(elf, waiting.pop(0)):
            symbol = symbols.get_symbol(one.symbol)
            index = symbol["st_shndx"]
            if symbol["st_info"]["type"] != "STT_FUNC" or not isinstance(index, int) or index in places:
                continue
            places[index] = end
            end += elf.get_section(index)["sh_size"]
            waiting.append(index)
    return places


def _tables(elf: Any, section: int) -> list[int]:
    """Indices of the relocation tables of a section, those with addends first."""
    name = elf.get_section(section).name
    found = (elf.get_section_index(f"{kind}{name}") for kind in (".rela", ".rel"))
    return [index for index in found if index is not None]


def _relocations(elf: Any, section: int) -> Iterator[_Relocation]:
    for table in _tables(elf, section):
        for one in elf.get_section(table).iter_relocations():
            addend = one["r_addend"] if one.is_RELA() else 0
            yield _Relocation(one["r_offset"], one["r_info_type"], one["r_info_sym"], addend)


def _have_constants(elf: Any, sections: list[str]) -> bool:
    functions = {name.removeprefix(".text.") for name in sections}
    return any(
        section.name.startswith(".nv.constant")
        and section.name.partition(".nv.constant")[2].partition(".")[2] in functions
        for section in elf.iter_sections()
    )


def _leave_out_attributes(file: bytearray, elf: Any, functions: set[int]) -> None:
    """Leave out what the module says of registers and stack of functions: nvdisasm takes them once for a section."""
    info = elf.get_section_index(".nv.info")
    if info is None:
        return
    data, kept, position = elf.get_section(info).data(), bytearray(), 0
    while position + _ATTRIBUTE.size <= len(data):
        form, _, size = _ATTRIBUTE.unpack_from(data, position)
        after = position + _ATTRIBUTE.size + (size if form == _WITH_PAYLOAD else 0)
        record = data[position:after]
        of_function = len(record) == _ATTRIBUTE.size + 8 and int.from_bytes(record[4:8], "little") in functions
        kept += b"" if of_function else record
        position = after
    _replace(file, elf, info, kept)


def _replace(file: bytearray, elf: Any, section: int, contents: bytearray) -> None:
    """Give a section other contents, which are put behind all that the file has."""
    header = elf["e_shoff"] + section * elf["e_shentsize"]
    file.extend(bytes(-len(file) % elf.get_section(section)["sh_addralign"]))
    struct.pack_into("<Q", file, header + _SECTION_OFFSET, len(file))
    struct.pack_into("<Q", file, header + _SECTION_SIZE, len(contents))
    file.extend(contents)
