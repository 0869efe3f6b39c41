"""Timed launches of kernels that no coefficient was fitted to, predicted as `perfmodel analyze` predicts a user's kernel."""
