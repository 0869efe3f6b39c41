"""Blocks of a launch that do the same work: which are executed, and the totals that follow."""
