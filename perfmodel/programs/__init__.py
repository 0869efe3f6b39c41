"""Whole CUDA programs: built with a stand-in CUDA runtime, run on the CPU, their launches executed and predicted."""
