"""Libraries that compute the same as the families' kernels, timed beside them."""
