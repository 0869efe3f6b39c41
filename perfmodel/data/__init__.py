"""Data files shipped with the package: GPUs, calibrations, counts."""
