"""Any CUDA C++ kernel, analysed on a machine without a GPU: what a user's own file does, and how long it takes."""
