"""What a cubin says beside its instructions: parameters, constant banks, variables, memories, labels, source lines.

`read_cubin` says it of one kernel, `module_variables` what all kernels of the module share.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

from ..compiler.resources import PlacedParameter, parameter_layout, read_attributes
from ..errors import InputError, SimulationError
from ..ir.instruction import SourceLine

_FRAME_SIZE, _STACK_SIZE = 0x11, 0x12
_UNDETERMINED = 0xFFFFFFFF
"""The size of a stack that the assembler cannot know, because functions call themselves or pointers."""
DEFAULT_STACK_BYTES = 1024
"""The stack of a thread unless the host sets ``cudaLimitStackSize`` (CUDA runtime, cudaDeviceSetLimit)."""
_FUNCTION_ADDRESSES = 16
"""Addresses that stand for functions outside of the cubin begin here, one for each symbol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleVariable:
    """A variable of the module: in global memory (``bank`` None) or in a constant bank; contents None stand for zeros."""

    name: str
    bank: int | None
    offset: int
    size_bytes: int
    contents: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BankReference:
    """Eight bytes of a constant bank that hold the address of a symbol."""

    bank: int
    offset: int
    symbol: str
    addend: int


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
class Cubin:
    """One kernel of a cubin, its code apart."""

    kernel_name: str
    code: bytes
    parameters: tuple[PlacedParameter, ...]
    parameter_offset: int
    banks: Mapping[int, bytes]
    references: tuple[BankReference, ...]
    variables: tuple[ModuleVariable, ...]
    pointers: tuple[Pointer, ...]
    external_functions: Mapping[str, int]
    static_shared_bytes: int
    stack_bytes: int
    labels: Mapping[str, int]
    lines: Mapping[int, SourceLine]


def _info(elf: Any, section: str) -> list[tuple[int, bytes]]:
    attributes = elf.get_section_by_name(section)
    return [] if attributes is None else read_attributes(attributes.data())


def _stack(elf: Any, kernel: str) -> int:
    """Bytes of local memory of a thread; those that a thread has by default where functions call themselves."""
    symbols = elf.get_section_by_name(".symtab")
    sizes = [0]
    for identifier, payload in _info(elf, ".nv.info"):
        if identifier in (_FRAME_SIZE, _STACK_SIZE) and len(payload) == 8:
            symbol, value = struct.unpack("<II", payload)
            if symbols.get_symbol(symbol).name == kernel:
                sizes.append(DEFAULT_STACK_BYTES if value == _UNDETERMINED else value)
    return max(sizes)


def _bank_of(section: str, kernel: str) -> int | None:
    """Number of the constant bank that a section fills for a kernel."""
    if not section.startswith(".nv.constant"):
        return None
    number, _, owner = section.removeprefix(".nv.constant").partition(".")
    return int(number) if number.isdigit() and owner in ("", kernel) else None


def _references(elf: Any, kernel: str) -> tuple[BankReference, ...]:
    symbols = elf.get_section_by_name(".symtab")
    references = []
    for section in elf.iter_sections():
        target = section.name.removeprefix(".rela").removeprefix(".rel")
        bank = _bank_of(target, kernel) if section.name.startswith(".rel") else None
        if bank is None:
            continue
        for relocation in section.iter_relocations():
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            addend = relocation["r_addend"] if relocation.is_RELA() else 0
            references.append(
                BankReference(bank=bank, offset=relocation["r_offset"], symbol=symbol.name, addend=addend)
            )
    return tuple(references)


def variables_of(elf: Any, kernel: str) -> tuple[ModuleVariable, ...]:
    """Variables that a kernel of an ELF file may use; those of the module where the kernel is an empty name."""
    variables = []
    for symbol in elf.get_section_by_name(".symtab").iter_symbols():
        if symbol["st_info"]["type"] != "STT_OBJECT" or not isinstance(symbol["st_shndx"], int):
            continue
        section = elf.get_section(symbol["st_shndx"])
        bank = _bank_of(section.name, kernel)
        if bank is None and not section.name.startswith(".nv.global"):
            continue
        begin, size = symbol["st_value"], symbol["st_size"]
        filled = section["sh_type"] != "SHT_NOBITS" and section.name != ".nv.global"
        contents = section.data()[begin : begin + size] if filled else None
        variables.append(ModuleVariable(name=symbol.name, bank=bank, offset=begin, size_bytes=size, contents=contents))
    return tuple(variables)


