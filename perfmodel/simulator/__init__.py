"""Execution of a compiled kernel on the CPU, lane by lane."""
