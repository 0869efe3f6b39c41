"""Execution of compiled PTX on the CPU, lane by lane."""