def _pointers(elf: Any, variables: Sequence[ModuleVariable]) -> tuple[Pointer, ...]:
    """Pointers to variables among the initial contents of others."""
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
    return tuple(pointers)


def _labels(elf: Any, section_index: int) -> dict[str, int]:
    return {
        symbol.name: symbol["st_value"]
        for symbol in elf.get_section_by_name(".symtab").iter_symbols()
        if symbol["st_shndx"] == section_index and symbol["st_info"]["type"] == "STT_FUNC"
    }


def _external_functions(elf: Any) -> dict[str, int]:
    names = [
        symbol.name
        for symbol in elf.get_section_by_name(".symtab").iter_symbols()
        if symbol.name and symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] == "SHN_UNDEF"
    ]
    return {name: _FUNCTION_ADDRESSES * (k + 1) for k, name in enumerate(names)}


def _static_shared(elf: Any, kernel: str) -> int:
    """Bytes of the shared section, those that the driver reserves from sm_90 on included: addresses begin after them."""
    section = elf.get_section_by_name(f".nv.shared.{kernel}")
    return 0 if section is None else int(section["sh_size"])


def _lines(elf: Any, section_index: int) -> dict[int, SourceLine]:
    """Source line of each address at which it changes."""
    if elf.get_section_by_name(".debug_line") is None:
        return {}
    symbols = elf.get_section_by_name(".symtab")
    own = {
        k: symbol["st_value"] for k, symbol in enumerate(symbols.iter_symbols()) if symbol["st_shndx"] == section_index
    }
    relocations = elf.get_section_by_name(".rel.debug_line") or elf.get_section_by_name(".rela.debug_line")
    places = {} if relocations is None else {r["r_offset"]: r["r_info_sym"] for r in relocations.iter_relocations()}
    return _line_table(elf.get_section_by_name(".debug_line").data(), places, own)


def _line_table(data: bytes, places: Mapping[int, int], own: Mapping[int, int]) -> dict[int, SourceLine]:
    """Rows of the line program (DWARF 2, section 6.2) that belong to one section.

    ``places`` maps the offset of each address in the program to the symbol that it is relative to, ``own`` the section's symbols
    to their addresses.
    """
    lines: dict[int, SourceLine] = {}
    start = 0
    while start + 4 <= len(data):
        (length,) = struct.unpack_from("<I", data, start)
        program = _LineProgram(data, start, start + 4 + length)
        lines.update(program.rows(places, own))
        start += 4 + length
    return lines


_INLINED_CALL = 0x90
"""Extended opcode of NVIDIA's compilers: the row, counted from 1, of the call that what follows is inlined at (0: none)."""
_MAIN_FILE = 1


