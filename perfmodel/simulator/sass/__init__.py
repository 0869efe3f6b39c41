"""Execution of machine code: the second front end of the engine."""
