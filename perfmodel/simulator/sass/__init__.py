"""Execution of machine code by the simulator's engine: translation to Python, scheduling by convergence barriers, counts."""
