// Two-stage pipeline of asynchronous copies; what lies beyond the input is filled with zeros.
#include <cuda_pipeline.h>

extern "C" __global__ void async_pipeline(float *out, const float *in, int n)
{
    __shared__ float stage[2][128];
    const int t = threadIdx.x;
    const int tiles = (n + 127) / 128;
    const int rest = min(max(n - t, 0), 1);
    __pipeline_memcpy_async(&stage[0][t], in + t, 4, 4 - 4 * rest);
    __pipeline_commit();
    float sum = 0.0f;
    for (int tile = 0; tile < tiles; tile++) {
        if (tile + 1 < tiles) {
            const int i = (tile + 1) * 128 + t;
            const int missing = i < n ? 0 : 4;
            __pipeline_memcpy_async(&stage[(tile + 1) % 2][t], in + (i < n ? i : 0), 4, missing);
        }
        __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncthreads();
        sum += stage[tile % 2][t] + stage[tile % 2][(t + 1) % 128];
        __syncthreads();
    }
    out[t] = sum;
}
