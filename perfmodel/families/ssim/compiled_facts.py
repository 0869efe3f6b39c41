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
    Version.NAIVE: CodeFacts(registers=32, loop_bytes=10512, integer=159, control=35),
    Version.V1: CodeFacts(registers=32, loop_bytes=9744, integer=127, control=35),
    Version.V2: CodeFacts(registers=64, loop_bytes=16272, integer=169, control=53),
    Version.V3_0: CodeFacts(registers=70, loop_bytes=8672, integer=123, control=25),
    Version.V3_1: CodeFacts(registers=168, loop_bytes=157568, integer=60, control=21),
    Version.V3: CodeFacts(registers=168, loop_bytes=144064, integer=49, control=9),
    Version.V4_1: CodeFacts(registers=148, loop_bytes=6352, integer=69, control=11),
    Version.V4: CodeFacts(registers=146, loop_bytes=6960, integer=83, control=23),
    Version.V4_Z4: CodeFacts(registers=156, loop_bytes=6336, integer=68, control=11),
}
_WITH_GRADIENTS: dict[Version, CodeFacts] = {
    Version.NAIVE: CodeFacts(registers=32, loop_bytes=10880, integer=167, control=35),
    Version.V1: CodeFacts(registers=32, loop_bytes=10112, integer=135, control=35),
    Version.V2: CodeFacts(registers=64, loop_bytes=17968, integer=223, control=72),
    Version.V3_0: CodeFacts(registers=69, loop_bytes=9568, integer=134, control=34),
    Version.V3_1: CodeFacts(registers=160, loop_bytes=174384, integer=59, control=30),
    Version.V3: CodeFacts(registers=168, loop_bytes=163296, integer=54, control=18),
    Version.V4_1: CodeFacts(registers=146, loop_bytes=7392, integer=89, control=20),
    Version.V4: CodeFacts(registers=150, loop_bytes=7760, integer=88, control=32),
    Version.V4_Z4: CodeFacts(registers=152, loop_bytes=7504, integer=96, control=20),
}


def code_facts(problem: Ssim, version: Version) -> CodeFacts:
    """The table's row for a version, with or without gradient maps."""
    return (_WITH_GRADIENTS if problem.gradients else _PLAIN)[version]
