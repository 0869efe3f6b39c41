"""Machine code (SASS, sm_75 and newer) as records: instructions with parsed operands, basic blocks, constant banks, parameters.

`read_machine_code` disassembles the kernel of a cubin; `perfmodel.simulator.sass` executes what it gives.
"""

from .instruction import MachineInstruction
from .operands import Address, Constant, Immediate, Operand, Register, Word
from .program import CodeBlock, MachineCode, Transfer, read_machine_code

__all__ = [
    "Address",
    "CodeBlock",
    "Constant",
    "Immediate",
    "MachineCode",
    "MachineInstruction",
    "Operand",
    "Register",
    "Transfer",
    "Word",
    "read_machine_code",
]
