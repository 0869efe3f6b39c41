"""Micro-benchmarks: what a GPU's units really do, measured by small kernels and turned into the facts of a GPU file."""
