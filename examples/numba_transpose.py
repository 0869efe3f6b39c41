"""A Numba kernel on a GPU that is not here: bank conflicts of a tile, and of one that is padded."""

import numba
import numpy as np
from numba import cuda


@cuda.jit
def transpose(image, result):
    """Transpose through a tile in shared memory."""
    tile = cuda.shared.array((32, 32), numba.float32)
    x, y = 32 * cuda.blockIdx.x, 32 * cuda.blockIdx.y
    tile[cuda.threadIdx.y, cuda.threadIdx.x] = image[y + cuda.threadIdx.y, x + cuda.threadIdx.x]
    cuda.syncthreads()
    result[x + cuda.threadIdx.y, y + cuda.threadIdx.x] = tile[cuda.threadIdx.x, cuda.threadIdx.y]


if __name__ == "__main__":
    import perfmodel as pm

    image = np.arange(256 * 256, dtype=np.float32).reshape(256, 256)
    found = pm.analyze(transpose, args=[image, np.zeros_like(image)], grid=(8, 8), block=(32, 32), gpu="rtx-4090")
    print(f"{found.prediction.time.predicted_s * 1e6:.1f} µs, limited by {found.prediction.time.limiter}")
    print(f"{int(found.prediction.counts.shared_bank_conflicts):,} bank conflicts")
    print("right:", np.array_equal(found.outputs["result"], image.T))
