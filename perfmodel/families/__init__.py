"""Kernel families: a problem, its configurations, its kernel and its closed forms, each a module or folder of its own."""