class _LineProgram:
    def __init__(self, data: bytes, start: int, end: int) -> None:
        self.data, self.end = data, end
        version, header = struct.unpack_from("<HI", data, start + 4)
        if version not in (2, 3):
            raise SimulationError(f"line information of DWARF version {version} is not read")
        self.position = start + 10
        self.minimum, _, self.line_base, self.line_range, self.opcode_base = struct.unpack_from(
            "<BBbBB", data, self.position
        )
        self.position += 5
        self.lengths = data[self.position : self.position + self.opcode_base - 1]
        self.position += self.opcode_base - 1
        self.files = self._files()
        self.position = start + 10 + header

    def _text(self) -> str:
        stop = self.data.index(0, self.position)
        text = self.data[self.position : stop].decode("utf-8", errors="replace")
        self.position = stop + 1
        return text

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.data[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    def _signed(self) -> int:
        start = self.position
        value = self._unsigned()
        bits = 7 * (self.position - start)
        return value - (1 << bits) if value >> (bits - 1) & 1 else value

    def _files(self) -> list[str]:
        while self._text():
            pass
        files = [""]
        while True:
            name = self._text()
            if not name:
                return files
            files.append(name.rpartition("/")[2])
            for _ in range(3):
                self._unsigned()

    def rows(self, places: Mapping[int, int], own: Mapping[int, int]) -> dict[int, SourceLine]:
        """Lines by address, of the sequences that belong to the section's symbols.

        What is inlined from another file than the first stands at the line that calls it, as in PTX.
        """
        lines: dict[int, SourceLine] = {}
        address, line, file, inside, caller = 0, 1, 1, not places, 0
        callers: list[tuple[int, int, int]] = []
        """File, line and caller of each row, for rows behind it that are inlined there."""
        while self.position < self.end:
            code = self.data[self.position]
            self.position += 1
            emit = False
            if code >= self.opcode_base:
                step = code - self.opcode_base
                address += step // self.line_range * self.minimum
                line += self.line_base + step % self.line_range
                emit = True
            elif code == 0:
                length = self._unsigned()
                after = self.position + length
                kind = self.data[self.position]
                if kind == 2:
                    (address,) = struct.unpack_from("<Q", self.data, self.position + 1)
                    symbol = places.get(self.position + 1, -1)
                    inside = symbol in own or not places
                    address += own.get(symbol, 0)
                elif kind == 1:
                    address, line, file, inside, caller = 0, 1, 1, not places, 0
                elif kind == _INLINED_CALL:
                    self.position += 1
                    caller = self._unsigned()
                self.position = after
            elif code == 1:
                emit = True
            elif code == 2:
                address += self._unsigned() * self.minimum
            elif code == 3:
                line += self._signed()
            elif code == 4:
                file = self._unsigned()
            elif code == 8:
                address += (255 - self.opcode_base) // self.line_range * self.minimum
            elif code == 9:
                (step,) = struct.unpack_from("<H", self.data, self.position)
                self.position += 2
                address += step
            else:
                for _ in range(self.lengths[code - 1]):
                    self._unsigned()
            if not emit:
                continue
            callers.append((file, line, caller))
            shown, number = callers[-1], len(callers)
            while shown[0] != _MAIN_FILE and 0 < shown[2] < number:
                number = shown[2]
                shown = callers[number - 1]
            if inside:
                lines[address] = SourceLine(self.files[shown[0]] if shown[0] < len(self.files) else "", shown[1])
        return lines


def read_cubin(cubin: bytes, kernel: str) -> Cubin:
    """Everything but the instructions of one kernel.

    Raises:
        InputError: the kernel is not in the cubin.
    """
    elf = ELFFile(io.BytesIO(cubin))
    name = f".text.{kernel}"
    index = elf.get_section_index(name)
    if index is None:
        raise InputError(f"kernel {kernel!r} is not in the cubin")
    parameters, offset = parameter_layout(elf, kernel)
    variables = variables_of(elf, kernel)
    banks: dict[int, bytes] = {}
    for section in elf.iter_sections():
        bank = _bank_of(section.name, kernel)
        if bank is not None:
            banks[bank] = b"" if section["sh_type"] == "SHT_NOBITS" else section.data()
    return Cubin(
        kernel_name=kernel,
        code=elf.get_section_by_name(name).data(),
        parameters=parameters,
        parameter_offset=offset,
        banks=banks,
        references=_references(elf, kernel),
        variables=variables,
        pointers=_pointers(elf, variables),
        external_functions=_external_functions(elf),
        static_shared_bytes=_static_shared(elf, kernel),
        stack_bytes=_stack(elf, kernel),
        labels=_labels(elf, index),
        lines=_lines(elf, index),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleVariables:
    """Variables that all kernels of a module share, and the pointers among their initial contents."""

    variables: tuple[ModuleVariable, ...]
    pointers: tuple[Pointer, ...]


def module_variables(cubin: bytes) -> ModuleVariables:
    """What a cubin declares in global memory and in the constant bank of the user's constants."""
    elf = ELFFile(io.BytesIO(cubin))
    variables = variables_of(elf, "")
    return ModuleVariables(variables=variables, pointers=_pointers(elf, variables))
