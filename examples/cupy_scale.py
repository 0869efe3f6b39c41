"""A raw kernel of CuPy on a GPU that is not here."""

import cupy
import numpy as np

import perfmodel as pm

scale = cupy.RawKernel(
    r"""
    extern "C" __global__ void scale(float *x, float factor, int n)
    {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n)
            x[i * STRIDE] *= factor;
    }
    """,
    "scale",
    options=("-DSTRIDE=8",),
)

x = np.ones(8 * 100_000, np.float32)
found = pm.analyze(scale, args=[x, 3.0, 100_000], grid=391, block=256, gpu="h200")
print(f"{found.prediction.time.predicted_s * 1e6:.1f} µs, limited by {found.prediction.time.limiter}")
print(
    f"{int(found.prediction.counts.global_load_sectors):,} sectors loaded, {int(found.outputs['x'].sum()):,} is the sum"
)
