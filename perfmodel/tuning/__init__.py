"""Tuning on a GPU with few runs: which configuration to measure next."""
