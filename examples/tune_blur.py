"""A Kernel Tuner script as one has it already: perfmodel ranks its space on a machine without a GPU."""

import numpy as np
from kernel_tuner import tune_kernel

WIDTH, HEIGHT = 2048, 1024

image = np.random.default_rng(0).random((WIDTH + 8) * HEIGHT, np.float32)
result = np.zeros(WIDTH * HEIGHT, np.float32)
weights = np.full(9, 1 / 9, np.float32)

tune_params = {"BLOCK_X": [32, 64], "BLOCK_Y": [4, 8], "OUTPUTS": [1, 2]}

tune_kernel(
    "blur",
    "blur.cu",
    (WIDTH, HEIGHT),
    [image, result],
    tune_params,
    grid_div_x=["BLOCK_X", "OUTPUTS"],
    grid_div_y=["BLOCK_Y"],
    block_size_names=["BLOCK_X", "BLOCK_Y"],
    restrictions=["BLOCK_X * BLOCK_Y <= 256", lambda p: p["OUTPUTS"] == 1 or p["BLOCK_X"] == 64],
    cmem_args={"weights": weights},
    compiler_options=[f"-DWIDTH={WIDTH}", f"-DHEIGHT={HEIGHT}"],
    cache="blur_cache.json",
)
