"""What the compiler makes of each version, for where nothing is compiled: registers, loop code, index arithmetic.

Read from the machine code that NVRTC and ptxas 12.9 produce for sm_80; the tests compare the table with the compiler. It
describes the code and says nothing of time.
"""

from __future__ import annotations

from dataclasses import dataclass

from .configuration import Version
from .problem import Ssim


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeFacts:
    """Registers of a thread, bytes of the largest loop without inner loops, integer and control instructions.

    The instructions are those of one warp for each step: a row of the patch where a warp walks down rows, else a channel.
    """

    registers: int
    loop_bytes: int
    integer: int
    control: int


_PLAIN: dict[Version, CodeFacts] = {
    Version.NAIVE: CodeFacts(registers=32, loop_bytes=9808, integer=115, control=35),
    Version.V1: CodeFacts(registers=32, loop_bytes=9104, integer=87, control=35),
    Version.V2: CodeFacts(registers=40, loop_bytes=21776, integer=150, control=47),
    Version.V3_0: CodeFacts(registers=63, loop_bytes=277280, integer=48, control=20),
    Version.V3_1: CodeFacts(registers=168, loop_bytes=156464, integer=58, control=21),
    Version.V3: CodeFacts(registers=168, loop_bytes=143264, integer=48, control=9),
    Version.V4_1: CodeFacts(registers=148, loop_bytes=6336, integer=69, control=11),
    Version.V4: CodeFacts(registers=146, loop_bytes=6944, integer=83, control=23),
    Version.V4_Z4: CodeFacts(registers=154, loop_bytes=6336, integer=69, control=11),
}
_WITH_GRADIENTS: dict[Version, CodeFacts] = {
    Version.NAIVE: CodeFacts(registers=32, loop_bytes=10176, integer=123, control=35),
    Version.V1: CodeFacts(registers=32, loop_bytes=9440, integer=93, control=35),
    Version.V2: CodeFacts(registers=40, loop_bytes=22784, integer=177, control=53),
    Version.V3_0: CodeFacts(registers=63, loop_bytes=303376, integer=62, control=20),
    Version.V3_1: CodeFacts(registers=164, loop_bytes=173552, integer=70, control=21),
    Version.V3: CodeFacts(registers=168, loop_bytes=161408, integer=62, control=9),
    Version.V4_1: CodeFacts(registers=150, loop_bytes=7120, integer=85, control=11),
    Version.V4: CodeFacts(registers=146, loop_bytes=7440, integer=81, control=23),
    Version.V4_Z4: CodeFacts(registers=154, loop_bytes=7056, integer=81, control=11),
}


def code_facts(problem: Ssim, version: Version) -> CodeFacts:
    """The table's row for a version, with or without gradient maps."""
    return (_WITH_GRADIENTS if problem.gradients else _PLAIN)[version]
