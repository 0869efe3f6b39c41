"""What a user brings: CUDA C++ files, their kernels and signatures."""
