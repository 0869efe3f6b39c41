"""Direct 2-D convolution with column reuse, row reuse or both."""
