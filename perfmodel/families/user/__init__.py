"""Kernels of the user with a space of their own, as a family."""
