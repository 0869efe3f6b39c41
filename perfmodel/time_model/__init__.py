"""Kernel profile and GPU to seconds: the terms, how they combine, and their calibrated coefficients."""
