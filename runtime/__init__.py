"""C++ sources of the stand-in CUDA runtime that programs run with; built on first use."""
