"""Fits of the time model to measured runs, and what is learned of its errors."""
