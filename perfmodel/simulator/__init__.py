"""Execution of compiled PTX on the CPU, lane by lane, and counts of what the hardware would count.

`parse_module` reads the compiler's PTX, `simulate` runs thread blocks of one launch and gives a `Simulation`.
"""

from ..source_line import SourceLine
from .faults import Fault, FaultError, FaultKind
from .module import BasicBlock, Instruction, Kernel, Module, Space
from .parse import parse_module
from .recorder import BLOCK_TOTALS, AccessObserver, Action, InstructionCount
from .schedule import Reconvergence
from .simulation import BlockTotals, Budget, Mode, Simulation, simulate
from .totals import class_of

__all__ = [
    "BLOCK_TOTALS",
    "AccessObserver",
    "Action",
    "BasicBlock",
    "BlockTotals",
    "Budget",
    "Fault",
    "FaultError",
    "FaultKind",
    "Instruction",
    "InstructionCount",
    "Kernel",
    "Mode",
    "Module",
    "Reconvergence",
    "Simulation",
    "SourceLine",
    "Space",
    "class_of",
    "parse_module",
    "simulate",
]
