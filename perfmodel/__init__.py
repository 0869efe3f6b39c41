"""Predict which configuration of a CUDA kernel to run on a GPU, how long it takes and why, on a machine without a GPU."""
