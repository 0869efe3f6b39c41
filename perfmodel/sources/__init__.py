"""What a user brings: CUDA C++, PTX, or a binary."""
