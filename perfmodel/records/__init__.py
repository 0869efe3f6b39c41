"""Measured runs: their schema, files and tables."""
