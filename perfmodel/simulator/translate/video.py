"""SIMD video instructions: two halves or four bytes of a word at once (PTX ISA 9.7.15)."""

from __future__ import annotations

import re

import numpy as np

from ...program.instruction import Instruction
from .emitter import Emitter

_OPERATIONS = ("add", "sub", "avrg", "absdiff", "min", "max")
_OPCODE = re.compile(
    r"v(?P<operation>[a-z]+)(?P<count>[24])\.(?P<d>[us])32\.(?P<a>[us])32\.(?P<b>[us])32(?P<last>\.sat|\.add)?$"
)


def emit_simd(e: Emitter, i: Instruction) -> None:
    """``vadd2`` and its like, for all elements of the word; ``.add`` sums the elements into the third operand."""
    match = _OPCODE.match(i.opcode)
    if match is None or match["operation"] not in _OPERATIONS:
        raise i.error("video instruction is not supported")
    a, b, c = (e.read(i, i.operand(k), np.uint32) for k in (1, 2, 3))
    signs = ",".join(str(match[which] == "s") for which in "dab")
    call = f"simd_word({match['operation']!r},{match['count']},{signs},{match['last']!r},{a},{b},{c})"
    e.write(i, i.operand(0), call, np.uint32)


EMITTERS = {f"v{operation}{count}": emit_simd for operation in _OPERATIONS for count in (2, 4)}
