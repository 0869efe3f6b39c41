"""Kernels that others wrote, measured launch by launch: development data of the time model and its score on them."""
