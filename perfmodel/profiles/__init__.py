"""Kernel profiles: counts, resources and critical path of launches, from execution; their cache and shipped store."""
