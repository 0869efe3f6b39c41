"""Libraries that compute the same as the families' kernels, run in the same campaign for time ratios."""
