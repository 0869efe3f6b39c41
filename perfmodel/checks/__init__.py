"""Checks for continuous integration: the launches of a repository against a baseline."""
