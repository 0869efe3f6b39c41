"""How many registers the compiler will use for the direct kernel."""

from __future__ import annotations


def estimate(problem, batch, gpu):
    raise NotImplementedError
