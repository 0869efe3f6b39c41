"""Where the parameters of a kernel lie and how large they are, as its cubin says."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import Any

from elftools.elf.elffile import ELFFile

from ..errors import InputError
from .resources import read_attributes

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
