"""What a compiled kernel occupies: registers, memories, spills and code, and where its parameters lie; read from the cubin."""

from __future__ import annotations

import hashlib
import io
import re
import struct
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from ..errors import InputError
from ..gpus.catalogue import load_architecture

_REGISTER_COUNT = 0x2F
_FRAME_SIZE = 0x11
_CLUSTER = 0x3D
_FORMAT_SIZED_VALUE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Resources of one kernel on one architecture; bytes for each thread, block or kernel as the name says.

    Every field is an integer, or an integer array of shape ``(n,)`` for n candidates.
    """

    registers_per_thread: Any
    static_shared_bytes: Any
    dynamic_shared_bytes: Any = 0
    stack_bytes_per_thread: Any
    spill_load_bytes: Any
    spill_store_bytes: Any
    code_bytes: Any


def read_attributes(data: bytes) -> list[tuple[int, bytes]]:
    """Sized attributes of a ``.nv.info`` section as pairs of identifier and payload."""
    found, offset = [], 0
    while offset + 4 <= len(data):
        kind, identifier, size = struct.unpack_from("<BBH", data, offset)
        offset += 4
        if kind == _FORMAT_SIZED_VALUE:
            found.append((identifier, data[offset : offset + size]))
            offset += size
    return found


def _per_kernel(elf: Any, kernel_name: str, wanted: int) -> int | None:
    section = elf.get_section_by_name(".nv.info")
    symbols = elf.get_section_by_name(".symtab")
    if section is None or not isinstance(symbols, SymbolTableSection):
        return None
    for identifier, payload in read_attributes(section.data()):
        if identifier == wanted and len(payload) == 8:
            symbol, value = struct.unpack("<II", payload)
            if symbols.get_symbol(symbol).name == kernel_name:
                return int(value)
    return None


def required_cluster(cubin: bytes, kernel_name: str) -> tuple[int, int, int] | None:
    """Blocks of a cluster along x, y, z that a kernel is declared with (``__cluster_dims__``); None where it leaves them open."""
    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".nv.info.{kernel_name}")
    for identifier, payload in [] if section is None else read_attributes(section.data()):
        if identifier == _CLUSTER and len(payload) == 12:
            x, y, z = struct.unpack("<III", payload)
            return x, y, z
    return None


_INITIAL_VALUES = ".nv.global.init"
_DECISIVE_SECTIONS = (".text", ".nv.constant", _INITIAL_VALUES)
"""Beginnings of the names of sections that decide what a module computes."""
_FOLDERS = re.compile(rb"(?<![^\0])/(?:[ -.0-~]+/)+(?=[ -.0-~]+\.\w+\0)")
"""Folders of an absolute path that is a string of its own."""


def code_digest(cubin: bytes) -> str:
    """Hash of the machine code and constants of a cubin; line tables, symbols and folders of files do not matter.

    ``assert`` keeps the path of its file among the constants; the name of the file counts, the folders do not.
    """
    sections = ELFFile(io.BytesIO(cubin)).iter_sections()
    contents = sorted(
        _FOLDERS.sub(b"", section.data()) if section.name.startswith(_INITIAL_VALUES) else section.data()
        for section in sections
        if section.name.startswith(_DECISIVE_SECTIONS)
    )
    digest = hashlib.sha256()
    for content in contents:
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()


def code_section(cubin: bytes, kernel_name: str) -> bytes:
    """Machine code of one kernel."""
    section = ELFFile(io.BytesIO(cubin)).get_section_by_name(f".text.{kernel_name}")
    if section is None:
        raise InputError(f"kernel {kernel_name!r} is not in the cubin")
    data: bytes = section.data()
    return data


def _log_number(pattern: str, log: str) -> int:
    match = re.search(pattern, log)
    return int(match[1]) if match else 0


def read_resources(cubin: bytes, kernel_name: str, architecture: str, log: str) -> Resources:
    """Resources from the cubin's attributes; spills, which no attribute names, from the assembler's log.

    Bytes of the shared section that the driver reserves are not the kernel's and left out.
    """
    elf = ELFFile(io.BytesIO(cubin))
    registers = _per_kernel(elf, kernel_name, _REGISTER_COUNT)
    if registers is None:
        raise InputError(f"the cubin names no register count for kernel {kernel_name!r}")
    shared = elf.get_section_by_name(f".nv.shared.{kernel_name}")
    shared_bytes = 0 if shared is None else int(shared["sh_size"])
    shared_bytes = max(0, shared_bytes - load_architecture(architecture).shared_bytes_reserved_in_cubin)
    part = log[max(0, log.find(f"'{kernel_name}'")) :]
    return Resources(
        registers_per_thread=registers,
        static_shared_bytes=shared_bytes,
        stack_bytes_per_thread=_per_kernel(elf, kernel_name, _FRAME_SIZE) or 0,
        spill_load_bytes=_log_number(r"(\d+) bytes spill loads", part),
        spill_store_bytes=_log_number(r"(\d+) bytes spill stores", part),
        code_bytes=len(code_section(cubin, kernel_name)),
    )


_PARAMETER_BANK, _PARAMETER = 0x0A, 0x17


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedParameter:
    """A kernel parameter: its place in constant bank 0, relative to the first one."""

    index: int
    offset: int
    size_bytes: int


def parameter_layout(elf: Any, kernel: str) -> tuple[tuple[PlacedParameter, ...], int]:
    """The parameters of a kernel in order, and where the first one lies in constant bank 0.

    Raises:
        InputError: the cubin does not say.
    """
    parameters, offset = [], None
    attributes = elf.get_section_by_name(f".nv.info.{kernel}")
    for identifier, payload in [] if attributes is None else read_attributes(attributes.data()):
        if identifier == _PARAMETER:
            _, ordinal, place, flags = struct.unpack("<IHHI", payload)
            parameters.append(PlacedParameter(index=ordinal, offset=place, size_bytes=flags >> 18))
        elif identifier == _PARAMETER_BANK:
            offset = struct.unpack("<IHH", payload)[1]
    if offset is None:
        section = elf.get_section_by_name(f".nv.constant0.{kernel}")
        if parameters or section is None:
            raise InputError(f"the cubin does not say where the parameters of kernel {kernel!r} lie")
        offset = section["sh_size"]
    return tuple(sorted(parameters, key=lambda p: p.index)), offset


def cubin_parameters(cubin: bytes, kernel: str) -> tuple[PlacedParameter, ...]:
    """The parameters of a kernel of a cubin, in order."""
    return parameter_layout(ELFFile(io.BytesIO(cubin)), kernel)[0]
