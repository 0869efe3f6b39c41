"""Debug information in a PTX text, read without assembling it."""

from __future__ import annotations

import io
import re

from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo

_SECTION = re.compile(r"^\s*\.section\s+\.(debug_\w+)\s*\{([^}]*)\}", re.MULTILINE)
_DATA = re.compile(r"^\s*\.b(8|16|32|64)\s+(.+?)\s*$", re.MULTILINE)
_ABSENT = (
    *("debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_str_sec", "debug_loc_sec", "debug_ranges_sec"),
    *("debug_line_sec", "debug_pubtypes_sec", "debug_pubnames_sec", "debug_addr_sec", "debug_str_offsets_sec"),
    *("debug_line_str_sec", "debug_loclists_sec", "debug_rnglists_sec", "debug_sup_sec", "gnu_debugaltlink_sec"),
    "debug_types_sec",
)
"""What names and types need nothing of."""


def debug_information(ptx: str) -> DWARFInfo | None:
    """Names and types of functions and parameters in PTX of a compilation with ``-G``, None where it has none.

    Addresses of code, which nothing but an assembler knows, are zeros.

    >>> debug_information(".version 8.0") is None
    True
    """
    sections = {name: _bytes(body) for name, body in _SECTION.findall(ptx)}
    if not {"debug_info", "debug_abbrev"} <= sections.keys():
        return None
    described = {f"{name}_sec": _described(name, sections[name]) for name in ("debug_info", "debug_abbrev")}
    config = DwarfConfig(little_endian=True, machine_arch="", default_address_size=8)
    return DWARFInfo(config=config, **described, **dict.fromkeys(_ABSENT))


def _bytes(body: str) -> bytes:
    """The bytes that the data directives of a section stand for."""
    found = bytearray()
    for bits, values in _DATA.findall(body):
        for value in values.split(","):
            found += (_number(value.strip()) % 2 ** int(bits)).to_bytes(int(bits) // 8, "little")
    return bytes(found)


def _number(text: str) -> int:
    """A number; of a label, which stands for its place, what is added to it."""
    base, _, added = text.partition("+")
    if base.lstrip("-").isdecimal():
        return int(base)
    return int(added or 0)


def _described(name: str, content: bytes) -> DebugSectionDescriptor:
    return DebugSectionDescriptor(stream=io.BytesIO(content), name=name, global_offset=0, size=len(content), address=0)
