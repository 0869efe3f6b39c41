"""What the compiler makes of each version: registers, loop code, index arithmetic; ``perfmodel/data/registers/ssim.toml``."""

from __future__ import annotations

from dataclasses import dataclass

from ..fitted_numbers import fit_file
from .configuration import Version
from .problem import Ssim


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """Registers of a thread, bytes of the largest innermost loop, integer and control instructions of a step."""

    registers: int
    loop_bytes: int
    integer: int
    control: int


def machine_code(problem: Ssim, version: Version) -> MachineCode:
    """The machine code of a version, with or without gradient maps.

    >>> machine_code(Ssim(), Version.V4_1).registers
    148
    """
    table = fit_file("registers", "ssim")["coefficients"]["gradients" if problem.gradients else "plain"]
    return MachineCode(**table[version.value])
