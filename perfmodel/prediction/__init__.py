"""Predict, rank, explain: what can run, how long it takes, what limits it."""
