"""CUDA C++ sources, one kernel a file."""
