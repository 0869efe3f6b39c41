"""What machine code is made of: instructions by class and width, basic blocks, loops, sizes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..compiler.compiled import CompiledKernel
from ..compiler.resources import code_section
from .control_flow import ControlFlow, control_flow
from .decode import Instructions, decode, decodes
from .estimate import estimate_loops, estimate_mix
from .loops import Loop, natural_loops
from .opcodes import SASS_CLASSES


@dataclass(frozen=True, slots=True, kw_only=True)
class MixEntry:
    """How many instructions of one class and width the code has; width 0 for classes that do not access memory."""

    name: str
    width_bytes: int
    instructions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeProfile:
    """Static profile of one kernel's machine code.

    ``mix`` counts the instructions that some path reaches, without those that are always predicated off; padding
    after the last exit is code but not mix. ``NOP`` inside of the code counts as ``control``, for it is issued.
    ``decoded`` and ``flow`` are None where the architecture's encoding is not decoded; then ``mix`` and ``loops``
    are taken from PTX and ``estimated`` is true.
    """

    architecture: str
    code_bytes: int
    mix: tuple[MixEntry, ...]
    loops: tuple[Loop, ...]
    straight_line_bytes: int
    estimated: bool
    unknown_opcodes: tuple[int, ...]
    decoded: Instructions | None
    flow: ControlFlow | None

    def count(self, name: str, width_bytes: int | None = None) -> int:
        """Instructions of a class of ``SASS_CLASSES`` in the code, of one access width where that is given."""
        return sum(e.instructions for e in self.mix if e.name == name and width_bytes in (None, e.width_bytes))

    @property
    def instructions(self) -> int:
        """Instructions in the code that can execute."""
        return sum(entry.instructions for entry in self.mix)

    @property
    def largest_loop_bytes(self) -> int:
        """Code of the largest outermost loop, 0 without loops."""
        return max((loop.code_bytes for loop in self.loops), default=0)


@lru_cache(maxsize=8)
def profile_of(compiled: CompiledKernel) -> CodeProfile:
    """Instruction mix, basic blocks and loops of a kernel's machine code (static: each instruction once)."""
    return profile_code(code_section(compiled.cubin, compiled.kernel_name), compiled.architecture, compiled.ptx)


def profile_code(code: bytes, architecture: str, ptx: str = "") -> CodeProfile:
    """Profile of one code section.

    Args:
        code: the kernel's ``.text`` section.
        architecture: real architecture (``"sm_80"``); before sm_70 the mix is an estimate from PTX.
        ptx: the kernel's PTX; needed before sm_70 only.

    >>> profile_code(bytes.fromhex("4d790000000000000000800300ea0f00"), "sm_75").count("control")
    1
    """
    if not decodes(architecture):
        return _estimated_profile(code, architecture, ptx)
    decoded = decode(code, architecture)
    flow = control_flow(decoded)
    reached = flow.reachable[flow.block_of_instruction()]
    loops = natural_loops(flow)
    in_loops = {block for loop in loops for block in loop.blocks}
    straight = [block for block in range(len(flow)) if flow.reachable[block] and block not in in_loops]
    return CodeProfile(
        architecture=architecture,
        code_bytes=len(code),
        mix=_mix(decoded, reached & ~decoded.never),
        loops=loops,
        straight_line_bytes=int(flow.sizes_bytes()[straight].sum()),
        estimated=False,
        unknown_opcodes=decoded.unknown_opcodes,
        decoded=decoded,
        flow=flow,
    )


def _mix(decoded: Instructions, counted: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> tuple[MixEntry, ...]:
    keys = decoded.class_index[counted].astype(np.int64) * 64 + decoded.width_bytes[counted]
    return tuple(
        MixEntry(name=SASS_CLASSES[int(key) // 64], width_bytes=int(key) % 64, instructions=int(number))
        for key, number in zip(*np.unique(keys, return_counts=True), strict=True)
    )


def _estimated_profile(code: bytes, architecture: str, ptx: str) -> CodeProfile:
    mix = estimate_mix(ptx)
    loops = estimate_loops(ptx, len(code))
    outermost = sum(loop.code_bytes for loop in loops if loop.parent is None)
    return CodeProfile(
        architecture=architecture,
        code_bytes=len(code),
        mix=tuple(MixEntry(name=name, width_bytes=width, instructions=number) for name, width, number in mix),
        loops=loops,
        straight_line_bytes=max(len(code) - outermost, 0),
        estimated=True,
        unknown_opcodes=(),
        decoded=None,
        flow=None,
    )
