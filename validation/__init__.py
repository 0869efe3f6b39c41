"""What is measured: launch, check, time and count real kernels on a GPU."""
