"""Execution of machine code by the simulator's engine: translation to Python, scheduling by convergence barriers, counts.

`simulate_machine_code` runs thread blocks of what `perfmodel.machine_code.read_machine_code` gives.
"""

from .simulation import MachineSimulation, simulate_machine_code
from .totals import MachineInstructionCount

__all__ = ["MachineInstructionCount", "MachineSimulation", "simulate_machine_code"]
