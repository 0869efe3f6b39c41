"""What kernels print: formats of C with the places of their arguments, and the text of one launch."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

MAX_PRINTED_BYTES = 2**20
"""Text that one launch may print: what the buffer of the hardware's runtime holds (CUDA C++ Programming Guide, printf)."""
_CONVERSION = re.compile(r"%([-+ #0]*)(\d*)((?:\.\d*)?)(hh|h|ll|l|j|z|t|L)?([diouxXcsaAeEfFgGp%])")
_WIDE = ("l", "ll", "j", "z", "t")


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """One conversion of a format: where its argument lies among the others, and what it is printed as."""

    offset: int
    size_bytes: int
    letter: str
    form: str
    short_bits: int = 0
    """Bits that are kept of an integer where it is shorter than an ``int``."""

    def text(self, bits: int, string: Callable[[int], str]) -> str:
        """What an argument's bits print as; ``string`` gives the text at an address."""
        return str(self.form % self._value(bits, string))

    def _value(self, bits: int, string: Callable[[int], str]) -> str | int | float:
        width = self.short_bits or 8 * self.size_bytes
        if self.letter == "s":
            return string(bits)
        if self.letter == "p":
            return hex(bits) if bits else "(nil)"
        if self.letter == "c":
            return chr(bits & 255)
        if self.letter in "aA":
            return _double(bits).hex()
        if self.letter in "di":
            bits &= 2**width - 1
            return bits - 2**width if bits >> (width - 1) else bits
        return bits & (2**width - 1) if self.letter in "uoxX" else _double(bits)


def _double(bits: int) -> float:
    (value,) = struct.unpack("<d", struct.pack("<Q", bits & (2**64 - 1)))
    return float(value)


def conversions_of(form: str) -> tuple[list[str], list[Conversion]]:
    """The texts around the conversions of a format of C, and the conversions with the places of their arguments.

    >>> texts, found = conversions_of("i=%d x=%6.2f 100%%")
    >>> texts, [(one.offset, one.size_bytes) for one in found]
    (['i=', ' x=', ' 100%'], [(0, 4), (8, 8)])
    """
    texts, found, at, begin = [""], [], 0, 0
    for match in _CONVERSION.finditer(form):
        flags, width, precision, length, letter = match.groups()
        texts[-1] += form[begin : match.start()]
        begin = match.end()
        if letter == "%":
            texts[-1] += "%"
            continue
        size = 8 if letter in "spaAeEfFgG" or length in _WIDE else 4
        at = -(-at // size) * size
        printed = {"i": "d", "u": "d", "p": "s", "c": "s", "a": "s", "A": "s"}.get(letter, letter)
        found.append(
            Conversion(
                offset=at,
                size_bytes=size,
                letter=letter,
                form=f"%{flags}{width}{precision}{printed}",
                short_bits={"hh": 8, "h": 16}.get(length or "", 0),
            )
        )
        texts.append("")
        at += size
    texts[-1] += form[begin:]
    return texts, found


@dataclass(slots=True)
class PrintedText:
    """What the lanes of one launch print, block by block; ``dropped`` lines did not fit."""

    dropped: int = 0
    _lines: list[tuple[int, bytes]] = field(default_factory=list)
    _bytes: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether nothing was printed since it was last taken."""
        return not self._lines and not self.dropped

    @property
    def is_full(self) -> bool:
        """Whether nothing fits any more."""
        return self._bytes >= MAX_PRINTED_BYTES

    def add(self, block: int, text: str) -> None:
        """Add what one thread prints."""
        data = text.encode("latin-1", "replace")
        self._bytes += len(data)
        self._lines.append((block, data))

    def taken(self) -> bytes:
        """All of it, in order of blocks and for each block in the order of its execution; then it is empty."""
        found = b"".join(data for _, data in sorted(self._lines, key=lambda line: line[0]))
        self._lines, self._bytes = [], 0
        return found
